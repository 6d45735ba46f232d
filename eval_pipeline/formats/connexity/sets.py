"""Sets of test cases: which cases they have, how often each is repeated, and the configuration of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.formats.connexity.cases import JUDGE, warn_unknown
from eval_pipeline.formats.connexity.fields import (
    AGENT_SIMULATOR,
    JUDGE_CONFIG,
    MEMBER,
    RUN_CONFIG,
    RUNTIME,
    SET,
    USER_SIMULATOR,
)
from eval_pipeline.parsing.diagnostics import Diagnostics, first_of_each
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.suites.model import Case, EvaluatorSpec, SuiteSettings
from eval_pipeline.suites.simulation_fields import read_weights

_MARKS = ("members", "set_repetitions", "config", "version", "weights")
_NO_EFFECT = {
    "retell": "runtimes of vendors are not offered",
    "custom_endpoint": "name a runner with adapter 'endpoint' and this url",
}
_PARTS = {"judge": JUDGE_CONFIG, "user_simulator": USER_SIMULATOR, "agent_simulator": AGENT_SIMULATOR}
_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSet:
    """A set: its members' repetitions by case id, in order (None: all cases), and its run configuration."""

    name: str | None = None
    description: str | None = None
    metadata: Map = field(default_factory=dict)
    repetitions: Mapping[str, int] | None = None
    set_repetitions: int = 1
    deleted: bool = False
    config: Map = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def settings(self) -> SuiteSettings:
        """The settings of the suite."""
        cases, metrics = (self.config.get(f"{what}_pass_threshold") for what in ("cases", "metrics"))
        return SuiteSettings(
            concurrency=self.config.get("concurrency"),
            weights=self.weights,
            min_pass_rate=cases / 100 if cases is not None else None,
            min_mean_score=metrics / 100 if metrics is not None else None,
        )

    def chosen(self, cases: Sequence[Case]) -> Iterator[Case]:
        """Yield the cases of the set in its order, as its configuration has them."""
        by_id = {case.id: case for case in cases}
        members = self.repetitions if self.repetitions is not None else dict.fromkeys(by_id, 1)
        for case_id, repetitions in members.items():
            if case_id in by_id:  # the others are errors already
                yield self._configured(by_id[case_id], repetitions * self.set_repetitions)

    def _configured(self, case: Case, repetitions: int) -> Case:
        timeout_ms = self.config.get("timeout_per_test_case_ms")
        return replace(
            case,
            status="archived" if self.deleted else case.status,
            repetitions=repetitions if repetitions > 1 else None,
            timeout_s=timeout_ms / _MS if timeout_ms is not None else None,
            model_settings=self._model_settings,
            user=replace(case.user, **self._of_user(case)) if case.user is not None else None,
            evaluators=tuple(self._evaluator(spec) for spec in case.evaluators),
        )

    @property
    def _model_settings(self) -> Map | None:
        """What the configuration sets of an agent that is a model."""
        given = {**self.config["agent_simulator"], "tool_mode": self.config.get("tool_mode"), "provider": None}
        return {name: value for name, value in given.items() if value is not None} or None

    def _of_user(self, case: Case) -> dict[str, Any]:
        """Return what the configuration sets of a user. A case's own limit of turns holds."""
        simulator, limit = self.config["user_simulator"], case.user.max_turns if case.user is not None else None
        scripted = simulator.get("mode") == "scripted"
        return {
            "max_turns": limit if limit is not None else self.config.get("max_turns"),
            "script": tuple(simulator["scripted_messages"]) if scripted else (),
            "temperature": simulator.get("temperature"),
            "model": simulator.get("model"),
        }

    def _evaluator(self, spec: EvaluatorSpec) -> EvaluatorSpec:
        given = {name: self.config["judge"].get(name) for name in ("metrics", "pass_threshold", "model")}
        given = {name: value for name, value in given.items() if value is not None}
        return replace(spec, config={**spec.config, **given}) if spec.type == JUDGE and given else spec


def is_set(document: Any) -> bool:
    """Return whether a document with test cases is a set of them."""
    return isinstance(document, Mapping) and any(name in document for name in _MARKS)


def read_set(raw: Map, cursor: FieldCursor, known: Sequence[str], diagnostics: Diagnostics) -> CaseSet:
    """Return the set whose cases have these ids. Raises InputError for its wrong fields, those of members and of the
    configuration together."""
    warn_unknown(raw, SET, cursor, diagnostics)
    values, errors = SET.read_values(raw, cursor), list[InputError]()
    members = None
    if values["members"] is not None:
        members = _members(values["members"], cursor.at("members"), known, diagnostics, errors)
        for case_id in [each for each in known if each not in members and not errors]:
            diagnostics.add(f"case '{case_id}' is no member of the set: it is not carried out", cursor.place)
    config = _config(values["config"] or {}, cursor.at("config"), diagnostics, errors)
    if errors:
        raise first_of_each(errors)
    return CaseSet(
        name=values["name"],
        description=values["description"],
        metadata={name: values[name] for name in ("id", "version", "agent_id") if values[name] is not None},
        repetitions=members,
        set_repetitions=values["set_repetitions"] or 1,
        deleted=values["deleted_at"] is not None,
        config=config,
        weights=read_weights(raw, cursor),
    )


def _members(
    raw: Sequence[Any], cursor: FieldCursor, known: Sequence[str], diagnostics: Diagnostics, errors: list[InputError]
) -> dict[str, int]:
    """Return the repetitions of each member, by position. Members that are wrong join `errors`."""
    members: dict[str, tuple[int, int]] = {}
    for index, entry in enumerate(raw):
        at = cursor.at(index)
        values = _read_table(entry, MEMBER, at, diagnostics, errors)
        case_id = values.get("test_case_id")
        if case_id is None:
            continue
        if case_id not in known:
            errors.append(
                at.error(f"no test case '{case_id}' in this file{did_you_mean(case_id, known)}", "test_case_id")
            )
        elif case_id in members:
            errors.append(at.error(f"'{case_id}' is a member already; set its repetitions once", "test_case_id"))
        position = values["position"] if values["position"] is not None else index
        members[case_id] = (position, values["repetitions"] or 1)
    ordered = sorted(members.items(), key=lambda member: member[1][0])
    return {case_id: repetitions for case_id, (_, repetitions) in ordered}


def _config(raw: Map, cursor: FieldCursor, diagnostics: Diagnostics, errors: list[InputError]) -> dict[str, Any]:
    """Return the run configuration. Parts of it that are wrong join `errors`."""
    values = _read_table(raw, RUN_CONFIG, cursor, diagnostics, errors)
    parts = {name: raw.get(name) for name in _PARTS if isinstance(raw.get(name), Mapping)}  # others are errors already
    for name, table in _PARTS.items():
        values[name] = _read_table(parts.get(name, {}), table, cursor.at(name), diagnostics, errors)
        if values[name].get("provider") is not None:
            diagnostics.add(
                "is recorded but has no effect: the wire of a runner is its provider", cursor.at(name).place("provider")
            )
    user = values["user_simulator"]
    if user.get("mode") == "scripted" and not user["scripted_messages"]:
        at = cursor.at("user_simulator")
        errors.append(at.error("mode 'scripted' needs at least one message", "scripted_messages"))
    _check_metrics(values["judge"].get("metrics") or (), cursor.at("judge", "metrics"), errors)
    _check_runtime(values, cursor, diagnostics, errors)
    return values


def _check_metrics(metrics: Sequence[Any], cursor: FieldCursor, errors: list[InputError]) -> None:
    for index, entry in enumerate(metrics):
        name = entry.get("metric") if isinstance(entry, Mapping) else entry
        if not isinstance(name, str) or not name.strip():
            problem = f"expected a metric (an object with 'metric'), got {kind(entry)}"
            errors.append(cursor.at(index).error(problem))


def _check_runtime(
    values: Mapping[str, Any], cursor: FieldCursor, diagnostics: Diagnostics, errors: list[InputError]
) -> None:
    """Warn of a mode and a runtime that are not what happens here. What is wrong with them joins `errors`."""
    if values.get("mode") not in (None, "text"):
        diagnostics.add("is recorded but has no effect: conversations are texts here", cursor.place("mode"))
    if values.get("runtime") is None:
        return
    at = cursor.at("runtime")
    runtime = _read_table(values["runtime"], RUNTIME, at, diagnostics, errors)
    chosen = runtime.get("kind")
    if chosen == "custom_endpoint" and not str(runtime.get("url") or "").startswith(("http://", "https://")):
        errors.append(at.error("expected an address that begins with http:// or https://", "url"))
    elif chosen in _NO_EFFECT:
        diagnostics.add(f"is recorded but has no effect: {_NO_EFFECT[chosen]}", cursor.place("runtime"))


def _read_table(
    raw: Any, table: FieldTable, cursor: FieldCursor, diagnostics: Diagnostics, errors: list[InputError]
) -> dict[str, Any]:
    """Return the values of a table; none where something is wrong, which joins `errors`."""
    try:
        return _table(raw, table, cursor, diagnostics)
    except InputError as error:
        errors.append(error)
        return {}


def _table(raw: Any, table: FieldTable, cursor: FieldCursor, diagnostics: Diagnostics) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise cursor.error(f"expected a {table.title} (an object), got {kind(raw)}")
    warn_unknown(raw, table, cursor, diagnostics)
    return table.read_values(raw, cursor)


def set_of(
    document: Any, cursor: FieldCursor, cases: Sequence[Case], diagnostics: Diagnostics, errors: list[InputError]
) -> CaseSet:
    """Return the set of a document; one of all cases where it is none. Raises InputError for a set that is wrong."""
    known = [case.id for case in cases]
    if not is_set(document):
        return CaseSet(config=_config({}, cursor, diagnostics, errors))
    if errors and document.get("members"):
        known += [each["test_case_id"] for each in document["members"] if isinstance(each, Mapping) and _text(each)]
    return read_set(document, cursor, known, diagnostics)


def _text(member: Map) -> bool:
    return isinstance(member.get("test_case_id"), str)
