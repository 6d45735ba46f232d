"""The `execution` fields of a suite or a test: targets, threshold, repetitions, budget, reuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.formats.agentv.workspace import read_runner_hooks
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.suites.fields import CASE_EXECUTION, REPEAT, RUNNER_CHOICE, SUITE_EXECUTION
from eval_pipeline.suites.incomplete import read_incomplete
from eval_pipeline.suites.model import Strategy, SuiteSettings
from eval_pipeline.suites.simulation_fields import read_weights
from eval_pipeline.suites.workspace import Hook

STRATEGIES: Mapping[str, Strategy] = {
    "pass_at_k": "pass_at_k",
    "pass_any": "pass_at_k",
    "pass_all": "pass_all",
    "mean": "mean",
    "confidence_interval": "confidence_interval",
}
KEYS = SUITE_EXECUTION.names | CASE_EXECUTION.names
_OF_THE_SUITE = sorted(SUITE_EXECUTION.names - CASE_EXECUTION.names)


class Repeat(TypedDict):
    """Repetitions of a case and their reduction, under the field names of Case and SuiteSettings."""

    repetitions: int | None
    strategy: Strategy | None
    early_exit: bool | None
    on_failure: int | None
    repeat_budget_usd: float | None


def read_execution(raw: Map, cursor: FieldCursor) -> Map:
    """The `execution` block of a suite or a test, its keys in snake case."""
    return fields.with_snake_case_keys(fields.mapping(raw, "execution", cursor), KEYS)


def suite_settings(document: Map, cursor: FieldCursor, context: LoadContext) -> SuiteSettings:
    """The settings of a suite's execution. Raises InputError."""
    execution, at = read_execution(document, cursor), cursor.at("execution")
    _warn_unknown(execution, at, context)
    if execution.get("cache_path") is not None:
        context.diagnostics.add(
            "what was executed is kept in the project's data folder; ignored", lambda: at.place("cache_path")
        )
    targets = _target_mappings(execution, at)
    own_repeat = execution.get("trials") is None and execution.get("repeat") is None
    return SuiteSettings(
        runners=runners(execution, at) or _named_target(document, cursor),
        **(repeat_of(document, cursor, context) if own_repeat else repeat_of(execution, at, context, IN_EXECUTION)),
        threshold=fields.share(execution, "threshold", at),
        concurrency=fields.count(execution, "workers", at),
        budget_usd=budget_of(execution, at),
        stop_on_error=fields.flag(execution, "fail_on_error", at) or False,
        cache=fields.flag(execution, "cache", at),
        incomplete=read_incomplete(document, cursor) or "error",
        runner_hooks=_hooks_of_targets(document, targets, context),
        runner_aliases=_used_targets(targets),
        weights=read_weights(document, cursor),
    )


def _target_mappings(execution: Map, cursor: FieldCursor) -> list[tuple[Map, FieldCursor]]:
    """Return the targets that are mappings with more than a name."""
    listed = execution.get("targets")
    items = listed if isinstance(listed, list) else []
    return [(item, cursor.at("targets", index)) for index, item in enumerate(items) if isinstance(item, Mapping)]


def _hooks_of_targets(
    document: Map, targets: Sequence[tuple[Map, FieldCursor]], context: LoadContext
) -> dict[str, Mapping[str, Hook]]:
    """Return the hooks of each target; they run in workspaces only."""
    named = [(item, at) for item, at in targets if item.get("hooks") is not None and isinstance(item.get("name"), str)]
    if named and document.get("workspace") is None:
        problem = "hooks of a target run in a workspace; a test without one runs none of them"
        context.diagnostics.add(problem, partial(named[0][1].place, "hooks"))
    read = {
        item["name"].strip(): read_runner_hooks(item["hooks"], at.at("hooks"), context.workspaces) for item, at in named
    }
    return {name: hooks for name, hooks in read.items() if hooks}


def _used_targets(targets: Sequence[tuple[Map, FieldCursor]]) -> dict[str, str]:
    """Return the names that the suite gives to targets of the targets file."""
    used: dict[str, str] = {}
    for item, at in targets:
        name = fields.text(item, "use_target", at)
        if name is not None:
            used[str(item.get("name", "")).strip()] = _not_blank(name, at.at("use_target"))
    return used


def budget_of(execution: Map, cursor: FieldCursor) -> float | None:
    """The most that a suite, or a test, may cost in a run (USD)."""
    older, newer = (fields.positive(execution, name, cursor) for name in ("total_budget_usd", "budget_usd"))
    return older or newer


def warn_of_the_suites_own(execution: Map, cursor: FieldCursor, context: LoadContext) -> None:
    """Warn of keys of a test's `execution` that only a suite can set."""
    for key in _OF_THE_SUITE:
        if execution.get(key) is not None:
            context.diagnostics.add(f"'{key}' is for the whole suite; ignored on a test", partial(cursor.place, key))
    for item, at in _target_mappings(execution, cursor):
        for key in item.keys() & {"hooks", "use_target"}:
            context.diagnostics.add(f"'{key}' of a target is for the whole suite; ignored on a test", at.place(key))
    _warn_unknown(execution, cursor, context)


def runners(execution: Map, cursor: FieldCursor) -> tuple[str, ...]:
    """The names of the requested targets; `targets` takes precedence over `target`."""
    listed = execution.get("targets")
    if listed is None:
        return _named_target(execution, cursor)
    if not isinstance(listed, list):
        return tuple(_not_blank(name, cursor.at("targets")) for name in fields.texts(execution, "targets", cursor))
    if not listed:
        raise cursor.error("names no target; leave the field out, or name one", "targets")
    return tuple(
        _not_blank(_target_name(item, cursor.at("targets", index)), cursor.at("targets", index))
        for index, item in enumerate(listed)
    )


def _named_target(holder: Map, cursor: FieldCursor) -> tuple[str, ...]:
    single = fields.text(holder, "target", cursor)
    return (_not_blank(single, cursor.at("target")),) if single is not None else ()


def _not_blank(name: str, cursor: FieldCursor) -> str:
    """Return the name of a target. A blank one, as of an unset variable, must never select all targets."""
    if not name.strip():
        raise cursor.error("names no target: the text is empty, perhaps because a variable in it is not set")
    return name.strip()


def _target_name(item: Any, cursor: FieldCursor) -> str:
    """Return a target's name, from a text or a mapping with a name (newer files)."""
    name = item.get("name") if isinstance(item, Mapping) else item
    if not isinstance(name, str):
        raise cursor.error(f"expected the name of a target, got {kind(item)}")
    others = [f"'{key}'" for key in item if key not in RUNNER_CHOICE.names] if isinstance(item, Mapping) else []
    if others:
        raise cursor.error(f"{', '.join(others)}: write this of the target in the runners file (or targets.yaml)")
    return str(name)


IN_EXECUTION = ("trials", "repeat")
"""Where an `execution` has its repetitions."""


def repeat_of(holder: Map, cursor: FieldCursor, context: LoadContext, keys: Sequence[str] = ("repeat",)) -> Repeat:
    """Return the repetitions under the first present of `keys`: a count, or a mapping with one."""
    key = next((key for key in keys if holder.get(key) is not None), None)
    if key is None:
        return Repeat(repetitions=None, strategy=None, early_exit=None, on_failure=None, repeat_budget_usd=None)
    return _repeat_block(holder, key, cursor, context)


def _repeat_block(holder: Map, key: str, cursor: FieldCursor, context: LoadContext) -> Repeat:
    if not isinstance(holder[key], Mapping):
        count = fields.count(holder, key, cursor)
        return Repeat(repetitions=count, strategy="pass_at_k", early_exit=None, on_failure=None, repeat_budget_usd=None)
    block, at = fields.with_snake_case_keys(holder[key], REPEAT), cursor.at(key)
    for name in block:
        if name not in REPEAT:
            context.warn_of_unknown(str(name), REPEAT, at, f"field of {key}")
    if block.get("count") is None:
        raise at.error("expected how many repetitions, got nothing", "count")
    strategy = fields.choice(block, "strategy", at, STRATEGIES)
    again = fields.whole(block, "on_failure", at)
    if again and strategy is not None:
        raise at.error("decides by itself: each repetition has to pass in the end", "strategy")
    return Repeat(
        repetitions=fields.count(block, "count", at),
        strategy="on_failure" if again else STRATEGIES[strategy or "pass_at_k"],
        on_failure=again,
        early_exit=fields.flag(block, "early_exit", at),
        repeat_budget_usd=fields.positive(block, "cost_limit_usd", at),
    )


def _warn_unknown(execution: Map, cursor: FieldCursor, context: LoadContext) -> None:
    for key in execution:
        if key not in KEYS:
            context.warn_of_unknown(str(key), KEYS, cursor, "field of execution")
