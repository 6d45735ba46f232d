"""`compare` and `trend`: what they say of two runs, of two runners, and of files."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.pages.sweeps import sweeps_document
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.cli.sample_project import GREET, CliProject, make_cli_project
from eval_pipeline_tests.statistics.test_gsm8k import PAIRS, SIDES, SOLVERS

BETTER = GREET.replace('nobody) echo "go away"', 'nobody) echo "hello anyway"')


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project that was run twice; in between `greeter` learnt to greet nobody, too, and a sum was put otherwise."""
    cli_project = make_cli_project(tmp_path_factory.mktemp("compared"))
    cli_project.once("run", "--quiet")
    cli_project.write("greet.sh", BETTER)
    cli_project.edit("suites/more/sums.jsonl", "2 and 2", "2 and two")
    cli_project("run", "--quiet", "--refresh", "all")
    return cli_project


def run_folder(root: Path, name: str, scores: dict[str, Any], **fields: Any) -> str:
    """A small AgentV run folder."""
    rows = [
        {"test_id": id_, "suite": "s", "target": "r", "score": score, "execution_status": "ok", **fields}
        for id_, score in scores.items()
    ]
    folder = root / name
    folder.mkdir()
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def test_two_runners_are_compared_case_by_case(cli_project: CliProject) -> None:
    answer = cli_project("compare", "greeter", "parrot", "--json")

    summary = answer.document["summary"]
    assert answer.code == 0
    assert (summary["paired"], summary["wins"], summary["losses"], summary["ties"]) == (3, 0, 0, 3)
    assert summary["only_candidate"] == 2
    assert {row["case_id"] for row in answer.document["unmatched"]} == {"one", "two"}


def test_two_sweeps_are_compared_runner_by_runner(cli_project: CliProject) -> None:
    document = cli_project("compare", "sweep:previous", "sweep:latest", "--suite", "greetings", "--json").document

    won = [(row["runner"], row["case_id"]) for row in document["matched"] if row["outcome"] == "win"]
    assert won == [("greeter", "nobody")]
    assert document["summary"]["mean_delta"] == pytest.approx(1 / 6)
    assert document["summary"]["passes"]["ups"] == 1


def test_one_runner_of_a_sweep_can_be_picked(cli_project: CliProject) -> None:
    document = cli_project(
        "compare", "sweep:previous@greeter", "sweep:latest@parrot", "--suite", "greetings", "--json"
    ).document

    assert (document["summary"]["paired"], document["summary"]["wins"]) == (3, 1)


def test_a_comparison_is_shown_with_what_changed_and_what_is_missing(cli_project: CliProject) -> None:
    answer = cli_project("compare", "sweep:previous", "sweep:latest")

    lines = [line.split() for line in answer.out.splitlines()]
    assert ["greetings", "greeter", "nobody", "+1.000", "win", "0.000", "1.000"] in lines
    assert any(line[:1] == ["greetings"] and "→" in line for line in lines)
    assert "not paired: 1 have another content on each side (--allow-changed pairs them): sums/two" in answer.out


def many(score: float, cases: int = 60) -> dict[str, float]:
    return {f"c{number}": score for number in range(cases)}


@pytest.mark.parametrize(
    ("options", "code", "decision"),
    [
        pytest.param([], 1, "NO-GO", id="no-margin"),
        pytest.param(["--max-drop", "0.3"], 0, "GO", id="within-the-margin"),
        pytest.param(["--max-drop", "0.2"], 0, "INCONCLUSIVE", id="about-the-margin"),
        pytest.param(["--max-drop", "0.2", "--require-go"], 4, "INCONCLUSIVE", id="go-is-required"),
        pytest.param(["--max-drop", "0.3", "--require-go"], 0, "GO", id="go-is-given"),
        pytest.param(["--advisory"], 0, "NO-GO", id="advice-only"),
        pytest.param(["--max-drop", "0.2", "--require-go", "--advisory"], 0, "INCONCLUSIVE", id="go-is-advised"),
        pytest.param(["--max-drop", "0.3", "--fail-on-regression"], 1, "GO", id="a-case-lost"),
        pytest.param(["--max-drop", "0.3", "--fail-on-regression=61"], 0, "GO", id="few-cases-lost"),
        pytest.param(["--max-drop", "0.3", "--max-relative-drop", "0.1"], 1, "NO-GO", id="too-great-a-share"),
        pytest.param(["--max-drop", "0.3", "--max-relative-drop", "0.3"], 0, "GO", id="a-small-share"),
    ],
)
def test_the_gate_decides_by_the_interval_of_the_change(
    tmp_path: Path, options: list[str], code: int, decision: str
) -> None:
    before, after = run_folder(tmp_path, "before", many(0.9)), run_folder(tmp_path, "after", many(0.7))
    cli_project = CliProject(tmp_path)

    document, shown = (cli_project("compare", before, after, *options, *more) for more in (["--json"], []))

    assert (document.code, shown.code) == (code, code)
    assert (document.document["gate"]["decision"], document.document["exit_code"]) == (decision, code)
    assert shown.out.splitlines()[-1].split()[0] == decision


def test_a_single_case_that_falls_shows_nothing(cli_project: CliProject) -> None:
    answer = cli_project("compare", "sweep:latest", "sweep:previous")

    assert answer.code == 0
    assert "INCONCLUSIVE the cases do not show whether it dropped beyond the margin (change -" in answer.out
    assert cli_project("compare", "sweep:latest", "sweep:previous", "--fail-on-regression").code == 1


def test_why_two_equal_sets_of_answers_are_inconclusive_is_said(tmp_path: Path) -> None:
    before, after = run_folder(tmp_path, "before", many(0.9)), run_folder(tmp_path, "after", many(0.9))

    lines = CliProject(tmp_path)("compare", before, after).out.splitlines()

    (low,) = re.findall(r"INCONCLUSIVE .*\(change -([0-9.]+) to", lines[-2])
    assert lines[-1] == (
        f"no score moved, and yet 60 cases alone cannot exclude that others would drop by up to {low}: "
        "--max-drop tolerates as much, more cases exclude more"
    )


def test_a_runner_that_was_removed_is_found_in_its_sweeps(tmp_path: Path) -> None:
    echo = "  - {name: NAME, adapter: command, command: [cat]}\n"
    both = "runners:\n" + echo.replace("NAME", "kept") + echo.replace("NAME", "gone")
    suite = (
        "name: s\nassertions: [{type: contains, value: h}]\ntests:\n  - {id: a, input: hi}\n  - {id: b, input: ho}\n"
    )
    project = CliProject(tmp_path)
    project.write("suites/s.yaml", suite)
    project.write("runners.yaml", both)
    project("run", "--quiet")
    project.write("runners.yaml", "runners:\n" + echo.replace("NAME", "kept"))
    project("run", "--quiet")

    answer = project("compare", "kept", "gone")
    (name,) = re.findall(r"runner 'gone' has no current results: .* are (sweep:\S+@gone)", answer.err)

    assert answer.code == 2
    assert project("compare", "kept", name).code == 0
    with DuckDBWarehouse(tmp_path / "data").published() as connection:
        assert sweeps_document(connection)["runners"] == ["kept"]


def test_several_sides_have_ranks_that_differ_where_all_pairs_show_it(tmp_path: Path) -> None:
    sides = [
        run_folder(tmp_path, name, {f"c{n}": float(n % 10 < passed) for n in range(40)})
        for name, passed in (("good", 9), ("fair", 8), ("bad", 2))
    ]
    cli_project = CliProject(tmp_path)

    document, shown = cli_project("compare", *sides, "--json").document, cli_project("compare", *sides).out

    assert document["ranks"] == {sides[0]: [1, 2], sides[1]: [1, 2], sides[2]: [3, 3]}
    adjusted = [pair["p_value_adjusted"] for pair in document["pairwise"]]
    assert adjusted == pytest.approx([2 / 2**4, 3 * 2 / 2**28, 2 * 2 / 2**24], rel=1e-9)  # McNemar's, by Holm
    assert [gate["decision"] for gate in document["gate"]["candidates"]] == ["INCONCLUSIVE", "NO-GO"]
    assert ["1–2", sides[1]] in [line.split() for line in shown.splitlines()]


def test_four_models_on_gsm8k_have_the_numbers_of_an_independent_implementation(tmp_path: Path) -> None:
    sides = [
        run_folder(tmp_path, name, {f"q{number}": score for number, score in enumerate(scores)})
        for name, scores in zip(SOLVERS, SIDES, strict=True)
    ]

    document = CliProject(tmp_path)("compare", *sides, "--json").document

    assert [document["ranks"][side] for side in sides] == [[4, 4], [2, 2], [3, 3], [1, 1]]
    for pair in document["pairwise"]:
        first, second = sides.index(pair["baseline"]), sides.index(pair["candidate"])
        delta, error, p_value, adjusted = PAIRS[first, second]
        summary = pair["summary"]
        assert (summary["mean_delta"], summary["standard_error"]) == pytest.approx((delta, error), abs=1e-9)
        assert (summary["p_value"], pair["p_value_adjusted"]) == pytest.approx((p_value, adjusted), rel=1e-9)


def test_a_candidate_without_a_common_case_is_not_go(tmp_path: Path) -> None:
    same = {f"c{number}": float(number % 2) for number in range(20)}
    sides = [run_folder(tmp_path, name, rows) for name, rows in (("old", same), ("new", same), ("other", {"x": 1.0}))]
    cli_project = CliProject(tmp_path)

    required = cli_project("compare", *sides, "--max-drop", "0.9", "--require-go", "--json")

    assert required.code == 4
    assert [gate["decision"] for gate in required.document["gate"]["candidates"]] == ["GO", "INCONCLUSIVE"]
    assert "no case in common" in cli_project("compare", *sides).out


def test_a_lost_case_is_found_behind_a_better_mean(tmp_path: Path) -> None:
    before = run_folder(tmp_path, "before", {"a": 0.0, "b": 0.0, "c": 1.0})
    after = run_folder(tmp_path, "after", {"a": 1.0, "b": 1.0, "c": 0.0})
    cli_project = CliProject(tmp_path)

    assert cli_project("compare", before, after).code == 0
    assert cli_project("compare", before, after, "--fail-on-regression").code == 1


def test_files_are_compared_without_any_project(tmp_path: Path) -> None:
    before, after = run_folder(tmp_path, "a", {"x": 0.5}), run_folder(tmp_path, "b", {"x": 0.9, "y": 1.0})

    answer = CliProject(tmp_path)("compare", before, f"{after}/index.jsonl", "--json")

    assert answer.code == 0
    assert answer.document["summary"]["mean_delta"] == pytest.approx(0.4)
    assert answer.document["unmatched"][0]["case_id"] == "y"


def test_an_export_can_stand_in_for_a_sweep(cli_project: CliProject, tmp_path: Path) -> None:
    path = str(tmp_path / "then.jsonl")
    cli_project("export", "--format", "jsonl", "--sweep", "previous", "--output", path)

    document = cli_project("compare", path, "sweep:latest", "--suite", "greetings", "--json").document

    assert (document["summary"]["paired"], document["summary"]["wins"]) == (6, 1)


def test_several_sides_are_a_matrix(cli_project: CliProject) -> None:
    answer = cli_project("compare", "greeter", "parrot", "sweep:previous@greeter", "--suite", "greetings")
    document = cli_project(
        "compare", "greeter", "parrot", "sweep:previous@greeter", "--suite", "greetings", "--json"
    ).document

    assert answer.code == 0
    assert ["greetings", "nobody", "1.000", "1.000", "0.000"] in [line.split() for line in answer.out.splitlines()]
    assert {row["case_id"]: row["scores"]["greeter"] for row in document["matrix"]} == {"ann": 1, "bob": 1, "nobody": 1}
    assert len(document["pairwise"]) == 3


def test_the_runners_of_one_sweep_are_compared_with_each_other_and_nobody_is_the_baseline(
    cli_project: CliProject,
) -> None:
    answer = cli_project("compare", "sweep:previous", "--suite", "greetings")

    assert answer.code == 0
    assert "INCONCLUSIVE" not in answer.out
    named = cli_project("compare", "sweep:previous", "--suite", "greetings", "--baseline", "parrot")
    assert "INCONCLUSIVE" in named.out
    required = cli_project("compare", "sweep:previous", "--suite", "greetings", "--require-go")
    assert (required.code, required.err) == (2, "error: --require-go needs a baseline: --baseline NAME\n")


def test_a_case_that_was_edited_is_not_compared_unless_asked(cli_project: CliProject) -> None:
    sides = ("sweep:previous", "sweep:latest", "--suite", "sums", "--json")

    plain, allowed = cli_project("compare", *sides).document, cli_project("compare", *sides, "--allow-changed").document

    assert (plain["summary"]["paired"], plain["summary"]["changed"]) == (1, 1)
    assert (allowed["summary"]["paired"], allowed["summary"]["changed"]) == (2, 0)


def test_nothing_in_common_exits_3(tmp_path: Path) -> None:
    before, after = run_folder(tmp_path, "a", {"x": 0.5}), run_folder(tmp_path, "b", {"y": 0.5})

    assert CliProject(tmp_path)("compare", before, after).code == 3


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (["greter", "parrot"], "no runner 'greter'; there are: greeter, parrot; did you mean 'greeter'?"),
        (["greeter"], "the only one named has one runner"),
        (["greeter", "greeter"], "'greeter' is named twice"),
        (["greeter", "sweep:19"], "no sweep '19'"),
        (["greeter", "runs/none"], "no file runs/none"),
        (["greeter", "parrot", "--baseline", "broken"], "no side 'broken'"),
        (["greeter", "parrot", "--suite", "sum"], "no suite 'sum'"),
        (["current", "--fail-on-regression"], "--baseline NAME"),
        (["greeter", "eval-pipeline.yaml"], "not JSON"),
    ],
)
def test_a_side_that_there_is_not_is_said(cli_project: CliProject, sides: list[str], message: str) -> None:
    answer = cli_project("compare", *sides)

    assert answer.code == 2
    assert message in answer.err


def test_without_results_a_name_is_no_runner(tmp_path: Path) -> None:
    answer = make_cli_project(tmp_path)("compare", "greeter", "parrot")

    assert answer.code == 2
    assert "'greeter' is not a runner, sweep:ID" in answer.err


def test_a_trend_over_the_newest_sweeps(cli_project: CliProject) -> None:
    answer = cli_project("trend", "--suite", "greetings", "--json")

    summary = answer.document["summary"]
    assert answer.code == 0
    assert (summary["run_count"], summary["matched_test_count"], summary["direction"]) == (2, 6, "stable")
    assert summary["slope"] == pytest.approx(1 / 6)
    assert answer.document["regression"]["triggered"] is False


def test_a_trend_is_shown_sweep_by_sweep(cli_project: CliProject) -> None:
    answer = cli_project("trend", "--suite", "greetings", "--runner", "greeter")

    assert "stable +0.3333 per sweep (95 % -1.0908 to +1.8572), r² 1.000; 3 cases graded in every sweep" in answer.out
    assert [line.split()[-4] for line in answer.out.splitlines()[1:3]] == ["0", "0"]


def test_a_degrading_trend_of_files_fails_when_asked(tmp_path: Path) -> None:
    days = [f"2026-03-0{day}T10:00:00.000Z" for day in (1, 2, 3)]
    paths = [run_folder(tmp_path, f"r{n}", many(0.9 - n / 10), timestamp=day) for n, day in enumerate(days)]
    cli_project = CliProject(tmp_path)

    plain, strict = (
        cli_project("trend", *reversed(paths)),
        cli_project("trend", *paths, "--fail-on-degrading", "--json"),
    )

    assert plain.code == 0
    assert "degrading -0.1000 per sweep (95 % -0.1" in plain.out  # in the order of time, however they were named
    assert (strict.code, strict.document["regression"]["triggered"]) == (1, True)
    assert strict.document["summary"]["date_range"] == {"start": days[0], "end": days[2]}


def test_a_trend_that_is_not_excluded_is_no_go_only_when_asked(tmp_path: Path) -> None:
    few = [run_folder(tmp_path, f"few{n}", {"x": 0.9 - n / 10, "y": 0.5}) for n in range(2)]
    steady = [run_folder(tmp_path, f"steady{n}", {f"c{n}": n % 10 / 10 for n in range(90)}) for n in range(2)]
    cli_project = CliProject(tmp_path)

    codes = [
        cli_project("trend", *paths, *options).code
        for paths in (few, steady)
        for options in (["--fail-on-degrading"], ["--require-go", "--slope-threshold", "0.05"])
    ]

    assert codes == [0, 4, 0, 0]


def test_a_small_slope_is_stable_by_its_threshold(tmp_path: Path) -> None:
    paths = [run_folder(tmp_path, f"r{n}", many(0.9 - n / 10)) for n in range(2)]

    answer = CliProject(tmp_path)("trend", *paths, "--slope-threshold", "0.2", "--fail-on-degrading")

    assert (answer.code, answer.out.split("\n")[3].split()[0]) == (0, "stable")


def test_cases_missing_in_a_sweep_count_only_when_asked(tmp_path: Path) -> None:
    paths = [run_folder(tmp_path, "a", {"x": 1.0}), run_folder(tmp_path, "b", {"x": 1.0, "y": 0.0})]
    cli_project = CliProject(tmp_path)

    matched, all_ = (cli_project("trend", *paths, "--json", *more).document for more in ([], ["--allow-missing"]))

    assert [run["mean_score"] for run in matched["runs"]] == [1.0, 1.0]
    assert [run["mean_score"] for run in all_["runs"]] == [1.0, 0.5]


def test_the_picture_of_a_trend_is_written(cli_project: CliProject, tmp_path: Path) -> None:
    picture = tmp_path / "trend.png"

    answer = cli_project("trend", "--suite", "greetings", "--plot", str(picture))

    assert answer.code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["latest"], "a trend needs at least two sweeps, got 1"),
        (["latest", "previous", "--last", "2"], "not both"),
        (["--last", "5", "--runner", "nobody"], "no finished sweep has results of nobody"),
        (["latest", "latest"], "named twice"),
        (["1999", "latest"], "no sweep '1999'"),
    ],
)
def test_sweeps_that_make_no_trend_are_said(cli_project: CliProject, arguments: list[str], message: str) -> None:
    answer = cli_project("trend", *arguments)

    assert answer.code == 2
    assert message in answer.err


def test_one_pair_that_was_run_is_no_sweep_to_compare_the_whole_one_with(tmp_path: Path) -> None:
    project = make_cli_project(tmp_path)
    project.once("run", "--quiet")
    project("run", "--quiet", "--runner", "greeter", "suites/greetings.yaml")

    whole = project("compare", "sweep:previous", "sweep:latest")
    pair = project("compare", "sweep:previous@greeter", "sweep:latest@greeter", "--suite", "greetings", "--json")

    assert whole.code == 2
    assert "finished with the same suites, runners, cases and tags; name one: sweep:ID" in whole.err
    assert pair.document["summary"]["paired"] == 3


def test_sides_are_rated_by_their_wins_over_each_other(cli_project: CliProject) -> None:
    sides = [
        run_folder(cli_project.root, "rated-a", {"1": 1.0, "2": 0.0, "3": 0.0, "4": 0.5}),
        run_folder(cli_project.root, "rated-b", {"1": 0.0, "2": 1.0, "3": 1.0, "4": 0.5}),
    ]

    document = cli_project("compare", *sides, "--ratings", "--json").document
    shown = cli_project("compare", *sides, "--ratings").out

    ratings = document["ratings"]
    assert ratings[sides[1]] / ratings[sides[0]] == pytest.approx(2.5 / 1.5)
    low, high = document["rating_intervals"][sides[1]]
    reach = 3.1824463052842638 / 2 / (4 * 0.625 * 0.375) ** 0.5  # Student's t; half of the log odds' error
    assert (low, high) == pytest.approx((ratings[sides[1]] * math.exp(-reach), ratings[sides[1]] * math.exp(reach)))
    assert f"{low:.3g} to {high:.3g}" in shown
    assert "ratings by wins over each other" in shown


def test_wins_that_determine_no_ratings_are_refused(cli_project: CliProject) -> None:
    sides = [
        run_folder(cli_project.root, "unrated-a", {"1": 0.0}),
        run_folder(cli_project.root, "unrated-b", {"1": 1.0}),
    ]

    answer = cli_project("compare", *sides, "--ratings")

    assert (answer.code, "strengths are not determined" in answer.err) == (2, True)
