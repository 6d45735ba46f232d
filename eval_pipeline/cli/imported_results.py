"""Results of another system → suites, recordings of their answers, and runners that replay them.

A task is a suite, a model a runner. Cases are lines of JSON that the suite reads as a table, in which no placeholder is
replaced. All recordings of a system are in one folder, so that a runner replays every task of its model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from eval_pipeline.cli.file_writing import FileText, write_files
from eval_pipeline.cli.imported_suite import entries_of, relative_path, suites_folder, with_runner
from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.writing import jsonl_text, yaml_text
from eval_pipeline.reports.result_logs import RESULT_LOGS, OtherKind, RecordedSample, ResultLogFormat
from eval_pipeline.sweeps.project import Project
from eval_pipeline.warehouse.case_tables import columns_of_json

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_COLUMNS = {"id": "VARCHAR", "input": "JSON", "expected_output": "JSON", "metadata": "JSON"}
_HEADER = """\
# {count} of {system}, which runners replay: nothing is executed anew, scoring is free.
# The scores that {system} gave are evaluators below ('recorded-score'); add others beside them.
"""
_ANSWERED = {"name": "answered", "type": "regex", "value": r"\S"}
"""What scores a task whose log has no score, and names none: a case without evaluators would ask a grader."""
_VERDICT, _WHOLE = "pass", "score"
"""The recorded scores, where there are such, of whether a case passed at all, and of how well as a whole."""


@dataclass(slots=True)
class ResultTask:
    """One task: its cases by id, and the answers of each runner. `scorers` are the scores that its logs name, which no
    sample may have: all failed."""

    name: str
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    runners: dict[str, str] = field(default_factory=dict)
    scores: dict[str, list[float | None]] = field(default_factory=dict)
    scorers: dict[str, None] = field(default_factory=dict)
    repetitions: int = 1


@dataclass(slots=True)
class ResultImport:
    """What was read of the files: the tasks, and what was left out, with the reason."""

    tasks: dict[str, ResultTask] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


# Reading


def find_files(format_: ResultLogFormat, names: Sequence[str]) -> list[Path]:
    """Return the named files, and those of named folders. Raises InputError for a name that leads to none."""
    files: dict[Path, None] = {}
    patterns = " or ".join(format_.patterns)
    for name in names:
        path = Path(name).expanduser()
        below = {each for pattern in format_.patterns for each in path.rglob(pattern)}
        found = [path] if path.is_file() else sorted(below)
        if not found:
            raise InputError(f"no results at {show_path(path)}: expected a file, or a folder with {patterns}")
        files |= dict.fromkeys(found)
    return list(files)


def read_results(format_: ResultLogFormat, files: Sequence[Path], named: bool, suite: str | None) -> ResultImport:
    """Return the samples of the files by task. Files of other kinds are left out, silently unless they were `named`."""
    result = ResultImport()
    for file in files:
        try:
            for sample in format_.samples(file):
                _add(result, sample, file, suite)
        except InputError as error:
            if named or not isinstance(error, OtherKind):
                result.skipped.append(str(error))
        except OSError as error:
            result.skipped.append(f"{show_path(file)} cannot be read: {error.strerror}")
    result.tasks = {task.name: task for task in _named(result.tasks)}
    return result


def _named(tasks: Mapping[str, ResultTask]) -> Iterator[ResultTask]:
    """Yield the tasks, which are by their whole names, with names of suites: the short ones where no two are alike."""
    short = Counter(task.name for task in tasks.values())
    names: set[str] = set()
    for whole, task in tasks.items():
        task.name = _free_name(task.name if short[task.name] == 1 else slug(whole), names)
        names.add(task.name)
        for row in task.rows:
            row["suite"] = task.name
        yield task


def _add(result: ResultImport, sample: RecordedSample, file: Path, suite: str | None) -> None:
    name = suite or slug(sample.suite)
    task = result.tasks.setdefault(suite or sample.task or sample.suite, ResultTask(name))
    case = _case(sample)
    known = task.cases.setdefault(sample.case_id, case)
    if known["input"] != case["input"]:
        result.skipped.append(f"{show_path(file)}: case '{sample.case_id}' of {name} has another input than before")
        return
    task.runners.setdefault(sample.runner, f"{slug(sample.runner)}-recorded")
    task.repetitions = max(task.repetitions, sample.repetition)
    task.scorers |= dict.fromkeys(sample.scorers)
    for score in sample.scores:
        task.scores.setdefault(score.name, []).append(score.value)
    task.rows.append(_row(sample, name))


def _case(sample: RecordedSample) -> dict[str, Any]:
    expected = sample.expected_output
    about = {**sample.metadata}
    if expected is not None and not isinstance(expected, str):
        about["targets"], expected = list(expected), next(iter(expected), None)
    case = {"id": sample.case_id, "input": sample.input, "expected_output": expected, "metadata": about or None}
    return {key: value for key, value in case.items() if value is not None}


def _row(sample: RecordedSample, suite: str) -> dict[str, Any]:
    report = sample.report
    row: dict[str, Any] = {
        "suite": suite, "case": sample.case_id, "repetition": sample.repetition, "source_target": sample.runner,
        "report": report,
    }  # fmt: skip
    return {**row, "error": {"class": report.failure_class, "message": report.error}} if report.failure_class else row


def _free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: it, or with a number behind it."""
    return next(
        each for each in (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3))) if each not in taken
    )


def slug(name: str) -> str:
    """Return a name as names of suites and runners are written."""
    return _NOT_IN_NAMES.sub("-", name).strip("-._") or "results"


# Writing


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFiles:
    """The folders of imported results in a project, and its runners file."""

    system: str
    suites: Path
    recordings: Path
    runners: Path

    @property
    def answers(self) -> Path:
        """The folder of the answers of all tasks."""
        return self.recordings / "answers"

    def written(self, task: ResultTask) -> list[FileText]:
        """The files of a task."""
        cases = self.recordings / "cases" / f"{task.name}.jsonl"
        suite = self.suites / f"{task.name}.yaml"
        return [
            FileText(cases, jsonl_text(task.cases.values()), "cases"),
            FileText(self.answers / f"{task.name}.jsonl", jsonl_text(task.rows), "recording"),
            FileText(suite, self._suite(task, relative_path(cases, suite.parent)), "suite"),
        ]

    def _suite(self, task: ResultTask, cases: str) -> tuple[str, str]:
        runners = sorted(task.runners.values())
        answers = counted(len(task.rows), "recorded answer")
        execution: dict[str, Any] = {"targets": runners}
        if task.repetitions > 1:
            execution["repeat"] = task.repetitions
        if _VERDICT in task.scores:
            execution["threshold"] = 0
        scores = list(_evaluators(task) if task.scores else _evaluators_without_scores(task))
        document = {
            "name": task.name,
            "description": f"Results of {self.system}, imported",
            "execution": execution,
            **({"assertions": scores} if scores else {}),
            "cases": {"from": columns_of_json(cases, _COLUMNS)},
        }
        return _HEADER.format(count=answers, system=self.system), yaml_text(document)

    def runner(self, source: str, name: str) -> dict[str, Any]:
        """The entry of a runner in the runners file."""
        recording = relative_path(self.answers, self.runners.parent)
        return {"name": name, "adapter": "replay", "recording": recording, "source_target": source, "model": source}


def result_files(system: str, project: Project) -> ResultFiles:
    """Return where results of a system go in a project."""
    root = project.root
    return ResultFiles(
        system=system,
        suites=suites_folder(project),
        recordings=root / "recordings" / system,
        runners=project.runners or root / "runners.yaml",
    )


def _evaluators(task: ResultTask) -> Iterator[dict[str, Any]]:
    """Yield an evaluator for each recorded score; where one sums up the others, these have no weight."""
    for evaluator in _recorded(name for name in task.scores if _is_share(task.scores[name])):
        name = evaluator["score"]
        if name == _VERDICT:
            evaluator["required"] = True
        if _WHOLE in task.scores and name != _WHOLE:
            evaluator["weight"] = 0
        yield evaluator


def _evaluators_without_scores(task: ResultTask) -> Iterator[dict[str, Any]]:
    """Yield the evaluators of a task of which no sample has a score: those that its logs name, else one that asks for
    an answer."""
    yield from list(_recorded(task.scorers)) or [_ANSWERED]


def _recorded(scores: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield an evaluator for each score, no two of them of one name: `acc (a)` and `acc [a]` are written alike."""
    names: set[str] = set()
    for score in scores:
        name = _free_name(slug(score), names)
        names.add(name)
        yield {"name": name, "type": "recorded-score", "score": score}


def _is_share(values: Sequence[float | None]) -> bool:
    return all(value is not None and 0 <= value <= 1 for value in values)


def _other_scores(task: ResultTask) -> Iterator[str]:
    """Yield why recorded scores have no evaluator: what their numbers mean is known to people only."""
    if not task.scores:
        named = f"; the log names {', '.join(task.scorers)}" if task.scorers else ", and the log names none"
        yield f"{task.name}: no answer has a score{named}"
    for name, values in task.scores.items():
        if not _is_share(values):
            cure = "score it by recorded-score with range or labels"
            yield f"{task.name}: '{name}' is not always a number from 0 to 1; {cure}"


def name_runners(result: ResultImport, files: ResultFiles) -> None:
    """Give each runner a name that is no other's in the runners file: the model's, else with that of the system."""
    entries = _entries_by_name(_runners_text(files))
    names: dict[str, str] = {}
    for source in dict.fromkeys(source for task in result.tasks.values() for source in task.runners):
        names[source] = next(
            name
            for name in _possible_names(source, files.system)
            if name not in names.values() and _is_same(entries.get(name), files.runner(source, name))
        )
    for task in result.tasks.values():
        task.runners = {source: names[source] for source in task.runners}


def _possible_names(source: str, system: str) -> Iterator[str]:
    yield f"{slug(source)}-recorded"
    yield f"{slug(source)}-{system}-recorded"
    yield from (f"{slug(source)}-{system}-recorded-{number}" for number in count(2))


def _is_same(entry: Mapping[str, Any] | None, runner: Mapping[str, Any]) -> bool:
    """Return whether an entry is a runner, however else it is configured; true where there is no entry."""
    own = ("adapter", "recording", "source_target")
    return entry is None or all(entry.get(name) == runner[name] for name in own)


def _runners_text(files: ResultFiles) -> str:
    return files.runners.read_text(encoding="utf-8-sig") if files.runners.exists() else ""


def _entries_by_name(text: str) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a runners file that have a name, by it."""
    entries = (entry for entry in entries_of(text) if isinstance(entry, Mapping))
    return {entry["name"]: entry for entry in entries if isinstance(entry.get("name"), str)}


def check_free(tasks: Mapping[str, ResultTask], files: ResultFiles) -> None:
    """Raise InputError when files of a task exist."""
    existing = [text.path for task in tasks.values() for text in files.written(task) if text.path.exists()]
    if existing:
        raise InputError(f"{', '.join(map(show_path, existing))} exist; --force overwrites them")


def write_results(result: ResultImport, files: ResultFiles) -> Iterator[str]:
    """Write the files of all tasks and the runners; yield what was written.

    Raises InputError, before anything is written, for a runners file that cannot be added to.
    """
    text, added = _with_runners(result, files)
    for task in result.tasks.values():
        texts = files.written(task)
        write_files(texts)
        yield f"{counted(len(task.rows), 'answer')} to {counted(len(task.cases), 'case')} → {show_path(texts[-1].path)}"
        yield from _other_scores(task)
    if added:
        write_files([FileText(files.runners, (text,))])
    yield from (f"runner {entry['name']} → {show_path(files.runners)}" for entry in added)


def _with_runners(result: ResultImport, files: ResultFiles) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of the runners file with the runners of the results, and their new entries. Raises InputError."""
    runners = {source: name for task in result.tasks.values() for source, name in task.runners.items()}
    text = _runners_text(files)
    known = _entries_by_name(text)
    added = [files.runner(source, name) for source, name in runners.items() if name not in known]
    for entry in added:
        extended = with_runner(text, entry)
        if extended is None:
            raise InputError(f"{show_path(files.runners)}: cannot be added to; write {to_json(entry).decode()} there")
        text = extended
    return text, added


def describe(result: ResultImport) -> Iterator[tuple[object, ...]]:
    """Yield a row for each task and runner: their names, answers, cases of the task, names of recorded scores."""
    for task in result.tasks.values():
        answers = Counter(row["source_target"] for row in task.rows)
        for runner, number in answers.items():
            yield task.name, runner, number, len(task.cases), ", ".join(task.scores)


def format_named(name: str) -> ResultLogFormat | None:
    """Return the format of a system's results; None for a name that is none."""
    return RESULT_LOGS.get(name) if name in RESULT_LOGS.names() else None
