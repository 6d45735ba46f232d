"""Case → the one text that a program or a function is given.

A single message is its text. A conversation becomes blocks, each headed `@[Role]:`, separated by blank lines.
"""

from __future__ import annotations

from eval_pipeline.suites.model import Case


def prompt_text(case: Case) -> str:
    """The case's input as one text."""
    if len(case.input) == 1:
        return case.input[0].text
    return "\n\n".join(f"@[{message.role.capitalize()}]:\n{message.text}" for message in case.input)
