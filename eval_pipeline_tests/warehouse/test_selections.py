"""The cells of a sweep, of a board or of now, read back from the published results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.reports.model import ToolCallEvent
from eval_pipeline.scores.model import Status
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.published import open_results
from eval_pipeline.warehouse.records import read_records
from eval_pipeline.warehouse.selections import read_results, runner_names, select, sweep_ids
from eval_pipeline.warehouse.store import Connection
from eval_pipeline_tests.builders import NOON

PAIR = {"suite": "s", "runner": "r"}


def minutes(at: float) -> datetime:
    return NOON + timedelta(minutes=at)


def verdict(sweep: str, at: float, case: str = "c1", score: float | None = 1.0, **fields: Any) -> dict[str, Any]:
    status = "error" if score is None else "passed" if score >= 0.8 else "failed"
    return {"verdict_id": f"{case}-{at}", "suite": "s", "suite_revision": "1", "runner": "r", "runner_revision": "1",
            "case_id": case, "repetition": 1, "execution_id": f"e-{case}-{at}", "status": status, "score": score,
            "ungated_score": score, "threshold": 0.8, "reason": "so it is", "tags": [], "score_keys": [],
            "decided_at": minutes(at), "sweep_id": sweep, **fields}  # fmt: skip


def cells(sweep: str, at: float, **fields: Any) -> dict[str, Any]:
    return {"sweep_id": sweep, "suite": "s", "runner": "r", "suite_revision": "1", "runner_revision": "1",
            "suite_plans": 2, "planned": 2, "repetitions": 1, "finished_at": minutes(at), **fields}  # fmt: skip


def sweep(sweep_id: str, at: float, **selection: Any) -> dict[str, Any]:
    return {"sweep_id": sweep_id, "started_at": minutes(at), "status": "finished", "selection": selection}


@pytest.fixture
def connection(warehouse: DuckDBWarehouse) -> Iterator[Connection]:
    """Two sweeps: the first judged both cases, the second c1 again, for the better."""
    warehouse.write("sweeps", [sweep("20260115-a", 0), sweep("20260115-b", 10)])
    warehouse.write("sweep_pairs", [cells("20260115-a", 5), cells("20260115-b", 15)])
    warehouse.write(
        "verdicts",
        [
            verdict("20260115-a", 1, score=0.2),
            verdict("20260115-a", 2, "c2", None, failure_class="timeout"),
            verdict("20260115-b", 11),
        ],
    )
    with published(warehouse) as opened:
        yield opened


@contextmanager
def published(warehouse: DuckDBWarehouse) -> Iterator[Connection]:
    warehouse.publish()
    with open_results(warehouse.folder) as opened:
        yield opened


def scores(connection: Connection, what: str, **chosen: Any) -> dict[str, float | None]:
    frame = read_results(connection, select(connection, what, **chosen)).frame
    return dict(frame.sort("case_id").select("case_id", "score").iter_rows())


def test_a_sweep_is_shown_as_it_stood_when_it_ended(connection: Connection) -> None:
    assert scores(connection, "sweep:20260115-a") == {"c1": 0.2, "c2": None}
    assert scores(connection, "sweep:20260115-b") == {"c1": 1.0, "c2": None}  # c2 was found done
    assert scores(connection, "current") == {"c1": 1.0, "c2": None}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("latest", "20260115-b"), ("previous", "20260115-a"), ("20260115-a", "20260115-a")],
)
def test_a_sweep_is_named_by_its_id_or_place(connection: Connection, name: str, expected: str) -> None:
    assert select(connection, f"sweep:{name}").id == expected


def test_the_begin_of_an_id_is_enough_when_only_one_begins_so(connection: Connection) -> None:
    with pytest.raises(UnknownName, match="no sweep '20260115'; there are: 20260115-a, 20260115-b"):
        select(connection, "sweep:20260115")


@pytest.mark.parametrize("what", ["sweep", "sweep:", "yesterday", "current:1", ""])
def test_what_names_no_results_is_refused(connection: Connection, what: str) -> None:
    with pytest.raises(InputError, match="names no results"):
        select(connection, what)


@pytest.mark.parametrize(
    ("chosen", "message"), [({"suites": ["t"]}, "no suite 't'"), ({"runners": ["q"]}, "no runner 'q'")]
)
def test_a_suite_or_runner_that_a_sweep_does_not_have_is_said(
    connection: Connection, chosen: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnknownName, match=message):
        select(connection, "sweep:latest", **chosen)


def test_a_sweep_knows_when_it_began(connection: Connection) -> None:
    assert select(connection, "sweep:latest").at == minutes(10).astimezone(UTC)


def test_sweeps_are_listed_newest_first_and_by_what_they_hold(connection: Connection) -> None:
    assert sweep_ids(connection) == ["20260115-b", "20260115-a"]
    assert sweep_ids(connection, suites=["s"], runners=["other"]) == []
    assert runner_names(connection) == ["r"]


@pytest.mark.parametrize(
    ("selection", "repetitions", "cases"),
    [
        pytest.param({}, 2, ["c1", "c1", "c2"], id="everything"),
        pytest.param({}, 1, ["c1", "c2"], id="fewer-repetitions"),
        pytest.param({"cases": ["c2"]}, 2, ["c2"], id="one-case"),
        pytest.param({"tags": ["a", "b"]}, 2, ["c1"], id="tagged"),
    ],
)
def test_a_sweep_holds_what_it_was_narrowed_down_to(
    warehouse: DuckDBWarehouse, selection: dict[str, Any], repetitions: int, cases: list[str]
) -> None:
    warehouse.write("sweeps", [sweep("1", 0, **selection)])
    warehouse.write("sweep_pairs", [cells("1", 5, repetitions=repetitions)])
    again = verdict("1", 1.5, repetition=2)
    warehouse.write("verdicts", [verdict("1", 1, tags=["a"]), again, verdict("1", 2, "c2")])

    with published(warehouse) as connection:
        actual = read_results(connection, select(connection, "sweep:1")).frame

        assert actual["case_id"].sort().to_list() == cases
        assert len(list(read_records(connection, select(connection, "sweep:1")))) == len(cases)


def test_a_board_is_shown_as_it_was_computed(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweep_pairs", [cells("1", 5)])
    warehouse.write("verdicts", [verdict("1", 1, score=0.2), verdict("1", 20, score=1.0)])
    board = {"board_id": "b1", "scope": "suite", "suite": "s", "runner": "r", "suite_revision": "1",
             "runner_revision": "1", "computed_at": minutes(6)}  # fmt: skip
    warehouse.write("leaderboards", [board])

    with published(warehouse) as connection:
        assert scores(connection, "board:b1") == {"c1": 0.2}
        assert scores(connection, "board:latest") == {"c1": 0.2}
        assert scores(connection, "current") == {"c1": 1.0}


def test_runners_last_swept_at_an_older_revision_of_a_suite_are_current(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweep_pairs", [cells("1", 5, runner="old"), cells("2", 9, suite_revision="2")])
    warehouse.write("verdicts", [verdict("1", 1, runner="old"), verdict("2", 8, suite_revision="2")])

    with published(warehouse) as connection:
        assert read_results(connection, select(connection)).runners == ["old", "r"]


def test_the_content_of_a_case_tells_whether_it_is_the_same(warehouse: DuckDBWarehouse) -> None:
    case = {"suite": "s", "suite_revision": "1", "case_id": "c1", "input": ["hi"], "evaluators": [], "position": 0}
    changed = {**case, "suite_revision": "3", "input": ["ho"]}
    warehouse.write("cases", [case, {**case, "suite_revision": "2", "metadata": {"note": "new"}}, changed])
    revisions = ("1", "2", "3")
    warehouse.write("sweeps", [sweep(revision, 0) for revision in revisions])
    warehouse.write("sweep_pairs", [cells(revision, 5, suite_revision=revision) for revision in revisions])
    warehouse.write("verdicts", [verdict(r, int(r), suite_revision=r) for r in revisions])

    with published(warehouse) as connection:
        first, second, third = (
            read_results(connection, select(connection, f"sweep:{revision}")).frame["content"][0]
            for revision in revisions
        )
        assert first == second != third


def test_a_record_holds_everything_about_a_cell(warehouse: DuckDBWarehouse) -> None:
    execution = {"execution_id": "e1", "suite": "s", "runner": "r", "case_id": "c1", "repetition": 1,
                 "started_at": minutes(0), "finished_at": minutes(1), "attempt_count": 2,
                 "workspace": {"path": None, "changes": None, "hooks": {"before_all": "ready"}}}  # fmt: skip
    warehouse.write("target_executions", [execution])
    warehouse.write("session_reports", [{**PAIR, "execution_id": "e1", "final_output": "4", "input_tokens": 7,
                                         "skills": [], "unknown_events": {}, "unparsed_lines": 0}])  # fmt: skip
    warehouse.write("session_events", [
        {**PAIR, "execution_id": "e1", "position": 0, "kind": "tool_call",
         "event": {"kind": "tool_call", "tool": "look"}}
    ])  # fmt: skip
    score = {**PAIR, "execution_id": "e1", "spec_key": "k1", "evaluator": "polite", "type": "contains", "value": 1.0,
             "reason": "yes", "weight": 1.0, "details": {"n": 1},
             "findings": [{"text": "said please", "passed": True}]}  # fmt: skip
    warehouse.write("evaluator_scores", [score, {**score, "spec_key": "old", "evaluator": "dropped"}])
    warehouse.write("member_scores", [
        {**PAIR, "execution_id": "e1", "spec_key": "k1", "position": 0, "member": "part", "type": "contains",
         "value": 0.5, "reason": "half", "weight": 1.0}
    ])  # fmt: skip
    warehouse.write("cases", [
        {"suite": "s", "suite_revision": "1", "case_id": "c1", "position": 0, "metadata": {"owner": "me"},
         "input": [{"role": "user", "content": "2 + 2?"}], "conversation_id": "talk", "case_group": "sums"}
    ])  # fmt: skip
    warehouse.write("suites", [{"suite": "s", "suite_revision": "1", "path": "suites/s.yaml"}])
    warehouse.write("runners", [
        {"runner": "r", "runner_revision": "1", "adapter": "chat", "settings": {"model": "m"}}
    ])  # fmt: skip
    warehouse.write("sweep_pairs", [cells("1", 5)])
    warehouse.write("verdicts", [verdict("1", 2, execution_id="e1", score_keys=["k1"], tags=["a"])])

    with published(warehouse) as connection:
        (record,) = read_records(connection, select(connection))

    assert (record.suite, record.case_id, record.runner, record.verdict.status) == ("s", "c1", "r", Status.PASSED)
    assert (record.suite_path, record.adapter, record.model, record.attempts) == ("suites/s.yaml", "chat", "m", 2)
    assert (record.started_at, record.finished_at) == (minutes(0), minutes(1))
    assert (record.output, record.tags, record.metadata) == ("4", ("a",), {"owner": "me"})
    assert (record.conversation_id, record.group, record.hooks) == ("talk", "sums", {"before_all": "ready"})
    assert record.input == [{"role": "user", "content": "2 + 2?"}]
    assert record.report is not None
    assert (record.report.usage.input_tokens, record.report.events) == (7, (ToolCallEvent(tool="look"),))
    (actual,) = record.scores
    assert (actual.evaluator, actual.findings[0].text, actual.details, actual.members[0].name) == (
        "polite", "said please", {"n": 1}, "part"
    )  # fmt: skip


def test_a_cell_of_which_little_is_stored_is_a_record_all_the_same(connection: Connection) -> None:
    by_name = {record.case_id: record for record in read_records(connection, select(connection))}

    assert (by_name["c2"].report, by_name["c2"].scores, by_name["c2"].duration_ms) == (None, (), None)
    assert by_name["c2"].verdict.failure_class == "timeout"


def test_records_come_runner_by_runner_and_cases_in_their_order(warehouse: DuckDBWarehouse) -> None:
    warehouse.write(
        "cases", [{"suite": "s", "suite_revision": "1", "case_id": id_, "position": n} for n, id_ in enumerate("zyx")]
    )
    warehouse.write("sweep_pairs", [cells("1", 5, runner=runner) for runner in "ab"])
    warehouse.write(
        "verdicts", [verdict("1", n, case, runner=r, execution_id=f"{r}{case}", verdict_id=f"{r}{case}")
                     for r in "ba" for n, case in enumerate("xyz")]
    )  # fmt: skip

    with published(warehouse) as connection:
        actual = [record.runner + record.case_id for record in read_records(connection, select(connection))]

    assert actual == ["az", "ay", "ax", "bz", "by", "bx"]


def test_records_of_many_pairs_are_read_a_few_pairs_at_a_time(
    warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval_pipeline.warehouse.records._AT_ONCE", 3)
    names = [(suite, runner) for suite in "tu" for runner in "abc"]
    warehouse.write("sweep_pairs", [cells("1", 5, suite=suite, runner=runner) for suite, runner in names])
    rows = [verdict("1", n, case, suite=suite, runner=runner, execution_id=f"{suite}{runner}{case}",
                    verdict_id=f"{suite}{runner}{case}")
            for suite, runner in names for n, case in enumerate("yx")]  # fmt: skip
    warehouse.write("verdicts", rows)

    with published(warehouse) as connection:
        every = [record.execution_id for record in read_records(connection, select(connection))]
        some = list(read_records(connection, select(connection, suites=["u"], runners=["b", "c"])))

    assert every == [f"{suite}{runner}{case}" for suite, runner in names for case in "xy"]
    assert [record.execution_id for record in some] == ["ubx", "uby", "ucx", "ucy"]


def test_results_published_before_a_column_was_added_are_read_without_it(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweep_pairs", [cells("1", 5)])
    warehouse.write("verdicts", [verdict("1", 2, execution_id="e1")])
    warehouse.write("session_reports", [{**PAIR, "execution_id": "e1", "final_output": "4", "unparsed_lines": 0}])
    with warehouse.transaction() as inside:
        inside.execute("DROP TABLE member_scores")
        inside.execute('ALTER TABLE session_reports DROP COLUMN "file_changes"')
        inside.execute('ALTER TABLE cases DROP COLUMN "conversation_id"')

    with published(warehouse) as connection:
        (record,) = read_records(connection, select(connection))

    assert (record.output, record.conversation_id) == ("4", None)
