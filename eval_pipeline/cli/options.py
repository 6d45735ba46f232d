"""Options shared by subcommands, and the selection that they describe."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from eval_pipeline.cli.suite_warnings import and_more, grouped_warnings, require_no_warnings
from eval_pipeline.cli.warehouse_option import given_warehouse, warehouse_option
from eval_pipeline.errors import InputError, InputErrors, SourceLocation, UnknownName
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.planning import CaseFilter, check_case_ids, check_tags
from eval_pipeline.executions.runners import select_runners
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.case_list import case_list, traits_of
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.simulation_fields import STATUSES
from eval_pipeline.sweeps.named_pairs import unknown_anchor_names
from eval_pipeline.sweeps.named_sweeps import NamedSweep, named_sweep, runners_in
from eval_pipeline.sweeps.options import LaunchOptions, SweepOptions, flag_of, launch_options, without_unset
from eval_pipeline.sweeps.pairs import ValidatedSuite, requested_pairs
from eval_pipeline.sweeps.preflight import Preflight, preflight
from eval_pipeline.sweeps.project import WAREHOUSE_VARIABLE, Project, load_project, unknown_defaults
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.retention import moment_before
from eval_pipeline.warehouse.journal import PairKey

Command = TypeVar("Command", bound=Callable[..., Any])
EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_COMMA = "repeatable, or comma-separated"


def comma_separated(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a repeatable option that also takes several in one value."""
    parts = [part.strip() for value in values for part in value.split(",")]
    if any(not part for part in parts):
        raise click.BadParameter("a name is empty")
    return tuple(dict.fromkeys(parts))


def shares(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, float]:
    """Return numbers by name of `name=number,name=number`."""
    numbers: dict[str, float] = {}
    for part in (value or "").split(",") if value else ():
        name, sign, number = (each.strip() for each in part.partition("="))
        try:
            numbers[name] = float(number)
        except ValueError:
            sign = ""
        if not sign or not name:
            raise click.BadParameter(f"expected names with numbers, such as normal=0.7,hard=0.3; got '{part}'")
    return numbers


def past_moment(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    """Return the time of an age (`7d`, `12h`) or of an ISO date or time (without an offset in this machine's zone)."""
    if value is None:
        return None
    before = moment_before(datetime.now(UTC), value)
    if before is not None:
        return before
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"expected a date, a time or an age such as 7d or 12h, got '{value}'") from None


def project_options(command: Command) -> Command:
    """Add the options --project, --data and --warehouse."""
    command = click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.")(command)
    command = warehouse_option(command)
    where = click.Path(path_type=Path, exists=True)
    return click.option("--project", type=where, help="Project file or its folder (default: found upward).")(command)


def given_options(options: Mapping[str, Any]) -> str:
    """Return --project, --data and --warehouse as they were given, for a command that a message suggests."""
    given = ((name, options.get(name)) for name in ("project", "data"))
    paths = (f" --{name} {shlex.quote(show_path(Path(value)))}" for name, value in given if value is not None)
    return "".join(paths) + given_warehouse()


def option_of(model: type[BaseModel], name: str) -> Callable[[Command], Command]:
    """Return the click option of a field: its flag, type, bounds and help."""
    field = model.model_fields[name]
    flag = flag_of(field)
    assert flag is not None, f"{name} has no flag"
    settings: dict[str, Any] = {"help": f"{field.description}."}
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not type(None)]
    if flag.switch:
        settings["is_flag"] = True
    elif get_origin(field.annotation) is Literal:
        settings["type"] = click.Choice(get_args(field.annotation))
    elif get_origin(field.annotation) is dict:
        settings |= {"callback": shares, "metavar": "NAME=NUMBER,…"}
    elif get_origin(field.annotation) is tuple:
        settings |= {"multiple": True, "callback": comma_separated, "help": f"{field.description} ({_COMMA})."}
    elif kinds[0] in _RANGES:
        settings["type"] = _RANGES[kinds[0]](**_bounds(field))
    return click.option(flag.name, flag.keyword or name, **settings)


_RANGES: dict[Any, type[click.IntRange] | type[click.FloatRange]] = {int: click.IntRange, float: click.FloatRange}


def _bounds(field: FieldInfo) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for mark in field.metadata:
        bounds |= {"min": mark.ge} if isinstance(mark, Ge) else {}
        bounds |= {"min": mark.gt, "min_open": True} if isinstance(mark, Gt) else {}
        bounds |= {"max": mark.le} if isinstance(mark, Le) else {}
    return bounds


def selection_options(command: Command) -> Command:
    """Add the argument SUITES and the options that select runners and cases and set how a sweep runs."""
    for option in (
        *(option_of(LaunchOptions, name) for name, field in LaunchOptions.model_fields.items() if flag_of(field)),
        click.option("--runner", "runners", multiple=True, callback=comma_separated, help=f"Only these ({_COMMA})."),
        click.option("--runner-tag", "runner_tags", multiple=True, callback=comma_separated, help="Only so tagged."),
        click.option("--runners", "runners_file", type=EXISTING_FILE, help="Runners file."),
        click.option("--strict", is_flag=True, help="Warnings are errors: nothing is carried out."),
    ):  # fmt: skip
        command = option(command)
    return project_options(click.argument("suites", nargs=-1)(command))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection of a command: a project session with loaded suites, selected runners and resolved options.

    `pairs` are the pairs with at least one case to execute, suite by suite; `warnings` are about suites and money;
    `checked` is what else is known before money is spent.
    """

    session: ProjectSession
    suites: list[ValidatedSuite]
    runners: list[Runner]
    pairs: list[PairKey]
    launch: LaunchOptions
    options: SweepOptions
    warnings: Sequence[str] = ()
    checked: Preflight | None = None

    def require_cases(self) -> None:
        """Raise InputError with the reason when no case can be executed."""
        if self.suites and any(len(ready.suite.cases) for ready in self.suites):
            return
        why = "no case matches the selection" if self.options.cases else "the suites have no cases"
        raise InputError("no case can be carried out" if self.problems else why)

    @property
    def problems(self) -> list[InputError]:
        """Files and cases that cannot be executed."""
        invalid = [*self.session.broken, *(error for ready in self.suites for error in ready.errors)]
        return [*invalid, *(_ungraded(self.checked) if self.checked is not None else ())]


def open_project(project: Path | None, data: Path | None, runners_file: Path | None = None) -> Project:
    """Return the project of the current folder, overridden by flags."""
    loaded = load_project(Path.cwd(), project)
    if data is not None:
        loaded = replace(loaded, data=data.absolute(), warehouse=loaded.environment.get(WAREHOUSE_VARIABLE) or None)
    if runners_file is None:
        return loaded
    return replace(loaded, runners=runners_file.absolute(), searches_runners=False)


def select(
    *,
    suites: tuple[str, ...],
    project: Path | None,
    data: Path | None,
    runners_file: Path | None,
    **narrowing: Any,
) -> Selection:
    """Load the suites and runners that the options name. Raises InputError and InputErrors."""
    session = ProjectSession(open_project(project, data, runners_file))
    return select_in(session, [str(Path.cwd() / name) for name in suites], **narrowing)


def select_in(
    session: ProjectSession,
    suites: Sequence[str] = (),
    *,
    runners: Sequence[str] = (),
    runner_tags: Sequence[str] = (),
    cases: Sequence[str] = (),
    tags: Sequence[str] = (),
    resume: bool = False,
    strict: bool = False,
    **options: Any,
) -> Selection:
    """Load the suites of a project (paths; all without any) and choose runners and cases.

    `options` are those of `LaunchOptions` by their keywords. Raises InputError and InputErrors.
    """
    name, narrowed = options.get("sweep"), any((suites, runners, runner_tags, cases, tags))
    named, options = _over_named(session, options, narrowed=narrowed)
    cases, tags = tuple(cases) or tuple(named.cases), tuple(tags) or tuple(named.tags)
    ready = _covered(session.load_suites(list(suites) or None), session, NamedSweep() if suites else named)
    check_case_ids([each.suite for each in ready], cases)
    chosen = {r.name for r in _runners_of(session, runners, named, runner_tags)}
    if not runners:
        ready = _without_unknown_runners(ready, session)
    if not chosen:
        raise InputError("no runner has any of these tags: " + ", ".join(runner_tags))
    case_filter = _case_filter(cases, tags := tags or _default_tags(session, cases), options)
    used = _pairs_of(session, ready, chosen, case_filter, any_runner=bool(runners))
    if not used:
        _check_why_none(ready, chosen, case_filter)
    empty = [each.suite for each in ready if not (each.suite.cases or each.errors)]
    ready = [each for each in ready if each.suite.name in {pair.suite for pair in used} or each.errors]
    unusable = session.unusable(used)
    options |= {"tags": tags, "cases": cases, "any_runner": bool(runners)}
    launch = _launch(session, options, resume=resume, name=name)
    resolved = launch.resolve(session.project.defaults)
    read = [*empty, *(each.suite for each in ready)]
    usable = [pair for pair in used if pair not in unusable]
    checked = _checked_before_money(session, usable, resolved)
    warnings = _known_before(session, read, usable, checked, None if suites else resolved.sweep, strict=strict)
    return Selection(
        session=session,
        suites=ready,
        runners=list({runner.address: runner for runner in used.values()}.values()),
        pairs=[pair for pair in usable if pair not in checked.errors],
        launch=launch,
        options=resolved,
        warnings=warnings,
        checked=replace(checked, errors={**unusable, **checked.errors}),
    )


def _runners_of(session: ProjectSession, names: Sequence[str], named: NamedSweep, tags: Sequence[str]) -> list[Runner]:
    """Return the runners of these names, else those of the sweep, that have any of the tags; with a matrix its
    combinations in their place. Raises UnknownName."""
    known, project = session.load_runners(), session.project
    chosen = select_runners(known, names or named.runners, tags)
    if not named.matrix:
        return chosen if names else runners_in(project, None, chosen)
    sweep = next(name for name, each in project.sweeps.items() if each is named)
    varied = {runner.name for runner in chosen}
    return [runner for runner in runners_in(project, sweep, known) if {runner.name, runner.stands_for} & varied]


def _launch(session: ProjectSession, options: Mapping[str, Any], *, resume: bool, name: str | None) -> LaunchOptions:
    """Return the options of a launch from those of the command. Raises InputError, also for an unknown grader."""
    narrowed = not options.get("sweep")
    given = {**options, "resume": session.store.interrupted_sweep(name, narrowed=narrowed) if resume else None}
    launch = launch_options({_FIELDS.get(name, name): value for name, value in given.items()})
    if launch.grader is not None:
        select_runners(session.load_runners(), [launch.grader])
    return launch


def _over_named(
    session: ProjectSession, options: Mapping[str, Any], *, narrowed: bool
) -> tuple[NamedSweep, dict[str, Any]]:
    """Return the sweep that the options name, and the options, by their keywords, over its own. A selection that is
    `narrowed`, or another one, is stored without the name."""
    named = named_sweep(session.project, options["sweep"]) if options.get("sweep") else NamedSweep()
    if narrowed or any(options.get(name) for name in NARROWING):
        options = {**options, "sweep": None}
    keywords = {field: keyword for keyword, field in _FIELDS.items()}
    of_sweep = {keywords.get(field, field): value for field, value in named.given.items()}
    return named, of_sweep | without_unset(options)


def _covered(ready: list[ValidatedSuite], session: ProjectSession, named: NamedSweep) -> list[ValidatedSuite]:
    """Return the suites that belong to a named sweep. Raises UnknownName for one that is not there."""
    root = session.project.root
    named.check_names((each.suite for each in ready), root, session.broken)
    return [each for each in ready if named.covers_suite(each.suite, root)]


def _pairs_of(
    session: ProjectSession,
    suites: Iterable[ValidatedSuite],
    chosen: Collection[str],
    selected: CaseFilter,
    *,
    any_runner: bool,
) -> dict[PairKey, Runner]:
    """Return the pairs of suites with the runners of these names."""
    pairs: dict[PairKey, Runner] = {}
    for ready in suites:
        known = session.runners_of(ready.suite)
        runners = [runner for name, runner in known.items() if name in chosen]
        requested = requested_pairs(ready, runners, selected, any_runner=any_runner)
        pairs |= {pair: known[pair.runner] for pair in requested}
    return pairs


_FIELDS = {
    flag.keyword: name
    for name, field in LaunchOptions.model_fields.items()
    if (flag := flag_of(field)) is not None and flag.keyword is not None
}
"""The fields whose keyword is not their name."""


def _known_before(
    session: ProjectSession,
    suites: list[Suite],
    pairs: list[PairKey],
    checked: Preflight,
    sweep: str | None,
    *,
    strict: bool,
) -> Sequence[str]:
    """Return the warnings about suites, anchors and money. Raises InputErrors for a warning with `strict`."""
    unexecuted = (f"{error}; not executed{and_more(number)}" for error, number in checked.without_grader)
    unknown = unknown_anchor_names(session, sweep) if sweep is not None else ()
    others = [*unknown, *checked.warnings, *unexecuted, *_missing_graders(session, pairs, checked)]
    if strict:
        require_no_warnings(suites, others)
    return [*grouped_warnings(suites), *others]


def _missing_graders(session: ProjectSession, pairs: list[PairKey], checked: Preflight) -> Iterator[str]:
    """Yield a warning for each runner whose grader does not exist; no evaluator of its pairs needs it."""
    named = checked.errors.keys() | checked.ungraded.keys()
    needed = {session.runner_of(pair).address for pair in pairs if pair in named}
    runners = {runner.address: runner for runner in map(session.runner_of, pairs)}
    for address, problem in ((address, runner.missing_grader) for address, runner in runners.items()):
        if problem is not None and address not in needed:
            yield f"{problem}; nothing that is carried out now needs this grader"


def _checked_before_money(session: ProjectSession, pairs: list[PairKey], options: SweepOptions) -> Preflight:
    """Return what is known before any execution costs money. Raises InputErrors when no pair has a usable grader, and
    for a budget that cannot hold."""
    checked = preflight(session, session.pairs(pairs), options)
    if checked.unlimited or (checked.errors and len(checked.errors) == len(pairs)):
        raise InputErrors(list({str(error): error for error in checked.errors.values()}.values()))
    return checked


def _ungraded(checked: Preflight) -> Iterator[InputError]:
    """Yield the reason of each case that no grader can grade as it is, of pairs without any other case once."""
    reasons = [*checked.errors.values(), *(error for errors in checked.invalid.values() for error in errors.values())]
    yield from {str(reason): reason for reason in reasons}.values()


NARROWING = ("difficulties", "statuses", "all_tags", "names", "sample", "mix", "seed")


def _default_tags(session: ProjectSession, cases: Sequence[str]) -> Sequence[str]:
    """Return the tags that the project file selects by, unless cases are named."""
    return () if cases else session.project.defaults.tags


def _case_filter(cases: Sequence[str], tags: Sequence[str], options: Mapping[str, Any]) -> CaseFilter:
    """Return the filter of a command's options. Raises InputError for an unknown status or difficulty, or a mix that
    does not add up."""
    narrowing = {name: options.get(name) for name in NARROWING}
    return launch_options({"cases": cases, "tags": tags, **narrowing}).case_filter


def _check_why_none(suites: list[ValidatedSuite], chosen: Collection[str], selected: CaseFilter) -> None:
    """Raise InputError with the reason why no pair has a case, where statuses, tags or runners are the reason."""
    _check_statuses(suites, selected)
    check_tags((each.suite for each in suites), selected.tags | selected.all_tags)
    if not selected:
        _check_cases_runners(suites, chosen)


def _check_statuses(suites: list[ValidatedSuite], selected: CaseFilter) -> None:
    """Raise InputError when every selected case has another status."""
    of_any_status = replace(selected, statuses=frozenset(STATUSES))
    found: Counter[str] = Counter(case.status for each in suites for case in each.suite.cases if of_any_status(case))
    if found and not selected.statuses & found.keys():
        counts = ", ".join(f"{found[status]} {status}" for status in STATUSES if found[status])
        names = ",".join(status for status in STATUSES if found[status])
        wanted = " or ".join(sorted(selected.statuses))
        raise InputError(f"no case is {wanted}: the selection has {counts}; add --status {names} to carry them out")


def _check_cases_runners(suites: list[ValidatedSuite], chosen: Collection[str]) -> None:
    """Raise InputError when every case names runners of its own and none of them is selected."""
    named = sorted({name for each in suites for name in traits_of(each.suite.cases).runners})
    if named:
        selected = ", ".join(sorted(chosen))
        raise InputError(f"no case is for {selected}: each names the runners it is for ({', '.join(named)})")


def _without_unknown_runners(suites: list[ValidatedSuite], session: ProjectSession) -> list[ValidatedSuite]:
    """Return the suites without cases that name an unknown runner.

    Raises InputErrors for unknown runners that the project file gives to suites without runners.
    """
    unknown = unknown_defaults(session.project, {runner.name for runner in session.load_runners()})
    errors = [error for error in unknown if error.place.field != "defaults.grader"]
    if errors:
        raise InputErrors(errors)
    return [_with_known_runners(each, session) for each in suites]


def _with_known_runners(ready: ValidatedSuite, session: ProjectSession) -> ValidatedSuite:
    """Return the suite without cases that name an unknown runner; each becomes an error and the others remain.

    Raises UnknownName for a suite that itself requests such a runner: it would silently execute nothing.
    """
    known = session.runners_of(ready.suite)
    for name in sorted(set(ready.suite.settings.runners) - known.keys()):
        raise UnknownName("runner", name, known, SourceLocation(show_path(ready.suite.path)))
    if traits_of(ready.suite.cases).runners <= known.keys():
        return ready
    errors: dict[str, InputError] = {}
    for case in ready.suite.cases:
        for name in sorted(set(case.runners or ()) - known.keys()):
            place = SourceLocation(show_path(case.origin or ready.suite.path), case.line, f"case '{case.id}'")
            errors[case.id] = UnknownName("runner", name, known, place)
    usable = case_list(case for case in ready.suite.cases if case.id not in errors)
    rest = replace(ready, suite=replace(ready.suite, cases=usable), errors=(*ready.errors, *errors.values()))
    session.suites[ready.suite.name] = rest
    return rest
