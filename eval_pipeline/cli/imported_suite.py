"""Imported sessions → a suite of their prompts, and a runner that replays their answers.

The recording has whole session reports, not transcripts, so commands, file reads, skills and failures can be scored.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.agents.session_import import Session
from eval_pipeline.cli.file_writing import FileText
from eval_pipeline.errors import InputError
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.writing import jsonl_text, suite_yaml, yaml_text
from eval_pipeline.parsing.yaml_text import parse_yaml
from eval_pipeline.sweeps.project import Project

SUITE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}\Z")
_HAS_ANSWER = {"name": "answered", "type": "regex", "value": r"\S"}
_HEADER = """\
# {count} recorded sessions. The runner '{runner}' replays them: nothing is executed anew, scoring is free.
# Add the evaluators that say what a good session is ('assertions:' on a test, or up here for all of them);
# the one that is here only asks for an answer.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFiles:
    """Paths of an imported suite: the suite, the recording and the runners file."""

    name: str
    suite: Path
    recording: Path
    runners: Path
    own_runners: bool

    @property
    def runner(self) -> str:
        return f"{self.name}-recorded"

    @property
    def entry(self) -> dict[str, Any]:
        """The runner's entry in the runners file."""
        recording = relative_path(self.recording, self.runners.parent)
        return {"name": self.runner, "adapter": "replay", "recording": recording}

    def texts(self, sessions: Sequence[Session]) -> list[FileText]:
        """The files to write; a runners file that has the runner stays unchanged."""
        document = {
            "name": self.name,
            "description": f"Sessions of {', '.join(sorted({session.agent for session in sessions}))}, imported",
            "execution": {"target": self.runner},
        }
        header = _HEADER.format(count=len(sessions), runner=self.runner)
        suite = (header, *suite_yaml(document, [_test(session) for session in sessions]))
        files = [
            FileText(self.recording, jsonl_text(map(_row, sessions)), "recording"),
            FileText(self.suite, suite, "suite"),
        ]
        return [*files, *self._runners_text()]

    def _runners_text(self) -> Iterator[FileText]:
        text = self.runners.read_text(encoding="utf-8-sig") if self.runners.exists() else ""
        if self.entry not in entries_of(text):
            added = with_runner(text, self.entry)
            if added is None:
                raise InputError(f"{show_path(self.runners)}: cannot be added to")  # checked by plan_suite_files
            yield FileText(self.runners, (added,), f"runner {self.runner}")

    def next_step(self) -> str:
        runners = f" --runners {show_path(self.runners)}" if self.own_runners else ""
        return f"eval-pipeline run {show_path(self.suite)}{runners}"


def plan_suite_files(name: str, project: Project) -> SuiteFiles:
    """Return the paths of a suite's files in a project; a runner that cannot be added gets a separate file."""
    root = project.root
    runners = project.runners or root / "runners.yaml"
    text = runners.read_text(encoding="utf-8-sig") if runners.exists() else ""
    files = SuiteFiles(
        name=name,
        suite=suites_folder(project) / f"{name}.yaml",
        recording=root / "recordings" / "sessions" / f"{name}.jsonl",
        runners=runners,
        own_runners=False,
    )
    if files.entry in entries_of(text) or with_runner(text, files.entry) is not None:
        return files
    separate = root / "recordings" / "sessions" / f"{name}.runners.yaml"
    return SuiteFiles(name=name, suite=files.suite, recording=files.recording, runners=separate, own_runners=True)


def check_suite_files(files: SuiteFiles, *, force: bool) -> None:
    """Raise InputError when files exist, or when another runner has the runner's name."""
    existing = [path for path in (files.suite, files.recording) if path.exists()]
    if existing and not force:
        raise InputError(
            f"{' and '.join(map(show_path, existing))} exist; --force overwrites, another --suite keeps them"
        )
    text = files.runners.read_text(encoding="utf-8-sig") if files.runners.exists() else ""
    taken = [entry for entry in entries_of(text) if isinstance(entry, Mapping) and entry.get("name") == files.runner]
    if taken and files.entry not in taken:
        raise InputError(f"{show_path(files.runners)} has another runner '{files.runner}'; give the suite another name")


def suites_folder(project: Project) -> Path:
    """Return the first folder among the project's suites, else `suites`, else the project."""
    folders = [project.root / pattern for pattern in project.suites if (project.root / pattern).is_dir()]
    return folders[0] if folders else project.root / "suites"


def relative_path(path: Path, folder: Path) -> str:
    """Return the relative path from a folder to a file, through parents where necessary."""
    ups = 0
    while not path.is_relative_to(folder):
        folder, ups = folder.parent, ups + 1
    return Path(*[".."] * ups, *path.relative_to(folder).parts).as_posix()


def _test(session: Session) -> dict[str, Any]:
    report = session.report
    about = {
        "agent": session.agent,
        "model": report.model,
        "version": report.agent_version,
        "started_at": report.started_at,
        "cwd": session.cwd,
        "git_branch": session.git_branch,
    }
    return {
        "id": session.session_id,
        "input": session.prompt,
        "assertions": [_HAS_ANSWER],
        "metadata": {name: value for name, value in about.items() if value is not None},
    }


def _row(session: Session) -> dict[str, Any]:
    return {"case": session.session_id, "report": session.report}


# The runners file


def entries_of(text: str) -> list[Any]:
    """Return the entries of a runners file's text; none where it has no list of them."""
    try:
        document = parse_yaml(text)
    except InputError:
        return []
    entries = document.get("runners") if isinstance(document, Mapping) else None
    return entries if isinstance(entries, list) else []


def with_runner(text: str, entry: Mapping[str, Any]) -> str | None:
    """Return the text of a runners file with a runner added, otherwise unchanged; None where that fails.

    An empty file gets a new list. In any other file the runner is inserted after the last one, and the text is parsed
    again to verify that nothing else changed.
    """
    item = yaml_text([dict(entry)])
    if not text.strip():
        return "runners:\n" + textwrap.indent(item, "  ")
    lines = text.splitlines(keepends=True)
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    for begin, line in enumerate(lines):
        if re.match(r"""["']?runners["']?\s*:\s*(#.*)?$""", line):
            changed = _with_item(lines, begin + 1, item)
            same = changed is not None and _reads_as(changed, text, entry)
            return changed if same else None
    return None


def _with_item(lines: list[str], begin: int, item: str) -> str | None:
    """Return the lines with an item added to the block list that begins at line `begin`."""
    items = [index for index in range(begin, len(lines)) if re.match(r"\s*- ", lines[index])]
    if not items:
        return None
    indent = lines[items[0]][: len(lines[items[0]]) - len(lines[items[0]].lstrip())]
    end = next((index for index in range(begin, len(lines)) if re.match(r"[^\s#-]", lines[index])), len(lines))
    while not lines[end - 1].strip() or lines[end - 1].startswith("#"):
        end -= 1
    return "".join([*lines[:end], textwrap.indent(item, indent), *lines[end:]])


def _reads_as(changed: str, text: str, entry: Mapping[str, Any]) -> bool:
    try:
        before, after = parse_yaml(text), parse_yaml(changed)
    except InputError:
        return False
    return bool(after == {**before, "runners": [*before["runners"], dict(entry)]})
