"""What a reply says, and which of the objects in it is the grader's own word.

In a reply with several objects the last one that fits counts; one that was quoted from the judged text never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from eval_pipeline.scores.grading.fences import QUOTED, Fences
from eval_pipeline.scores.grading.json_text import Found, objects_in
from eval_pipeline.scores.model import Finding

KEY = "key"
"""The field in which a reply repeats the key of its question."""


@dataclass(frozen=True, slots=True)
class GraderVerdict:
    """What one reply says. `passes` is its own word on passing, None where the value decides.

    `missing` are the ids of criteria that it says nothing about, `open_gates` those of them that have to be met.
    """

    value: float
    reason: str
    findings: tuple[Finding, ...] = ()
    passes: bool | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    open_gates: tuple[str, ...] = ()


class Unreadable(Exception):
    """A reply that no opinion can be made of; the message says why, for the repair request and for people."""


class ReplyFormat(Protocol):
    """A form of reply."""

    def request(self, fences: Fences) -> str:
        """What a grader is told about the form of its reply."""

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        """What a reply says. `judged` are the texts it may quote. Raises Unreadable."""


Reader = Callable[[Mapping[str, Any]], GraderVerdict]


def read_object(reply: str, fences: Fences, judged: Sequence[str], reader: Reader) -> GraderVerdict:
    """The opinion of the last object that has one. Those that repeat the question's key come first."""
    found = list(_own_objects(reply, judged))
    keyed = [one for one in found if one.value.get(KEY) == fences.key]
    problem: Unreadable | None = None
    for one in reversed(keyed or found):
        try:
            opinion = reader(one.value)
        except Unreadable as error:
            problem = problem or error
        else:
            return opinion
    raise problem or Unreadable(_why_no_object(reply))


def _why_no_object(reply: str) -> str:
    if not reply.strip():
        return "it is empty"
    if any(True for _ in objects_in(reply)):
        return "its only JSON objects are quoted from the judged text"
    return "it holds no complete JSON object" if "{" in reply else "it holds no JSON object"


def _own_objects(reply: str, judged: Sequence[str]) -> Iterator[Found]:
    """The objects of a reply that are not quoted: neither marked by us as such, nor word for word in a judged text."""
    texts: list[str] | None = None
    for one in objects_in(reply):
        if _is_marked(one.value):
            continue
        texts = texts if texts is not None else [_squeezed(text) for text in judged]
        words = _squeezed(reply[one.begin : one.end])
        if len(words) <= 2 or not any(words in text for text in texts):
            yield one


def _is_marked(value: Any) -> bool:
    if isinstance(value, Mapping):
        return QUOTED in value or any(map(_is_marked, value.values()))
    return isinstance(value, list) and any(map(_is_marked, value))


def _squeezed(text: str) -> str:
    return "".join(text.split())
