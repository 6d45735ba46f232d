"""A runner that is a Python function: it estimates, rounding by chance as a sampled model would.

The chance is seeded by case and repetition, so that everyone sees the same answers.
"""

from __future__ import annotations

import random
import re
from typing import Any

PER_BASE = {
    "m": 1.0, "km": 1000.0, "ft": 0.3, "miles": 1600.0, "g": 1.0, "kg": 1000.0, "lb": 450.0, "oz": 28.0,
    "l": 1.0, "gallons": 3.8, "cups": 0.24,
}  # fmt: skip


def answer(prompt: str, case: Any, repetition: int, digits: int = 2) -> dict[str, Any]:
    """What a runner of the `python` adapter returns: a text, or a mapping with `output` and what else it knows."""
    chance = random.Random(f"{case.id}/{repetition}")
    text = _triage(prompt) if "@[User]" in prompt else _estimate(prompt, chance, digits)
    return {"output": text, "usage": {"input_tokens": len(prompt.split()), "output_tokens": len(text.split())}}


def _estimate(prompt: str, chance: random.Random, digits: int) -> str:
    found = re.search(r"(-?[\d.,]*\d) ?(\w+) (?:in|to|into) (\w+)", prompt)
    if found is None or found[2].lower() not in PER_BASE or found[3].lower() not in PER_BASE:
        return "I would have to guess."
    value = float(found[1].replace(",", "")) * PER_BASE[found[2].lower()] / PER_BASE[found[3].lower()]
    return f"about {value:.{digits + chance.randint(-1, 1)}g} {found[3].lower()}"


def _triage(prompt: str) -> str:
    errors = [line for line in prompt.splitlines() if " ERROR " in line]
    if len(errors) > 5:
        raise RuntimeError("too many lines to look at")
    return f'{{"severity": "{"high" if errors else "low"}", "errors": {len(errors)}}}'
