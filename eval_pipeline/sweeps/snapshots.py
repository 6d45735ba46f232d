"""Token snapshots: the tokens of a case × runner against a baseline in a file beside the suite.

The file is meant for review and version control. A baseline is made where there is none, from answers that all passed;
it changes only on request (`--update-snapshots`). Of one answer the value counts; of several, an excess counts once the
95 % interval of their mean is above what is allowed.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.parsing.file_search import search_roots
from eval_pipeline.parsing.source import show_path, yaml_source
from eval_pipeline.statistics.student import t_quantile
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.project import Project
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.token_usages import METRICS, REASON, Answer

VERSION = 1
AS_EXPECTED = ("passed", "expected-failed")
_FIELDS = ("path", "metric", "tolerance")
Kind = Literal["compared", "created", "updated", "not compared", "unmeasured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """What is compared: a token count, how much more is allowed (absolute, percent of the baseline), and the file."""

    file: Path
    metric: str = "total_tokens"
    absolute: float | None = None
    percent: float | None = None

    def allowed(self, baseline: float) -> tuple[Decimal, str]:
        """Return the most that both tolerances allow, and which of them it is. Exact: 15 % of 100 is 15."""
        base = _exact(baseline)
        bounds = []
        if self.absolute is not None:
            bounds.append((base + _exact(self.absolute), f"{self.absolute:g} more"))
        if self.percent is not None:
            bounds.append((base * (1 + _exact(self.percent) / 100), f"{self.percent:g} % more"))
        return min(bounds)


def _exact(value: float) -> Decimal:
    return Decimal(repr(float(value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The comparison of a case × runner. `passed` is None where nothing was compared, with the reason."""

    suite: str
    case_id: str
    runner: str
    kind: Kind
    passed: bool | None
    reason: str
    baseline: float | None = None
    measured: float | None = None
    allowed: float | None = None
    answers: int = 0
    model: str | None = None


def settings_of(suite: Suite, project: Project) -> SnapshotSettings | None:
    """Return the settings of a suite: its own, else the project's; None without any. Raises InputError."""
    if "snapshots" in suite.metadata:
        return read_settings(suite.metadata["snapshots"], suite)
    try:
        return read_settings(project.snapshots, suite)
    except InputError as error:
        if project.file is None:
            raise
        source = yaml_source(project.file, project.file.read_text(encoding="utf-8-sig"))
        raise error.at(source.place(tuple((error.place.field or "").split(".")))) from None


def read_settings(raw: Any, suite: Suite) -> SnapshotSettings | None:
    """Return the settings of a suite: `metric`, `tolerance` (`absolute`, `percent`), `path`. Raises InputError."""
    if raw is None:
        return None
    try:
        fields = _mapping(raw, "", _FIELDS)
        metric = _snake(fields.get("metric", "total_tokens"))
        if metric not in METRICS:
            raise _wrong(".metric", f"expected one of {', '.join(METRICS)}, got {fields.get('metric')!r}")
        path = fields.get("path", f"{suite.path.stem}.snapshots.json")
        if not isinstance(path, str) or not path.strip():
            raise _wrong(".path", f"expected a text that is not empty, got {path!r}")
        if not search_roots(suite.path.parent).holds(suite.path.parent / path):
            raise _wrong(".path", f"'{path}' lies outside of the suite's folder and those above it in the project")
        return SnapshotSettings(file=suite.path.parent / path, metric=metric, **_tolerance(fields.get("tolerance")))
    except InputError as error:
        raise error.at(SourceLocation(show_path(suite.path), field=error.place.field)) from None


def require_usable(suite: Suite, project: Project) -> None:
    """Raise InputError for a suite whose settings, or whose baselines, cannot be used."""
    settings = settings_of(suite, project)
    if settings is not None:
        BaselineFile(settings.file)


def settings_problems(suites: Iterable[Suite], project: Project) -> Iterator[InputError]:
    """Yield what is wrong with the settings of some suites, or with their baselines; once what several have."""
    seen: set[str] = set()
    for suite in suites:
        try:
            require_usable(suite, project)
        except InputError as error:
            if str(error) not in seen:
                yield error
            seen.add(str(error))


def _tolerance(raw: Any) -> dict[str, float]:
    tolerance = _mapping(raw, ".tolerance", ("absolute", "percent"))
    if not tolerance:
        raise _wrong(".tolerance", "expected a mapping with absolute, percent or both")
    for name, value in tolerance.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise _wrong(f".tolerance.{name}", f"expected a number of at least 0, got {value!r}")
    return dict(tolerance)


def _mapping(raw: Any, name: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise _wrong(name, f"expected a mapping of {', '.join(known)}")
    for field in raw:
        if field not in known:
            hint = did_you_mean(str(field), known)
            raise _wrong(f"{name}.{field}", f"unknown field; there are: {', '.join(known)}{hint}")
    return raw


def _wrong(name: str, problem: str) -> InputError:
    return InputError(problem, SourceLocation(field=f"snapshots{name}"))


def _snake(name: Any) -> str:
    text = str(name)
    return text if "_" in text else "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in text)


class BaselineFile:
    """The baselines of a suite, by case and runner; entries that nobody asks for are kept.

    New baselines count once they are written: a comparison that is repeated gives what it gave before.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._entries: dict[str, dict[str, Any]] = self._read()
        self._new: dict[str, dict[str, Any]] = {}

    def _read(self) -> dict[str, dict[str, Any]]:
        place = SourceLocation(show_path(self.file))
        try:
            document = json.loads(self.file.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", place) from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"is no file of snapshots: {error}; delete it to take new baselines", place) from None
        version = document.get("version") if isinstance(document, dict) else None
        if version != VERSION or not isinstance(document.get("entries"), dict):
            problem = f"expected version {VERSION} with entries, got version {version!r}"
            raise InputError(f"{problem}; delete it to take new baselines", place)
        entries: dict[str, dict[str, Any]] = document["entries"]
        for key, entry in entries.items():
            if not isinstance(entry, dict) or isinstance(entry.get("value"), bool):
                raise InputError(f"entries.{key}: expected a mapping with a value", place)
            if not isinstance(entry.get("value"), int | float):
                raise InputError(f"entries.{key}.value: expected a number, got {entry.get('value')!r}", place)
        return entries

    def get(self, case_id: str, runner: str) -> Mapping[str, Any] | None:
        """Return the baseline of a case × runner that answers are compared with."""
        return self._entries.get(f"{case_id}::{runner}")

    def newest(self, case_id: str, runner: str) -> Mapping[str, Any]:
        """Return the baseline of a case × runner as it will be written; empty without one."""
        key = f"{case_id}::{runner}"
        return self._new.get(key) or self._entries.get(key) or {}

    def put(self, snapshot: Snapshot, metric: str, now: datetime) -> None:
        """Take a new baseline."""
        self._new[f"{snapshot.case_id}::{snapshot.runner}"] = {
            "caseId": snapshot.case_id,
            "runnerId": snapshot.runner,
            "metric": camel(metric),
            "value": _plain(snapshot.measured),
            "model": snapshot.model,
            "updatedAt": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }

    def write(self) -> bool:
        """Write the file if a baseline is new; return whether it was written. What another process wrote into it in
        the meantime remains. Raises OSError, and InputError for a file that is none of ours any more."""
        if not self._new:
            return False
        entries = {**self._read(), **self._new}
        document = {"version": VERSION, "entries": dict(sorted(entries.items()))}
        partial = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:  # under a temporary name first: no reader sees a part of it
            partial.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            partial.replace(self.file)
        finally:
            partial.unlink(missing_ok=True)
        self._entries |= self._new
        self._new = {}
        return True


def camel(metric: str) -> str:
    """Return the name of a metric as the file has it."""
    first, *rest = metric.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _plain(value: float | None) -> float | int | None:
    return int(value) if value is not None and value == int(value) else value


def compare(
    settings: SnapshotSettings, answers: Sequence[Answer], baselines: BaselineFile, suite: str, runner: str, *,
    update: bool, now: datetime,
) -> Iterator[Snapshot]:  # fmt: skip
    """Yield the comparison of each case of a pair; new baselines are put into `baselines`."""
    by_case: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_case[answer.case_id].append(answer)
    for case_id, of_case in by_case.items():
        known = baselines.get(case_id, runner)
        snapshot = _compared(settings, of_case, known, (suite, case_id, runner), update)
        if snapshot.kind in ("created", "updated"):
            baselines.put(snapshot, settings.metric, now)
        yield snapshot


def without_tried_again(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers without those that did not pass and were tried again: the last one of a case decides."""
    last = {answer.case_id: answer.repetition for answer in sorted(answers, key=lambda each: each.repetition)}
    return [each for each in answers if each.status in AS_EXPECTED or each.repetition == last[each.case_id]]


def _compared(
    settings: SnapshotSettings,
    answers: Sequence[Answer],
    known: Mapping[str, Any] | None,
    place: tuple[str, str, str],
    update: bool,
) -> Snapshot:
    suite, case_id, runner = place
    passing = [answer for answer in answers if answer.status in AS_EXPECTED]
    models = {answer.model for answer in passing}
    values = [answer.tokens for answer in passing if answer.tokens is not None]
    facts: dict[str, Any] = {
        "suite": suite, "case_id": case_id, "runner": runner, "answers": len(values),
        "model": next(iter(models)) if len(models) == 1 else None,
        "baseline": known["value"] if known else None,
        "measured": sum(values) / len(values) if values else None,
    }  # fmt: skip
    if len(passing) < len(answers):
        return Snapshot(kind="not compared", passed=None, reason="an answer did not pass: no baseline", **facts)
    if len(values) < len(passing):
        reason = f"{REASON}requires the provider's token metric {camel(settings.metric)}, which an answer lacks"
        return Snapshot(kind="unmeasured", passed=False, reason=reason, **facts)
    if known is None:
        return Snapshot(kind="created", passed=True, reason="baseline taken", **facts)
    if update:
        return Snapshot(kind="updated", passed=True, reason="baseline taken anew", **facts)
    other = _another(settings, known, facts["model"], len(models))
    if other is not None:
        return Snapshot(kind="not compared", passed=None, reason=other, **facts)
    return _measured(settings, values, facts)


def _another(settings: SnapshotSettings, known: Mapping[str, Any], model: str | None, models: int) -> str | None:
    """Return why a baseline is of something else; None if it is not."""
    cure = "; --update-snapshots takes a new one"
    if known.get("metric") not in (None, camel(settings.metric)):
        return f"the baseline is of the metric {known['metric']}, not of {camel(settings.metric)}{cure}"
    if models > 1:
        return "several models answered: there is no baseline of them together"
    if known.get("model") is not None and model is not None and known["model"] != model:
        return f"the baseline is of the model {known['model']}, not of {model}{cure}"
    return None


def _measured(settings: SnapshotSettings, values: Sequence[float], facts: dict[str, Any]) -> Snapshot:
    baseline, mean = facts["baseline"], facts["measured"]
    allowed, bound = settings.allowed(baseline)
    low = _exact(lower_bound(values))
    passed = low <= allowed
    excess = mean - baseline
    share = f" ({excess / baseline:+.1%})" if baseline else ""
    interval = f", 95 % interval from {float(low):,.2f}" if len(values) > 1 else ""
    reason = (
        f"{camel(settings.metric)}: {_number(mean)}{interval}, {_number(float(allowed))} allowed ({bound}); baseline "
        f"{_number(baseline)}, {excess:+,.10g} tokens{share}"
    )
    if not passed:
        key = f"{facts['case_id']} / {facts['runner']}"
        reason = f"{REASON}mismatch for {reason}; key {key}; --update-snapshots accepts it as the new baseline"
    return Snapshot(kind="compared", passed=passed, reason=reason, allowed=float(allowed), **facts)


def lower_bound(values: Sequence[float]) -> float:
    """Return the value of one answer; of several, the lower end of the 95 % interval of their mean (Student's t)."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean - t_quantile(len(values) - 1) * float((variance / len(values)) ** 0.5)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def snapshot_row(snapshot: Snapshot, metric: str, baselines: BaselineFile, sweep_id: str | None, now: datetime) -> Row:
    """Return the row of a comparison: its baseline as it is now."""
    entry = baselines.newest(snapshot.case_id, snapshot.runner)
    return {
        "suite": snapshot.suite,
        "case_id": snapshot.case_id,
        "runner": snapshot.runner,
        "metric": metric,
        "value": entry.get("value"),
        "taken_at": entry.get("updatedAt"),
        "model": entry.get("model"),
        "measured": snapshot.measured,
        "allowed": snapshot.allowed,
        "answers": snapshot.answers,
        "passed": snapshot.passed,
        "reason": snapshot.reason,
        "checked_at": now,
        "sweep_id": sweep_id,
    }
