"""`run --report github`: an annotation for each failed case, and a summary of the step in Markdown.

Paths are those of the repository, so that GitHub shows annotations beside the lines of a change. Whatever a target or a
suite wrote is escaped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.leaderboards.show import percent
from eval_pipeline.leaderboards.sweep_gates import GateLine, SweepGate
from eval_pipeline.parsing.file_search import is_file
from eval_pipeline.sweeps.failed_cases import FailedCase, FailedCases
from eval_pipeline.sweeps.outcomes import PairOutcome

MOST_ANNOTATIONS = 50
_MOST_LISTED = 10
_LONGEST = 2_000
_SUMMARY = "GITHUB_STEP_SUMMARY"
_COMMANDS = {"NO-GO": "error", "INCONCLUSIVE": "warning"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")


@dataclass(frozen=True, slots=True)
class CasePosition:
    """File, relative to the repository, and line of a case."""

    file: str
    line: int | None


def places_of(outcomes: Sequence[PairOutcome], root: Path) -> dict[tuple[str, str], CasePosition]:
    """Return where the cases of suites are, by suite and case."""
    places: dict[tuple[str, str], CasePosition] = {}
    for outcome in outcomes:
        suite = outcome.pair.ready.suite
        for case in suite.cases:
            path = (case.origin or suite.path).absolute()
            places[suite.name, case.id] = CasePosition(os.path.relpath(path, root), case.line)
    return places


def repository_root(folder: Path) -> Path:
    """Return the top of the repository that a folder is in: that of the workflow, else the nearest with `.git`."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    if workspace and folder.absolute().is_relative_to(Path(workspace).absolute()):
        return Path(workspace).absolute()
    return next((each for each in (folder.absolute(), *folder.absolute().parents) if (each / ".git").exists()), folder)


def annotation_lines(failed: FailedCases, places: Mapping[tuple[str, str], CasePosition], root: Path) -> Iterator[str]:
    """Yield the workflow commands of failed cases, in one line each, at the check that failed, else at the case."""
    for case in failed.cases[:MOST_ANNOTATIONS]:
        place = _failed_line(case, root) or places.get((case.suite, case.case_id))
        yield _annotation(f"{case.case_id} > {case.runner}", _text_of(case), place)


def gate_lines(sweep: str | None, lines: Iterable[GateLine]) -> Iterator[str]:
    """Yield the workflow commands of the rules of a gate that are not shown to hold: an error where a rule is shown to
    be missed, else a warning."""
    for line in lines:
        if line.decision in _COMMANDS:
            title = f"{line.decision}: {line.rule} of {'the suite' if sweep is None else f'sweep {sweep}'}"
            yield _annotation(title, str(line), None, _COMMANDS[line.decision])


def _failed_line(case: FailedCase, root: Path) -> CasePosition | None:
    """Return the line of a failed check in a file of the repository; a stored score may be of another machine."""
    if case.line is None:
        return None
    file = Path(case.line[0])
    inside = file.is_relative_to(root.absolute()) and is_file(file)
    return CasePosition(os.path.relpath(file, root), case.line[1]) if inside else None


def _text_of(case: FailedCase) -> str:
    lines = [f"{case.label} [{case.failure_class or case.status}]"]
    if case.repetitions > 1:
        lines.append(f"{case.failed} of {case.repetitions} repetitions")
    return "\n".join([*lines, (case.reason or "no reason is stored")[:_LONGEST]])


def _annotation(title: str, text: str, place: CasePosition | None, command: str = "error") -> str:
    fields = {"title": title}
    if place is not None:
        fields["file"] = place.file
        if place.line is not None:
            fields["line"] = str(place.line)
    properties = ",".join(f"{name}={_property(value)}" for name, value in fields.items())
    return f"::{command} {properties}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def gate_summary(gate: SweepGate) -> str:
    """Return what the summary of a step has of a gate: the decision, and each rule."""
    rules = [f"- **{line.decision}** {markdown(str(line))}" for line in gate.lines]
    return "\n".join(["", f"### Gate: {gate.decision}", "", *rules]) + "\n"


def summary(outcomes: Sequence[PairOutcome], failed: FailedCases) -> str:
    """Return the summary of a step: a table of suites and runners, and the first failed cases."""
    lines = ["## Evaluation", "", "| Suite | Runner | Passed | Failed | Not graded | Pass rate |", "|" + " --- |" * 6]
    for outcome in outcomes:
        counts, name = outcome.counts, outcome.pair.name
        rate = percent(counts.pass_rate) if counts.pass_rate is not None else "-"
        cells = (name.suite, name.runner, counts.passed, counts.failed, counts.errored, rate)
        lines.append(f"| {' | '.join(markdown(str(cell)) for cell in cells)} |")
    if failed.total:
        lines += ["", f"### Failures ({failed.total})", ""]
        listed = [_listed(case) for case in failed.cases[:_MOST_LISTED]]
        lines += listed
        lines += [f"- …and {failed.total - len(listed)} more"] if failed.total > len(listed) else []
    return "\n".join(lines) + "\n"


def _listed(case: FailedCase) -> str:
    reason = " ".join((case.reason or "").split())[:300]
    where = markdown(f"{case.suite}/{case.case_id}")
    return f"- **{where}** with {markdown(case.runner)}: {markdown(case.label)}. {markdown(reason)}"


def markdown(text: str) -> str:
    """Return a text as it is read: no character of it is Markdown or HTML."""
    return _MARKDOWN.sub(r"\\\1", text.replace("\n", " ").replace("\r", " "))


def write_summary(text: str) -> bool:
    """Append a summary to the file that GitHub names; return whether it names one."""
    file = os.environ.get(_SUMMARY)
    if not file:
        return False
    with Path(file).open("a", encoding="utf-8") as out:
        out.write(text)
    return True
