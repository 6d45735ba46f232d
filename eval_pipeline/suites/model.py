"""What a suite is: named cases with what goes in, what is expected and who evaluates it. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import fingerprint, to_json

JsonMap = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation.

    `content` is text, a list of parts (`{"type": "text", "value": …}` and the like) or a plain object.
    """

    role: str
    content: Any
    name: str | None = None
    tool_calls: tuple[JsonMap, ...] = ()

    @property
    def text(self) -> str:
        """The text of the message: its text parts joined by newlines, or an object as JSON."""
        return content_text(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSpec:
    """One evaluator as a suite asks for it.

    `minimum` is the gate: the least score that lets the verdict stand, or None for no gate. `config` holds the
    evaluator's own arguments under their YAML names.
    """

    type: str
    name: str
    weight: float = 1.0
    minimum: float | None = None
    negate: bool = False
    failure_class: str | None = None
    config: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of a suite.

    `threshold` is the least weighted mean score in [0, 1] that passes. `runners` restricts the case to runners of
    these names. `line` is the 1-based line it begins at.
    """

    id: str
    input: tuple[Message, ...]
    criteria: str | None = None
    expected_output: tuple[Message, ...] = ()
    evaluators: tuple[EvaluatorSpec, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: JsonMap = field(default_factory=dict)
    threshold: float | None = None
    runners: tuple[str, ...] | None = None
    timeout_s: float | None = None
    expected_fail: bool = False
    line: int | None = None

    def visible(self) -> object:
        """What a target can see of the case, as canonical JSON takes it: part of a cell's identity."""
        return [(message.role, message.content, message.name, message.tool_calls) for message in self.input]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """What a suite asks of its execution; None where it leaves the choice to the project or the command line."""

    runners: tuple[str, ...] = ()
    repetitions: int | None = None
    threshold: float | None = None
    concurrency: int | None = None
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A named set of cases, as loaded from one file.

    `revision` is the hash of its content (64 hex digits). `errors` are the cases that could not be loaded, one error
    each: they are counted and shown, and the others run.
    """

    name: str
    path: Path
    format: str
    revision: str
    cases: tuple[Case, ...]
    description: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonMap = field(default_factory=dict)
    settings: SuiteSettings = field(default_factory=SuiteSettings)
    errors: tuple[InputError, ...] = ()
    warnings: tuple[str, ...] = ()


def content_text(content: Any) -> str:
    """The text in a message's content; parts without text (images) contribute nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(text for part in content if (text := _part_text(part)))
    return to_json(content).decode() if content is not None else ""


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type", "text") in ("text", "output_text", "input_text"):
        text = part.get("value", part.get("text", ""))
        return text if isinstance(text, str) else ""
    return ""


def content_revision(*content: object) -> str:
    """The revision of a suite: the fingerprint of everything its file says."""
    return fingerprint(content)
