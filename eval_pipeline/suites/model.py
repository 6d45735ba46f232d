"""The model of a suite: named cases with their input, expectations and evaluators. Values only."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import canonical_json, fingerprint, to_json
from eval_pipeline.suites.simulation import SimulatedUser, ToolMock
from eval_pipeline.suites.solutions import Solution
from eval_pipeline.suites.workspace import Hook, WorkspaceSpec

JsonMap = Mapping[str, Any]
Strategy = Literal["pass_at_k", "pass_all", "mean", "confidence_interval", "on_failure"]
Incomplete = Literal["error", "grade", "fail"]
INCOMPLETE: tuple[Incomplete, ...] = get_args(Incomplete)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation.

    `content` is text, a list of parts or a plain object. Parts are `{"type": "text", "value": …}`, `{"type": "file",
    "value": <path as shown>, "text": <content>, "resolved_path": …}` (a file that is not text has `sha256` instead of
    `text`) and `{"type": "image", "value": <path as shown>, "media_type": …, "source": "data:…;base64,…"}`.
    """

    role: str
    content: Any
    name: str | None = None
    tool_calls: tuple[JsonMap, ...] = ()

    @property
    def text(self) -> str:
        """The text of the message: its text parts joined by newlines, or an object as JSON."""
        return content_text(self.content)

    def fingerprint_fields(self) -> Message:
        """The message for fingerprints: without this machine's paths of attached files."""
        if not isinstance(self.content, list) or not any(map(_is_placed, self.content)):
            return self
        return replace(self, content=[_without_place(part) for part in self.content])


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSpec:
    """One evaluator of a case.

    `minimum` is the gate: the least score with which the verdict may pass, or None for no gate. `config` holds the
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
class Conversation:
    """A live conversation: the user's messages, turn by turn, each after the target's answer to the one before.

    `input` of the case comes before the first turn. `window` keeps that many of the latest exchanges (None: all).
    `on_failure` is whether the conversation continues after a turn whose evaluators fail.
    """

    turns: tuple[tuple[Message, ...], ...] = ()
    window: int | None = None
    on_failure: Literal["continue", "stop"] = "continue"

    def fingerprint_fields(self) -> Conversation:
        """The conversation for fingerprints: messages as targets receive them."""
        return replace(
            self, turns=tuple(tuple(message.fingerprint_fields() for message in turn) for turn in self.turns)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of a suite.

    `threshold` is the least weighted mean score in [0, 1] that passes. `runners` restricts the case to runners of
    these names. `line` is the 1-based line it begins at. `depends_on` names cases of the suite to execute first;
    `on_dependency_failure` is the action when one of them could not be executed. `conversation_id` and `group`
    (AgentV's `suite` of a test) are labels. `cache` is False for a case that is executed anew in every sweep.
    `repetitions`, `strategy`, `on_failure`, `early_exit`, `repeat_budget_usd` and `stop_on_error` override the
    suite's (see `SuiteSettings`).
    `budget_usd` is the cost of the case in one sweep, with one runner, after which nothing more of it is executed.
    `max_steps` limits the steps of an agent, in place of its runner's limit. `should_trigger` names skills that the
    case should trigger, or should not. A Python suite gives `prompt` (the user's only message) in place of `input`,
    `timeout_ms`, `check(report, ctx)` and `classify_failure(result)`; the functions are only where its module is.
    `origin` is the file of `line`, when that is not the suite's. A case with a simulated `user` is a conversation whose
    turns are made up while it is held. `mocks` are canned answers of tools that the target calls, `state` is the
    document that its tools begin with and change. `status` is where the case is in its life: by default only active
    cases are carried out. `model_settings` (`model`, `temperature`, `max_tokens`, `tool_mode`) go before those of a
    runner that is a model (adapter `chat`). `solution` solves it; only the adapter `oracle` receives it. `incomplete`
    overrides the suite's.
    """

    id: str
    input: tuple[Message, ...] = ()
    criteria: str | None = None
    expected_output: tuple[Message, ...] = ()
    evaluators: tuple[EvaluatorSpec, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: JsonMap = field(default_factory=dict)
    threshold: float | None = None
    runners: tuple[str, ...] | None = None
    timeout_s: float | None = None
    expected_fail: bool = False
    conversation: Conversation | None = None
    workspace: WorkspaceSpec | None = None
    depends_on: tuple[str, ...] = ()
    on_dependency_failure: Literal["skip", "fail", "run"] = "skip"
    conversation_id: str | None = None
    group: str | None = None
    cache: bool | None = None
    repetitions: int | None = None
    strategy: Strategy | None = None
    early_exit: bool | None = None
    on_failure: int | None = None
    repeat_budget_usd: float | None = None
    stop_on_error: bool | None = None
    budget_usd: float | None = None
    user: SimulatedUser | None = None
    mocks: tuple[ToolMock, ...] = ()
    state: JsonMap | None = None
    solution: Solution | None = None
    max_steps: int | None = None
    incomplete: Incomplete | None = None
    model_settings: JsonMap | None = None
    should_trigger: Mapping[str, bool] = field(default_factory=dict)
    check: Callable[..., Any] | None = field(default=None, compare=False)
    classify_failure: Callable[..., Any] | None = field(default=None, compare=False)
    difficulty: str | None = None
    status: Literal["draft", "active", "archived"] = "active"
    line: int | None = None
    origin: Path | None = None
    prompt: InitVar[str | None] = None
    timeout_ms: InitVar[float | None] = None

    def __post_init__(self, prompt: str | None, timeout_ms: float | None) -> None:
        if prompt is not None or timeout_ms is not None or self.check is not None:
            for name, value in python_fields(self, prompt, timeout_ms).items():
                object.__setattr__(self, name, value)

    def fingerprint_fields(self) -> object:
        """The parts of the case that a target receives, as canonical JSON: part of a plan's identity."""
        fields: list[object] = [_as_sent(message) for message in self.input]
        if self.conversation is not None:
            turns = [[_as_sent(message) for message in turn] for turn in self.conversation.turns]
            fields.append(["conversation", turns, self.conversation.window, self.conversation.on_failure])
        if self.user is not None:
            fields.append(["user", self.user.fingerprint_fields()])
        if self.mocks:
            fields.append(["mocks", [mock.fingerprint_fields() for mock in self.mocks]])
        if self.state is not None:
            fields.append(["state", self.state])
        if self.max_steps is not None:
            fields.append(["max_steps", self.max_steps])
        if self.model_settings:
            fields.append(["model_settings", self.model_settings])
        if self.workspace is not None:
            payload = [self.id, self.metadata] if self.workspace.tells_of_case else None  # hooks receive it
            fields.append(["workspace", self.workspace.fingerprint_fields(), payload])
        return fields

    @property
    def is_conversation(self) -> bool:
        """Whether the case takes several turns: those of the suite, or those of a simulated user."""
        return self.conversation is not None or self.user is not None

    @property
    def files(self) -> tuple[str, ...]:
        """The files attached to the input: absolute paths, in order, each once."""
        parts = [part for message in self.input if isinstance(message.content, list) for part in message.content]
        paths = (part.get("resolved_path") for part in parts if isinstance(part, Mapping))
        return tuple(dict.fromkeys(path for path in paths if isinstance(path, str)))

    @property
    def question(self) -> str:
        """The question, for graders and hooks: the text parts of the user's messages, in one line."""
        texts = (
            text.strip() for message in self.input if message.role == "user" for text in _texts_in(message.content)
        )
        return " ".join(text for text in texts if text)

    @property
    def reference_answer(self) -> str | None:
        """The expected answer, for graders: the last expected message, its tool calls if it has no content."""
        if not self.expected_output:
            return None
        last = self.expected_output[-1]
        if isinstance(last.content, str):
            return last.content
        return json.dumps(last.content if last.content is not None else last.tool_calls, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """The settings of a suite's execution; None leaves the choice to the project or the command line.

    `strategy` reduces the repetitions of a case to one verdict: the best passes, all have to pass, their
    mean, or the low end of the mean's 95 % interval. With `on_failure` each repetition that does not pass is tried
    again as often; all have to pass in the end, and the first that does not is the last. `early_exit` ends a case at
    its first passing repetition,
    `repeat_budget_usd` when its repetitions cost that much. `stop_on_error` starts no execution after the first
    one that could not be graded. `cache` is False to reuse nothing. `runner_hooks` are hooks of a runner in the
    workspaces of the suite, by its name and theirs; `runner_aliases` are names that the suite gives to runners.
    `incomplete` is what becomes of a session that a time or step limit ended: an error, graded by what it left, failed.
    `weights` are how much cases of a difficulty count in rates and means (1 where none is given). A run fails where a
    runner's pass rate is below `min_pass_rate`, or its mean score below `min_mean_score`.
    """

    runners: tuple[str, ...] = ()
    repetitions: int | None = None
    strategy: Strategy | None = None
    early_exit: bool | None = None
    on_failure: int | None = None
    repeat_budget_usd: float | None = None
    threshold: float | None = None
    concurrency: int | None = None
    budget_usd: float | None = None
    stop_on_error: bool = False
    cache: bool | None = None
    incomplete: Incomplete = "error"
    runner_hooks: Mapping[str, Mapping[str, Hook]] = field(default_factory=dict)
    runner_aliases: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    min_pass_rate: float | None = None
    min_mean_score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A named set of cases, as loaded from one file. Many cases are packed (`case_list.py`).

    `revision` is the hash of its content (64 hex digits). `errors` are the cases that could not be loaded, one error
    each: they are counted and reported, and the others are executed (`diagnostics.problems_of` splits an error
    of several problems). `warnings` with a place are `diagnostics.Diagnostic`. `category` is named after the suite's
    folders; `parts` are the other files that it was read from. `folder` is set where the file holds one case: all such
    files of the folder are one suite (`folder_suites.py`).
    """

    name: str
    path: Path
    format: str
    revision: str
    cases: Sequence[Case]
    description: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonMap = field(default_factory=dict)
    settings: SuiteSettings = field(default_factory=SuiteSettings)
    errors: tuple[InputError, ...] = ()
    warnings: tuple[str, ...] = ()
    category: str = "Uncategorized"
    parts: tuple[Path, ...] = ()
    folder: Path | None = None


def python_fields(case: Case, prompt: Any, timeout_ms: Any) -> dict[str, Any]:
    """Return the fields of a case that a Python suite gives in its own words. Raises TypeError and ValueError."""
    values: dict[str, Any] = {}
    if prompt is not None:
        if case.input:
            raise TypeError("prompt and input of a case: give one of them")
        values["input"] = (Message(role="user", content=prompt),)
    if timeout_ms is not None:
        if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int | float) or timeout_ms <= 0:
            raise ValueError(f"timeout_ms of a case: expected a number above 0, got {timeout_ms!r}")
        values["timeout_s"] = timeout_ms / 1000
    if isinstance(case.tags, list):
        values["tags"] = tuple(case.tags)
    if case.line is None:
        values["line"] = sys._getframe(3).f_lineno
    return values


def _as_sent(message: Message) -> object:
    """Return a message as a target receives it."""
    fields = message.fingerprint_fields()
    return fields.role, fields.content, fields.name, fields.tool_calls


def _is_placed(part: Any) -> bool:
    return isinstance(part, Mapping) and "resolved_path" in part


def _without_place(part: Any) -> Any:
    return {key: value for key, value in part.items() if key != "resolved_path"} if _is_placed(part) else part


def _texts_in(content: Any) -> list[str]:
    return [_part_text(part) for part in content] if isinstance(content, list) else [content_text(content)]


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
    """The revision of a suite: the fingerprint of the content of its file."""
    return fingerprint(content)


class ContentHash:
    """The revision of a suite whose tests are read one by one: the fingerprint of `[document, [test, …], …]`."""

    def __init__(self, document: JsonMap) -> None:
        self._hash = hashlib.sha256(b"[" + _item(document) + b",[")
        self._separator = b""

    def add(self, test: str) -> None:
        """Add the content of the next test."""
        self._hash.update(self._separator + _item(test))
        self._separator = b","

    def revision(self, *included: str) -> str:
        """Return the revision, with the content of the files that the suite includes."""
        whole = self._hash.copy()
        whole.update(b"]" + b"".join(b"," + _item(content) for content in included) + b"]")
        return whole.hexdigest()


def _item(value: object) -> bytes:
    """Return the canonical JSON of a value as it is inside a list."""
    return canonical_json([value])[1:-1]
