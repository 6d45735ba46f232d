"""Values → rows → the warehouse → values again: nothing gets lost on the way, however odd."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Execution, RawExecution
from eval_pipeline.reports.model import (
    CommandEvent,
    DetectedSkill,
    ErrorEvent,
    Event,
    FileReadEvent,
    FileWriteEvent,
    MessageEvent,
    RecordedScoreEvent,
    RetryEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnStart,
    Usage,
)
from eval_pipeline.scores.model import Finding, Score, Status, SubScore, Verdict
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.stored_pairs import StoredExecution, load_stored
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline_tests.builders import NOON, a_case, a_plan, a_runner, a_suite, an_attempt, an_evaluator, an_execution

STEADY = settings(derandomize=True, deadline=None, max_examples=4)
"""Few examples of many values each: a transaction takes longer than a hundred rows."""

TEXTS = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.none() | st.integers(0, 2**31 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | NUMBERS | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=6,
)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(MessageEvent, role=TEXTS, text=TEXTS, phase=st.sampled_from([None, "final"]), injected=st.booleans()),
    st.builds(ToolCallEvent, tool=TEXTS, call_id=maybe(TEXTS), arguments=JSON, line=COUNTS),
    st.builds(
        ToolResultEvent, tool=maybe(TEXTS), output=TEXTS, is_error=maybe(st.booleans()), duration_ms=maybe(NUMBERS)
    ),
    st.builds(CommandEvent, command=TEXTS, exit_code=maybe(st.integers(-64, 255)), output=maybe(TEXTS)),
    st.builds(FileReadEvent, path=TEXTS, ok=maybe(st.booleans()), at=maybe(TEXTS)),
    st.builds(FileWriteEvent, path=TEXTS, how=st.sampled_from(["create", "edit", "delete"]), ok=maybe(st.booleans())),
    st.builds(SkillEvent, skill=TEXTS, strength=st.sampled_from(["explicit", "strong"]), ok=maybe(st.booleans())),
    st.builds(RetryEvent, attempt=COUNTS, delay_ms=maybe(NUMBERS), message=maybe(TEXTS)),
    st.builds(ErrorEvent, message=TEXTS, status=COUNTS, terminal=st.booleans()),
)
USAGES = st.builds(
    Usage, input_tokens=COUNTS, cached_input_tokens=COUNTS, output_tokens=COUNTS, cost_usd=maybe(NUMBERS),
    cost_source=st.sampled_from([None, "reported", "computed"]),
)  # fmt: skip
REPORTS = st.builds(
    SessionReport,
    execution_id=st.just(""),
    final_output=maybe(TEXTS),
    prompt=maybe(TEXTS),
    session_id=maybe(TEXTS),
    model=maybe(TEXTS),
    exit_code=maybe(st.integers(-64, 255)),
    usage=USAGES,
    events=st.lists(EVENTS, max_size=4).map(tuple),
    skills=st.lists(
        st.builds(
            DetectedSkill, skill=TEXTS, confidence=st.sampled_from(["explicit", "strong"]),
            evidence=st.lists(TEXTS, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    failure_class=maybe(TEXTS),
    error=maybe(TEXTS),
    started_at=maybe(TEXTS),
    ended_at=maybe(TEXTS),
    duration_ms=maybe(NUMBERS),
    ttft_ms=maybe(NUMBERS),
    model_calls=COUNTS,
    unparsed_lines=st.integers(0, 9),
    turn_starts=st.lists(
        st.builds(
            TurnStart, position=st.integers(0, 3), messages=st.integers(0, 2), speaker=TEXTS, usage=USAGES,
            duration_ms=maybe(NUMBERS), ttft_ms=maybe(NUMBERS), model_calls=COUNTS,
        ),
        max_size=2,
    ).map(tuple),
)  # fmt: skip
SCORES = st.builds(
    Score,
    execution_id=st.just("e0"),
    spec_key=st.uuids().map(str),
    evaluator=TEXTS,
    type=TEXTS,
    value=maybe(st.floats(0, 1)),
    reason=TEXTS,
    weight=st.floats(0, 1e300),
    minimum=maybe(st.floats(0, 1)),
    failure_class=maybe(TEXTS.filter(bool)),
    findings=st.lists(st.builds(Finding, TEXTS, st.booleans(), maybe(TEXTS)), max_size=3).map(tuple),
    members=st.just(()),
    details=st.dictionaries(TEXTS.filter(lambda name: name != "failure_class"), JSON, max_size=3),
    duration_ms=maybe(NUMBERS),
    score_key=maybe(st.uuids().map(str)),
    grading_cost_usd=maybe(NUMBERS),
)
EXECUTIONS = st.builds(
    Execution,
    execution_id=st.just(""),
    key=TEXTS,
    suite=TEXTS,
    case_id=TEXTS,
    runner=TEXTS,
    repetition=st.integers(1, 99),
    started_at=TIMES,
    finished_at=TIMES,
    duration_ms=NUMBERS,
    attempts=st.just((an_attempt(),)),
    raw=maybe(
        st.builds(
            RawExecution,
            format=TEXTS,
            payload=st.dictionaries(TEXTS, JSON, max_size=3),
            exit_code=maybe(st.integers(-64, 255)),
            duration_ms=maybe(NUMBERS),
        )
    ),
    failure_class=maybe(TEXTS),
    error=maybe(TEXTS),
)


Stored = tuple[Execution, SessionReport | None, dict[str, Score]]


def put(
    warehouse: DuckDBWarehouse,
    *items: tuple[Execution, SessionReport | None, Sequence[Score]],
    artifacts: Any = (),
) -> None:
    """Writes what executions led to."""
    reported = [(execution, report) for execution, report, _ in items if report is not None]
    events = [row for execution, report in reported for row in rows.event_rows(report, execution)]
    scores = [rows.score_row(score, execution, "sweep", NOON) for execution, _, scores in items for score in scores]
    executions = [rows.execution_row(execution, artifacts, not artifacts, "sweep", "1") for execution, *_ in items]
    warehouse.write("target_executions", executions)
    warehouse.write(
        "session_reports", [rows.report_row(report, execution, "n/1", NOON) for execution, report in reported]
    )
    warehouse.write("session_events", events)
    warehouse.write("evaluator_scores", scores)


def take(warehouse: DuckDBWarehouse, *ids: str) -> list[Stored]:
    """Reads executions back as a sweep does that scores them anew."""
    return [(execution, report, scores) for _, execution, report, scores in load_stored(warehouse, ids, _known)]


def _known(execution_id: str) -> StoredExecution:
    return StoredExecution("", execution_id, True, None, "", None, None, None, None, None, None, None)


def numbered(values: Sequence[Any]) -> list[Any]:
    """Values with execution ids `e0`, `e1`, … of their own."""
    return [replace(value, execution_id=f"e{number}") for number, value in enumerate(values)]


def fresh(warehouse: DuckDBWarehouse) -> DuckDBWarehouse:
    """Another empty one, since the examples of a property share their fixtures."""
    return DuckDBWarehouse(warehouse.folder.parent / uuid.uuid4().hex)


# Read back.


@STEADY
@given(st.lists(EXECUTIONS, min_size=20, max_size=20))
def test_executions_written_and_read_back_are_equal_but_for_their_attempts(
    warehouse: DuckDBWarehouse, values: list[Execution]
) -> None:
    executions = numbered(values)
    store = fresh(warehouse)
    put(store, *((execution, None, ()) for execution in executions))

    stored = take(store, *(execution.execution_id for execution in executions))

    assert [comparable(execution) for execution, *_ in stored] == [comparable(execution) for execution in executions]


def comparable(execution: Execution) -> Execution:
    """An execution without its attempts, which stay in the table; its times are UTC whether they say so or not."""
    return replace(
        execution,
        attempts=(),
        started_at=execution.started_at.replace(tzinfo=None),
        finished_at=execution.finished_at.replace(tzinfo=None),
    )


@STEADY
@given(st.lists(REPORTS, min_size=20, max_size=20))
def test_reports_written_and_read_back_are_equal(warehouse: DuckDBWarehouse, values: list[SessionReport]) -> None:
    reports = numbered(values)
    store = fresh(warehouse)
    put(store, *((an_execution(execution_id=report.execution_id), report, ()) for report in reports))

    stored = take(store, *(report.execution_id for report in reports))

    assert [report for _, report, _ in stored] == reports


@pytest.mark.parametrize(
    ("answer", "retries", "given_up", "known"),
    [
        pytest.param(0.5, 0.0, None, 0.5, id="nothing beside the answer"),
        pytest.param(0.5, 0.25, 0.25, 0.75, id="both known"),
        pytest.param(None, 0.25, 0.25, 0.25, id="answer unknown"),
        pytest.param(0.5, None, None, 0.5, id="turns given up at an unknown cost"),
        pytest.param(None, None, None, None, id="nothing known"),
    ],
)
def test_what_was_paid_for_an_answer_and_beside_it_is_read_back(
    warehouse: DuckDBWarehouse, answer: float | None, retries: float | None, given_up: float | None, known: float | None
) -> None:
    report = SessionReport(
        execution_id="e0",
        usage=Usage(cost_usd=answer, cost_source=None if answer is None else "reported"),
        given_up=() if retries == 0.0 else ({"runner": "r", "usage": {"cost_usd": given_up}},),
        retries_cost_usd=retries,
    )
    put(warehouse, (an_execution(execution_id="e0"), report, ()))

    ((_, stored, _),) = take(warehouse, "e0")

    assert warehouse.frame("SELECT cost_usd FROM session_reports").item() == known
    assert stored is not None
    assert (stored.usage.cost_usd, stored.cost_usd) == (answer, known)
    assert stored.retries_cost_usd == retries
    assert bool(stored.retries_cost_note) == (retries is None)


def test_each_event_has_the_number_of_its_turn(warehouse: DuckDBWarehouse) -> None:
    messages = (MessageEvent(role="user", text="a"), MessageEvent(role="assistant", text="b"))
    put(warehouse, (an_execution(execution_id="e0"), SessionReport(execution_id="e0", events=messages * 2), ()))

    assert warehouse.frame("SELECT turn FROM session_events ORDER BY position")["turn"].to_list() == [1, 1, 2, 2]


def test_a_report_of_an_older_version_has_the_turns_that_its_events_show(warehouse: DuckDBWarehouse) -> None:
    messages = (MessageEvent(role="user", text="a"), MessageEvent(role="assistant", text="b"))
    report = SessionReport(execution_id="e0", events=messages * 2)
    put(warehouse, (an_execution(execution_id="e0"), report, ()))
    with warehouse.transaction() as connection:
        connection.execute("UPDATE session_reports SET turns = NULL")
        connection.execute("UPDATE session_events SET turn = NULL")

    ((_, stored, _),) = take(warehouse, "e0")

    assert stored is not None
    assert [turn.answer for turn in stored.turns] == ["b", "b"]


@STEADY
@given(st.lists(SCORES, min_size=20, max_size=20))
def test_scores_written_and_read_back_are_equal(warehouse: DuckDBWarehouse, scores: list[Score]) -> None:
    store = fresh(warehouse)
    put(store, (an_execution(execution_id="e0"), None, scores))

    ((_, _, stored),) = take(store, "e0")

    assert stored == {score.spec_key: score for score in scores}


def test_only_what_is_stored_is_read_back_in_the_order_asked_for(warehouse: DuckDBWarehouse) -> None:
    put(warehouse, *((an_execution(execution_id=f"e{number}"), None, ()) for number in range(3)))

    stored = take(warehouse, "e2", "missing", "e0")

    assert [execution.execution_id for execution, *_ in stored] == ["e2", "e0"]


def test_files_of_an_execution_are_found_where_they_were_kept_and_a_lost_one_is_not_forgotten(
    warehouse: DuckDBWarehouse,
) -> None:
    folder = warehouse.folder / "artifacts" / "r" / "s"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text("4", encoding="utf-8")
    raw = RawExecution(format="command", files={"stdout": folder / "stdout", "gone": folder / "gone"}, exit_code=0)
    artifacts = [{"role": role, "path": f"r/s/{role}", "bytes": 1, "sha256": ""} for role in ("stdout", "gone")]
    put(warehouse, (an_execution(execution_id="e0", raw=raw), None, ()), artifacts=artifacts)

    ((execution, _, _),) = take(warehouse, "e0")

    assert execution.raw == raw


# Rows.


def test_every_kind_of_row_has_exactly_the_columns_of_its_table() -> None:
    case, runner = a_case(evaluators=(an_evaluator("contains", value="a"),)), a_runner()
    execution = an_execution(a_plan(case, runner))
    report = SessionReport(execution_id="e", events=(CommandEvent(command="ls"),))
    score = Score("e", "k", "contains", "contains", 1.0, "so", members=(SubScore("a", "contains", 1.0, "so"),))
    verdict = Verdict(
        status=Status.PASSED, score=1.0, ungated_score=1.0, threshold=0.8, failure_class=None, reason="so"
    )
    made: dict[str, Any] = {
        "suites": rows.suite_row(a_suite(case), [InputError("odd")], NOON),
        "cases": next(iter(rows.case_rows(a_suite(case)))),
        "runners": rows.runner_row(runner, "1", NOON),
        "target_executions": rows.execution_row(execution, (), True, "sweep", "1"),
        "session_reports": rows.report_row(report, execution, "n/1", NOON),
        "session_events": next(iter(rows.event_rows(report, execution))),
        "evaluator_scores": rows.score_row(score, execution, "sweep", NOON),
        "member_scores": next(iter(rows.member_rows(score, execution, "sweep", NOON))),
        "verdicts": rows.verdict_row(
            verdict, execution, report, suite_revision="1", runner_revision="1", tags=("a",), decision_key="d",
            normalizer="n/1", scores_key="s", scores=[score], sweep_id="sweep", now=NOON,
        ),
    }  # fmt: skip

    assert {table: set(row) for table, row in made.items()} == {
        table: set(BY_NAME[table].column_names) for table in made
    }


@pytest.mark.parametrize(
    ("event", "text", "tool", "ok"),
    [
        pytest.param(MessageEvent(role="user", text="hi"), "hi", None, None, id="message"),
        pytest.param(ToolCallEvent(tool="ls"), None, "ls", None, id="tool-call"),
        pytest.param(ToolResultEvent(tool="ls", output="a", is_error=True), "a", "ls", False, id="tool-error"),
        pytest.param(ToolResultEvent(output="a", is_error=False), "a", None, True, id="tool-result"),
        pytest.param(ToolResultEvent(output="a"), "a", None, None, id="tool-result-of-which-nothing-is-said"),
        pytest.param(CommandEvent(command="ls", exit_code=0, output="a"), "ls", None, True, id="command"),
        pytest.param(CommandEvent(command="ls", exit_code=2), "ls", None, False, id="failed-command"),
        pytest.param(CommandEvent(command="ls"), "ls", None, None, id="unfinished-command"),
        pytest.param(FileReadEvent(path="/a", ok=False), "/a", None, False, id="failed-read"),
        pytest.param(FileWriteEvent(path="/a"), "/a", None, None, id="write"),
        pytest.param(SkillEvent(skill="tidy", ok=True), "tidy", None, True, id="skill"),
        pytest.param(RetryEvent(message="429"), "429", None, None, id="retry"),
        pytest.param(ErrorEvent(message="no"), "no", None, None, id="error"),
        pytest.param(RecordedScoreEvent(name="acc", value=1.0), None, None, None, id="recorded-score"),
    ],
)
def test_an_event_shows_what_was_said_and_whether_it_worked(
    event: Event, text: str | None, tool: str | None, ok: bool | None
) -> None:
    (row,) = rows.event_rows(SessionReport(execution_id="e", events=(event,)), an_execution())

    assert (row["kind"], row["text"], row["tool"], row["ok"]) == (event.kind, text, tool, ok)


def test_secrets_of_a_runner_are_no_part_of_its_row() -> None:
    runner = a_runner(settings={"api_key": "sk-1"}, public_settings={"api_key": "***"}, secrets=("sk-1",))

    assert "sk-1" not in str(rows.runner_row(runner, "1", NOON))


def test_two_decisions_about_one_execution_are_two_rows() -> None:
    verdict = Verdict(
        status=Status.PASSED, score=1.0, ungated_score=1.0, threshold=0.8, failure_class=None, reason="so"
    )

    def row(now: datetime) -> Row:
        return rows.verdict_row(
            verdict, an_execution(), SessionReport(execution_id="e"), suite_revision="1", runner_revision="1", tags=(),
            decision_key="d", normalizer="n/1", scores_key="s", scores=[], sweep_id="sweep", now=now,
        )  # fmt: skip

    assert row(NOON)["verdict_id"] != row(NOON + timedelta(microseconds=1))["verdict_id"]
