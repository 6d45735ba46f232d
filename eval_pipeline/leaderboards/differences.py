"""What changed between two sides beside their results: prompt, tools, settings, simulator, cases. Values only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

JsonMap = Mapping[str, Any]
MOST_CHARACTERS = 5000
"""The most of a unified diff that is shown."""
MISSING = object()
"""The value of a setting that a side does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptChange:
    """The change of a prompt: `ratio` is the share of its lines that were added or removed, at most 1."""

    changed: bool
    ratio: float = 0.0
    added: int = 0
    removed: int = 0
    diff: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """The names of tools that were added and removed, and the fields that changed in each of the others."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    modified: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return bool(self.added or self.removed or self.modified)


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A setting that changed: `field` is its path, `old` and `new` its values; `MISSING` where a side has none."""

    field: str
    old: Any
    new: Any

    @property
    def as_json(self) -> dict[str, Any]:
        """The change as JSON values: a side without the setting has no entry."""
        sides = {"old": self.old, "new": self.new}
        return {"field": self.field, **{name: value for name, value in sides.items() if value is not MISSING}}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange:
    """The cases that both sides have, that only the candidate has, and that only the baseline has."""

    common: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What one runner was on one suite: its snapshot, who played its users, and the revision and cases of the suite."""

    suite: str
    runner: str
    prompt: str | None = None
    tools: Sequence[JsonMap] | None = None
    model: str | None = None
    settings: JsonMap = field(default_factory=dict)
    graders: JsonMap = field(default_factory=dict)
    simulators: tuple[str, ...] = ()
    suite_revision: str | None = None
    cases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupChange:
    """What changed between the setups of two sides."""

    suite: str
    baseline: str
    candidate: str
    prompt: PromptChange
    tools: ToolChange
    values: tuple[ValueChange, ...]
    cases: CaseChange
    suite_changed: bool

    @property
    def changed(self) -> bool:
        """Whether anything changed."""
        return bool(self.prompt.changed or self.tools.changed or self.values or self.suite_changed)

    @property
    def as_json(self) -> dict[str, Any]:
        """The change as JSON values."""
        return asdict(self) | {"values": [value.as_json for value in self.values]}


def prompt_change(old: str | None, new: str | None) -> PromptChange:
    """Return the change of a prompt, line by line; an absent prompt is another than an empty one."""
    if old == new:
        return PromptChange(changed=False)
    before, after = ((text or "").splitlines(keepends=True) for text in (old, new))
    lines = list(difflib.unified_diff(before, after, "baseline", "candidate"))
    added, removed = (sum(line.startswith(sign) for line in lines[2:]) for sign in "+-")
    ratio = min((added + removed) / max(len(before), len(after), 1), 1.0)
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    return PromptChange(changed=True, ratio=round(ratio, 4), added=added, removed=removed, diff=text[:MOST_CHARACTERS])


def tool_change(old: Sequence[JsonMap] | None, new: Sequence[JsonMap] | None) -> ToolChange:
    """Return the change of the tools, by name."""
    before, after = by_name(old), by_name(new)
    pairs = ((name, _changed_fields(before[name], after[name])) for name in before if name in after)
    return ToolChange(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        modified={name: fields for name, fields in sorted(pairs) if fields},
    )


def by_name(tools: Sequence[JsonMap] | None) -> dict[str, JsonMap]:
    """Return the declarations of tools by name, in OpenAI's form and in plain form."""
    declared = (tool["function"] if isinstance(tool.get("function"), Mapping) else tool for tool in tools or ())
    return {str(tool.get("name")): tool for tool in declared}


def _changed_fields(old: JsonMap, new: JsonMap) -> tuple[str, ...]:
    return tuple(sorted(name for name in {*old, *new} if old.get(name) != new.get(name)))


def value_changes(old: Any, new: Any, path: str = "") -> Iterator[ValueChange]:
    """Yield each setting that was added, removed or changed, its type and its place in a list included."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*old, *new)):
            at = f"{path}.{name}" if path else str(name)
            yield from value_changes(old.get(name, MISSING), new.get(name, MISSING), at)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before, after = (values[index] if index < len(values) else MISSING for values in (old, new))
            yield from value_changes(before, after, f"{path}[{index}]")
    elif type(old) is not type(new) or old != new:
        yield ValueChange(path, old, new)


def case_change(old: Iterable[str], new: Iterable[str]) -> CaseChange:
    """Return which cases were added and removed."""
    before, after = dict.fromkeys(old), dict.fromkeys(new)
    return CaseChange(
        common=tuple(name for name in before if name in after),
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
    )


def setup_change(old: Setup, new: Setup) -> SetupChange:
    """Return what changed between two setups. The graders are those of evaluators that graded on both sides: where
    nothing was graded, nothing is known of the grader."""
    both = old.graders.keys() & new.graders.keys()
    sides = [
        {"model": each.model, "settings": dict(each.settings),
         "graders": {name: value for name, value in each.graders.items() if name in both},
         "simulator": ", ".join(each.simulators) or None}
        for each in (old, new)
    ]  # fmt: skip
    return SetupChange(
        suite=new.suite,
        baseline=old.runner,
        candidate=new.runner,
        prompt=prompt_change(old.prompt, new.prompt),
        tools=tool_change(old.tools, new.tools),
        values=tuple(value_changes(sides[0], sides[1])),
        cases=case_change(old.cases, new.cases),
        suite_changed=old.suite_revision != new.suite_revision,
    )


def setup_changes(old: Sequence[Setup], new: Sequence[Setup]) -> list[SetupChange]:
    """Return what changed on each suite of both sides, runner by runner of one name, or between their only runners."""
    changes = []
    for suite in sorted({each.suite for each in old} & {each.suite for each in new}):
        before, after = ({each.runner: each for each in side if each.suite == suite} for side in (old, new))
        if len(before) == len(after) == 1:
            changes.append(setup_change(*before.values(), *after.values()))
        else:
            changes += [setup_change(before[name], after[name]) for name in before if name in after]
    return changes
