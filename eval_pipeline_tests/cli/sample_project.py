"""A small project on disk, and the command line called in its folder.

The runner `greeter` is a real program that writes down whom it was asked about, so that a test can count its calls;
`parrot` is a Python function, `broken` a program that always fails.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eval_pipeline.cli.main import main
from eval_pipeline_tests.carried_out_once import carried_out_once
from eval_pipeline_tests.forks import Forked, start_command

PROJECT = "suites: [suites]\n"

RUNNERS = """\
runners:
  - {name: greeter, adapter: command, command: [sh, greet.sh], tags: [local, slow]}
  - {name: parrot, adapter: python, function: "parrot:say", isolation: in-process, tags: [local]}
  - {name: broken, adapter: command, command: [sh, -c, "exit 7"], tags: [bad]}
"""

GREET = """\
read -r who
echo "$who" >> calls.log
case "$who" in
  nobody) echo "go away" ;;
  *) echo "hello $who" ;;
esac
"""

PARROT = """\
def say(prompt):
    return f"hello? {prompt}"
"""

GREETINGS = """\
name: greetings
execution: {targets: [greeter, parrot]}
assertions:
  - {name: polite, type: icontains, value: hello}
tests:
  - {id: ann, input: Ann, tags: [short], criteria: a greeting}
  - {id: bob, input: Bob, tags: [short, b], criteria: a greeting}
  - {id: nobody, input: nobody, tags: [rude], criteria: a greeting all the same}
"""

SUMS = """\
{"id": "one", "input": "1 and 1", "tags": ["math"], "execution": {"targets": ["parrot"]}, \
"assertions": [{"type": "contains", "value": "1"}]}
{"id": "two", "input": "2 and 2", "tags": ["math", "even"], "execution": {"targets": ["parrot"]}, \
"assertions": [{"type": "contains", "value": "2"}]}
"""

FILES = {
    "eval-pipeline.yaml": PROJECT,
    "runners.yaml": RUNNERS,
    "greet.sh": GREET,
    "parrot.py": PARROT,
    "suites/greetings.yaml": GREETINGS,
    "suites/more/sums.jsonl": SUMS,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Everything a person saw."""
        return self.out + self.err

    @property
    def document(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.out)

    @property
    def counts(self) -> dict[str, int]:
        """What a run did, over all its pairs."""
        names = ("planned", "reused", "rescored", "executed", "passed", "failed", "errored")
        return {name: sum(pair[name] for pair in self.document["pairs"]) for name in names}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class CliProject:
    """A project folder; calling it runs the command line there."""

    root: Path

    def __call__(self, *arguments: str) -> Answer:
        return self._call(io.StringIO(), arguments)

    def once(self, *arguments: str) -> Answer:
        """What a test begins with: a command that is carried out for the first folder with these files, else copied."""
        answer: Answer = carried_out_once(self.root, f"command {arguments}", lambda: self(*arguments))
        return answer

    def in_terminal(self, columns: int, *arguments: str) -> Answer:
        """The command with a terminal of so many columns as stdout; styles are removed from what it prints."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(columns))
            patch.setenv("TERM", "xterm")
            answer = self._call(_Terminal(), arguments)
        return replace(answer, out=_STYLES.sub("", answer.out))

    def _call(self, out: io.StringIO, arguments: Sequence[str]) -> Answer:
        err = io.StringIO()
        code = 0
        with contextlib.chdir(self.root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(list(arguments))
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0
        return Answer(code, out.getvalue(), err.getvalue())

    def process(self, *arguments: str) -> Forked:
        """The command in a process of its own, to be killed or interrupted."""
        return start_command(*arguments, cwd=self.root)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    @property
    def calls(self) -> list[str]:
        """Whom the program `greeter` was asked about, in order."""
        log = self.root / "calls.log"
        return log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """What the published results answer."""
        with duckdb.connect(str(self.root / "data" / "results.duckdb"), read_only=True) as connection:
            return connection.execute(query).fetchall()


def make_cli_project(root: Path, changed: Mapping[str, str] | None = None) -> CliProject:
    """The small project in a folder, some of its files with other content."""
    cli_project = CliProject(root)
    for name, text in (FILES | dict(changed or {})).items():
        cli_project.write(name, text)
    return cli_project
