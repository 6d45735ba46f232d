"""The syntax of a list of evaluators: type, name, weight, gate, and texts as criteria → EvaluatorSpecs.

Arguments of evaluators are passed unchanged; evaluators validate them. Formats extend the syntax (see
`EvaluatorReader`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.compatibility import todays_evaluator_name
from eval_pipeline.parsing.diagnostics import Diagnostics, first_of_each, problems_of
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.plugins import canonical_name
from eval_pipeline.suites.fields import EVALUATOR
from eval_pipeline.suites.model import EvaluatorSpec

DEFAULT_GATE = 0.8
_COMMON_KEYS = EVALUATOR.names - {"include"}
_NAMED_BY_VALUE = frozenset({"contains", "icontains", "starts-with", "ends-with", "equals"})
_NAMED_BY_COUNT = frozenset({"contains-any", "contains-all", "icontains-any", "icontains-all"})
_COMMON: Mapping[str, Callable[[Map, str, FieldCursor], object]] = {
    "name": fields.text,
    "weight": fields.weight,
    "negate": fields.flag,
    "failure_class": fields.text,
}
_CAMEL_CASE_TOO: Mapping[str, tuple[str, ...]] = {
    "execution-metrics": (
        "max_tool_calls", "max_llm_calls", "max_tokens", "max_cost_usd", "max_duration_ms", "target_exploration_ratio",
        "exploration_tolerance",
    ),
}  # fmt: skip
"""Evaluators whose arguments may be written in camel case."""


def _as_listed(entries: Sequence[Any], cursor: FieldCursor) -> Iterator[tuple[Any, FieldCursor]]:
    for index, entry in enumerate(entries):
        yield entry, cursor.at(index)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorReader:
    """Reader of lists of evaluators; its functions are a format's extensions of the syntax.

    `entries` returns the entries of a list with their places (a format may insert those of other files). `arguments`
    returns the arguments of an evaluator of a type as it expects them. `command` returns the arguments of a
    `code-grader` that an unregistered type means, or None. `texts_weigh` is whether texts as criteria weigh
    together as much as that many evaluators, instead of as one. `check` raises InputError for a spec that cannot be
    used; evaluators are checked when they are bound, so a format sets it to report them with the errors of a list.
    """

    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    entries: Callable[[Sequence[Any], FieldCursor], Iterable[tuple[Any, FieldCursor]]] = _as_listed
    arguments: Callable[[dict[str, Any], str, FieldCursor], dict[str, Any]] = lambda config, type_, cursor: config
    command: Callable[[str], dict[str, Any] | None] = lambda type_: None
    texts_weigh: bool = False
    check: Callable[[EvaluatorSpec, FieldCursor], None] | None = None

    def read_list(self, raw: Any, cursor: FieldCursor) -> tuple[EvaluatorSpec, ...]:
        """Return the specs of a list of evaluators. Its texts become criteria of one `rubrics`, in place of the first.

        Raises InputError with all problems of the list.
        """
        if not isinstance(raw, list):
            raise cursor.error(f"expected a list of evaluators, got {kind(raw)}")
        specs: list[EvaluatorSpec | None] = []
        errors: list[InputError] = []
        criteria: list[str] = []
        first_text = 0
        for entry, at in self.entries(raw, cursor):
            if not isinstance(entry, str):
                try:
                    specs.append(self.read(entry, at))
                except InputError as error:
                    errors += problems_of(error)
            elif not entry.strip():
                self.diagnostics.add("an empty text is no criterion, ignored", at.place, kind="empty criterion")
            else:
                if not criteria:
                    first_text = len(specs)
                    specs.append(None)
                criteria.append(str(entry))
        if errors:
            raise first_of_each(errors)
        if criteria:
            weight = float(len(criteria)) if self.texts_weigh else 1.0
            config = {"criteria": criteria}
            specs[first_text] = EvaluatorSpec(type="rubrics", name="rubrics", weight=weight, config=config)
        return tuple([spec for spec in specs if spec is not None])  # via a list: saves spare room

    def read(self, raw: Any, cursor: FieldCursor) -> EvaluatorSpec:
        """The spec of one evaluator with a type. Raises InputError."""
        if not isinstance(raw, Mapping):
            raise cursor.error(f"expected an evaluator with a type, got {kind(raw)}")
        type_ = self._type(raw, cursor)
        raw = fields.with_snake_case_keys(raw, _CAMEL_CASE_TOO.get(type_, ()))
        written = {key: value for key, value in raw.items() if key not in _COMMON_KEYS}
        config = self.arguments(written, type_, cursor)
        name = automatic_name(type_, config)
        command = self.command(type_)
        if command is not None:
            type_, config = "code-grader", {**command, **({"config": config} if config else {})}
        try:
            spec = EvaluatorSpec(
                type=type_,
                name=fields.text(raw, "name", cursor) or name,
                weight=fields.weight(raw, "weight", cursor),
                minimum=_gate(raw, cursor),
                negate=fields.flag(raw, "negate", cursor) or False,
                failure_class=fields.text(raw, "failure_class", cursor),
                config=config,
            )
        except InputError:
            spec = EvaluatorSpec(type=type_, name=name, config=config)
            raise first_of_each(list(self._problems(raw, spec, cursor))) from None
        if self.check is not None:
            self.check(spec, cursor)
        return spec

    def _problems(self, raw: Map, spec: EvaluatorSpec, cursor: FieldCursor) -> Iterator[InputError]:
        """Yield everything that is wrong with an evaluator: its common fields and, where checked, its arguments."""
        attempts: list[Callable[[], object]] = [partial(read, raw, key, cursor) for key, read in _COMMON.items()]
        attempts.append(partial(_gate, raw, cursor))
        if self.check is not None:
            attempts.append(partial(self.check, spec, cursor))
        for attempt in attempts:
            try:
                attempt()
            except InputError as error:
                yield from problems_of(error)

    def _type(self, raw: Map, cursor: FieldCursor) -> str:
        if not isinstance(raw.get("type"), str):
            raise cursor.error(f"expected an evaluator with a type, got {kind(raw.get('type'))}", "type")
        written = sys.intern(canonical_name(str(raw["type"])))  # one text for all cases of a large suite
        type_ = todays_evaluator_name(written)
        if type_ != written:
            self.diagnostics.add(f"'{written}' is called '{type_}' now", lambda: cursor.place("type"))
        return type_


def automatic_name(type_: str, config: Map) -> str:
    """Return the name of an unnamed evaluator: its type, and a part that distinguishes it from others of the type."""
    value = config.get("value")
    if type_ in _NAMED_BY_VALUE:
        return f"{type_}-{value}" if isinstance(value, (str, int, float)) else type_
    if type_ in _NAMED_BY_COUNT and isinstance(value, Sequence):
        return f"{type_}-{len(value)}"
    if type_ == "skill-trigger" and isinstance(config.get("skill"), str):
        return f"{type_}-{config['skill']}"
    if type_ == "regex" and isinstance(value, str):
        return f"regex-{value[:30]}"
    return type_


def _gate(raw: Map, cursor: FieldCursor) -> float | None:
    """Return the minimum score of a required evaluator: `min_score`, else a numeric `required`, else 0.8."""
    minimum = _above_zero(raw, "min_score", cursor)
    required = raw.get("required")
    if required is None or required is False:
        return None
    if required is True:
        return DEFAULT_GATE if minimum is None else minimum
    number = _above_zero(raw, "required", cursor)
    return number if minimum is None else minimum


def _above_zero(raw: Map, key: str, cursor: FieldCursor) -> float | None:
    value = fields.share(raw, key, cursor)
    if value == 0:
        raise cursor.error("expected a number above 0 and at most 1: a gate of 0 holds nothing back", key)
    return value
