"""The assistant, second version: prompt as the only argument, answer as JSON with `output` and `usage`.

    assistant_v2.py PROMPT

It converts by base units (temperatures have an offset, too), rounds for people, and answers about logs in JSON.
"""

import json
import re
import sys
from collections import Counter

BASE = {
    "m": ("length", 1.0), "km": ("length", 1000.0), "ft": ("length", 0.3048), "miles": ("length", 1609.344),
    "g": ("mass", 1.0), "kg": ("mass", 1000.0), "lb": ("mass", 453.59237), "oz": ("mass", 28.349523125),
    "l": ("volume", 1.0), "gallons": ("volume", 3.785411784), "cups": ("volume", 0.2365882365),
}  # fmt: skip
TO_KELVIN = {
    "celsius": lambda value: value + 273.15,
    "fahrenheit": lambda value: (value + 459.67) / 1.8,
    "kelvin": lambda value: value,
}
FROM_KELVIN = {
    "celsius": lambda kelvin: kelvin - 273.15,
    "fahrenheit": lambda kelvin: kelvin * 1.8 - 459.67,
    "kelvin": lambda kelvin: kelvin,
}
LOG_LINE = re.compile(r"^\S+ (?P<service>[\w-]+) (?P<level>DEBUG|INFO|WARN|ERROR) (?P<text>.*)$", re.MULTILINE)


def convert(prompt: str) -> str:
    found = re.search(r"(-?[\d.,]*\d) ?(\w+) (?:in|to|into) (\w+)", prompt)
    if found is None:
        return "I cannot tell what to convert."
    amount, source, target = float(found[1].replace(",", "")), found[2].lower(), found[3].lower()
    if source in TO_KELVIN and target in FROM_KELVIN:
        return f"{FROM_KELVIN[target](TO_KELVIN[source](amount)):.1f} {target}"
    if source in BASE and target in BASE:
        (kind, factor), (wanted, divisor) = BASE[source], BASE[target]
        if kind == wanted:
            return f"{amount * factor / divisor:.4g} {target}"
        return f"I cannot turn {kind} into {wanted} without a density."
    return f"I do not know the unit {target if source in BASE else source}."


def triage(prompt: str) -> str:
    rows = list(LOG_LINE.finditer(prompt))
    errors = [row for row in rows if row["level"] == "ERROR"]
    worst = Counter(row["service"] for row in errors).most_common(1)
    return json.dumps({
        "severity": "high" if len(errors) > 1 else "medium" if errors else "low",
        "errors": len(errors),
        "service": worst[0][0] if worst else None,
        "first_error": errors[0]["text"] if errors else None,
    })  # fmt: skip


if __name__ == "__main__":
    question = sys.argv[1]
    answer = triage(question) if "@[User]" in question else convert(question)
    words = {"input_tokens": len(question.split()), "output_tokens": len(answer.split())}
    print(json.dumps({"output": answer, "usage": words}))
