"""Names of suites: a name that several files claim becomes, for each of them, the shortest end of its path that no
other file shares: `a/evals/dataset.eval.yaml` and `b/evals/dataset.eval.yaml` become `a.evals.dataset` and
`b.evals.dataset`.

The result depends on the set of files only, not on their order: a suite keeps its name from run to run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path, PurePath, PurePosixPath

from eval_pipeline.errors import SourceLocation
from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.model import Suite

_EVAL_ENDING = re.compile(r"\.eval\Z", re.IGNORECASE)
UNCATEGORIZED = "Uncategorized"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def default_name(path: PurePath) -> str:
    """Return a suite's default name: the file name without `.yaml`, `.jsonl` and a trailing `.eval`."""
    return _EVAL_ENDING.sub("", path.stem) or path.stem


def category_of(shown: str) -> str:
    """The category of a suite: the folders of its path as shown, without those named `evals`."""
    folders = [part for part in PurePosixPath(shown).parts[:-1] if part not in ("evals", "..", ".", "/")]
    return "/".join(folders) or UNCATEGORIZED


def shared_names(files: Iterable[PurePath]) -> set[str]:
    """Return the default names that several files have."""
    return {name for name, times in Counter(map(default_name, files)).items() if times > 1}


def with_unique_names(suites: Sequence[Suite], others: Mapping[Path, str] | None = None) -> list[Suite]:
    """Return the suites, each with a name of its own; one that is renamed has a warning.

    Args:
        suites: Suites of different files.
        others: The names that other files and folders claim, by path.
    """
    places = [suite.folder or suite.path for suite in suites]
    claimed = {place: suite.name for place, suite in zip(places, suites, strict=True)} | dict(others or {})
    names = unique_names(claimed)
    return [
        suite if names[place] == suite.name else _renamed(suite, names[place])
        for place, suite in zip(places, suites, strict=True)
    ]


def unique_names(claimed: Mapping[Path, str]) -> dict[Path, str]:
    """Return a name for each file: the claimed one where no other file claims it, else the shortest unique end of its
    path."""
    times = Counter(claimed.values())
    names = {path: name for path, name in claimed.items() if times[name] == 1}
    taken = set(claimed.values())
    rivals = [path for path in claimed if path not in names]
    ends = {path: list(_ends(path)) for path in rivals}
    shared = Counter(end for path in rivals for end in set(ends[path]))
    for path in sorted(rivals):
        free = (end for end in ends[path] if shared[end] == 1)
        numbered = (f"{ends[path][0]}-{number}" for number in count(2))  # paths differ in characters that no name has
        names[path] = next(name for name in chain(free, numbered) if name not in taken)
        taken.add(names[path])
    return names


def with_stored_names(suites: Sequence[Suite], holders: Mapping[str, Path]) -> list[Suite]:
    """Return the suites, none under a name that results of another file have; one that is renamed has a warning.

    A suite that is called by its file keeps the name that its own results have.

    Args:
        suites: Suites with unique names.
        holders: The existing files whose results are stored, by name, the newest last.
    """
    stored = {path: name for name, path in holders.items()}
    names = {suite.path: suite.name for suite in suites}
    for suite in suites:
        path, taken = suite.path, {name for each, name in names.items() if each != suite.path}
        ends = list(_ends(path))
        own = stored.get(path) if suite.name in ends and holders.get(suite.name) != path else None
        if own is not None and own in ends and own not in taken:
            names[path] = own
        elif (holder := holders.get(suite.name, path)) != path:
            taken.update(_ends(holder))
            free = (end for end in ends if end not in taken and holders.get(end, path) == path)
            names[path] = next(free, suite.name)
    return [_stored_as(suite, names[suite.path], holders) for suite in suites]


def _stored_as(suite: Suite, name: str, holders: Mapping[str, Path]) -> Suite:
    if name == suite.name:
        return suite
    other = holders.get(suite.name)
    if other is None:
        return replace(suite, name=name)
    problem = (
        f"called '{name}': '{suite.name}' is the name of results of {show_path(other)}; give it a 'name:' of its own"
    )
    warning = Diagnostic(problem, SourceLocation(show_path(suite.path)))
    return replace(suite, name=name, warnings=(*suite.warnings, warning))


def _ends(path: Path) -> Iterator[str]:
    """Yield names made of ever longer ends of a path, at last with the ending of the file."""
    folders = path.absolute().parts[1:-1]
    for file in (default_name(path), path.name):
        for length in range(len(folders) + 1):
            yield _plain((*folders[len(folders) - length :], file))


def _plain(parts: Iterable[str]) -> str:
    return ".".join(_NOT_IN_NAMES.sub("-", part).strip("-._") or "_" for part in parts)


def _renamed(suite: Suite, name: str) -> Suite:
    problem = f"several suites are named '{suite.name}': each is called by its path; give each a 'name:' of its own"
    warning = Diagnostic(problem, SourceLocation(show_path(suite.path)))
    return replace(suite, name=name, warnings=(*suite.warnings, warning))
