"""The words of Python checks: what they say when they fail, how failures are collected, classified and explained."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline import (
    SessionReport,
    ToolCallEvent,
    classify,
    command,
    commands,
    explain,
    file_reads,
    output,
    skills,
    soft,
    tool_calls,
)
from eval_pipeline.reports.model import CommandEvent, DetectedSkill, FileReadEvent, SkillEvent
from eval_pipeline.scores.assertions.failed_checks import class_of, collecting, questions_of, source_of

REPORT = SessionReport(
    execution_id="e",
    final_output="Done: upgraded",
    model_calls=2,
    events=(
        ToolCallEvent(tool="Bash", arguments={"command": "bash -lc 'pnpm test --watch'"}),
        CommandEvent(command="bash -lc 'pnpm test --watch'"),
        FileReadEvent(path="/w/a/SKILL.md", ok=True),
        FileReadEvent(path="/w/missing.md", ok=False),
        CommandEvent(command="git push"),
    ),
    skills=(DetectedSkill(skill="find-skills", confidence="strong", evidence=("read",)),),
)


def message_of(helper: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        helper(REPORT, *arguments, **options)
    return str(raised.value)


def test_a_failure_has_expected_observed_and_the_nearest() -> None:
    message = message_of(commands.includes, "git pull", message="must pull")

    assert message.startswith('must pull. Expected the agent to run a command matching "git pull". Observed commands: ')
    assert "normalized from shell wrapper" in message
    assert message.endswith("Nearest: git push")


def test_the_nearest_command_names_the_parts_that_differ() -> None:
    message = message_of(commands.includes, command("pnpm").arg("test").flag("--coverage"))

    assert message.endswith("Nearest: bash -lc 'pnpm test --watch' (differs in options)")


def test_a_skill_that_is_called_almost_the_same_is_shown() -> None:
    assert "Nearest: find-skills" in message_of(skills.has, "find-skill")
    assert "Observed skills: find-skills (strong)" in message_of(skills.has, "find-skills", min_confidence="explicit")


def test_a_failed_read_is_no_read() -> None:
    file_reads.includes(REPORT, "SKILL.md")
    file_reads.not_includes(REPORT, "missing.md")


def test_a_failed_load_of_a_skill_is_no_use() -> None:
    failed = SessionReport(execution_id="e", events=(SkillEvent(skill="tidy", ok=False), SkillEvent(skill="plan")))

    skills.only(failed, ["plan"])
    skills.not_has(failed, "tidy")


def test_a_tool_call_is_selected_by_its_arguments_and_its_event() -> None:
    tool_calls.has(REPORT, {"tool": "Bash", "where": lambda given: "pnpm" in given["command"]})
    tool_calls.has(REPORT, {"where": lambda given, event: event.tool == "Bash"})


def test_an_option_matches_each_value_once_whatever_the_order() -> None:
    report = SessionReport(execution_id="e", events=(CommandEvent(command="t --x ab --x a"),))
    matcher = command("t").option("--x", re.compile("a")).option("--x", "ab")

    commands.includes(report, matcher)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: commands.notIncludes, "last, not_includes, only, size; did you mean 'not_includes'?"),
        (lambda: tool_calls.includes, "no helper 'includes'; there are: at_least, at_most, before, count, has, only"),
        (lambda: tool_calls.matches, "only, sequence; did you mean 'has'?"),
        (lambda: commands.contains, "only, size; did you mean 'includes'?"),
        (lambda: commands.includes(REPORT, 3), "expected a text or a pattern, got 3"),
        (lambda: commands.includes(REPORT, {"positional": ["x"]}), "did you mean 'positionals'?"),
        (lambda: skills.has(REPORT, "x", min_confidence="sure"), "min_confidence: expected one of weak, medium"),
        (lambda: commands.count(REPORT, "x", -1), "expected a number of at least 0, got -1"),
        (lambda: commands.only(REPORT, "x"), "expected a list, got 'x'"),
    ],
)
def test_a_wrong_argument_is_named_and_is_no_failed_check(call: Any, problem: str) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError), match=re.escape(problem)):
        call()


def test_soft_failures_are_raised_together_with_a_hard_one_last() -> None:
    with pytest.raises(AssertionError) as raised, collecting():
        soft.output.includes(REPORT, "nothing")
        soft(False, "second")
        with soft:
            assert not REPORT.events, "third"
        raise AssertionError("hard")

    lines = str(raised.value).splitlines()
    assert lines[0] == "4 assertion failures collected during case execution:"
    assert [line[:2] for line in lines if line[0].isdigit()] == ["4 ", "1.", "2.", "3.", "4."]
    assert lines[-1] == "4. hard"


def test_another_exception_wins_over_soft_failures() -> None:
    with pytest.raises(ZeroDivisionError), collecting():
        soft(False, "kept")
        raise ZeroDivisionError


def test_a_soft_failure_outside_a_case_fails_at_once() -> None:
    with pytest.raises(AssertionError, match="at once"):
        soft(False, "at once")


def test_the_outer_class_wins_also_for_soft_failures_and_coroutines() -> None:
    async def check() -> None:
        output.includes(REPORT, "nothing")

    with pytest.raises(AssertionError) as raised:
        classify({"id": "outer", "label": "Outer"}, lambda: classify("inner", lambda: output.includes(REPORT, "x")))
    with pytest.raises(AssertionError) as awaited:
        asyncio.run(classify("late", check))
    with pytest.raises(AssertionError) as collected, collecting(), classify("kept", "Kept"):
        soft.output.includes(REPORT, "nothing")

    assert class_of(raised.value) == ("outer", "Outer")
    assert class_of(awaited.value) == ("late", None)
    assert class_of(collected.value) == ("kept", "Kept")


def test_an_exception_that_is_no_assertion_is_classified_too() -> None:
    with pytest.raises(KeyError) as raised:
        classify("broken", lambda: dict[str, int]()["x"])

    assert class_of(raised.value) == ("broken", None)


def test_questions_and_lines_are_those_of_the_user() -> None:
    with pytest.raises(AssertionError) as plain, explain("Why not?"):
        assert not REPORT.events
    with pytest.raises(AssertionError) as helped:
        file_reads.includes(REPORT, "README", explain=lambda facts: f"Why {facts['expected']}?")

    (question,) = questions_of(helped.value)
    assert [asked.text for asked in questions_of(plain.value)] == ["Why not?"]
    assert question.text == 'Why read a file matching "README"?'
    assert source_of(helped.value) == question.source
    assert question.source is not None and Path(question.source.path) == Path(__file__)


@pytest.mark.parametrize(
    ("helper", "unwanted", "question"),
    [
        (commands.not_includes, "git push", 'not run a command matching "git push". Why did you do that?'),
        (file_reads.not_includes, "SKILL.md", 'not read a file matching "SKILL.md". Why did you do that?'),
        (skills.not_has, "find-skills", 'not use the skill "find-skills". Why did you do that?'),
        (commands.includes, "git pull", 'run a command matching "git pull". Why did you not do that?'),
        (skills.has, "finder", 'use the skill "finder". Why did you not do that?'),
    ],
)
def test_the_agent_is_asked_why_it_did_what_it_should_not(helper: Any, unwanted: str, question: str) -> None:
    with pytest.raises(AssertionError) as raised:
        helper(REPORT, unwanted)

    (asked,) = questions_of(raised.value)
    assert asked.text == f"You were expected to {question}"


def test_planned_commands_are_checked_like_those_of_a_session() -> None:
    commands.first(["pnpm install", "pnpm test"], command("pnpm").arg("install"))
