"""Files that hold one case each: those of a folder are one suite, named after the folder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.case_list import case_list
from eval_pipeline.suites.model import Case, Suite, content_revision


def joined_by_folder(suites: Sequence[Suite], named: Collection[Path]) -> list[Suite]:
    """Return the suites, those with a `folder` joined with the others of it. Files that are `named` stay suites."""
    groups: dict[Path, list[Suite]] = {}
    for suite in suites:
        own = replace(suite, folder=None) if suite.path in named else suite
        groups.setdefault(own.folder or own.path, []).append(own)
    return [
        members[0] if members[0].folder is None else _joined(members[0].folder, members) for members in groups.values()
    ]


def _joined(folder: Path, members: Sequence[Suite]) -> Suite:
    errors = [error for member in members for error in member.errors]
    cases = case_list(list(_distinct_cases(members, errors)))
    first, *others = members
    return replace(
        first,
        name=folder.name,
        revision=content_revision(*(member.revision for member in members)),
        cases=cases,
        errors=tuple(errors),
        warnings=tuple(warning for member in members for warning in member.warnings),
        parts=tuple(member.path for member in others),
    )


def _distinct_cases(members: Sequence[Suite], errors: list[InputError]) -> Iterator[Case]:
    """Yield the cases with their files; one whose id is taken joins `errors`."""
    places: dict[str, Path] = {}
    for member in members:
        for case in member.cases:
            first = places.setdefault(case.id, member.path)
            if first is member.path:
                yield replace(case, origin=member.path)
                continue
            problem = f"case id '{case.id}' is taken (first in {show_path(first)}); give each case a name of its own"
            errors.append(InputError(problem, SourceLocation(show_path(member.path), case.line, "name")))
