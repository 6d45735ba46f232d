"""What mini-swe-agent prints: its steps as text, for a session without a trajectory (a killed one has none).

A step has the model's words, one block for each command, and their results in the same order. The terminal's width has
wrapped long lines. Tokens are not printed. Sources: recordings of 2.4.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from eval_pipeline.agents.session_endings import Ending, ReadSession, cut_short, failed, with_answer
from eval_pipeline.agents.session_entries import Entry, ToolCall, ToolOutcome, spoken
from eval_pipeline.failures import MAX_STEPS

SUBMISSION = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_STEP = re.compile(r"^mini-swe-agent \(step (\d+), \$[\d.]+\):\n", re.MULTILINE)
_RULE = re.compile(r"^─{20,}\n", re.MULTILINE)
_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RESULT = re.compile(
    r"^Tool:\n<returncode>\n(-?\d+)\n<output>\n(.*?)(?=\n*^(?:Tool:\n<returncode>|<exception_info>|Exit:\n)|\n*\Z)",
    re.MULTILINE | re.DOTALL,
)
_EXIT = re.compile(r"^Exit:\n(.*?)(?=^Saved trajectory to |\Z)", re.MULTILINE | re.DOTALL)
_ERROR = re.compile(r"\A(?:litellm\.)?\w*(?:Error|Exception)\b")


def read_printed(printed: str, stderr: str | None) -> ReadSession:
    """Return the session that a text shows."""
    begins = [*_STEP.finditer(printed)]
    ends = [*(match.start() for match in begins[1:]), len(printed)]
    steps = [printed[begin.end() : end] for begin, end in zip(begins, ends, strict=False)]
    entries = tuple(entry for number, step in enumerate(steps, start=1) for entry in _entries(step, number))
    exits = _EXIT.search(printed[begins[-1].start() if begins else 0 :])
    return ReadSession(
        entries=entries,
        ending=_ending(exits[1].strip() if exits is not None else None, bool(steps), stderr),
        model_calls=len(steps),
    )


def _entries(step: str, number: int) -> Iterator[Entry]:
    """The entries of a step; a command has the id of its place, by which its result is found."""
    shown, *results = re.split(r"^(?=Tool:\n<returncode>)", _RULE.sub("", step), flags=re.MULTILINE)
    yield from spoken(_EXIT.sub("", _BLOCK.sub("", shown)).strip(), at=None, line=number)
    for place, command in enumerate(match[1].rstrip("\n") for match in _BLOCK.finditer(shown)):
        if SUBMISSION not in command:
            yield ToolCall(id=f"{number}.{place}", tool="bash", raw_arguments={"command": command}, line=number)
    for place, match in enumerate(filter(None, map(_RESULT.match, results))):
        exit_code = int(match[1])
        if exit_code >= 0:
            yield ToolOutcome(
                id=f"{number}.{place}", output=match[2], is_error=exit_code != 0, exit_code=exit_code, line=number
            )


def _ending(exits: str | None, printed: bool, stderr: str | None) -> Ending:
    if exits is None:
        return cut_short(printed=printed, stderr=stderr)
    if exits == "LimitsExceeded":
        return failed(exits, failure=MAX_STEPS)
    return failed(" ".join(exits.split())) if _ERROR.match(exits) else with_answer(exits)
