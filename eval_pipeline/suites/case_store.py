"""Files of test cases as a store: which cases they hold, and what they hold after an import or a change of status.

Values only: changed files are returned, the caller writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eval_pipeline.errors import InputError, SourceLocation, UnknownName
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import DETACHED, kind
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.writing import yaml_text
from eval_pipeline.suites.case_formats import CASE_FORMATS, CaseFile, CaseFormat, claiming
from eval_pipeline.suites.conversion import NewFile, pretty_json

JsonMap = Mapping[str, Any]
OnConflict = Literal["skip", "overwrite"]
SUFFIXES = (".json", ".yaml", ".yml")
MOST_IMPORTED = 1000
_NOT_IN_NAMES = re.compile(r"[^\w-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCase:
    """A case of a file: its id and its fields as they are written."""

    id: str
    raw: JsonMap
    file: CaseFile
    format: CaseFormat
    index: int

    @property
    def line(self) -> int | None:
        """The line that the case begins at."""
        return self.file.cursors[self.index].line

    @property
    def status(self) -> str:
        """Where the case is in its life."""
        return "archived" if self.raw.get("deleted_at") else str(self.raw.get("status") or "active")

    @property
    def difficulty(self) -> str:
        """How hard the case is."""
        return str(self.raw.get("difficulty") or "normal")

    @property
    def tags(self) -> tuple[str, ...]:
        """The labels of the case."""
        tags = self.raw.get("tags")
        return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()

    def problem(self) -> InputError | None:
        """Return what is wrong with the case; None for a usable one."""
        try:
            self.format.read(self.raw, self.file.cursors[self.index], Diagnostics())
        except InputError as error:
            return error
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseQuery:
    """Which cases are listed: of any of these tags and all of those, of these statuses and difficulties, with a text in
    name or description (in any case), of an agent. Empty: all."""

    tags: tuple[str, ...] = ()
    all_tags: tuple[str, ...] = ()
    difficulties: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    search: str | None = None
    agent: str | None = None

    def __call__(self, case: StoredCase) -> bool:
        text = f"{case.raw.get('name') or ''}\n{case.raw.get('description') or ''}"
        return (
            (not self.tags or not set(self.tags).isdisjoint(case.tags))
            and set(self.all_tags) <= set(case.tags)
            and (not self.difficulties or case.difficulty in self.difficulties)
            and (not self.statuses or case.status in self.statuses)
            and (self.search is None or self.search.casefold() in text.casefold())
            and (self.agent is None or case.raw.get("agent_id") == self.agent)
        )


@dataclass(slots=True, kw_only=True)
class ImportOutcome:
    """What an import did: how many cases it created, skipped and overwrote, what was wrong, what of imported cases has
    no effect (`warnings`), and the files to write."""

    created: int = 0
    skipped: int = 0
    overwritten: int = 0
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: list[NewFile] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many items there were."""
        return self.created + self.skipped + self.overwritten + len(self.errors)

    @property
    def as_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        counts = {name: getattr(self, name) for name in ("created", "skipped", "overwritten", "total")}
        return {**counts, "errors": self.errors, "warnings": self.warnings}


def stored_cases(paths: Iterable[Path], unreadable: list[InputError] | None = None) -> list[StoredCase]:
    """Return the cases in files and folders; files of other things in folders are passed over. What is wrong with files
    of folders that cannot be read joins `unreadable`.

    Raises InputError for a file that is named and holds no case.
    """
    cases: list[StoredCase] = []
    for path in paths:
        files = _files_below(path) if path.is_dir() else [path]
        for file in files:
            try:
                cases += _cases_of(file)
            except InputError as error:
                if file == path:
                    raise
                if unreadable is not None:
                    unreadable.append(error)
    return cases


def _files_below(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    return sorted(file for file in files if not any(part.startswith(".") for part in file.relative_to(folder).parts))


def _cases_of(path: Path) -> Iterator[StoredCase]:
    for _, format_ in CASE_FORMATS:
        file = format_.open(path)
        for index, raw in enumerate(file.cases):
            if isinstance(raw, Mapping) and _may_be_case(format_, raw):
                yield StoredCase(id=format_.identity(raw), raw=raw, file=file, format=format_, index=index)


def _may_be_case(format_: CaseFormat, raw: JsonMap) -> bool:
    """Return whether a mapping is a case, or meant to be one; a case of another format has an input, a suite tests."""
    return format_.claims(raw) or ("name" in raw and not {"input", "tests"} & raw.keys())


def case_named(cases: Sequence[StoredCase], id_: str) -> StoredCase:
    """Return the case of an id. Raises UnknownName, and InputError for one that several files have."""
    found = [case for case in cases if case.id == id_]
    if not found:
        raise UnknownName("case", id_, [case.id for case in cases])
    if len(found) > 1:
        places = ", ".join(f"{show_path(case.file.path)}:{case.line}" for case in found)
        raise InputError(f"case '{id_}' is in several files: {places}; name the file")
    return found[0]


def with_status(cases: Sequence[StoredCase], status: str, now: str) -> list[NewFile]:
    """Return the files of cases that have another status now."""
    return _changed(cases, lambda case: {**case.raw, "status": status, "updated_at": now})


def _changed(cases: Sequence[StoredCase], change: Callable[[StoredCase], JsonMap]) -> list[NewFile]:
    files: dict[Path, tuple[StoredCase, list[JsonMap]]] = {}
    for case in cases:
        _, listed = files.setdefault(case.file.path, (case, list(case.file.cases)))
        listed[case.index] = change(case)
    return [new_file(path, first.format.with_cases(first.file, listed)) for path, (first, listed) in files.items()]


def new_file(path: Path, document: Any) -> NewFile:
    """Return a file with a document. Raises InputError for a YAML file whose comments would be lost."""
    if path.suffix.lower() == ".json":
        return NewFile(path, [pretty_json(document)])
    if path.is_file() and any(line.lstrip().startswith("#") for line in path.read_text("utf-8").splitlines()):
        raise InputError("has comments that would be lost; change it by hand", SourceLocation(show_path(path)))
    return NewFile(path, [yaml_text(document)])


def items_of(path: Path) -> CaseFile:
    """Return a file of items to import: a list, or an object with one. Raises InputError for none or too many."""
    format_ = next(format_ for _, format_ in CASE_FORMATS)
    file = format_.open(path)
    if len(file.cases) > MOST_IMPORTED:
        problem = f"expected at most {MOST_IMPORTED} test cases, got {len(file.cases)}; import them in parts"
        raise InputError(problem, SourceLocation(show_path(path)))
    return file


def imported(
    source: CaseFile, into: Path, on_conflict: OnConflict, now: str, new_id: Callable[[], str]
) -> ImportOutcome:
    """Return what an import of a file's items into a file or folder does.

    An item whose id exists, or that an earlier item has, is skipped, or overwrites the fields that it has; others are
    added, each with an id of its own. Wrong items are errors and do not stop the others.
    """
    outcome = ImportOutcome()
    existing = {case.id: case for case in stored_cases([into] if into.exists() else [])}
    changes: dict[str, JsonMap] = {}
    added: dict[str, JsonMap] = {}
    for index, (item, cursor) in enumerate(zip(source.cases, source.cursors, strict=True)):
        place = f"{show_path(source.path)}:{cursor.line}: item {index}"
        try:
            found = _take(item, existing, changes, added, outcome, (on_conflict, now, new_id))
        except InputError as error:
            outcome.errors.append(f"{place}: {error}")
        else:
            outcome.warnings += [f"{place}: {warning}" for warning in found]
    changed = [existing[id_] for id_ in changes]
    if into.suffix:
        outcome.files = _one_file(into, list(existing.values()), changes, list(added.values()))
    else:
        outcome.files = _changed(changed, lambda case: changes[case.id])
        outcome.files += _own_files(into, list(added.values()))
    return outcome


def _take(
    item: Any, existing: Mapping[str, StoredCase], changes: dict[str, JsonMap], added: dict[str, JsonMap],
    outcome: ImportOutcome, settings: tuple[OnConflict, str, Callable[[], str]],
) -> Sequence[str]:  # fmt: skip
    """Put one item where it belongs, and return the warnings about it. Raises InputError for one that is no usable
    case."""
    on_conflict, now, new_id = settings
    if not isinstance(item, Mapping):
        raise InputError(f"expected a test case (an object), got {kind(item)}")
    id_ = item.get("id")
    text = id_ if isinstance(id_, str) else ""  # another kind of id is reported by the check
    known = existing.get(text)
    if (known is not None or text in added) and on_conflict == "skip":
        outcome.skipped += 1
        return ()
    if known is not None or text in added:
        patched = {**(changes.get(text) or added.get(text) or existing[text].raw), **item, "updated_at": now}
        warnings = _check(patched)
        (changes if known is not None else added)[text] = patched
        outcome.overwritten += 1
        return warnings
    created = {**item, "id": id_ or new_id(), "created_at": item.get("created_at") or now, "updated_at": now}
    warnings = _check(created)
    added[str(created["id"])] = created
    outcome.created += 1
    return warnings


def _check(raw: JsonMap) -> Sequence[str]:
    """Return the warnings about a case. Raises InputError for one that could not be read."""
    format_, diagnostics = claiming(raw) or next(format_ for _, format_ in CASE_FORMATS), Diagnostics()
    format_.read(raw, DETACHED, diagnostics)
    return diagnostics.all()


def _one_file(
    into: Path, existing: Sequence[StoredCase], changes: Mapping[str, JsonMap], added: Sequence[JsonMap]
) -> list[NewFile]:
    if not changes and not added:
        return []
    if not existing:
        return [new_file(into, list(added))]
    first = existing[0]
    file = first.file
    cases = [*file.cases]  # entries that are no such cases stay
    for case in existing:
        cases[case.index] = changes.get(case.id, case.raw)
    cases += added
    document = cases if len(file.cases) == 1 < len(cases) and file.document is file.cases[0] else None
    return [new_file(into, document if document is not None else first.format.with_cases(file, cases))]


def _own_files(folder: Path, cases: Sequence[JsonMap]) -> list[NewFile]:
    """Return a file for each case, named after it; a name that is taken gets a number."""
    files: list[NewFile] = []
    taken = {path.name for path in folder.glob("*")} if folder.is_dir() else set()
    for case in cases:
        base = _NOT_IN_NAMES.sub("-", str(case.get("name", "")).lower()).strip("-")[:80] or "case"
        name = next(name for name in _numbered(base) if name not in taken)
        taken.add(name)
        files.append(new_file(folder / name, case))
    return files


def _numbered(base: str) -> Iterator[str]:
    yield f"{base}.json"
    number = 2
    while True:
        yield f"{base}-{number}.json"
        number += 1
