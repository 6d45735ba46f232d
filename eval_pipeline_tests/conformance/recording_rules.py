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
    "mini": "mini-swe-agent", "amp": "command",
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
    text: str
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
    text = recording.text("stdout.jsonl") or ""
    return Run(
        cli=recording.cli.split("-")[0],
        expected=recording.json("expected.json"),
        meta=recording.json("meta.json"),
        text=text,
        printed=tuple(record for line in text.split("\n") for record in _objects(line)),
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


# Where the recorded facts hold no answer that a report could have


def a_run_that_printed_nothing_is_unknown(run: Run, report: SessionReport) -> None:
    """What was printed is not in the recording: nothing is made up, and the session is no success."""
    assert run.printed == ()
    an_answer_that_broke_off_is_none(run, report)
    assert (report.usage, report.model_calls) == (Usage(), None)
    assert {event.kind for event in report.events} <= {"error"}


def the_last_text_is_the_answer(run: Run, report: SessionReport) -> None:
    """aider asked for what its model named, then ended: the answer is what the model said last."""
    (shell,) = (action["cmd"] for step in run.expected["actions_asked"] for action in step if action["kind"] == "shell")
    assert report.failure_class is None
    assert report.final_output is not None
    assert shell in report.final_output
    assert run.expected["final_output"] not in report.final_output
    applied = {event.path for event in report.events if isinstance(event, FileWriteEvent)}
    changed = {change.split()[-1] for change in run.expected["workspace_changes"]}
    assert applied == {path for path in changed if not path.startswith(".aider")}


def a_program_without_an_answer_has_none(run: Run, report: SessionReport) -> None:
    """Its exit code is the failure, which the engine knows (`test_command_adapter.py`)."""
    assert run.expected["exit_code"] == 1
    assert (report.final_output, report.usage, report.events) == ("", Usage(), ())


def an_answer_that_broke_off_is_none(run: Run, report: SessionReport) -> None:
    """The recorded facts hold the answer that the script wanted to give; what the CLI printed has none."""
    assert report.failure_class is not None
    assert report.error
    assert report.final_output is None
    served = run.expected["served"]["usage"]["gross_input_tokens"]
    assert report.usage.input_tokens is None or report.usage.input_tokens <= served


Rule = Callable[[Run, SessionReport], None]


@dataclass(frozen=True, slots=True)
class RecordedDifference:
    """A deliberate difference: why, the runs that it concerns, what holds instead, and the rules that hold still."""

    reason: str
    concerns: Callable[[Run], bool]
    check: Rule
    rules: tuple[Rule, ...]


RULES: tuple[Rule, ...] = (
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
_OF_ANSWERS = (usage_is_what_was_served, the_final_output_is_the_answer, a_success_has_no_failure_class)
_BESIDE_ANSWERS = tuple(rule for rule in RULES if rule not in _OF_ANSWERS)


def _broke_off(run: Run) -> bool:
    """By exit code 0, or by tokens of 0 in the result: of a reply that was served."""
    if run.expected["script"] not in ("drop", "err_midstream", "garbage"):
        return False
    counted = [record.get("stats", {}).get("total_tokens") for record in run.printed]
    served = run.expected["served"]["usage"]["gross_input_tokens"]
    return run.expected["exit_code"] == 0 or (0 in counted and served > 0)


def _ended_before_the_answer(run: Run) -> bool:
    wanted = run.expected["final_output"]
    return run.cli == "aider" and run.expected["exit_code"] == 0 and wanted is not None and wanted not in run.text


DIFFERENCES: tuple[RecordedDifference, ...] = (
    RecordedDifference(
        "a reply that broke off in the stream is no answer, and its tokens are not known",
        _broke_off,
        an_answer_that_broke_off_is_none,
        _BESIDE_ANSWERS,
    ),
    RecordedDifference(
        "what the CLI printed (60,000 lines) is not in the recording, and is unknown; `real_clis` has it of each CLI",
        lambda run: run.expected["script"] == "big" and run.meta["stdout_json_lines"] > 0 and not run.printed,
        a_run_that_printed_nothing_is_unknown,
        (),
    ),
    RecordedDifference(
        "the CLI cut its own output: there is no result, whatever the exit code",
        lambda run: run.cli == "gemini" and run.expected["exit_code"] == 0 and not (run.ended or run.killed),
        an_answer_that_broke_off_is_none,
        _BESIDE_ANSWERS,
    ),
    RecordedDifference(
        "an API error as the answer is a failure, whatever the exit code",
        lambda run: run.cli == "qwen" and run.expected["script"] == "empty",
        an_answer_that_broke_off_is_none,
        _BESIDE_ANSWERS,
    ),
    RecordedDifference(
        "the answer of a CLI without tools is what its model said last: it ended before the script's last answer",
        _ended_before_the_answer,
        the_last_text_is_the_answer,
        tuple(rule for rule in RULES if rule not in (the_final_output_is_the_answer, shell_commands_are_commands)),
    ),
    RecordedDifference(
        "Amp calls no model but its own service, so it is a program like any other: printing nothing, it has no answer",
        lambda run: run.cli == "amp" and not run.printed,
        a_program_without_an_answer_has_none,
        (),
    ),
)


def difference_of(run: Run) -> RecordedDifference | None:
    """The difference that concerns a run; None where the recorded facts hold of its report."""
    return next((difference for difference in DIFFERENCES if difference.concerns(run)), None)
