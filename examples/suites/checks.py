"""Evaluators of this folder's suites: functions named `checks:…` by evaluators of type `python`.

A function takes what its parameters name: `output`, `case`, `report`, and the evaluator's `arguments`.
"""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_SHELL_WRITE = re.compile(r"(?:> *|sed -i .* )([\w./-]+)$")


def close_to(output: str, case: Any, within: float = 0.001) -> dict[str, Any]:
    """1 when the first number of the answer is within a relative distance of the expected one."""
    wanted = float(_NUMBER.search(case.expected_output[0].text)[0])
    found = _NUMBER.search(output)
    if found is None:
        return {"score": 0, "reason": "the answer holds no number"}
    distance = abs(float(found[0]) - wanted) / abs(wanted)
    return {"score": int(distance <= within), "reason": f"{found[0]} is {distance:.2%} away from {wanted:g}"}


def did(
    report: Any,
    commands: tuple[str, ...] = (),
    reads: tuple[str, ...] = (),
    writes: tuple[str, ...] = (),
    skills: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The share of the wanted actions that the session report shows: commands, files read, files changed, skills.

    A file is changed by an edit tool (`file_write` events), or by a command (`… > file`, `sed -i … file`).
    """
    changed = [event.path for event in report.events if event.kind == "file_write" and event.ok is not False]
    changed += [match[1] for run in report.commands for match in _SHELL_WRITE.finditer(run)]
    used = [skill.skill for skill in report.skills]
    seen = {
        **{f"ran {command!r}": any(command in run for run in report.commands) for command in commands},
        **{f"read {path}": any(read.endswith(path) for read in report.file_reads) for path in reads},
        **{f"changed {path}": any(name.endswith(path) for name in changed) for path in writes},
        **{f"used {skill}": skill in used for skill in skills},
    }
    missing = [action for action, happened in seen.items() if not happened]
    return {
        "score": (len(seen) - len(missing)) / len(seen),
        "reason": f"missing: {', '.join(missing)}" if missing else "did everything that was wanted",
    }


def did_nothing(report: Any) -> dict[str, Any]:
    """1 when the session used no tool at all: a plain question needs none."""
    used = [call.tool for call in report.tool_calls] + list(report.commands)
    return {"score": int(not used), "reason": f"used {', '.join(used)}" if used else "used no tool"}
