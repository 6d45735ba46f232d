"""What the log of a session has and its standard output has not, put among the entries of standard output.

A log is read as answers of the model in order. What an answer has beyond standard output is placed before the first
record of standard output that belongs to it: a tool call by its id, words by their text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from eval_pipeline.reports.model import MessageEvent, RetryEvent

_FACT = re.compile(r"(?P<name>Error|Exit Code|Signal|Background PIDs|Process Group PGID): (?P<value>.*)")
_WRAPPING = ("<untrusted_context>", "</untrusted_context>")
_OUTPUT = "Output: "

Unprinted = MessageEvent | RetryEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """The result of a tool call in a log. `exit_code` is None where the log has none."""

    output: str = ""
    exit_code: int | None = None
    called_at: str | None = None
    ended_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedAnswer:
    """One answer of the model in a log, with the ids of its tool calls and its texts; `before` is not printed."""

    calls: Mapping[str, LoggedCall]
    words: frozenset[str] = frozenset()
    before: tuple[Unprinted, ...] = ()


class LogCursor:
    """The place in a log that the records of standard output have come to."""

    def __init__(self, answers: Sequence[LoggedAnswer]) -> None:
        self._answers = answers
        self._next = 0
        self._calls = {id_: call for answer in answers for id_, call in answer.calls.items()}
        self._of_call: dict[str, list[int]] = {}
        self._of_words: dict[str, list[int]] = {}
        for at, answer in enumerate(answers):
            for id_ in answer.calls:
                self._of_call.setdefault(id_, []).append(at)
            for words in answer.words:
                self._of_words.setdefault(words, []).append(at)

    def call(self, call_id: str | None) -> LoggedCall:
        """Return what the log knows of a call; an empty result where it knows nothing."""
        return self._calls.get(call_id or "", LoggedCall())

    def before_call(self, call_id: str | None, line: int) -> Iterator[Unprinted]:
        """Yield what precedes a tool call that standard output has in this line."""
        return self._through(self._of_call.get(call_id or "", ()), line)

    def before_words(self, words: str | None, line: int) -> Iterator[Unprinted]:
        """Yield what precedes words that standard output has in this line."""
        return self._through(self._of_words.get(words or "", ()), line)

    def rest(self, line: int) -> Iterator[Unprinted]:
        """Yield what belongs to no record of standard output."""
        return self._up_to(len(self._answers), line)

    def _through(self, places: Sequence[int], line: int) -> Iterator[Unprinted]:
        """Yield what precedes the next answer at one of these places, in ascending order."""
        at = bisect_left(places, self._next)
        return self._up_to(places[at] + 1 if at < len(places) else self._next, line)

    def _up_to(self, end: int, line: int) -> Iterator[Unprinted]:
        passed, self._next = self._answers[self._next : end], end
        return (replace(event, line=line) for answer in passed for event in answer.before)


def exit_code_in(result: str, printed: str) -> int | None:
    """Return the exit code below a command's output in its result for the model; None without one.

    `result` is what Gemini CLI or Qwen Code sends the model, `printed` the output itself. Gemini CLI adds an exit code
    only if it is not 0.
    """
    facts = _facts(result, printed)
    if "Exit Code" in facts:
        code = facts["Exit Code"]
        return int(code) if code.removeprefix("-").isdecimal() else None
    return 0 if "Process Group PGID" in facts and not facts.keys() & {"Error", "Signal"} else None


def _facts(result: str, printed: str) -> dict[str, str]:
    """Return the named lines at the end of a text, behind the output."""
    _, found, rest = result.partition(_OUTPUT)
    facts: dict[str, str] = {}
    lines = [line for line in rest.removeprefix(printed).strip().split("\n") if line not in _WRAPPING]
    for line in reversed(lines) if found else ():
        match = _FACT.fullmatch(line)
        if match is None or match["name"] in facts:
            break
        facts[match["name"]] = match["value"]
    return facts
