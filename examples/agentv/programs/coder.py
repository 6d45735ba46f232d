"""Stands in for a coding agent: it does what the prompt says to the files of the folder it is started in."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

EDITS = {
    "fix": (("return a - b", "return a + b"), ("+ discount", "- discount")),
    "rename": (("def add(", "def total("),),
}


def work(prompt: str) -> list[dict[str, object]]:
    """The tool calls that were made."""
    files = [path for path in sorted(Path().rglob("*.py")) if "tests" not in path.parts]
    calls = [call("Read", {"file_path": str(path)}, path.read_text()) for path in files]
    for changes in (changes for word, changes in EDITS.items() if word in prompt.lower()):
        for path in files:
            for old, new in changes:
                if old in path.read_text():
                    path.write_text(path.read_text().replace(old, new))
                    calls.append(call("Edit", {"file_path": str(path), "old": old, "new": new}, "ok"))
    for name in re.findall(r"file called (\S+)", prompt):
        Path(name).write_text("written by the agent\n")
        calls.append(call("Write", {"file_path": name}, "ok"))
    return calls


def call(tool: str, given: dict[str, str], output: str) -> dict[str, object]:
    return {"tool": tool, "input": given, "output": output, "duration_ms": 10}


if __name__ == "__main__":
    asked, told = sys.argv[-2:]
    made = work(Path(asked).read_text())
    changed = sum(one["tool"] != "Read" for one in made)
    said = {"role": "assistant", "content": f"Done: {changed} files changed.", "tool_calls": made}
    answer = {"output": [said], "token_usage": {"input": 900, "output": 60}, "cost_usd": 0.01, "duration_ms": 900}
    Path(told).write_text(json.dumps(answer))
