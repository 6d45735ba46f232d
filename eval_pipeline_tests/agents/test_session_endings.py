"""Sessions without a result: why there is none, by what the CLI wrote to standard error."""

from __future__ import annotations

import pytest

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.suites.model import Case

CRASHED = "target-crash"
ENDINGS = [
    ("cursor-agent", "Cannot use this model: gone. Available models: auto\n", "model-rejected"),
    ("opencode", "ProviderModelNotFoundError: ProviderModelNotFoundError\n", "model-rejected"),
    ("copilot", "Model not found: gone\n", "model-rejected"),
    ("codex", "Error: the 'gone' model is not supported\n", "model-rejected"),
    ("claude-code", "permission denied\n", CRASHED),
    ("cursor-agent", "", CRASHED),
]


@pytest.mark.parametrize(("agent", "stderr", "failure"), ENDINGS)
def test_a_cli_that_refuses_its_model_on_standard_error_did_not_crash(agent: str, stderr: str, failure: str) -> None:
    raw = RawExecution(format=AGENTS.get(agent).output_format, payload={"stdout": "", "stderr": stderr, "exit_code": 1})

    report = normalize_raw(RawSession(execution_id="e", raw=raw, case=Case(id="c", input=())))

    assert (report.failure_class, report.final_output) == (failure, None)
    assert stderr.strip() in (report.error or "")
