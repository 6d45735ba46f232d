"""A project for real CLIs with canaries in everything that a session must not see: project, home and environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.real_clis.agent_runners import CLIS

CANARY = "canary-7c1f"
"""Part of every planted text."""
SKILL = """---
name: demo-skill
description: Demo skill. Use when asked to run the demo.
---
Say that the demo ran.
"""
INSTRUCTIONS = ("CLAUDE.md", "AGENTS.md", "GEMINI.md", "QWEN.md")
_HOME = (
    ".claude/CLAUDE.md", ".codex/AGENTS.md", ".copilot/copilot-instructions.md", ".gemini/GEMINI.md", ".qwen/QWEN.md",
    ".config/opencode/AGENTS.md", ".pi/agent/AGENTS.md", "notes.txt", ".ssh/id_rsa", ".netrc",
)  # fmt: skip
CASES = {
    "plain": "Please answer. [[script:plain]]",
    "dash": """-p --help is how this prompt begins. It has "quotes", 'others', $HOME, `ticks`, \\n and
    a second line. [[script:plain]]""",
    "files": "Please do the task. [[script:files]]",
    "skill": "Run the demo. [[script:skill]]",
    "fail": "Please try. [[script:fail]]",
    "big": "Please count. [[script:big]]",
    "env": "What do you see? [[script:env]]",
}


@dataclass(frozen=True, slots=True)
class SealedProject:
    """The project, and the home of the user who runs it."""

    project: CliProject
    home: Path
    environment: Mapping[str, str]

    def files_with(self, text: str) -> list[str]:
        """Return the files of the data folder that hold a text."""
        data = self.project.root / "data"
        paths = (path for path in data.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(str(path.relative_to(data)) for path in paths if text.encode() in path.read_bytes())


def sealed_project(folder: Path, url: str, clis: Path, names: Iterable[str]) -> SealedProject:
    """Write a project whose runners are these CLIs; nothing is left of another home or environment."""
    root, home, sessions = folder / "users" / "project", folder / "users" / "home", folder / "sessions"
    for name in INSTRUCTIONS:
        _write(folder / "users" / name, f"Say {CANARY}-above.")
        _write(root / name, f"Say {CANARY}-project.")
    for name in _HOME:
        _write(home / name, f"Say {CANARY}-home.")
    _write(root / "eval-pipeline.yaml", "suites: [suites]\n")
    runners = []
    for cli in (CLIS[name] for name in names):
        for name, text in cli.home(url).items():
            _write(home / name, text)
        runners += [
            cli.runner(url, clis),
            cli.runner(url, clis, name=f"{cli.name}-once"),
            cli.runner(url, clis, name=f"{cli.name}-hurried", timeout_s=25),
            cli.runner(url, clis, model="no-such-model", name=f"{cli.name}-badmodel"),
        ]
        _write(root / "templates" / cli.name / cli.skills / "demo-skill" / "SKILL.md", SKILL)
        _write(root / "templates" / cli.name / "notes.txt", "line one\nline two\nline three\n")
        _write(root / "suites" / f"{cli.name}.json", _suite(cli.name, CASES))
        _write(root / "suites" / f"{cli.name}-talk.json", _talk(cli.name))
        for scenario in ("badmodel", "auth401", "err429", "tool_hang"):
            cases = {f"{scenario}-{number}": f"Please go on. [[script:{scenario}]]" for number in (1, 2)}
            _write(root / "suites" / f"{cli.name}-{scenario}.json", _suite(cli.name, cases))
    _write(root / "runners.yaml", json.dumps({"runners": runners}))
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb",
                   "SECRET_TOKEN": f"{CANARY}-environment", "EVAL_PIPELINE_SESSIONS": str(sessions)}  # fmt: skip
    sessions.mkdir()
    return SealedProject(CliProject(root), home, environment)


def _talk(cli: str) -> str:
    """Return a suite with a conversation of two turns."""
    turns = [{"input": f"Please answer. [[script:{name}]]",
              "assertions": [{"name": name, "type": "contains", "value": f"scenario {name} ended"}]}
             for name in ("plain", "second")]  # fmt: skip
    workspace = {"template": f"../templates/{cli}", "isolation": "per_test"}
    test = {"id": "talk", "mode": "conversation", "input": "We talk.", "criteria": CANARY, "turns": turns}
    return json.dumps({"workspace": workspace, "tests": [test]})


def _suite(cli: str, cases: Mapping[str, str]) -> str:
    workspace = {"template": f"../templates/{cli}", "isolation": "per_test"}
    answer = {"name": "answered", "type": "contains", "value": "Done"}
    tests = [{"id": id_, "input": text, "criteria": CANARY, "assertions": [answer]} for id_, text in cases.items()]
    return json.dumps({"workspace": workspace, "tests": tests})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
