"""text → Runners: the runners file, ours or one of a registered format, with secrets kept out of identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, InputErrors, SourceLocation, UnknownName, did_you_mean
from eval_pipeline.executions import runner_fields
from eval_pipeline.executions.adapters import ADAPTERS, Adapter, settings_of
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.runner_arms import ARMS, Arm, arms_problem, expanded
from eval_pipeline.executions.runner_files import NATIVE, RunnerEntry, RunnersFormat, runner_formats
from eval_pipeline.executions.runner_matrix import RunnerMatrix, Variant, variants
from eval_pipeline.fingerprints import require_regular_file
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import CaseErrors, first_of_each, problems_of
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.interpolation import interpolate, names_in
from eval_pipeline.parsing.public_settings import redacted, secrets_in, unknown_headers
from eval_pipeline.parsing.redaction import KNOWN, REDACTED, Redactor
from eval_pipeline.parsing.secret_names import NO_RULES, SecretRules, is_secret
from eval_pipeline.parsing.source import FieldPath, Source, dotted, show_path, yaml_source
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.parsing.yaml_text import parse_yaml
from eval_pipeline.plugins import names_in_group

LONGEST_CHAIN = 10
_AGENTS = "eval_pipeline.agents"
_OWN_KEYS = frozenset({"name", "description", ARMS})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableRunner(Runner):
    """A runner whose entry is wrong, and its problem; the other runners of the file stay usable."""

    problem: InputError


Digest = Callable[[object], str]
"""Returns a hash that nobody can guess the value of."""
RunnerCheck = Callable[[Runner], None]
"""Raises InputError for a runner that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A runners file being read: its entries by name, where `${{ NAME }}` has its value, and what is a secret."""

    source: Source
    format: RunnersFormat
    environment: Mapping[str, str]
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: SecretRules = NO_RULES
    digest: Digest | None = None
    check: RunnerCheck = lambda runner: None


def load_runners(
    path: Path,
    environment: Mapping[str, str],
    rules: SecretRules = NO_RULES,
    digest: Digest | None = None,
    check: RunnerCheck = lambda runner: None,
    matrices: Sequence[RunnerMatrix] = (),
) -> list[Runner]:
    """The runners of a file, in its order, then those of `matrices`. Raises InputErrors for entries that have no name.

    What is wrong with an entry (`UnusableRunner`) and an unset `${{ NAME }}` (`Runner.unset`) matter when the runner
    is used, see `require_environment`. `digest` hashes headers of unknown names (None: they tell no runners apart).
    `check` is called for each runner, after the adapter's own checks.
    """
    source, entries, format_ = _read(path)
    key = format_.key
    errors = {i: error for i, raw in enumerate(entries) if (error := _name_error(raw, i, source, format_))}
    named = {i: raw for i, raw in enumerate(entries) if i not in errors}
    by_name = {raw["name"]: raw for raw in named.values()}
    file = _File(
        source=source, format=format_, environment=environment, entries=by_name, rules=rules, digest=digest, check=check
    )
    listed = list(expanded((((key, index), raw) for index, raw in named.items()), source))
    if errors:
        read = [_runner_or_problem(raw, at, file) for at, raw, _ in listed]
        raise InputErrors([*errors.values(), *(each.problem for each in read if isinstance(each, UnusableRunner))])
    runners: dict[str, Runner] = {}
    for at, raw, arm in listed:
        runner = _of_arm(_runner_or_problem(raw, at, file), arm)
        if runners.pop(runner.name, None) is not None:
            problem = source.error((*at, "name"), f"two runners are named '{runner.name}'")
            runner = UnusableRunner(name=runner.name, adapter=runner.adapter, tags=runner.tags, problem=problem)
        runners[runner.name] = runner
    for variant in variants([(at, raw) for at, raw, _ in listed], matrices):
        if variant.entry["name"] not in runners:
            runners[variant.entry["name"]] = _of_matrix(_runner_or_problem(variant.entry, variant.at, file), variant)
    return list(runners.values())


def _of_matrix(runner: Runner, variant: Variant) -> Runner:
    runner = replace(runner, stands_for=variant.of, in_sweeps=tuple(variant.sweeps))
    if not isinstance(runner, UnusableRunner):
        return runner
    problem = f"with sweeps.{variant.sweeps[0]}.matrix of the project file: {runner.problem.problem}"
    return replace(runner, problem=InputError(problem, runner.problem.place))


def _of_arm(runner: Runner, arm: Arm | None) -> Runner:
    return runner if arm is None else replace(runner, arm_of=arm.arm_of, arm=arm.arm, arm_place=arm.arm_place)


def select_runners(runners: Sequence[Runner], names: Sequence[str] = (), tags: Iterable[str] = ()) -> list[Runner]:
    """The runners of these names (all when none are given) that have any of these tags. The name of a runner with arms
    is that of all of them. Raises UnknownName."""
    by_name = {runner.name: runner for runner in runners}
    arms = {name: [each.name for each in runners if each.arm_of == name] for name in names if name not in by_name}
    requested = list(dict.fromkeys(arm for name in names for arm in arms.get(name) or [name]))
    for name in requested:
        if name not in by_name:
            raise UnknownName("runner", name, by_name)
    chosen = [by_name[name] for name in requested] if requested else list(runners)
    any_of = set(tags)
    return [runner for runner in chosen if not any_of or any_of & set(runner.tags)]


def _read(path: Path) -> tuple[Source, list[Any], RunnersFormat]:
    try:
        require_regular_file(path)
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError("there is no such runners file", SourceLocation(show_path(path))) from None
    except (OSError, ValueError) as error:  # a name may hold characters that no file's name can
        raise InputError(f"cannot be read: {error}", SourceLocation(show_path(path))) from None
    source = yaml_source(path, text)
    document = parse_yaml(text, source.shown)
    formats = [each for each in runner_formats() if isinstance(document, Mapping) and each.key in document]
    if not formats or not isinstance(document[formats[0].key], list):
        others = "".join(f" (or, in {each.title}, '{each.key}')" for each in runner_formats() if each is not NATIVE)
        raise source.error((), f"expected a list under '{NATIVE.key}'{others}")
    if not document[formats[0].key]:
        raise source.error((formats[0].key,), f"expected at least one {formats[0].expected_entry}, got an empty list")
    return source, document[formats[0].key], formats[0]


def _name_error(raw: Any, index: int, source: Source, format_: RunnersFormat) -> InputError | None:
    at = (format_.key, index)
    if not isinstance(raw, Mapping):
        return source.error(at, f"expected a {format_.expected_entry}")
    name = raw.get("name")
    if not isinstance(name, str) or not runner_fields.RUNNER_NAME.fullmatch(name):
        return source.error((*at, "name"), f"a runner's name has letters, digits, '.', '_' and '-' only, got {name!r}")
    return None


def _runner_or_problem(raw: Mapping[str, Any], at: FieldPath, file: _File) -> Runner:
    entry = RunnerEntry(values=raw)
    try:
        if (problem := arms_problem(raw, at, file.source)) is not None:
            raise problem
        entry = file.format.entry(_with_used(raw, at, file), at, file.source, file.environment)
        runner = _checked_runner(entry.values, at, file)
        runner = replace(runner, place=entry.place, runs_in_place=entry.place is not None)
        _check_settings(runner, at, file)
    except InputError as error:
        problem = first_of_each([_respelled(each, at, entry.spelled, file.source) for each in problems_of(error)])
        tags = raw.get("tags")
        known = tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
        return UnusableRunner(
            name=raw["name"], adapter=str(entry.values.get("adapter", "")), tags=known, problem=problem
        )
    if runner.missing_grader is None:
        return runner
    return replace(runner, missing_grader=_respelled(runner.missing_grader, at, entry.spelled, file.source))


def _respelled(error: InputError, at: FieldPath, spelled: Mapping[str, str], source: Source) -> InputError:
    """The same error, its field as the file spells it."""
    entry = f"{dotted(at)}."
    ours = (error.place.field or "").removeprefix(entry)
    theirs = spelled.get(ours)
    return error if theirs is None or theirs == ours else error.at(source.place((*at, theirs)))


def _with_used(raw: Mapping[str, Any], at: FieldPath, file: _File) -> Mapping[str, Any]:
    """An entry with the settings of the one that it uses, and of the one that this uses; its own go first."""
    chain, merged, use = [raw["name"]], dict(raw), file.format.use_key
    while merged.get(use) is not None:
        name = _used_name(merged.pop(use), (*at, use), file)
        chain.append(name)
        if name in chain[:-1]:
            raise file.source.error((*at, use), f"'{raw['name']}' uses itself: {' → '.join(chain)}")
        if len(chain) > LONGEST_CHAIN + 1:
            raise file.source.error(
                (*at, use), f"more than {LONGEST_CHAIN} runners use one another: {' → '.join(chain)}"
            )
        used = {key: value for key, value in file.entries[name].items() if key not in _OWN_KEYS}
        merged = {**used, **merged}
    return {key: value for key, value in merged.items() if key != use}


def _used_name(raw: Any, at: FieldPath, file: _File) -> str:
    unset = [name for name in names_in(raw) if name not in file.environment]
    if unset:
        raise file.source.error(at, f"needs the environment variable {unset[0]}; export it or put it into .env")
    name = interpolate(raw, file.environment)
    if not isinstance(name, str):
        raise file.source.error(at, f"expected the name of a runner, got {name!r}")
    if name not in file.entries:
        raise UnknownName("runner", name, file.entries, file.source.place(at))
    return name


def _checked_runner(raw: Mapping[str, Any], at: FieldPath, file: _File) -> Runner:
    """Return the runner of an entry. Raises InputError with all its problems."""
    try:
        return _runner(raw, at, file)
    except InputError as error:
        raise first_of_each([*_problems(raw, at, file)] or [error]) from None


def _problems(raw: Mapping[str, Any], at: FieldPath, file: _File) -> Iterator[InputError]:
    """Yield the problem of each field of an entry."""
    factory = _adapter(raw, at, file.source)
    filled, cursor = interpolate(raw, file.environment), FieldCursor(file.source, at)
    settings = {key: value for key, value in filled.items() if key not in runner_fields.RUNNER}
    yield from _unknown_settings(settings, settings_of(factory), at, file.source)
    readers: Mapping[str, Callable[[], object]] = {
        "grader": lambda: _grader(filled, raw, at, file),
        "grader_payload": lambda: fields.choice(filled, "grader_payload", cursor, runner_fields.PAYLOADS),
        "simulator": lambda: fields.text(filled, "simulator", cursor),
        "tags": lambda: fields.texts(filled, "tags", cursor),
        "timeout_s": lambda: runner_fields.limit(filled, "timeout_s", cursor),
        "concurrency": lambda: fields.count(filled, "concurrency", cursor),
        "retries": lambda: runner_fields.retries(filled, cursor),
        "prices": lambda: runner_fields.prices(filled, cursor),
        "fallbacks": lambda: _others(filled, raw, "fallbacks", at, file),
    }
    for key in [key for key in readers if key in raw]:
        try:
            readers[key]()
        except InputError as error:
            yield error


def _runner(raw: Mapping[str, Any], at: FieldPath, file: _File) -> Runner:
    source, environment, cursor = file.source, file.environment, FieldCursor(file.source, at)
    factory = _adapter(raw, at, source)
    filled = interpolate(raw, environment)
    grader, missing = _grader(filled, raw, at, file)
    named = list(dict.fromkeys(_names(raw)))
    hidden = {name: text for name in named if (text := environment.get(name)) and is_secret(name, text, file.rules)}
    public = interpolate(raw, {**environment, **dict.fromkeys(hidden, REDACTED)})
    settings = {key: value for key, value in filled.items() if key not in runner_fields.RUNNER}
    for problem in _unknown_settings(settings, settings_of(factory), at, source):
        raise problem
    incidental: frozenset[str] = getattr(factory, "incidental", frozenset())
    shown = {key: public[key] for key in settings if key not in incidental}
    secrets = list(dict.fromkeys([*secrets_in(settings, file.rules), *filter(None, hidden.values())]))
    KNOWN.add(secrets)
    unknown = unknown_headers({key: raw[key] for key in shown}, file.rules) if file.digest is not None else []
    return Runner(
        name=raw["name"],
        adapter=raw["adapter"].replace("_", "-"),
        settings=settings,
        public_settings=Redactor(secrets).value(redacted(shown, file.rules)),
        tags=fields.texts(filled, "tags", cursor),
        folder=source.path.parent.absolute(),
        timeout_s=runner_fields.limit(filled, "timeout_s", cursor),
        concurrency=fields.count(filled, "concurrency", cursor),
        max_output_mb=runner_fields.limit(filled, "max_output_mb", cursor),
        retries=runner_fields.retries(filled, cursor),
        prices=runner_fields.prices(filled, cursor),
        secrets=tuple(secrets),
        unset=tuple(name for name in named if name not in environment),
        grader=grader,
        missing_grader=missing,
        grader_payload=fields.choice(filled, "grader_payload", cursor, runner_fields.PAYLOADS),
        fallbacks=_others(filled, raw, "fallbacks", at, file),
        isolation=runner_fields.isolation(filled, cursor),
        simulator=fields.text(filled, "simulator", cursor),
        headers_digest=file.digest(unknown) if file.digest is not None and unknown else None,
    )


def _grader(
    filled: Mapping[str, Any], raw: Mapping[str, Any], at: FieldPath, file: _File
) -> tuple[str | None, InputError | None]:
    """The name of an entry's grader, and why there is no such runner: an unused one stops nothing."""
    try:
        return next(iter(_others(filled, raw, "grader", at, file)), None), None
    except UnknownName as problem:
        return fields.texts(filled, "grader", FieldCursor(file.source, at))[0], problem


def _adapter(raw: Mapping[str, Any], at: FieldPath, source: Source) -> type[Adapter]:
    adapter = raw.get("adapter")
    if not isinstance(adapter, str):
        there_are = ", ".join(ADAPTERS.names())
        raise source.error((*at, "adapter"), f"runner '{raw['name']}' needs an adapter; there are: {there_are}")
    place = source.place((*at, "adapter"))
    try:
        return ADAPTERS.get(adapter, place)
    except UnknownName as unknown:
        agent = _agent_named(adapter)
        if agent is None:
            raise
        raise InputError(
            f"{unknown.problem}; for the coding agent: `adapter: agent`, `agent: {agent}`", place
        ) from None


def _agent_named(name: str) -> str | None:
    """Return the coding agent that is meant by a name: its own, the first word of it, or with a word more."""
    word = f"{name.lower()}-"
    agents = names_in_group(_AGENTS)
    return next((each for each in agents if f"{each}-".startswith(word) or word.startswith(f"{each}-")), None)


def _others(filled: Mapping[str, Any], raw: Mapping[str, Any], key: str, at: FieldPath, file: _File) -> tuple[str, ...]:
    """The runners of the same file that an entry names under a key. Raises InputError for one that is not there."""
    cursor = FieldCursor(file.source, at)
    names = fields.texts(filled, key, cursor)
    if key == "grader" and len(names) > 1:
        raise file.source.error((*at, key), "expected the name of one runner")
    for name, written in zip(names, fields.texts(raw, key, cursor), strict=True):
        if name not in file.entries and all(known in file.environment for known in names_in(written)):
            raise UnknownName("runner", name, file.entries, file.source.place((*at, key)))
        if key == "fallbacks" and name == raw["name"]:
            raise file.source.error((*at, key), f"'{name}' cannot be its own fallback")
    return names


def _names(raw: Any) -> Iterator[str]:
    """The environment names that an entry mentions."""
    for value in raw.values() if isinstance(raw, Mapping) else raw if isinstance(raw, list) else ():
        yield from _names(value)
    yield from names_in(raw)


def _check_settings(runner: Runner, at: FieldPath, file: _File) -> None:
    """Run the checks of the adapter and of the caller; a runner whose environment is not set is checked on use."""
    if runner.unset:
        return
    source = file.source
    try:
        ADAPTERS.get(runner.adapter)(runner)
        file.check(runner)
    except InputError as error:
        steps = error.place.field.split(".") if error.place.field else ()
        raise error.at(source.place((*at, *steps))) from None
    except (OSError, ValueError) as error:  # a path that no file can have
        raise source.error(at, f"has a path that cannot be used: {str(error)[:120]}") from None


class RunnerErrors(CaseErrors):
    """Why a runner cannot be used; its pairs are not carried out."""


def require_environment(runners: Iterable[Runner]) -> None:
    """Raises InputErrors for runners that cannot be used, because their entry is wrong or a `${{ NAME }}` of it is not
    set: checked only for those about to be used."""
    errors = [error for runner in runners for error in runner_errors(runner)]
    if errors:
        raise InputErrors(errors)


def runner_errors(runner: Runner) -> Iterator[InputError]:
    """Yield why a runner cannot be used."""
    if isinstance(runner, UnusableRunner):
        yield runner.problem
    for name in runner.unset:
        cure = "export it or put it into .env"
        yield InputError(f"runner '{runner.name}' needs the environment variable {name}; {cure}")


def _unknown_settings(
    settings: Mapping[str, Any], known: FieldTable, at: FieldPath, source: Source
) -> Iterator[InputError]:
    for key in settings:
        if key not in known.names:
            all_keys = sorted({*known.names, *runner_fields.RUNNER.names})
            yield source.error(
                (*at, key), f"unknown setting; there are: {', '.join(all_keys)}{did_you_mean(key, all_keys)}"
            )
