"""A support desk that knows five things. It stands in for an application that calls a model and tools."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

LATE = "I am sorry for the delay: order {order} left our store yesterday and arrives tomorrow."
BACK = "You get your money back within 14 days. I have opened refund R-1 for order {order}."
KNOWN = (
    (("refund", "money back"), BACK, "open_refund"),
    (("late", "where is"), LATE, "track_order"),
    (("gift",), "Gift cards never expire and can be used online and in every store.", "search_help"),
    (("receipt",), '{{"order": "{order}", "total": 19.9, "date": "15-JAN-2026"}}', "print_receipt"),
    (("picture",), "Thank you for the {pictures} picture of order {order}. I am sorry that it broke.", "look_at"),
)


def answer(question: str, pictures: int) -> dict[str, object]:
    """The reply to the last thing that was asked, with the tools used for it."""
    asked = question.rsplit("@[User]:", 1)[-1].lower()
    order = next((word.strip("?.,!:") for word in question.split() if word.startswith("A-")), "unknown")
    for words, reply, tool in KNOWN:
        if any(word in asked for word in words):
            return message(reply.format(order=order, pictures=pictures), {"order": order}, "read_order", tool)
    if "thank" in asked:
        return message("You are welcome! Is there anything else I can do for you?", {})
    return message("I do not know that; may I pass you on to a colleague?", {"query": asked[:40]}, "search_help")


def message(text: str, given: dict[str, str], *tools: str) -> dict[str, object]:
    calls = [{"tool": tool, "input": given, "output": "ok", "duration_ms": 20} for tool in tools]
    return {
        "output": [{"role": "assistant", "content": text, "tool_calls": calls}],
        "token_usage": {"input": 120, "output": len(text) // 4, "cached": 0},
        "cost_usd": 0.0004,
        "duration_ms": 350,
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--question", type=Path)
    options.add_argument("--answer", type=Path)
    options.add_argument("--closed", action="store_true")
    options.add_argument("--version", action="version", version="1.0")
    options.add_argument("attached", nargs="*", type=Path)
    asked = options.parse_args()
    if asked.closed:
        sys.exit("the desk is closed at night")
    letters = [path.read_text() for path in asked.attached if path.suffix == ".txt"]
    pictures = sum(path.suffix == ".png" for path in asked.attached)
    question = "\n".join([*letters, asked.question.read_text()])
    asked.answer.write_text(json.dumps(answer(question, pictures)))


main()
