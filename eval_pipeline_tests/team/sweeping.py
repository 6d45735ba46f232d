"""A project whose target counts its calls, and sweeps of it in processes with folders of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

COMMAND = "from eval_pipeline.cli.entry import main; main()"
_PROGRAM = """\
import os, pathlib, sys, time
question = sys.stdin.read()
file = os.open(pathlib.Path(__file__).parents[1] / "calls.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(file, (sys.argv[2] + " " + " ".join(question.split()) + "\\n").encode())
os.close(file)
calls, until = pathlib.Path(__file__).parents[1] / "calls.txt", time.monotonic() + 120
while len(calls.read_text().splitlines()) < int(sys.argv[3]) and time.monotonic() < until:
    time.sleep(0.05)
time.sleep(float(sys.argv[1]))
print("answer")
"""


@dataclass(frozen=True)
class CountedProject:
    """A project of `suites` × `runners` pairs with `cases` each; `calls` has a line for each call of a target."""

    folder: Path
    url: str
    suites: int = 4
    runners: int = 3
    cases: int = 2
    seconds: float = 0.0
    together: int = 0
    """A call ends when so many have begun."""

    @property
    def calls(self) -> Path:
        return self.folder / "calls.txt"

    @property
    def plans(self) -> int:
        return self.suites * self.runners * self.cases

    def machine(self, name: str) -> Path:
        """Write the project into the folder of a machine; return it."""
        root = self.folder / name
        (root / "suites").mkdir(parents=True)
        (root / "target.py").write_text(_PROGRAM)
        for number in range(self.suites):
            checks = [{"type": "contains", "value": "answer"}]
            tests = [{"id": f"c{n}", "input": f"s{number} c{n}", "assertions": checks} for n in range(self.cases)]
            (root / "suites" / f"s{number}.json").write_text(_json({"name": f"s{number}", "tests": tests}))
        program = [sys.executable, "-S", "-E", "target.py", str(self.seconds)]
        runners = [
            {"name": name, "adapter": "command", "command": [*program, name, str(self.together)]}
            for name in (f"r{number}" for number in range(self.runners))
        ]
        (root / "runners.yaml").write_text(_json({"runners": runners}))
        (root / "eval-pipeline.yaml").write_text(_json({"suites": ["suites"], "warehouse": self.url}))
        return root

    def start(self, root: Path, *options: str, output_to: str = "output.txt") -> subprocess.Popen[str]:
        """Start a sweep of a machine."""
        command = [sys.executable, "-c", COMMAND, "run", "--quiet", *options]
        with (root / output_to).open("w") as output:
            return subprocess.Popen(command, cwd=root, stdout=output, stderr=subprocess.STDOUT, text=True)

    def counted(self) -> Counter[str]:
        """Return how often each question was put to each runner."""
        return Counter(self.calls.read_text().splitlines()) if self.calls.exists() else Counter()


def _json(value: object) -> str:
    return json.dumps(value)
