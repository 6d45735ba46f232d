"""What must hold of the report of any recorded run of an agent CLI: rules, not scenarios.

A rule is given the recording (what was asked and served, known from the scripted server, and what the CLI printed) and
the report; it raises AssertionError. Where a CLI does not print a fact, the rule says so and asks for less.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from eval_pipeline.failures import failure_of_status
from eval_pipeline.reports.model import (
    CommandEvent,
    FileWriteEvent,
    RetryEvent,
    SessionReport,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
)
from eval_pipeline_tests.conformance.recorded_facts import WORKSPACE, Recording

CLIS = {
    "claude": "claude-code", "codex": "codex", "copilot": "copilot", "opencode": "opencode", "gemini": "gemini",
    "qwen": "qwen", "pi": "pi", "openhands": "openhands", "aider": "aider",
    "mini": "mini-swe-agent",
}  # fmt: skip
_ENDS = {
    "claude": "result", "codex": "turn.completed", "copilot": "session.shutdown", "opencode": "step_finish",
    "gemini": "result", "qwen": "assistant", "pi": "message_end",
}  # fmt: skip
_WITHOUT_EXIT_CODES = {"gemini", "qwen"}
_ALSO_FITTING = {400: {"model-rejected", "bad-request"}}
_EXIT = re.compile(r"\bexit (\d+)\s*\Z")


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run, read without our normalizers."""

    cli: str
    expected: dict[str, Any]
    meta: dict[str, Any]
    printed: tuple[dict[str, Any], ...]

    @property
    def summed(self) -> bool:
        """Whether the facts are sums over several runs of one thread, of which one is printed here."""
        return self.expected["script"] is None

    @property
    def killed(self) -> bool:
        return self.expected["killed_with"] is not None

    @property
    def ended(self) -> bool:
        """Whether the CLI printed the record that carries usage."""
        return any(record.get("type") == _ENDS.get(self.cli, "") for record in self.printed)

    @property
    def statuses(self) -> list[int | None]:
        return self.expected["served"].get("statuses") or []

    @property
    def finishes(self) -> list[str | None]:
        """Why the model stopped, reply by reply."""
        return self.expected["served"].get("finishes") or []

    @property
    def refused_at_last(self) -> bool:
        """Whether the last request was answered with an error."""
        return bool(self.statuses) and (self.statuses[-1] or 0) >= 400

    def actions(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """The actions of these kinds that were served as tool calls: a run that stopped early got the first of them,
        and one that printed a single object records none."""
        actions = [action for step in self.expected["actions_asked"] for action in step]
        served = 0 if self.only_the_result else len(self.expected["served"].get("tools_called") or ())
        return (action for action in actions[:served] if action["kind"] in kinds)

    @property
    def only_the_result(self) -> bool:
        """Whether the CLI was asked for one JSON object instead of a stream."""
        return len(self.printed) == 1 and self.printed[0].get("type") == "result"


def read_run(recording: Recording) -> Run:
    lines = (recording.text("stdout.jsonl") or "").split("\n")
    return Run(
        cli=recording.cli.split("-")[0],
        expected=recording.json("expected.json"),
        meta=recording.json("meta.json"),
        printed=tuple(record for line in lines for record in _objects(line)),
    )


def _objects(line: str) -> Iterator[dict[str, Any]]:
    try:
        value = json.loads(line)
    except ValueError:
        return
    if isinstance(value, dict):
        yield value


# Usage


def usage_is_what_was_served(run: Run, report: SessionReport) -> None:
    """The printed usage of a completed run is the served one. Of replies that were cut off in the stream a CLI cannot
    know all, and a run of several prints a part: then it is at most the served one."""
    served = run.expected["served"].get("usage") or {}
    if not run.ended:
        assert report.usage == Usage(), "usage is known although none was printed"
        return
    if not any(served.values()) and report.failure_class is not None:
        assert report.usage == Usage(), "usage of a failed run that was served nothing"
        return
    ours = (report.usage.input_tokens, report.usage.cached_input_tokens, report.usage.output_tokens)
    names = ("gross_input_tokens", "cached_input_tokens", "output_tokens_with_reasoning")
    theirs = tuple(served[name] for name in names)
    cut_off = any(isinstance(event, RetryEvent) and event.status is None for event in report.events)
    if report.failure_class is None and not run.summed and not cut_off:
        assert ours == theirs
    else:
        assert all(
            count is not None and count <= served_count for count, served_count in zip(ours, theirs, strict=True)
        )


def model_calls_are_no_more_than_were_served(run: Run, report: SessionReport) -> None:
    assert report.model_calls is None or report.model_calls <= run.expected["served"]["model_requests"]


# The end


def the_final_output_is_the_answer(run: Run, report: SessionReport) -> None:
    """Of a run of several turns the facts do not hold the answer, but there is one."""
    if run.cli in ("copilot", "qwen", "aider") and run.expected["script"] == "maxtok":
        return  # it prints a cut answer like any other
    if run.cli == "mini":
        return  # it submits its answer by a command, which is no answer of the script
    if run.summed:
        assert (report.final_output is not None) == (report.failure_class is None)
    else:
        assert report.final_output == run.expected["final_output"]


def a_failure_has_its_class(run: Run, report: SessionReport) -> None:
    refused = [status for status in run.statuses if status is not None and status >= 400]
    all_refused = bool(run.statuses) and len(refused) == len(run.statuses)
    if not (all_refused or run.killed or run.expected["exit_code"] == 1):
        return
    assert report.failure_class is not None
    assert report.error
    assert report.final_output is None
    last = run.statuses[-1] if run.statuses else None
    if last is not None and last >= 400 and not run.killed:
        assert report.failure_class in _ALSO_FITTING.get(last, {failure_of_status(last).id})


def a_success_has_no_failure_class(run: Run, report: SessionReport) -> None:
    cut = run.finishes[-1:] == ["length"]
    if run.expected["exit_code"] == 0 and not run.killed and run.ended and not cut and not run.refused_at_last:
        assert (report.failure_class, report.error) == (None, None)


def retries_are_recorded(run: Run, report: SessionReport) -> None:
    """One event for each retry that the CLI prints. Codex repeats a request a few times before it prints anything."""
    if run.cli == "aider":
        return  # it prints them as text
    printed = sum(map(_is_retry, run.printed))
    retries = [event for event in report.events if isinstance(event, RetryEvent)]
    assert len(retries) == printed
    refused = [status for status in run.statuses if status is not None and status >= 400]
    named = Counter(event.status for event in retries if event.status is not None)
    if run.cli == "claude" and refused and run.statuses[-1] == 200 and run.expected["exit_code"] == 0:
        assert not Counter(refused) - named


def _is_retry(record: dict[str, Any]) -> bool:
    if record.get("subtype") == "api_retry" or record.get("type") in ("assistant.turn_retry", "auto_retry_start"):
        return True
    return record.get("type") == "error" and str(record.get("message")).startswith("Reconnecting")


# What was done


def shell_commands_are_commands(run: Run, report: SessionReport) -> None:
    if run.killed and (run.cli == "opencode" or not run.printed):
        return  # the call is printed when it is finished, or with everything else at the end
    commands = [event for event in report.events if isinstance(event, CommandEvent)]
    for action in run.actions("shell"):
        actual = [event for event in commands if event.command == action["cmd"]]
        assert len(actual) == 1, f"{len(actual)} commands {action['cmd']!r}"
        (command,) = actual
        ended_itself = _EXIT.search(action["cmd"])
        if run.cli in _WITHOUT_EXIT_CODES:
            assert command.exit_code is None
        elif ended_itself is not None and run.cli == "openhands":
            assert command.exit_code is None  # its shell is one for the whole session, and was ended
        elif ended_itself is not None and not run.killed:
            assert command.exit_code == int(ended_itself[1])
        elif report.failure_class is None:
            assert command.exit_code in (0, None)
        assert (command.exit_code is None) or command.output is not None


def reads_are_file_reads(run: Run, report: SessionReport) -> None:
    """Codex has no tool to read with: it reads through the shell."""
    for action in run.actions("read"):
        assert action["path"] in report.file_reads


def writes_are_file_writes(run: Run, report: SessionReport) -> None:
    """Codex prints a patch that was applied; nothing of a redirect in a shell, nor of a write that was refused."""
    written = {event.path for event in report.events if isinstance(event, FileWriteEvent)}
    if run.cli == "mini":
        return  # it writes through the shell
    if run.cli == "aider":
        return  # it has no tools; the text of its answer is what it applies
    if run.cli != "codex":
        assert {action["path"] for action in run.actions("write", "edit")} == written
    else:
        changed = {change["path"] for item in _items(run, "file_change") for change in item["changes"]}
        assert {path.removeprefix(f"{WORKSPACE}/") for path in changed} == written


def _items(run: Run, type_: str) -> Iterator[dict[str, Any]]:
    return (record["item"] for record in run.printed if record.get("item", {}).get("type") == type_)


def skills_that_loaded_are_detected(run: Run, report: SessionReport) -> None:
    failed = {event.call_id for event in report.events if isinstance(event, ToolResultEvent) and event.is_error}
    calls = {event.call_id for event in report.tool_calls}
    for action in run.actions("skill"):
        if calls - failed:
            assert action["name"] in {skill.skill for skill in report.skills}


def tool_calls_are_recorded(run: Run, report: SessionReport) -> None:
    """Claude prints every tool call by its name, a mistaken one with its error; Codex prints only what it ran."""
    if run.cli == "codex" or run.expected["served"].get("tools_called") is None:
        return
    calls = [event for event in report.events if isinstance(event, ToolCallEvent)]
    if not run.only_the_result:
        served = Counter(run.expected["served"]["tools_called"])
        assert not Counter(call.tool for call in calls) - served
        submitted = Counter(bash=int(run.cli == "mini" and report.final_output is not None))
        assert run.killed or not served - submitted - Counter(call.tool for call in calls)
    if any(run.actions("unknown", "badargs")):
        errors = [event for event in report.events if isinstance(event, ToolResultEvent) and event.is_error]
        assert {event.call_id for event in errors} & {call.call_id for call in calls}


def the_session_is_named(run: Run, report: SessionReport) -> None:
    session = run.meta.get("session_id")
    assert session is None or report.session_id == session
    assert run.cli in ("aider", "mini") or report.unparsed_lines == run.meta.get(
        "stdout_nonjson_lines", report.unparsed_lines
    )


def an_answer_that_broke_off_is_none(run: Run, report: SessionReport) -> None:
    """The recorded facts hold the answer that the script wanted to give; what the CLI printed has none."""
    assert report.failure_class is not None
    assert report.error
    assert report.final_output is None
    served = run.expected["served"]["usage"]["gross_input_tokens"]
    assert report.usage.input_tokens is None or report.usage.input_tokens <= served


def difference_of(run: Run) -> str | None:
    """Why the recorded facts do not hold of a report, where they cannot; None where they do."""
    if run.cli in ("claude", "codex", "copilot"):
        return None
    if run.expected["script"] in ("drop", "err_midstream", "garbage"):
        return "a reply that broke off in the stream is no answer, and its tokens are not known"
    if run.cli == "gemini" and run.expected["exit_code"] == 0 and not run.ended:
        return "the CLI cut its own output: there is no result, whatever the exit code"
    if run.cli == "qwen" and run.expected["script"] == "empty":
        return "an API error as the answer is a failure, whatever the exit code"
    return None


RULES: tuple[Callable[[Run, SessionReport], None], ...] = (
    usage_is_what_was_served,
    model_calls_are_no_more_than_were_served,
    the_final_output_is_the_answer,
    a_failure_has_its_class,
    a_success_has_no_failure_class,
    retries_are_recorded,
    shell_commands_are_commands,
    reads_are_file_reads,
    writes_are_file_writes,
    skills_that_loaded_are_detected,
    tool_calls_are_recorded,
    the_session_is_named,
)
OF_ANSWERS = (usage_is_what_was_served, the_final_output_is_the_answer, a_success_has_no_failure_class)
"""The rules that do not hold where a difference is declared."""
