"""Three small programs that talk: an agent, somebody who plays the user, and a judge. No model is asked."""

from __future__ import annotations

import json
import re
from typing import Any

CITIES = {7: "Ulm", 9: "Bonn"}
Messages = list[dict[str, Any]]


def desk(messages: Messages) -> str:
    """The agent under test."""
    said = messages[-1]["content"] if messages else ""
    number = re.search(r"\d+", said)
    if number is not None:
        return f"Parcel {number[0]} is in {CITIES.get(int(number[0]), 'transit')}."
    if "thank" in said.lower():
        return "You are welcome."
    return "Hello, which number has your parcel?"


def commuter(messages: Messages) -> str:
    """The simulated user: replies with one JSON object, as its instructions say."""
    heard = messages[-1]["content"].lower()
    if "ulm" in heard:
        return json.dumps({"message": "Great, thank you.", "end": True})
    return json.dumps({"message": "Number 7, I am late." if "number" in heard else "Where is my parcel?", "end": False})


def referee(messages: Messages) -> str:
    """The judge: full points for everything that it is asked, and the key of the request."""
    request = "\n".join(message["content"] for message in messages)
    key = request.rsplit('"key": "', 1)[1].split('"', 1)[0]
    points = {"score": 5, "justification": "The program says so.", "failure_code": None, "turns": [1]}
    outcomes = [
        {"statement": statement, "passed": True, "justification": "It was said."}
        for statement in re.findall(r"^\d+\. (.+)$", request, re.MULTILINE)
    ]
    return json.dumps({"key": key, "criteria": points, "expected_outcomes": outcomes})
