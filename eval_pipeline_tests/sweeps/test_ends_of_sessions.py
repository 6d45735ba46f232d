"""How an agent's session ends decides what follows: its report tells it, where every exit code is 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputErrors
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test

AGENT = """#!/bin/sh
cat > /dev/null
echo session >> "{folder}/sessions"
number=$(wc -l < "{folder}/sessions")
[ -e "{folder}/end-$number" ] || {{ cat "{folder}/good"; exit 0; }}
cat "{folder}/end-$number"
exit {exit_code}
"""
GOOD = {"type": "result", "subtype": "success", "is_error": False, "result": "2 apples"}
API_ERROR = {"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error"}
MODEL = {**API_ERROR, "api_error_status": 404, "result": "There's an issue with the selected model (m)."}
LOGIN = {**API_ERROR, "api_error_status": 401, "result": "Failed to authenticate."}
BUSY = {**API_ERROR, "api_error_status": 429, "result": "API Error: Request rejected (429)"}
STEPS = {**API_ERROR, "subtype": "error_max_turns", "terminal_reason": "max_turns", "errors": ["Reached the limit"]}


def an_agent(folder: ProjectFolder, *ends: dict[str, Any] | str, exit_code: int = 1, **fields: Any) -> None:
    """Write an agent whose first sessions end like this, with this exit code, and the later ones well."""
    script = folder.root / "agent.sh"
    script.write_text(AGENT.format(folder=folder.root, exit_code=exit_code), encoding="utf-8")
    script.chmod(0o755)
    (folder.root / "good").write_text(json.dumps(GOOD), encoding="utf-8")
    for number, end in enumerate(ends, start=1):
        text = end if isinstance(end, str) else json.dumps(end)
        (folder.root / f"end-{number}").write_text(text, encoding="utf-8")
    standard = {"name": "coder", "adapter": "agent", "agent": "claude-code"}
    entry = {**standard, "executable": str(script), **fields}
    folder.write_runners(entry)
    folder.write_suite(*(a_test(name) for name in "abc"))


def sessions(folder: ProjectFolder) -> int:
    return len((folder.root / "sessions").read_text(encoding="utf-8").splitlines())


def failures(folder: ProjectFolder) -> list[tuple[str, str | None]]:
    return [(str(case), failure) for case, failure in folder.ask(
        "SELECT case_id, failure_class FROM target_executions ORDER BY started_at, case_id")]  # fmt: skip


@pytest.mark.parametrize(("end", "failure"), [(MODEL, "model-rejected"), (LOGIN, "authentication")])
def test_a_model_or_a_login_that_is_rejected_costs_one_session(
    folder: ProjectFolder, end: dict[str, Any], failure: str
) -> None:
    an_agent(folder, end, end, end)

    counts = folder.sweep(runner="coder")

    assert sessions(folder) == 1
    assert (counts.errored, counts.refused) == (3, 2)
    assert sorted(str(each) for _, each in failures(folder)) == sorted([failure, "stopped", "stopped"])
    (folder.root / "sessions").write_text("1\n2\n3\n", encoding="utf-8")  # the model is there again
    assert folder.sweep(runner="coder", refresh="failed").passed == 3


def test_a_session_that_the_provider_refused_for_now_is_tried_again(folder: ProjectFolder) -> None:
    an_agent(folder, BUSY, retries={"max_retries": 1, "initial_delay_s": 0.01})

    counts = folder.sweep(runner="coder")

    assert (counts.passed, sessions(folder)) == (3, 4)
    assert folder.ask("SELECT count(*) FROM target_executions WHERE attempt_count = 2") == [(1,)]


def test_a_session_that_reached_its_limit_of_steps_is_no_crash_and_is_not_tried_again(folder: ProjectFolder) -> None:
    an_agent(folder, STEPS)

    counts = folder.sweep(runner="coder")

    assert (counts.passed, counts.errored, sessions(folder)) == (2, 1, 3)
    ((failure, error),) = folder.ask("SELECT failure_class, error FROM target_executions WHERE failure_class NOT NULL")
    assert (failure, error) == ("max-steps", "Reached the limit (exit code 1)")


def of_qwen(error: str) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": f"[API Error: {error}]"}


def test_a_session_that_was_refused_for_now_is_tried_again_though_its_exit_code_is_0(folder: ProjectFolder) -> None:
    retries = {"max_retries": 1, "initial_delay_s": 0.01}
    an_agent(folder, of_qwen("429 slow down"), exit_code=0, agent="qwen", retries=retries)

    counts = folder.sweep(runner="coder")

    assert (counts.passed, sessions(folder)) == (3, 4)


def test_a_login_that_is_rejected_with_exit_code_0_costs_one_session(folder: ProjectFolder) -> None:
    end = of_qwen("401 Incorrect API key provided")
    an_agent(folder, end, end, end, exit_code=0, agent="qwen")

    folder.sweep_once(runner="coder")

    assert sessions(folder) == 1
    assert {failure for _, failure in failures(folder)} == {"authentication", "stopped"}


@pytest.mark.parametrize("printed", ["", "Segmentation fault\n", '{"type": "result"'], ids=["nothing", "text", "cut"])
def test_a_session_without_an_end_in_its_output_is_a_crash(folder: ProjectFolder, printed: str) -> None:
    an_agent(folder, printed)

    folder.sweep_once(runner="coder")

    assert {failure for _, failure in failures(folder)} == {"target-crash", None}
    assert sessions(folder) == 3


def test_text_of_an_answer_is_no_end(folder: ProjectFolder, tmp_path: Path) -> None:
    an_agent(folder)
    (folder.root / "good").write_text(json.dumps({**GOOD, "result": "2 API Error: 429 model_not_found"}))

    assert folder.sweep(runner="coder").passed == 3


def test_a_format_that_nothing_reads_is_refused_before_a_session_is_paid(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"))
    folder.write_runners({"name": "coder", "adapter": "command", "command": ["true"], "format": "claud-code"})
    session = folder.session()
    session.load_suites()

    with pytest.raises(InputErrors) as raised:
        session.pairs([PairKey("sums", "coder")])

    assert "runners.yaml:1: runners[0].format: no normalizer 'claud-code'" in str(raised.value)
    assert "did you mean 'claude-code'?" in str(raised.value)
