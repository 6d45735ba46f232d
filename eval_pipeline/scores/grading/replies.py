"""Reading a grader's reply, and finding the grader's own object in it.

Of several objects the last valid one counts; an object quoted from the judged text never counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from eval_pipeline.scores.grading.disguises import undisguised
from eval_pipeline.scores.grading.fences import QUOTED, Fences
from eval_pipeline.scores.grading.json_text import FoundObject, objects_in
from eval_pipeline.scores.model import Finding

KEY = "key"
"""The field in which a reply repeats the key of its question."""


@dataclass(frozen=True, slots=True)
class GraderVerdict:
    """The content of one reply. `passes` is the grader's own decision, None where the value decides.

    `missing` are the ids of criteria without a check, `open_gates` the required ones among them.
    """

    value: float
    reason: str
    findings: tuple[Finding, ...] = ()
    passes: bool | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    open_gates: tuple[str, ...] = ()


class UnreadableReply(Exception):
    """A reply without a readable verdict. The message names the problem, for the repair request and for people."""


class ReplyFormat(Protocol):
    """A format of replies."""

    def request(self, fences: Fences) -> str:
        """Return the instruction about the reply's format."""

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        """Read a reply. `judged` are the texts that it may quote. Raises UnreadableReply."""


Reader = Callable[[Mapping[str, Any]], GraderVerdict]


def read_object(reply: str, fences: Fences, judged: Sequence[str], reader: Reader) -> GraderVerdict:
    """Return the verdict of the last valid object. Objects that repeat the question's key take precedence."""
    objects = list(_own_objects(reply, judged))
    keyed = [candidate for candidate in objects if candidate.value.get(KEY) == fences.key]
    problem: UnreadableReply | None = None
    for candidate in reversed(keyed or objects):
        try:
            verdict = reader(candidate.value)
        except UnreadableReply as error:
            problem = problem or error
        else:
            return verdict
    raise problem or UnreadableReply(_why_no_object(reply))


def _why_no_object(reply: str) -> str:
    if not reply.strip():
        return "it is empty"
    if any(True for _ in objects_in(reply)):
        return "its only JSON objects are quoted from the judged text"
    return "it holds no complete JSON object" if "{" in reply else "it holds no JSON object"


def _own_objects(reply: str, judged: Sequence[str]) -> Iterator[FoundObject]:
    """Yield the objects of a reply that are not quoted: not marked by us, and not in a judged text, neither verbatim
    nor in a disguise (escapes, entities, other quotes)."""
    texts: list[str] | None = None
    for candidate in objects_in(reply):
        if _is_marked(candidate.value):
            continue
        texts = texts if texts is not None else list(_compared(judged))
        words = {_squeezed(form) for form in _forms(reply[candidate.begin : candidate.end])}
        if min(map(len, words)) <= 2 or not any(form in text for text in texts for form in words):
            yield candidate


def _compared(judged: Sequence[str]) -> Iterator[str]:
    for text in judged:
        yield from map(_squeezed, _forms(text))


def _forms(text: str) -> set[str]:
    """Return a text as it is, and as a reader of its escapes has it, with quotes of one kind."""
    plain = undisguised(text)
    return {text, plain.replace("'", '"')}


def _is_marked(value: Any) -> bool:
    if isinstance(value, Mapping):
        return QUOTED in value or any(map(_is_marked, value.values()))
    return isinstance(value, list) and any(map(_is_marked, value))


def _squeezed(text: str) -> str:
    return "".join(text.split())
