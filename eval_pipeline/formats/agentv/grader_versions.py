"""The AgentV version that a suite and its programs of graders are written for. Since 4.36 a program reads the answer's
text as `output`; since 4.16, texts as criteria weigh as much as that many evaluators.

The nearest `package.json` above the program that names an AgentV package decides, by the version installed beside it,
else by the range in it. Without one the target's `grader_payload` decides (at grading), then the project's version,
then those that the suite and the nearest `.agentv/config.yaml` require, then 4.9.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.formats.agentv.versions import is_from

SYSTEM = "agentv"
"""The name of this system among `versions` of a project file."""
TEXT_SINCE = (4, 36, 0)
WEIGHED_TEXTS_SINCE = (4, 16, 0)
_FIRST_OF_PACKAGE = {"@agentv/sdk": "4.41.2"}
"""Packages that did not exist before a version."""
_PACKAGES = ("@agentv/sdk", "@agentv/eval", "@agentv/core", "agentv")
_DEPENDENCIES = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")


@dataclass(slots=True)
class GraderVersions:
    """The versions that the programs of one suite are written for, each folder looked at once.

    The others are version ranges of the settings; the first given one applies where no `package.json` decides.
    """

    of_project: str | None = None
    of_suite: str | None = None
    of_project_file: str | None = None
    _above: dict[Path, str | None] = field(default_factory=dict)

    def require_of_suite(self, document: Mapping[str, Any]) -> None:
        """Take the version range that a suite requires."""
        requires = document.get("requires")
        range_ = requires.get("agentv") if isinstance(requires, Mapping) else None
        self.of_suite = range_ if isinstance(range_, str) else None

    def payload(self, command: Any, folder: Path) -> dict[str, str]:
        """Return the arguments of a grader by what a command that runs in this folder expects as `output`.

        A `package.json` decides; a setting only where the runner has none.
        """
        places = dict.fromkeys((*(path.parent for path in _files(command, folder)), folder))
        of_package = next((version for place in places if (version := self._version_above(place))), None)
        if of_package is not None:
            return {"payload": "text" if is_from(of_package, TEXT_SINCE) else "messages"}
        of_settings = next(filter(None, self._settings), None)
        return {"usual_payload": "text"} if of_settings is not None and is_from(of_settings, TEXT_SINCE) else {}

    def weighs_texts(self, folder: Path) -> bool:
        """Return whether texts as criteria weigh together as much as that many evaluators, in suites of a folder."""
        version = next(filter(None, (self._version_above(folder), *self._settings)), None)
        return version is not None and is_from(version, WEIGHED_TEXTS_SINCE)

    @property
    def _settings(self) -> tuple[str | None, ...]:
        return self.of_project, self.of_suite, self.of_project_file

    def _version_above(self, folder: Path) -> str | None:
        if folder not in self._above:
            self._above[folder] = next(_versions((folder, *folder.parents)), None)
        return self._above[folder]


def _files(command: Any, folder: Path) -> Iterator[Path]:
    for word in _words(command):
        path = folder / word
        try:
            if path.is_file():
                yield path.resolve()
        except (OSError, ValueError):
            continue  # not a valid file name


def _words(command: Any) -> Sequence[str]:
    if isinstance(command, str):
        try:
            return shlex.split(command)
        except ValueError:
            return command.split()
    return [word for word in command if isinstance(word, str)] if isinstance(command, list) else ()


def _versions(folders: Iterable[Path]) -> Iterator[str]:
    """Yield the version of the AgentV package that each folder's `package.json` names."""
    for folder in folders:
        named = _named_packages(folder / "package.json")
        package = next((package for package in _PACKAGES if package in named), None)
        version = package and (_installed(package, folder) or _written(package, named[package]))
        if version:
            yield version


def _named_packages(path: Path) -> Mapping[str, str]:
    document = _document(path)
    groups = [document.get(key) for key in _DEPENDENCIES]
    own = {document["name"]: document["version"]} if {"name", "version"} <= document.keys() else {}
    named = [own, *(group for group in groups if isinstance(group, Mapping))]
    return {str(name): str(range_) for group in named for name, range_ in group.items()}


def _installed(package: str, folder: Path) -> str | None:
    for parent in (folder, *folder.parents):
        version = _document(parent / "node_modules" / package / "package.json").get("version")
        if isinstance(version, str):
            return version
    return None


def _written(package: str, range_: str) -> str | None:
    """Return the range of a package; where it names a folder or a tag, the first version that the package had."""
    return range_ if range_[:1].isdigit() or range_[:1] in "^~>=v" else _FIRST_OF_PACKAGE.get(package)


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, Mapping) else {}
