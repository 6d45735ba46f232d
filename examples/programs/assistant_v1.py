"""A small assistant, first version: prompt on standard input, answer on standard output.

It knows some units and looks for words in log lines. What it gets wrong is left in: the examples are about seeing that.
"""

import re
import sys

FACTORS = {
    ("km", "miles"): 0.621371, ("miles", "km"): 1.609344, ("m", "ft"): 3.28084, ("ft", "m"): 0.3048,
    ("kg", "lb"): 2.204623, ("lb", "kg"): 0.453592, ("g", "oz"): 0.035274, ("celsius", "fahrenheit"): 1.8,
}  # fmt: skip


def convert(prompt: str) -> str:
    found = re.search(r"([\d.,]+) (\w+) (?:in|to) (\w+)", prompt)
    if found is None:
        return "Sorry, I do not understand."
    amount, source, target = float(found[1]), found[2], found[3]  # "1,500" ends the program
    factor = FACTORS.get((source, target))
    return f"{amount * factor} {target}" if factor else "Sorry, I do not know these units."


def triage(prompt: str) -> str:
    lines = [line for line in prompt.splitlines() if "ERROR" in line or "error" in line]
    return f"{len(lines)} errors found"


if __name__ == "__main__":
    question = sys.stdin.read()
    print(triage(question) if "@[User]" in question else convert(question))
