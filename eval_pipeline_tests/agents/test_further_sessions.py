"""What Cursor's agent, OpenHands and aider print and what mini-swe-agent keeps, normalized."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.agents.agent_cli import AGENTS, LaunchRequest
from eval_pipeline.reports.model import (
    CommandEvent,
    FileReadEvent,
    FileWriteEvent,
    MessageEvent,
    RetryEvent,
    SessionReport,
    Usage,
)
from eval_pipeline_tests.agents.recorded_sessions import (
    ANY_JSON,
    WORKSPACE,
    check_storable,
    lines,
    printed,
    report_of,
)

FORMATS = ["cursor-agent", "openhands", "aider", "mini-swe-agent"]


def events(report: SessionReport, kind: type[Any]) -> list[Any]:
    return [event for event in report.events if isinstance(event, kind)]


@pytest.mark.parametrize(
    ("agent", "command"),
    [
        ("opencode", ["run", "--format", "json", "--thinking", "--auto", "-m", "M", "--x"]),
        ("gemini", ["-m", "M", "--yolo", "--skip-trust", "-o", "stream-json", "--x", "--prompt={PROMPT}"]),
        ("qwen", ["-m", "M", "--yolo", "-o", "stream-json", "--max-session-turns", "3", "--x", "--prompt={PROMPT}"]),
        ("pi", ["--mode", "json", "--model", "M", "--append-system-prompt", "be brief", "--x", "-p"]),
        ("cursor-agent",
         ["--yolo", "--print", "--output-format", "stream-json", "--model", "M", "--x", "--", "{PROMPT}"]),
    ],
)  # fmt: skip
def test_a_cli_is_started_without_interaction_and_with_json_output(agent: str, command: list[str]) -> None:
    request = LaunchRequest(executable="cli", args=("--x",), model="M", system="be brief", max_turns=3)

    launch = AGENTS.get(agent).launch(request)

    assert list(launch.command) == ["cli", *command]
    expected = (
        "argument" if any("{PROMPT}" in word for word in command) else "stdin",
        None if agent == "pi" else "be brief",
    )
    assert (launch.prompt, launch.preamble) == expected


# Cursor's agent

INIT = {"type": "system", "subtype": "init", "session_id": "chat_1", "cwd": "/work", "model": "composer"}


def cursor_call(subtype: str, name: str, **body: Any) -> dict[str, Any]:
    return {"type": "tool_call", "subtype": subtype, "call_id": "c1", "tool_call": {f"{name}ToolCall": body}}


def test_a_call_of_cursor_has_the_arguments_of_its_start_and_its_end() -> None:
    done = {"success": {"stdout": "# skill", "stderr": "", "exitCode": 0}}
    start = cursor_call("started", "shell", args={"workingDirectory": "/elsewhere"})
    end = cursor_call("completed", "shell", args={"command": "sed -n 1,9p skills/demo/SKILL.md"}, result=done)

    report = report_of("cursor-agent", stdout=lines(INIT, start, end, {"type": "result", "result": "done"}))

    (command,) = events(report, CommandEvent)
    assert (command.exit_code, command.output) == (0, "# skill")
    assert [event.path for event in events(report, FileReadEvent)] == ["/elsewhere/skills/demo/SKILL.md"]
    assert [skill.skill for skill in report.skills] == ["demo"]
    assert (report.session_id, report.model, report.final_output) == ("chat_1", "composer", "done")


def test_the_input_of_cursor_does_not_include_the_cache() -> None:
    usage = {"inputTokens": 200, "outputTokens": 50, "cacheReadTokens": 75, "cacheWriteTokens": 0}

    report = report_of("cursor-agent", stdout=lines(INIT, {"type": "result", "result": "done", "usage": usage}))

    assert report.usage == Usage(input_tokens=275, cached_input_tokens=75, cache_write_tokens=0, output_tokens=50)


@pytest.mark.parametrize(
    ("records", "failure_class"),
    [
        pytest.param([INIT], "target-crash", id="no result"),
        pytest.param([{"type": "result", "is_error": True, "result": "rate limit"}], "rate-limited", id="error"),
    ],
)
def test_a_session_of_cursor_that_failed_has_a_class(records: list[dict[str, Any]], failure_class: str) -> None:
    assert report_of("cursor-agent", stdout=lines(*records)).failure_class == failure_class


# OpenHands


def test_openhands_is_read_between_its_text() -> None:
    report = report_of("openhands", stdout=printed("openhands", "files"), cwd=WORKSPACE)

    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario files."
    assert report.file_reads == ("notes.txt",)
    assert [(event.path, event.how) for event in events(report, FileWriteEvent)] == [
        ("out.txt", "create"),
        ("notes.txt", "edit"),
    ]
    assert (report.commands, report.usage) == (("wc -l notes.txt",), Usage())


def test_the_tokens_of_openhands_are_in_the_state_of_its_conversation() -> None:
    tokens = {"prompt_tokens": 1000, "cache_read_tokens": 200, "completion_tokens": 50, "reasoning_tokens": 10}
    models = {name: {"accumulated_token_usage": tokens} for name in ("agent", "condenser")}
    state = json.dumps({"stats": {"usage_to_metrics": models}})

    report = report_of("openhands", stdout=printed("openhands", "files"), session=state)

    assert report.usage == Usage(input_tokens=2000, cached_input_tokens=400, output_tokens=100, reasoning_tokens=20)


def test_a_command_that_ended_the_shell_of_openhands_has_no_exit_code() -> None:
    report = report_of("openhands", stdout=printed("openhands", "fail"))

    (command,) = events(report, CommandEvent)
    assert command.exit_code is None
    assert [use.is_error for use in report.tool_uses] == [True, True]


def test_an_error_of_openhands_is_a_failure() -> None:
    report = report_of("openhands", stdout=printed("openhands", "auth401"))

    assert (report.failure_class, report.final_output) == ("authentication", None)
    assert report.session_id == "34b49033-15b0-475d-9bd4-4f040dbb1a41"


# aider


def test_the_last_answer_of_aider_is_final_and_its_edits_are_writes() -> None:
    report = report_of("aider", stdout=printed("aider", "files"))

    assert [message.phase for message in events(report, MessageEvent)] == ["commentary", "final"]
    assert "<<<<<<< SEARCH" in (report.final_output or "")
    assert [event.path for event in events(report, FileWriteEvent)] == ["out.txt"]
    assert (report.agent_version, report.model, report.usage) == ("0.86.2", "openai/stub-model", Usage())


def test_an_error_of_aider_is_a_failure() -> None:
    report = report_of("aider", stdout=printed("aider", "auth401"))

    assert (report.failure_class, report.final_output) == ("authentication", None)


def test_retries_of_aider_are_reported() -> None:
    error = "litellm.RateLimitError: slow down\nThe provider is busy.\n"
    text = f"Aider v1\nRepo-map: disabled\n\n{error}Retrying in 0.5 seconds...\nDone.\nTokens: 1k sent, 2 received.\n"

    report = report_of("aider", stdout=text)

    assert [event.delay_ms for event in events(report, RetryEvent)] == [500.0]
    assert (report.failure_class, report.final_output) == (None, "Done.")


# mini-swe-agent


def trajectory(**info: Any) -> str:
    def call(command: str, call_id: str) -> dict[str, Any]:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        response = {"usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {}}}
        return {"role": "assistant", "content": "on it", "tool_calls": [{"id": call_id, "function": function}],
                "extra": {"response": response}}  # fmt: skip

    messages = [
        {"role": "user", "content": "do it"},
        call("cat notes.txt; exit 3", "c1"),
        {"role": "tool", "tool_call_id": "c1", "content": "…", "extra": {"raw_output": "text", "returncode": 3}},
        call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo done", "c2"),
        {"role": "tool", "tool_call_id": "c2", "content": "…", "extra": {"returncode": -1}},
        {"role": "exit", "content": "done"},
    ]
    return json.dumps({"info": info, "messages": messages}, indent=1)


def test_a_trajectory_has_commands_without_the_submission() -> None:
    info = {"exit_status": "Submitted", "submission": "done", "model_stats": {"api_calls": 2, "instance_cost": 0}}

    report = report_of("mini-swe-agent", session=trajectory(**info))

    (command,) = events(report, CommandEvent)
    assert (command.exit_code, command.output) == (3, "text")
    assert [(use.tool, use.kind, use.is_error) for use in report.tool_uses] == [("bash", "command", True)]
    assert (report.final_output, report.model_calls) == ("done", 2)
    assert (report.usage.input_tokens, report.usage.output_tokens, report.usage.cost_usd) == (20, 4, None)


@pytest.mark.parametrize(
    ("session", "failure_class"),
    [
        pytest.param(trajectory(exit_status="LimitsExceeded"), "max-steps", id="limit"),
        pytest.param(trajectory(exit_status="AuthenticationError"), "authentication", id="error"),
        pytest.param("", "target-crash", id="killed"),
    ],
)
def test_a_trajectory_without_a_submission_is_a_failure(session: str, failure_class: str) -> None:
    assert report_of("mini-swe-agent", session=session).failure_class == failure_class


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(FORMATS),
    st.text() | st.lists(ANY_JSON, max_size=5).map(lambda values: "\n".join(map(json.dumps, values))),
)
def test_no_text_makes_normalizing_fail(format_: str, text: str) -> None:
    check_storable(report_of(format_, stdout=text, session=text))
