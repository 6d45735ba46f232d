"""Trajectories out and in: what the format requires, and that a session is the same after it was read again."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from eval_pipeline.reports.model import (
    CommandEvent,
    FileReadEvent,
    MessageEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
    is_spoken,
)
from eval_pipeline_tests.agents.recorded_sessions import FOLDER, lines, printed, report_of
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, exported

FORMATS = {"aider": "aider", "claude": "claude-code", "codex": "codex", "copilot": "copilot", "gemini": "gemini",
           "opencode": "opencode", "openhands": "openhands", "pi": "pi", "qwen": "qwen"}  # fmt: skip
SESSIONS = sorted(
    (cli, path.parent.name) for cli in FORMATS for path in (FOLDER / cli).glob("*/stdout.jsonl") if path.is_file()
)
ALLOWED = {
    "trajectory": {"schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
                   "continued_trajectory_ref", "extra", "subagent_trajectories"},
    "step": {"step_id", "timestamp", "source", "model_name", "reasoning_effort", "message", "reasoning_content",
             "tool_calls", "observation", "metrics", "extra", "llm_call_count", "is_copied_context"},
    "call": {"tool_call_id", "function_name", "arguments", "extra"},
    "result": {"source_call_id", "content", "subagent_trajectory_ref", "extra"},
}  # fmt: skip


def trajectory_of(report: SessionReport) -> dict[str, Any]:
    (content,) = exported("atif", a_record(report=report)).values()
    document: dict[str, Any] = json.loads(content)
    return document


def check_valid(document: dict[str, Any]) -> None:
    """The rules of version 1.7 that a producer can break."""
    assert document.keys() <= ALLOWED["trajectory"]
    assert document["schema_version"] == "ATIF-v1.7"
    assert isinstance(document["agent"]["name"], str)
    assert isinstance(document["agent"]["version"], str)
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    assert document["steps"]
    for step in document["steps"]:
        assert step.keys() <= ALLOWED["step"]
        assert step["source"] in ("system", "user", "agent")
        assert isinstance(step["message"], str)
        assert step["source"] == "agent" or not {"tool_calls", "reasoning_content", "metrics"} & step.keys()
        if "timestamp" in step:
            datetime.fromisoformat(step["timestamp"].replace("Z", "+00:00"))
        check_tools(step)


def check_tools(step: dict[str, Any]) -> None:
    calls = step.get("tool_calls", [])
    assert all(call.keys() <= ALLOWED["call"] and isinstance(call["arguments"], dict) for call in calls)
    results = step.get("observation", {"results": []})["results"]
    ids = {call["tool_call_id"] for call in calls}
    assert len(ids) == len(calls)
    assert all(result.keys() <= ALLOWED["result"] for result in results)
    assert all(result.get("source_call_id") in {None, *ids} for result in results)


def doings(report: SessionReport) -> dict[str, Any]:
    """What evaluators judge of a session."""
    of_kind = (CommandEvent, FileReadEvent, SkillEvent, ToolCallEvent, ToolResultEvent)
    events = [each for each in report.events if isinstance(each, of_kind)]
    return {
        "kinds": [each.kind for each in events if not isinstance(each, (ToolCallEvent, ToolResultEvent))],
        "commands": [(each.command, each.exit_code) for each in events if isinstance(each, CommandEvent)],
        "reads": report.file_reads,
        "tools": [(each.tool, each.does) for each in events if isinstance(each, ToolCallEvent)],
        "outputs": [(each.output, each.is_error) for each in events if isinstance(each, ToolResultEvent)],
        "said": [each.text for each in report.events if is_spoken(each, "user")] or [report.prompt],
        "injected": [each.text for each in report.events if isinstance(each, MessageEvent) and each.injected],
        "skills": [each.skill for each in report.skills],
        "facts": (report.final_output, report.failure_class, report.error, report.model, report.session_id),
        "usage": report.usage,
    }


@pytest.mark.parametrize(("cli", "scenario"), SESSIONS)
def test_a_recorded_session_is_the_same_after_export_and_import(cli: str, scenario: str) -> None:
    report = report_of(FORMATS[cli], stdout=printed(cli, scenario))

    document = trajectory_of(report)

    check_valid(document)
    read = report_of("atif", session=json.dumps(document))
    assert doings(read) == doings(report)
    assert trajectory_of(read) == document


def test_a_step_is_a_call_of_the_model_with_the_results_of_its_tools() -> None:
    document = trajectory_of(a_report())

    _, look, answer = document["steps"]
    assert look["message"] == "let me look"
    assert look["tool_calls"][0]["arguments"] == {"path": "a.txt"}
    assert look["observation"]["results"] == [{"source_call_id": "1", "content": "four",
                                               "extra": {"is_error": False, "tool": "Read"}}]  # fmt: skip
    assert answer["message"] == "4"
    assert document["final_metrics"]["total_prompt_tokens"] == 110
    assert document["extra"]["eval_pipeline"]["status"] == "passed"


def test_a_result_without_an_id_is_that_of_its_own_tool() -> None:
    events = (
        ToolCallEvent(tool="read", arguments={}),
        ToolCallEvent(tool="search", arguments={}),
        ToolResultEvent(tool="search", output="found"),
        ToolResultEvent(tool="read", output="text"),
        ToolResultEvent(tool="other", output="nobody's"),
    )

    (step,) = (step for step in trajectory_of(a_report(events=events))["steps"] if step.get("tool_calls"))

    names = {call["tool_call_id"]: call["function_name"] for call in step["tool_calls"]}
    results = step["observation"]["results"]
    assert [(names.get(each.get("source_call_id")), each["content"]) for each in results] == [
        ("search", "found"), ("read", "text"), (None, "nobody's")
    ]  # fmt: skip


def test_a_plan_is_a_file_of_its_suite_and_runner() -> None:
    assert list(exported("atif", a_record(), a_record("a.b", repetition=2), a_record("none", report=None))) == [
        "maths/solver/sum.json",
        "maths/solver/a.b~2.json",
    ]


def test_no_two_plans_have_one_file() -> None:
    names = ["a", "a-2", "a/b", "a-b", "A b", "..", "../a"]
    records = [a_record(name, repetition=number) for name in names for number in (1, 2)]

    files = exported("atif", *records)

    assert len(files) == len(records)
    assert not any(".." in file.split("/") for file in files)


def test_a_session_that_does_not_show_its_prompt_begins_with_what_the_case_asks() -> None:
    document = trajectory_of(a_report(prompt=None))

    assert document["steps"][0] == {"step_id": 1, "source": "user", "message": "What is 2 + 2?"}
    assert report_of("atif", session=json.dumps(document)).prompt == "What is 2 + 2?"


ODD_EVENTS = {
    "nothing": (),
    "result without call": (ToolResultEvent(output="x"),),
    "result of a later step": (
        ToolCallEvent(tool="a", call_id="1"), ToolCallEvent(tool="b", call_id="2"), ToolResultEvent(call_id="1"),
        MessageEvent(role="assistant", text="meanwhile"), ToolResultEvent(call_id="2"),
    ),
    "calls of one id": (ToolCallEvent(tool="a", call_id="1"), ToolCallEvent(tool="b", call_id="1", arguments="text")),
    "several texts of one reply": (
        MessageEvent(role="assistant", text="so\n\nfar", phase="commentary"), MessageEvent(role="assistant", text="so"),
        MessageEvent(role="assistant", text="good", phase="final"),
    ),
    "command without call": (CommandEvent(command="ls"),),
    "other roles": (MessageEvent(role="developer", text="be kind"), MessageEvent(role="user", text="hi")),
}  # fmt: skip


@pytest.mark.parametrize("events", ODD_EVENTS.values(), ids=ODD_EVENTS)
def test_whatever_a_session_shows_its_trajectory_is_valid(events: tuple[Any, ...]) -> None:
    report = a_report(events=events, final_output=None)

    document = trajectory_of(report)

    check_valid(document)
    again = trajectory_of(report_of("atif", session=json.dumps(document)))
    assert (again["steps"], again["extra"].get("events")) == (document["steps"], document["extra"].get("events"))


def test_a_trajectory_of_another_program_has_its_commands_by_the_kinds_of_tools() -> None:
    step = {"step_id": 2, "source": "agent", "message": [{"type": "text", "text": "I look."}],
            "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "c", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 10, "completion_tokens": 2, "cost_usd": 0.5}}  # fmt: skip
    look = {"step_id": 1, "source": "user", "message": "Look."}
    agent, steps = {"name": "other", "version": "2.0"}, [look, step, {**step, "step_id": 3}]
    document = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": steps}

    report = report_of("atif", session=json.dumps(document, indent=1))

    assert (report.prompt, report.agent_version, report.commands) == ("Look.", "2.0", ("ls", "ls"))
    assert (report.usage.input_tokens, report.usage.cached_input_tokens, report.usage.cost_usd) == (20, None, 1.0)
    assert [use.result.output for use in report.tool_uses if use.result] == ["a.txt", "a.txt"]


@pytest.mark.parametrize("text", ["", "no json", "[]", lines({"type": "result"}), '{"steps": 3}'])
def test_what_is_no_trajectory_is_an_error_in_words(text: str) -> None:
    with pytest.raises(AssertionError, match="it is no"):
        report_of("atif", session=text)
