"""Suites written as text for a test, in the current folder, and what loading them gives."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from eval_pipeline.errors import InputError
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.suites.model import Case, Message, Suite


def write(file: str, text: str | bytes = "") -> Path:
    """Writes a file below the current folder."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
    return path


def load(text: str, file: str = "math.yaml", **environment: str) -> Suite:
    """The suite in a file of this text."""
    path = write(file, dedent(text))
    return load_suite(path, LoadOptions(environment))


def load_test(fields: str, suite_fields: str = "") -> Case:
    """The one case of a suite whose test has these fields beside an id, input and criteria where it has none."""
    suite = load(document(fields, suite_fields))
    assert suite.errors == ()
    return suite.cases[0]


def document(fields: str, suite_fields: str = "") -> str:
    test = dedent(fields).strip()
    defaults = {"id": "id: t1", "input": "input: Hello", "criteria": "criteria: Is polite"}
    missing = [line for key, line in defaults.items() if not any(row.startswith(f"{key}:") for row in test.split("\n"))]
    block = indent("\n".join([*missing, *([test] if test else [])]), "    ")
    return f"{dedent(suite_fields)}\ntests:\n  -\n{block}\n".lstrip()


def error_of(text: str) -> str:
    """The one error of a suite: of its file or of its only bad case."""
    try:
        errors = load(text).errors
    except InputError as error:
        return str(error)
    assert len(errors) == 1
    return str(errors[0])


def user_messages(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(role="user", content=text) for text in texts)
