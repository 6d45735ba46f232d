"""Stands in for a model that grades: a criterion is met when the answer has at least half of its longer words.

It reads the prompts of graders as a model would and replies in the form that they ask for. `--strict` wants 80 %.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path


def words(text: str) -> set[str]:
    return {word.lower().rstrip("s") for word in re.findall(r"[A-Za-z]{4,}", text)}


def share(criterion: str, answer: str) -> float:
    wanted = words(criterion)
    return round(len(wanted & words(answer)) / len(wanted), 2) if wanted else 1.0


def judged(prompt: str) -> str:
    """The answer, which stands between marks, and the files that it left, where the prompt says that there are some."""
    said = re.findall(r"<<<BEGIN (?:output|file_changes|transcript) \w+\n(.*?)\nEND ", prompt, re.DOTALL)
    folder = re.search(r"left behind lie in (.+)\. Read", prompt)
    files = [path.read_text() for path in Path(folder[1]).rglob("*.py")] if folder else []
    return "\n".join([*said, *files])


def overall(prompt: str, answer: str) -> float:
    """How far the one thing that is asked for is there; of other graders' results the mean."""
    results = [float(score) for score in re.findall(r'"score":([\d.]+),"weight"', prompt)]
    if results:
        return round(sum(results) / len(results), 2)
    asked = re.search(r"(?:has to achieve|should reach|has to be in it):\s*(.+)", prompt)
    return share(asked[1] if asked else "", answer)


def reply(prompt: str, mark: float) -> str:
    answer = judged(prompt)
    if "GRADE:" in prompt:
        return f"Judged by its words.\nGRADE: {'C' if overall(prompt, answer) >= mark else 'I'}"
    key = re.search(r'"key": "(\w+)"', prompt)
    said: dict[str, object] = {"key": key[1]} if key else {}
    criteria = re.findall(r"^- \[([\w.-]+)\](?:, [^:]*)?: (.+)$", prompt, re.MULTILINE)
    if '"satisfied"' in prompt:
        met = {id_: share(text, answer) >= mark for id_, text in criteria}
        said["checks"] = [{"id": id_, "satisfied": ok, "reasoning": "by its words"} for id_, ok in met.items()]
    elif '"checks"' in prompt:
        said["checks"] = [{"id": id_, "score": 8, "reasoning": "it is kind"} for id_, _ in criteria]
    else:
        said |= {"score": overall(prompt, answer), "reason": "by its words"}
    return json.dumps(said)


if __name__ == "__main__":
    *flags, asked, told = sys.argv[1:]
    Path(told).write_text(reply(Path(asked).read_text(), 0.8 if "--strict" in flags else 0.5))
