"""Files → findings of `validate` about suites, runners files and configurations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from eval_pipeline.cli.suite_warnings import and_more
from eval_pipeline.errors import (
    NOWHERE,
    EvalPipelineError,
    InputError,
    InputErrors,
    SourceLocation,
    UnknownName,
)
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.identity import runner_revision
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.runner_files import is_kept_beside_suites, runner_formats
from eval_pipeline.executions.runners import UnusableRunner, load_runners
from eval_pipeline.fingerprints import require_regular_file
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.diagnostics import Diagnostic, first_of_each, problems_of
from eval_pipeline.parsing.source import show_path, yaml_source
from eval_pipeline.parsing.yaml_text import parse_yaml
from eval_pipeline.reports.normalize import check_format
from eval_pipeline.scores.error_places import ErrorPlaces
from eval_pipeline.scores.evaluate import EvaluatorSet, GraderRevision
from eval_pipeline.scores.model import NOTHING
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.suites.configurations import CONFIGURATIONS, Configuration
from eval_pipeline.suites.folder_suites import joined_by_folder
from eval_pipeline.suites.load import FORMATS, find_suite_files, load_suite, named_files
from eval_pipeline.suites.model import Case, Suite
from eval_pipeline.suites.names import with_unique_names
from eval_pipeline.suites.review import review
from eval_pipeline.sweeps.grader_settings import accepted_settings
from eval_pipeline.sweeps.named_pairs import unlimited_sweeps
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.preflight import preflight
from eval_pipeline.sweeps.project import NO_SUITES, PROJECT_FILE, Project, load_project, unknown_defaults
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.runner_registry import with_aliases
from eval_pipeline.sweeps.snapshots import settings_problems
from eval_pipeline.sweeps.solution_checks import check_solutions

Kind = Literal["suite", "runners", "project"]
_SCHEMA = re.compile(
    r"""^[{\s]*["']?\$schema["']?\s*:\s*["']?([A-Za-z-]+?)(?:-v[\d.]+)?["']?\s*(?:,|$)""", re.MULTILINE
)
_RUNNERS_NAME = re.compile(r"(?:.*\.)?(?:runners|targets)\.ya?ml\Z")
_HEAD = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One `error` or `warning`, with its location."""

    severity: Literal["error", "warning"]
    message: str
    place: SourceLocation = NOWHERE

    def as_json(self) -> dict[str, Any]:
        return {
            "severity": self.severity,
            "file": self.place.file,
            "line": self.place.line,
            "field": self.place.field,
            "message": self.message,
        }

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if str(self.place) else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of a check: the findings, and the number of usable cases of each suite."""

    findings: Sequence[Finding]
    suites: Mapping[str, int]


def check_files(session: ProjectSession, names: Sequence[str], folder: Path) -> Checked:
    """Check files, folders and globs, by default the project's suites; always check the project's runners."""
    project = session.project
    if not (names or project.suites):
        raise InputError(NO_SUITES)
    others = {path: kind_of(path) for name in names for path in _other_files(name, folder)}
    runner_files = [path for path, kind in others.items() if kind == "runners"]
    if project.runners is not None and project.runners not in runner_files:
        runner_files.append(project.runners)
    findings: list[Finding] = []
    runners: dict[str, Runner] = {}
    for path in runner_files:
        findings += _check_runners(path, project.environment, runners)
    for path, kind in others.items():
        findings += _check_other(path, kind)
    findings += _unknown_defaults(project, runners)
    suites = _Suites(session, runners if runner_files else None, runner_files)
    files = _named_suites(names, folder) if names else find_suite_files(project.suites, project.root)
    suites.check(files, named_files(names, folder) if names else named_files(project.suites, project.root))
    if project.runners is not None and project.runners not in others and is_kept_beside_suites(project.runners):
        unused = set(_check_runners(project.runners, project.environment, {}, runners.keys() - suites.named))
        findings = [replace(each, severity="warning") if each in unused else each for each in findings]
    findings += _no_runners(session, suites.loaded)
    findings += chain.from_iterable(map(findings_of, settings_problems(suites.loaded, project)))
    with suppress(EvalPipelineError):  # reported above
        findings += _before_money(session, suites.loaded)
    return Checked(findings=list(dict.fromkeys([*suites.findings, *findings])), suites=suites.counts)


def with_solutions_checked(checked: Checked, session: ProjectSession, names: Sequence[str]) -> Checked:
    """Return the findings with those of solutions: what they do not solve, and what is solved by doing nothing."""
    suites = session.load_suites([str(Path(name).absolute()) for name in names] or None)
    problems = check_solutions(suites, session.project.defaults)
    findings = [
        Finding(severity="warning" if each.unchecked else "error", message=each.problem, place=each.place)
        for each in problems
    ]
    return replace(checked, findings=[*checked.findings, *findings])


def _no_runners(session: ProjectSession, suites: Sequence[Suite]) -> Iterator[Finding]:
    """Yield an error where the suites of a project file have no runners at all."""
    folders = {suite.path.parent for suite in suites}
    if session.project.file is None or not folders or any(map(session.registry.has_any, folders)):
        return
    try:
        session.registry.at()
    except InputError as error:
        yield Finding(severity="error", message=error.problem, place=SourceLocation(show_path(session.project.file)))


def _before_money(session: ProjectSession, suites: Sequence[Suite]) -> Iterator[Finding]:
    """Yield warnings for what a run refuses (answers without a grader, budgets that cannot hold), and for models that
    would grade their own answers. The command line may choose other runners and graders."""
    validated = [session.validate_suite(suite) for suite in suites]
    pairs = [
        Pair(ready=ready, runner=runner, revision="", runner_named=session.runner)
        for ready in validated
        for runner in session.runners_of(ready.suite).values()
        if not isinstance(runner, UnusableRunner)
    ]
    named = [pair for pair in pairs if pair.runner.name in (pair.ready.suite.settings.runners or [pair.runner.name])]
    checked = preflight(session, named, SweepOptions(defaults=session.project.defaults))
    by_suite: dict[str, list[InputError]] = {}
    for pair, error in checked.errors.items():
        by_suite.setdefault(pair.suite, []).append(error)
    for errors in by_suite.values():
        more = f" (and {counted(len(errors) - 1, 'other runner')} in this suite)" if len(errors) > 1 else ""
        yield Finding(severity="warning", message=f"run refuses it: {errors[0].problem}{more}", place=errors[0].place)
    for error, number in checked.without_grader:
        message = f"run does not execute it: {error.problem}{and_more(number)}"
        yield Finding(severity="warning", message=message, place=error.place)
    invalid = [error for errors_of in checked.invalid.values() for error in errors_of.values()]
    for error in {str(error): error for error in invalid}.values():
        yield Finding(severity="warning", message=f"run leaves it out: {error.problem}", place=error.place)
    for name, error in unlimited_sweeps(session, pairs):
        yield _warning(f"run --sweep {name} refuses it: {error.problem}")
    yield from map(_warning, checked.warnings)


def kind_of(path: Path) -> Kind | Configuration:
    """Return the kind of a file: by its `$schema`, else by its name, else a suite."""
    try:
        with path.open("r", encoding="utf-8-sig", errors="replace") as file:
            head = file.read(_HEAD)
    except OSError:
        head = ""  # reading it as the kind of its name reports the reason
    schema = _SCHEMA.search(head)
    if schema is not None and (kind := _kind_of_schema(schema[1])) is not None:
        return kind
    if path.name == PROJECT_FILE:
        return "project"
    configuration = next((each for _, each in CONFIGURATIONS if each.recognizes(path)), None)
    if configuration is not None:
        return configuration
    return "runners" if _RUNNERS_NAME.match(path.name) else "suite"


def _kind_of_schema(name: str) -> Kind | Configuration | None:
    """Return the kind of file that a `$schema` names; None for an unknown one."""
    if any(name in getattr(format_, "schemas", ()) for _, format_ in FORMATS):
        return "suite"
    if any(name in format_.schemas for format_ in runner_formats()):
        return "runners"
    return next((each for _, each in CONFIGURATIONS if name in each.schemas), None)


def _other_files(name: str, folder: Path) -> list[Path]:
    """Return the files of a name or a glob that are not suites."""
    path = folder / Path(name).expanduser()
    if path.is_dir():
        return []
    paths = [path] if path.is_file() else sorted(_globbed(path, folder))
    return [file for file in paths if file.is_file() and file.suffix in (".yaml", ".yml") and kind_of(file) != "suite"]


def _globbed(pattern: Path, folder: Path) -> Iterator[Path]:
    """Return the paths of a glob; the name of its base folder is taken literally."""
    base = folder if pattern.is_relative_to(folder) else Path(pattern.anchor)
    return base.glob(str(pattern.relative_to(base)))


def _named_suites(names: Sequence[str], folder: Path) -> list[Path]:
    """Return the suites of names, folders and globs, without other files."""
    suites: dict[Path, None] = {}
    for name in names:
        others = _other_files(name, folder)
        try:
            files = find_suite_files([name], folder)
        except InputError:
            if not others:
                raise
            files = []
        suites.update((file, None) for file in files if file not in others)
    return list(suites)


def findings_of(error: EvalPipelineError) -> Iterator[Finding]:
    """Yield each single problem of an error."""
    for each in error.errors if isinstance(error, InputErrors) else [error]:
        if isinstance(each, InputError):
            for problem in problems_of(each):
                yield Finding(severity="error", message=problem.problem, place=problem.place)
        else:
            yield Finding(severity="error", message=str(each))


# Suites


class _Suites:
    """The suites checked so far; `runners` are those that a suite may name, None when unknown, `named` those that any
    suite names.

    `runner_files` are checked already. Of a file beside a suite, which the suite uses first, only what the suite names
    is checked.
    """

    def __init__(
        self, session: ProjectSession, runners: Mapping[str, Runner] | None, runner_files: Sequence[Path]
    ) -> None:
        self.findings: list[Finding] = []
        self.counts: dict[str, int] = {}
        self.loaded: list[Suite] = []
        self.named: set[str] = set()
        self._session = session
        self._reading = session.load_options
        self._registry = session.registry
        self._checked_files = frozenset(runner_files)
        self._of_project = runners
        self._runners = runners
        self._default_grader = session.project.defaults.grader

    def check(self, paths: Iterable[Path], named: Collection[Path]) -> None:
        for path in paths:
            try:
                self.loaded.append(load_suite(path, self._reading))
            except EvalPipelineError as error:
                self.findings += findings_of(error)
        self.loaded = with_unique_names(joined_by_folder(self.loaded, named))
        for suite in self.loaded:
            self._check(suite)

    def _check(self, suite: Suite) -> None:
        self._runners = self._of_project
        file = self._registry.file_for(suite.path.parent)
        if file is not None:
            self._add_runners(file, suite)
        if self._runners is not None and suite.settings.runner_aliases:
            self._runners = with_aliases(self._runners, suite.settings.runner_aliases)
            self.named |= set(suite.settings.runner_aliases.values())
        requested = self._session.validate_suite(suite).suite.settings.runners or (self._runners or {}).keys()
        self.named |= {*requested, *traits_of(suite.cases).runners}
        broken = EvaluatorSet(suite, self._grader).check()
        self.counts[suite.name] = len(suite.cases) - len(broken)
        for refused in suite.errors:
            self.findings += findings_of(refused)
        cases = [case for case in suite.cases if case.id in broken]
        self.findings += _evaluator_errors(suite, cases, self._grader)
        self.findings += self._runner_errors(suite)
        self.findings += [_warning(warning) for warning in (*suite.warnings, *review(suite))]

    def _add_runners(self, file: Path, suite: Suite) -> None:
        """Add the runners of the file beside a suite."""
        own: dict[str, Runner] = {}
        named = {*suite.settings.runners, *traits_of(suite.cases).runners}
        findings = list(_check_runners(file, self._registry.environment(suite.path.parent), own, named))
        self.findings += findings if file not in self._checked_files else []
        self._runners = {**(self._of_project or {}), **own}

    def _grader(self, name: str | None, settings: Mapping[str, Any] = NOTHING) -> str:
        """Return the name of an evaluator's grader, empty for the default one.

        Raises UnknownName, and InputError for a setting that the grader does not have.
        """
        if name is not None and self._runners is not None and name not in self._runners:
            raise UnknownName("runner", name, self._runners, SourceLocation(field="target"))
        self.named.add(name or "")
        grader = (self._runners or {}).get(name or self._default_grader or "")
        if settings and grader is not None and grader.adapter in ADAPTERS.names():
            accepted_settings(grader, settings).check()
        return name or ""

    def _runner_errors(self, suite: Suite) -> Iterator[Finding]:
        """Yield an error for each unknown runner that a suite names."""
        if self._runners is None:
            return
        for name in suite.settings.runners:
            if name not in self._runners:
                yield _unknown_runner(name, self._runners, _runner_place(suite))
        for case in suite.cases:
            place = SourceLocation(
                show_path(case.origin or suite.path), case.line, f"case '{case.id}' execution.target"
            )
            for name in case.runners or ():
                if name not in self._runners:
                    yield _unknown_runner(name, self._runners, place)


def _warning(text: str) -> Finding:
    if isinstance(text, Diagnostic):
        return Finding(severity="warning", message=text.problem, place=text.place)
    return Finding(severity="warning", message=text)


def _evaluator_errors(suite: Suite, cases: Sequence[Case], grader: GraderRevision) -> Iterator[Finding]:
    """Yield every invalid evaluator; one that many cases inherit is reported once."""
    places = ErrorPlaces(suite)
    seen: set[int] = set()
    for case in cases:
        for spec in case.evaluators:
            if id(spec) in seen:
                continue
            seen.add(id(spec))
            alone = replace(suite, cases=(replace(case, evaluators=(spec,)),))
            for problems in EvaluatorSet(alone, grader).problems().values():
                error = first_of_each([problem for _, problem in problems])
                yield from findings_of(error.at(places.of_evaluator(case, spec, error)))


def _unknown_runner(name: str, runners: Iterable[str], place: SourceLocation) -> Finding:
    error = UnknownName("runner", name, runners, place)
    return Finding(severity="error", message=error.problem, place=place)


def _runner_place(suite: Suite) -> SourceLocation:
    """Return the location of a suite's runners, else its file."""
    if suite.path.suffix.lower() == ".jsonl":
        return SourceLocation(show_path(suite.path), None, "execution.target")
    source = yaml_source(suite.path, suite.path.read_text(encoding="utf-8-sig"))
    document = parse_yaml(suite.path.read_text(encoding="utf-8-sig"))
    execution = document.get("execution")
    at = next((("execution", key) for key in ("targets", "target") if key in (execution or ())), ("target",))
    return source.place(at)


# Runners


def _check_runners(
    path: Path, environment: Mapping[str, str], known: dict[str, Runner], only: Collection[str] | None = None
) -> Iterator[Finding]:
    """Yield the problems of a runners file; its runners, usable or not, are added to `known`.

    With `only` the problems of other runners are left out.
    """
    try:
        runners = load_runners(path, environment, check=check_format)
    except EvalPipelineError as error:
        yield from findings_of(error)
        known.update(dict.fromkeys(_names_in(path), Runner(name="", adapter="")))
        return
    known.update((runner.name, runner) for runner in runners)
    for runner in runners:
        if only is not None and runner.name not in only:
            continue
        if isinstance(runner, UnusableRunner):
            yield from findings_of(runner.problem)
            continue
        if runner.missing_grader is not None:
            problem = f"{runner.missing_grader.problem}; what needs this grader cannot be graded"
            yield Finding(severity="warning", message=problem, place=runner.missing_grader.place)
        if not runner.unset:
            yield from _content_errors(runner)


def _content_errors(runner: Runner) -> Iterator[Finding]:
    """Yield the problems of files with a runner's answers (the rows of a recording)."""
    try:
        runner_revision(runner)
    except EvalPipelineError as error:
        yield from findings_of(error)


def _names_in(path: Path) -> Iterator[str]:
    """Return the names in a broken runners file, so that suites that use them have no further errors."""
    try:
        require_regular_file(path)
        document = parse_yaml(path.read_text(encoding="utf-8-sig"))
    except (EvalPipelineError, OSError, ValueError):
        return
    entries = (document.get("runners") or document.get("targets")) if isinstance(document, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            yield entry["name"]


# Configurations


def _check_project(project: Project) -> Iterator[Finding]:
    """Yield the problems of the runners that a project file names."""
    runners: dict[str, Runner] = {}
    if project.runners is not None:
        yield from _check_runners(project.runners, project.environment, runners)
    yield from _unknown_defaults(project, runners)


def _unknown_defaults(project: Project, runners: Mapping[str, Runner]) -> Iterator[Finding]:
    """Yield an error for each unknown runner under `defaults`; none where no runner could be read."""
    if runners:
        yield from chain.from_iterable(map(findings_of, unknown_defaults(project, runners)))


def _check_other(path: Path, kind: Kind | Configuration) -> Iterator[Finding]:
    """Yield the problems of a file that is neither a suite nor a runners file."""
    try:
        if isinstance(kind, Configuration):
            yield from map(_warning, kind.check(path))
        elif kind == "project":
            yield from _check_project(load_project(path.parent, path))
    except EvalPipelineError as error:
        yield from findings_of(error)
