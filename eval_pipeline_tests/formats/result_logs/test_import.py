"""Results of other evaluation systems become suites that run at once, are scored again and ranked together."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.formats.inspect_ai.archive import open_log
from eval_pipeline.reports.result_logs import RESULT_LOGS
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.formats.result_logs.write_logs import write_logs

RECORDED = Path(__file__).parent / "recorded"
PEERS = os.environ.get("PEER_LOGS")
SYSTEMS = ("inspect", "lm-eval", "promptfoo")


@pytest.fixture
def cli_project(tmp_path: Path) -> CliProject:
    """A folder with nothing in it."""
    (tmp_path / "desk").mkdir()
    return CliProject(tmp_path / "desk")


@pytest.fixture(scope="module")
def of_all_systems(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A folder into which the results of all three were imported, and run."""
    project = CliProject(tmp_path_factory.mktemp("all"))
    for system in SYSTEMS:
        assert project("import", system, logs(system)).code == 0
    assert project("run", "--json").code in (0, 1), "recorded failures are no passes"
    return project


def logs(system: str) -> str:
    """What a system wrote: now, where PEER_LOGS names a folder for it, else when the tests were written."""
    return str(write_logs(system, Path(PEERS).absolute()) if PEERS else RECORDED / system)


def statuses(project: CliProject, suites: str = "*") -> dict[tuple[str, str], list[str]]:
    rows = project.ask(
        "SELECT runner, case_id, list(status ORDER BY repetition) FROM current_verdicts "
        f"WHERE suite GLOB '{suites}' GROUP BY ALL ORDER BY ALL"
    )
    return {(runner, case): found for runner, case, found in rows}


def test_logs_of_inspect_are_ranked_with_their_scores_tools_and_tokens(cli_project: CliProject) -> None:
    made = cli_project.once("import", "inspect", logs("inspect"))
    run = cli_project.once("run", "--json")

    assert (made.code, run.code) == (0, 0)
    assert statuses(cli_project) == {
        ("mockllm-model-recorded", "2"): ["passed", "passed"],
        ("mockllm-model-recorded", "a"): ["passed", "failed"],
        ("mockllm-model-recorded", "c"): ["failed", "passed"],
    }
    report = "SELECT input_tokens, cached_input_tokens, output_tokens, tool_calls FROM session_reports"
    assert cli_project.ask(f"{report} WHERE case_id = '2' ORDER BY ALL") == [(14, 4, 5, 0), (28, 8, 10, 1)]
    events = "SELECT kind, tool, text FROM session_events WHERE case_id = '2' AND tool IS NOT NULL ORDER BY position"
    assert cli_project.ask(events) == [("tool_call", "add", None), ("tool_result", "add", "42")]
    assert cli_project.ask("SELECT count(*), sum(value) FROM evaluator_scores WHERE evaluator = 'match'") == [(6, 4.0)]


def test_both_formats_of_inspect_are_read_alike(tmp_path: Path) -> None:
    (path,) = (RECORDED / "inspect").iterdir()
    with open_log(path) as (header, samples):
        document = {**header, "samples": list(samples)}
    (tmp_path / "log.json").write_text(json.dumps(document))
    format_ = RESULT_LOGS.get("inspect")

    assert list(format_.samples(tmp_path / "log.json")) == list(format_.samples(path))


def test_other_evaluators_score_imported_answers_without_a_call(cli_project: CliProject) -> None:
    cli_project.once("import", "inspect", logs("inspect"))
    cli_project.once("run", "--json")
    suite = cli_project.root / "suites" / "sums.yaml"
    digits = "- {name: digits, type: regex, value: '[0-9]'}"
    suite.write_text(suite.read_text().replace("assertions:\n", f"assertions:\n{digits}\n"))

    again = cli_project("run", "--json")

    assert (again.counts["executed"], again.counts["rescored"]) == (0, 6)
    assert cli_project.ask("SELECT count(*) FROM evaluator_scores WHERE evaluator = 'digits' AND value = 1") == [(6,)]


def test_samples_of_lm_eval_are_documents_with_the_answer_and_each_metric(of_all_systems: CliProject) -> None:
    of_lm_eval = "suite GLOB 'sums_*'"
    scores = (
        f"SELECT suite, evaluator, count(*), sum(value) FROM evaluator_scores WHERE {of_lm_eval} "
        "GROUP BY ALL ORDER BY ALL"
    )
    generated = [("sums_gen", f"exact_match-{name}", 6, 0.0) for name in ("first", "number")]
    assert of_all_systems.ask(scores)[:2] == generated
    assert [row[:3] for row in of_all_systems.ask(scores)[2:]] == [("sums_mc", "acc", 3)]
    answers = (
        f"SELECT DISTINCT suite, final_output FROM session_reports WHERE case_id = '0' AND {of_lm_eval} ORDER BY ALL"
    )
    (first, chosen) = of_all_systems.ask(answers)
    assert first == ("sums_gen", "lol")
    assert chosen[1] in ("1", "2")
    assert of_all_systems.ask("SELECT DISTINCT input FROM cases WHERE suite = 'sums_gen' AND case_id = '1'") != []


def test_results_of_promptfoo_keep_their_verdicts_scores_and_errors(of_all_systems: CliProject) -> None:
    assert statuses(of_all_systems, "capitals") == {
        ("atlas-prompt-1-recorded", "test-1"): ["passed", "passed"],
        ("atlas-prompt-1-recorded", "test-2"): ["failed", "failed"],
        ("atlas-prompt-2-recorded", "test-1"): ["passed", "passed"],
        ("atlas-prompt-2-recorded", "test-2"): ["error", "error"],
        ("echo-prompt-1-recorded", "test-1"): ["passed", "passed"],
        ("echo-prompt-1-recorded", "test-2"): ["failed", "failed"],
        ("echo-prompt-2-recorded", "test-1"): ["passed", "passed"],
        ("echo-prompt-2-recorded", "test-2"): ["failed", "failed"],
    }
    best = (
        "SELECT score, cost_usd, input_tokens, output_tokens FROM current_verdicts WHERE repetition = 1 AND case_id ="
    )
    assert of_all_systems.ask(f"{best} 'test-1' AND runner LIKE 'atlas-prompt-1%'") == [(0.5, 0.001, 10, 2)]


def test_all_three_are_on_one_board(of_all_systems: CliProject) -> None:
    board = of_all_systems.ask("SELECT count(DISTINCT suite), count(DISTINCT runner), sum(graded) FROM leaderboard")
    assert board == [(4, 6, 29)]
    once = "FROM variance_components WHERE suite = 'sums_mc'"
    assert of_all_systems.ask(f"SELECT case_variance, repetition_variance {once}") == [
        (None, None)
    ]  # no case is repeated


def test_what_an_import_would_hold_is_listed_and_nothing_written(cli_project: CliProject) -> None:
    answer = cli_project("import", "promptfoo", str(RECORDED / "promptfoo"), "--list")

    assert answer.code == 0
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["capitals", "atlas-prompt-1", "4", "2", "score,", "pass,", "icontains,", "right,", "contains"] in rows
    assert list(cli_project.root.iterdir()) == []


def test_files_that_exist_are_kept(cli_project: CliProject) -> None:
    cli_project.write("suites/sums.yaml", "mine")

    answer = cli_project("import", "inspect", str(RECORDED / "inspect"))

    assert (answer.code, answer.err) == (2, "error: suites/sums.yaml exist; --force overwrites them\n")
    assert not (cli_project.root / "recordings").exists()


def test_a_runners_file_that_cannot_be_added_to_is_refused_before_anything_is_written(cli_project: CliProject) -> None:
    cli_project.write("runners.yaml", "runners: [{name: mine, adapter: mock}]\n")
    before = sorted(cli_project.root.rglob("*"))

    answer = cli_project("import", "inspect", str(RECORDED / "inspect"))

    assert answer.code == 2
    assert "runners.yaml: cannot be added to; write {" in answer.err
    assert sorted(cli_project.root.rglob("*")) == before


def test_importing_again_adds_no_runner_twice(cli_project: CliProject) -> None:
    cli_project("import", "inspect", str(RECORDED / "inspect"))
    before = (cli_project.root / "runners.yaml").read_text()

    assert cli_project("import", "inspect", str(RECORDED / "inspect"), "--force").code == 0
    assert (cli_project.root / "runners.yaml").read_text() == before


def test_a_model_that_two_systems_ran_is_two_runners(cli_project: CliProject) -> None:
    for path in (RECORDED / "lm-eval").iterdir():
        cli_project.write(
            f"logs/{path.name}", re.sub('"model_name": *"[^"]*"', '"model_name": "mockllm/model"', path.read_text())
        )
    cli_project("import", "inspect", str(RECORDED / "inspect"))
    edited = (cli_project.root / "runners.yaml").read_text() + "    description: mine\n"
    cli_project.write("runners.yaml", edited)

    made = cli_project("import", "lm-eval", "logs")
    again = cli_project("import", "inspect", str(RECORDED / "inspect"), "--force")

    assert "runner mockllm-model-lm-eval-recorded → runners.yaml" in made.err
    assert "runner " not in again.err
    assert cli_project("validate").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect"], "name the results of inspect: files, or folders with *.eval or *.json"),
        (["inspect", "nowhere"], "no results at nowhere: expected a file, or a folder with *.eval or *.json"),
        (["promptfoo", "odd.json"], "odd.json is no file of promptfoo: it has no results.results"),
        (["inspect", "odd.json"], "odd.json is no log of inspect: it has no 'eval'"),
        (["inspect", "odd.eval"], "odd.eval is no log of inspect: it is no zip archive"),
        (["lm-eval", "odd.jsonl"], "odd.jsonl:1: no sample of lm-eval: it has no doc_id and arguments"),
        (["lm-eval", "odd.eval"], "odd.eval:1: no JSON: "),
        (["inspect", "odd.json", "--last", "1"], "--last: is for sessions of agents"),
        (["inspect", "odd.json", "--suite", "No!"], "--suite: expected lower-case letters"),
    ],
)
def test_what_cannot_be_imported_is_reported(cli_project: CliProject, arguments: list[str], message: str) -> None:
    cli_project.write("odd.json", "{}")
    cli_project.write("odd.jsonl", "{}\n")
    cli_project.write("odd.eval", "x")

    answer = cli_project("import", *arguments)

    assert answer.code == 2
    assert message in answer.err


def test_a_case_that_another_log_has_with_other_words_is_left_out(cli_project: CliProject) -> None:
    for name in ("one.json", "two.json"):
        text = (RECORDED / "promptfoo" / "results.json").read_text()
        cli_project.write(name, text.replace("France", "Italy") if name == "two.json" else text)

    answer = cli_project("import", "promptfoo", "one.json", "two.json", "--suite", "both")

    assert answer.code == 1
    assert "two.json: case 'test-1' of both has another input than before" in answer.err


def test_tasks_of_one_name_in_several_packages_are_suites_of_their_own(cli_project: CliProject) -> None:
    (path,) = (RECORDED / "inspect").iterdir()
    with open_log(path) as (header, samples):
        document = {**header, "samples": list(samples)}
    for task in ("a/sums", "b/sums", "a-sums", "b/others"):
        log = {**document, "eval": {**document["eval"], "task": task}}
        cli_project.write(f"{task.replace('/', '.')}.json", json.dumps(log))

    cli_project("import", "inspect", str(cli_project.root))
    cli_project("run", "--quiet")

    suites = cli_project.ask("SELECT suite, count(*) FROM current_verdicts GROUP BY ALL ORDER BY ALL")
    assert suites == [("a-sums", 6), ("a-sums-2", 6), ("b-sums", 6), ("others", 6)]


def test_a_broken_sample_names_its_file_and_place(tmp_path: Path) -> None:
    (path,) = (RECORDED / "inspect").iterdir()
    broken = tmp_path / "broken.eval"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(broken, "w") as out:
        names = archive.namelist()
        assert any(name.startswith("samples/") for name in names)
        out.writestr("header.json", '{"eval": {"task": "t", "model": "m"}}')
        out.writestr("samples/1.json", "{")

    with pytest.raises(InputError, match=r"broken\.eval: samples/1\.json cannot be read"):
        list(RESULT_LOGS.get("inspect").samples(broken))


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_scores_that_are_no_numbers_are_unknown(tmp_path: Path, suffix: str) -> None:
    sample = '{"id": "a", "input": "?", "target": "2", "scores": {"loss": {"value": NaN}, "right": {"value": 1}}}'
    header = '"eval": {"task": "t", "model": "m"}, "results": {"mean": -Infinity}'
    log = tmp_path / f"log.{suffix}"
    if suffix == "json":
        log.write_text(f'{{{header}, "samples": [{sample}]}}')
    else:
        with zipfile.ZipFile(log, "w") as archive:
            archive.writestr("header.json", f"{{{header}}}")
            archive.writestr("samples/a.json", sample)

    (imported,) = RESULT_LOGS.get("inspect").samples(log)

    assert {score.name: score.value for score in imported.scores} == {"loss": None, "right": 1.0}


def test_a_broken_log_in_a_folder_is_reported_and_other_files_are_not(cli_project: CliProject) -> None:
    (path,) = (RECORDED / "inspect").iterdir()
    folder = cli_project.root / "logs"
    folder.mkdir()
    (folder / "whole.eval").write_bytes(path.read_bytes())
    (folder / "cut.eval").write_bytes(path.read_bytes()[:-100])
    (folder / "notes.json").write_text("{}")
    (folder / "odd.json").write_text('{"eval": {"task": "sums", "model": "m"}, "samples": [1, {"messages": [2]}]}')

    made = cli_project("import", "inspect", "logs", "--list")

    assert "cut.eval is no log of inspect: it is no zip archive" in made.err
    assert "notes.json" not in made.err
    assert "odd.json" not in made.err


@pytest.mark.parametrize("row", [{"resps": 5}, {"resps": {"a": 1}}, {"metrics": True}, {"metrics": [[], {}]}], ids=str)
def test_a_sample_of_lm_eval_with_odd_fields_has_no_answer_and_no_scores(
    tmp_path: Path, row: dict[str, object]
) -> None:
    path = tmp_path / "samples_sums_2026-11-23T10-00-00.jsonl"
    path.write_text(json.dumps({"doc_id": 1, "arguments": [["2+2?", {}]], **row}))

    (sample,) = RESULT_LOGS.get("lm-eval").samples(path)

    assert (sample.report.final_output, sample.scores) == (None, ())


@pytest.mark.parametrize(("limit", "failure"), [("time", "timeout"), ("token", "max-steps"), ("operator", "cancelled")])
def test_a_limit_of_inspect_has_the_class_of_its_kind(tmp_path: Path, limit: str, failure: str) -> None:
    sample = {"id": 1, "epoch": 1, "input": "?", "limit": {"type": limit, "limit": 3}}
    (tmp_path / "log.json").write_text(json.dumps({"eval": {"task": "t", "model": "m"}, "samples": [sample]}))

    (read,) = RESULT_LOGS.get("inspect").samples(tmp_path / "log.json")

    assert read.report.failure_class == failure


QUALIFIED = [{"name": "package/grade"}, {"name": "match"}, {"name": "match"}]


@pytest.mark.parametrize(
    ("scorers", "evaluators"),
    [(QUALIFIED, ["grade", "match", "match1"]), (None, ["answered"])],
    ids=["named", "unnamed"],
)
def test_a_log_in_which_every_sample_failed_is_ranked_as_errors(
    cli_project: CliProject, scorers: object, evaluators: list[str]
) -> None:
    samples = [
        {"id": id_, "epoch": 1, "input": "?", "target": "2", "error": {"message": "no connection"}} for id_ in (1, 2)
    ]
    log = {"eval": {"task": "sums", "model": "m", "scorers": scorers}, "samples": samples}
    cli_project.write("log.json", json.dumps(log))

    made, run = cli_project("import", "inspect", "log.json"), cli_project("run", "--json")

    assert "sums: no answer has a score" in made.err
    assert (made.code, run.code) == (0, 3)
    assert cli_project.ask("SELECT graded, planned FROM leaderboard") == [(0, 2)]
    assert cli_project.ask("SELECT DISTINCT failure_class FROM current_verdicts") == [("target-error",)]
    text = (cli_project.root / "suites" / "sums.yaml").read_text()
    assert re.findall("- name: (.*)\n", text) == evaluators
    assert re.findall("  score: (.*)\n", text) == (evaluators if scorers else [])


def test_scores_whose_names_are_written_alike_are_evaluators_of_their_own(cli_project: CliProject) -> None:
    sample = {"id": 1, "input": "?", "scores": {"acc": {"value": {"(a)": 1, "[a]": 0.5}}}}
    cli_project.write("log.json", json.dumps({"eval": {"task": "sums", "model": "m"}, "samples": [sample]}))

    cli_project("import", "inspect", "log.json")
    cli_project("run", "--json")

    scores = "SELECT evaluator, value FROM evaluator_scores ORDER BY ALL"
    assert cli_project.ask(scores) == [("acc.-a", 1.0), ("acc.-a-2", 0.5)]


def test_a_score_that_is_no_share_needs_a_range(cli_project: CliProject) -> None:
    folder = cli_project.root / "logs"
    folder.mkdir()
    for path in (RECORDED / "lm-eval").iterdir():
        (folder / path.name).write_text(path.read_text().replace('"acc": 1.0', '"acc": 7.5'))

    made = cli_project("import", "lm-eval", "logs")

    assert "sums_mc: 'acc' is not always a number from 0 to 1; score it by recorded-score with range" in made.err
    suite = cli_project.root / "suites" / "sums_mc.yaml"
    scaled = "assertions:\n- {name: acc, type: recorded-score, score: acc, range: [10, 0]}\n"
    suite.write_text(suite.read_text().replace("cases:\n", f"{scaled}cases:\n"))
    cli_project("run", "suites/sums_mc.yaml", "--json")
    assert (0.25,) in cli_project.ask("SELECT value FROM evaluator_scores WHERE suite = 'sums_mc'")
