"""What OpenCode, Gemini CLI, Qwen Code and pi print, normalized: recorded runs, and what they can say besides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.reports.model import (
    CommandEvent,
    ErrorEvent,
    FileWriteEvent,
    MessageEvent,
    RetryEvent,
    SessionReport,
    ToolResultEvent,
    Usage,
)
from eval_pipeline_tests.agents.recorded_sessions import (
    ANY_JSON,
    WORKSPACE,
    check_storable,
    lines,
    mutated,
    printed,
    report_of,
)

CLIS = ["opencode", "gemini", "qwen", "pi"]
AUTHENTICATION = "Incorrect API key provided (stub)."


def recorded(cli: str, scenario: str) -> SessionReport:
    return report_of(cli, stdout=printed(cli, scenario), cwd=WORKSPACE)


def test_a_tool_result_of_gemini_without_a_status_is_of_unknown_success() -> None:
    rows = [
        {"type": "tool_use", "tool_id": status, "tool_name": "read_file", "parameters": {"path": "a"}}
        for status in ("unknown", "success", "error")
    ]
    results = [
        {"type": "tool_result", "tool_id": "unknown"},
        *({"type": "tool_result", "tool_id": status, "status": status} for status in ("success", "error")),
    ]

    report = report_of("gemini", stdout=lines(*rows, *results))

    assert [use.result.is_error for use in report.tool_uses if use.result] == [None, False, True]


def events(report: SessionReport, kind: type[Any]) -> list[Any]:
    return [event for event in report.events if isinstance(event, kind)]


@pytest.mark.parametrize("cli", ["opencode", "gemini", "qwen"])
def test_files_that_are_read_and_changed_are_reported(cli: str) -> None:
    report = recorded(cli, "files")

    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario files."
    assert report.file_reads == ("notes.txt",)
    assert [(event.path, event.how, event.ok) for event in events(report, FileWriteEvent)] == [
        ("out.txt", "create", True),
        ("notes.txt", "edit", True),
    ]
    assert [use.kind for use in report.tool_uses] == ["read", "command", "edit", "edit"]
    assert events(report, MessageEvent)[-1].phase == "final"


@pytest.mark.parametrize(
    ("cli", "usage"),
    [
        ("opencode", (6000, 1024, 260, 16)),
        ("gemini", (6000, 1024, 260, 16)),
        ("qwen", (6000, 1024, 260, None)),
    ],
)
def test_usage_is_gross_input_and_output_with_reasoning(cli: str, usage: tuple[int | None, ...]) -> None:
    actual = recorded(cli, "files").usage

    assert (actual.input_tokens, actual.cached_input_tokens, actual.output_tokens, actual.reasoning_tokens) == usage


@pytest.mark.parametrize(("cli", "exit_code"), [("opencode", 3), ("gemini", None), ("pi", 3)])
def test_a_command_has_the_exit_code_that_the_cli_prints(cli: str, exit_code: int | None) -> None:
    report = recorded(cli, "fail")
    (command,) = events(report, CommandEvent)
    shell, read = events(report, ToolResultEvent)

    assert (command.exit_code, command.output.strip()) == (exit_code, "to-stdout\nto-stderr")
    assert (shell.is_error, read.is_error) == (exit_code == 3, True)


@pytest.mark.parametrize("cli", CLIS)
def test_a_refused_key_is_a_failure_whatever_the_exit_code(cli: str) -> None:
    report = recorded(cli, "auth401")

    assert report.failure_class == "authentication"
    assert AUTHENTICATION in (report.error or "")
    assert (report.final_output, report.usage) == (None, Usage())
    assert [(event.status, event.terminal) for event in events(report, ErrorEvent)] == [(401, True)]


@pytest.mark.parametrize("cli", ["opencode", "pi"])
def test_an_answer_cut_by_the_token_limit_is_no_answer(cli: str) -> None:
    stdout = printed("opencode", "maxtok") if cli == "opencode" else lines(pi_reply("cut", stopReason="length"))

    report = report_of(cli, stdout=stdout)

    assert (report.failure_class, report.final_output) == ("truncated", None)


def pi_reply(content: str, **message: Any) -> dict[str, Any]:
    reply = {"role": "assistant", "content": [{"type": "text", "text": content}], **message}
    return {"type": "message_end", "message": reply}


def test_a_retry_of_pi_is_no_error_of_the_session() -> None:
    error = {"stopReason": "error", "errorMessage": "500 The server had an error"}
    again = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "500 …"}

    report = report_of("pi", stdout=lines(pi_reply("", **error), again, pi_reply("done", stopReason="stop")))

    (retry,) = events(report, RetryEvent)
    assert (retry.attempt, retry.limit, retry.delay_ms, retry.status) == (1, 3, 2000.0, 500)
    assert (report.failure_class, [event.terminal for event in events(report, ErrorEvent)]) == (None, [False])


@pytest.mark.parametrize("cli", ["opencode", "qwen", "pi"])
def test_a_skill_that_was_loaded_is_detected(cli: str) -> None:
    (skill,) = recorded(cli, "skill").skills

    assert (skill.skill, skill.confidence) == ("demo-skill", "strong" if cli == "pi" else "explicit")


@pytest.mark.parametrize("cli", CLIS)
def test_a_session_without_an_end_crashed(cli: str) -> None:
    first = printed(cli, "auth401").splitlines()[0] if cli != "opencode" else lines({"type": "step_start", "part": {}})

    report = report_of(cli, stdout=first)

    assert (report.failure_class, report.error) == ("target-crash", "the session ended without a result")


@pytest.mark.parametrize(
    ("stdout", "stderr", "quoted"),
    [
        ("", "", "nothing was printed"),
        ("Usage: agent [options]\nno such option\n", "", "the last line of its output is 'no such option'"),
        ("\x1b[31mred\x1b[0m", "", r"the last line of its output is '\x1b[31mred\x1b[0m'"),
        ("x" * 1_000, "", f"the last line of its output is '{'x' * 200}'"),
        ("no record", "a warning\nnot logged in\n", "not logged in"),
    ],
    ids=["nothing", "text", "escapes", "long", "stderr"],
)
@pytest.mark.parametrize("cli", ["codex", "claude-code", "copilot", *CLIS])
def test_an_output_that_is_no_record_is_quoted(cli: str, stdout: str, stderr: str, quoted: str) -> None:
    report = report_of(cli, stdout=stdout, stderr=stderr)

    assert (report.failure_class, report.error) == ("target-crash", f"the session ended without a result: {quoted}")
    assert [event.message for event in events(report, ErrorEvent)] in ([], [report.error])


def test_a_session_that_is_cut_after_records_is_quoted_by_what_follows_them() -> None:
    first = printed("pi", "auth401").splitlines()[0]

    assert str(report_of("pi", stdout=f"{first}\nKilled\n").error).endswith("the last line of its output is 'Killed'")


def test_the_turn_limit_of_gemini_is_a_step_limit() -> None:
    error = {"type": "FatalTurnLimitedError", "message": "Reached max session turns for this session."}

    assert report_of("gemini", stdout=lines({"type": "result", "status": "error", "error": error})).failure_class == (
        "max-steps"
    )


def test_an_export_of_opencode_is_read_with_notes_around_it() -> None:
    tool = {"type": "tool", "tool": "read", "state": {"input": {"filePath": "docs/guide.md"}}}
    tokens = {"input": 10, "output": 5, "reasoning": 1, "cache": {"read": 4}}
    info = {"role": "assistant", "tokens": tokens, "path": {"cwd": "/elsewhere"}}
    messages = [{"info": info, "parts": [tool]}, {"info": info, "parts": [{"type": "text", "text": "done"}]}]
    export = json.dumps({"info": {"id": "ses_1"}, "messages": messages}, indent=1)

    report = report_of("opencode", session=f"Exporting session\n{export}\nok")

    assert (report.session_id, report.final_output) == ("ses_1", "done")
    assert report.file_reads == ("/elsewhere/docs/guide.md",)
    assert (report.usage.input_tokens, report.usage.output_tokens) == (28, 12)


@pytest.mark.parametrize("cli", CLIS)
def test_unknown_records_are_counted(cli: str) -> None:
    assert report_of(cli, stdout=lines({"type": "hologram"}, {"no": "type"})).unknown_events == {
        "hologram": 1, "no type": 1,
    }  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(CLIS),
    st.text() | st.lists(ANY_JSON, max_size=5).map(lambda values: "\n".join(map(json.dumps, values))),
)
def test_no_text_makes_normalizing_fail(cli: str, text: str) -> None:
    check_storable(report_of(cli, stdout=text, session=text))


@pytest.mark.parametrize("cli", CLIS)
def test_no_change_of_a_recording_makes_normalizing_fail(cli: str) -> None:
    recording = printed(cli, "fail" if cli != "qwen" else "files")

    @settings(deadline=None, max_examples=30)
    @given(mutated(recording))
    def check(text: str) -> None:
        check_storable(report_of(cli, stdout=text))

    check()
