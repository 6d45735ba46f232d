"""text → Runners: the runners file (`runners.yaml`, or AgentV's `targets.yaml`), with secrets kept out of identity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, InputErrors, Place, UnknownName, did_you_mean
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.agentv_targets import runner_entry
from eval_pipeline.executions.model import RetryPolicy, Runner
from eval_pipeline.suites.environment import interpolate, names_in
from eval_pipeline.suites.secrets import REDACTED, SECRET_KEY, blotted, redacted, secrets_in
from eval_pipeline.suites.source import FieldPath, Source, show_path, yaml_source
from eval_pipeline.suites.yaml_text import parse_yaml

RUNNER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_MOST = 1e15
_COMMON_KEYS = frozenset({"name", "adapter", "tags", "timeout_s", "concurrency", "retries", "prices", "description"})
_PRICES = ("input_per_million", "cached_input_per_million", "cache_write_per_million", "output_per_million", "per_call")


def load_runners(path: Path, environment: Mapping[str, str]) -> list[Runner]:
    """The runners of a file, in its order. Raises InputErrors that name every bad entry.

    An unset `${{ NAME }}` is remembered in `Runner.unset`, see `require_environment`.
    """
    source, entries, key = _read(path)
    errors: list[InputError] = []
    runners: dict[str, Runner] = {}
    for index, raw in enumerate(entries):
        at: FieldPath = (key, index)
        try:
            entry = runner_entry(raw, at, source) if key == "targets" else raw
            runner = _runner(entry, at, source, environment)
            _check_by_adapter(runner, at, source)
            if runner.name in runners:
                raise source.error((*at, "name"), f"two runners are named '{runner.name}'")
            runners[runner.name] = runner
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors)
    return list(runners.values())


def select_runners(runners: Sequence[Runner], names: Iterable[str] = (), tags: Iterable[str] = ()) -> list[Runner]:
    """The runners of these names (all when none are given) that have any of these tags. Raises UnknownName."""
    by_name = {runner.name: runner for runner in runners}
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in by_name:
            raise UnknownName("runner", name, by_name)
    chosen = [by_name[name] for name in wanted] if wanted else list(runners)
    any_of = set(tags)
    return [runner for runner in chosen if not any_of or any_of & set(runner.tags)]


def _read(path: Path) -> tuple[Source, list[Any], str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", Place(show_path(path))) from None
    source = yaml_source(path, text)
    document = parse_yaml(text, source.shown)
    key = next((key for key in ("runners", "targets") if isinstance(document, Mapping) and key in document), None)
    if key is None or not isinstance(document[key], list):
        raise source.error((), "expected a list under 'runners' (or, in AgentV's targets.yaml, 'targets')")
    return source, document[key], key


def _runner(raw: Any, at: FieldPath, source: Source, environment: Mapping[str, str]) -> Runner:
    if not isinstance(raw, Mapping):
        raise source.error(at, "expected a runner (a mapping with name and adapter)")
    name = raw.get("name")
    if not isinstance(name, str) or not RUNNER_NAME.match(name):
        raise source.error((*at, "name"), f"a runner's name has letters, digits, '.', '_' and '-' only, got {name!r}")
    adapter = raw.get("adapter")
    if not isinstance(adapter, str):
        raise source.error(
            (*at, "adapter"), f"runner '{name}' needs an adapter; there are: {', '.join(ADAPTERS.names())}"
        )
    factory = ADAPTERS.get(adapter, source.place((*at, "adapter")))
    filled = interpolate(raw, environment)
    named = list(dict.fromkeys(_names(raw)))
    hidden = {name: environment[name] for name in named if name in environment and SECRET_KEY.search(name)}
    public = interpolate(raw, {**environment, **dict.fromkeys(hidden, REDACTED)})
    settings = {key: value for key, value in filled.items() if key not in _COMMON_KEYS}
    _check_settings(settings, factory.settings, at, source)
    return Runner(
        name=name,
        adapter=adapter.replace("_", "-"),
        settings=settings,
        public_settings=blotted(redacted({key: public[key] for key in settings}), secrets_in(settings)),
        tags=_tags(filled.get("tags"), (*at, "tags"), source),
        folder=source.path.parent.absolute(),
        timeout_s=_number(filled, "timeout_s", at, source, above=0),
        concurrency=_whole(filled, "concurrency", at, source),
        retries=_retries(filled.get("retries"), (*at, "retries"), source),
        prices=_prices(filled.get("prices"), (*at, "prices"), source),
        secrets=tuple(dict.fromkeys([*secrets_in(settings), *filter(None, hidden.values())])),
        unset=tuple(name for name in named if name not in environment),
    )


def _names(raw: Any) -> Iterator[str]:
    """The environment names that an entry mentions."""
    for value in raw.values() if isinstance(raw, Mapping) else raw if isinstance(raw, list) else ():
        yield from _names(value)
    yield from names_in(raw)


def _check_by_adapter(runner: Runner, at: FieldPath, source: Source) -> None:
    """Lets the adapter check what only it knows; a runner whose environment is not set is checked when it is used."""
    if runner.unset:
        return
    try:
        ADAPTERS.get(runner.adapter)(runner)
    except InputError as error:
        steps = error.place.field.split(".") if error.place.field else ()
        raise error.at(source.place((*at, *steps))) from None


def require_environment(runners: Iterable[Runner]) -> None:
    """Raises InputErrors for runners whose `${{ NAME }}` is not set: asked only of those about to be used."""
    errors = [
        InputError(f"runner '{runner.name}' needs the environment variable {name}; export it or put it into .env")
        for runner in runners
        for name in runner.unset
    ]
    if errors:
        raise InputErrors(errors)


def _check_settings(settings: Mapping[str, Any], known: frozenset[str], at: FieldPath, source: Source) -> None:
    for key in settings:
        if key not in known:
            all_keys = sorted(known | _COMMON_KEYS)
            raise source.error(
                (*at, key), f"unknown setting; there are: {', '.join(all_keys)}{did_you_mean(key, all_keys)}"
            )


def _tags(raw: Any, at: FieldPath, source: Source) -> tuple[str, ...]:
    if raw is None:
        return ()
    if isinstance(raw, str):
        return (raw,)
    if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
        return tuple(raw)
    raise source.error(at, "expected a list of texts")


def _number(raw: Mapping[str, Any], key: str, at: FieldPath, source: Source, *, above: float) -> float | None:
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not above < value < _MOST:
        expected = f"a number above {above:g}" if above >= 0 else "a number of at least 0"
        raise source.error((*at, key), f"expected {expected}, got {value!r}")
    return float(value)


def _whole(raw: Mapping[str, Any], key: str, at: FieldPath, source: Source, least: int = 1) -> int | None:
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise source.error((*at, key), f"expected a whole number of at least {least}, got {value!r}")
    return value


def _retries(raw: Any, at: FieldPath, source: Source) -> RetryPolicy:
    if raw is None:
        return RetryPolicy()
    if isinstance(raw, int) and not isinstance(raw, bool):
        raw = {"max_retries": raw}
    if not isinstance(raw, Mapping):
        raise source.error(at, "expected a number of retries or a mapping")
    known = [item.name for item in fields(RetryPolicy)]
    for key in raw:
        if key not in known:
            raise UnknownName("retry setting", key, known, source.place((*at, key)))
    values: dict[str, Any] = {key: _number(raw, key, at, source, above=-1e-9) for key in raw}
    values["max_retries"] = _whole(raw, "max_retries", at, source, least=0)
    return RetryPolicy(**{key: value for key, value in values.items() if value is not None})


def _prices(raw: Any, at: FieldPath, source: Source) -> dict[str, float]:
    """USD per million tokens (and per call), by which cost is computed where the target reports none."""
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise source.error(at, f"expected a mapping with some of: {', '.join(_PRICES)}")
    for key in raw:
        if key not in _PRICES:
            raise UnknownName("price", key, _PRICES, source.place((*at, key)))
    prices = {key: price for key in raw if (price := _number(raw, key, at, source, above=-1e-12)) is not None}
    needed = {"input_per_million", "output_per_million"}
    if prices.keys() - {"per_call"} and not needed <= prices.keys():
        missing = ", ".join(sorted(needed - prices.keys()))
        raise source.error(at, f"prices of tokens need {missing}, too: a price that is not given is not 0")
    return prices
