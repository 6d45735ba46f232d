"""`{{ name }}` in a test, replaced by its `vars`.

Only names with a value in the test or its suite are replaced; graders replace others themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.fields import Interpolated, Map
from eval_pipeline.parsing.interpolation import with_texts_changed

VARIABLE = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")
GRADERS_OWN = frozenset({
    "criteria", "input", "output", "expected_output", "file_changes", "tool_calls", "metadata", "question",
    "reference_answer", "answer", "messages", "trace", "input_text", "output_text", "expected_output_text",
    "workspace_path", "test_id", "eval_run_id", "case_input", "case_metadata",
})  # fmt: skip
_PLAIN = ("input", "expected_output", "criteria", "expected_outcome", "turns", "input_files", "conversation_id")
_GRADED = ("assertions", "assert", "evaluators", "rubrics")


MAX_CHARACTERS_OF_A_TEST = 10_000_000
MAX_CHARACTERS_OF_A_SUITE = 300_000_000


class TooLong(Exception):
    """Replacing the variables would exceed the limit of text."""


class Interpolator:
    """Replaces the variables in one suite's tests, and limits the total length of the result."""

    def __init__(self) -> None:
        self._left_of_suite = MAX_CHARACTERS_OF_A_SUITE
        self._left_of_test = MAX_CHARACTERS_OF_A_TEST

    def test(self, raw: Map, variables: Map) -> Map:
        """Return a test with its variables replaced. Raises TooLong."""
        self._left_of_test = MAX_CHARACTERS_OF_A_TEST
        return self.shared(raw, variables)

    def shared(self, raw: Map, variables: Map) -> Map:
        """Return the inherited fields with a test's variables replaced. Raises TooLong."""
        graded = {name: value for name, value in variables.items() if name not in GRADERS_OWN}
        changed: dict[str, Any] = {key: self._value(raw[key], variables) for key in _PLAIN if key in raw}
        changed |= {key: self._value(raw[key], graded) for key in _GRADED if key in raw}
        execution = raw.get("execution")
        if isinstance(execution, Mapping) and "evaluators" in execution:
            changed["execution"] = {**execution, "evaluators": self._value(execution["evaluators"], graded)}
        return {**raw, **changed}

    def _value(self, value: Any, variables: Map) -> Any:
        """Return `value` with each known `{{ name }}` replaced; a dotted name selects an entry of a mapping."""
        if not variables:
            return value
        return with_texts_changed(value, lambda text: self._text(text, variables) if "{{" in text else text)

    def _text(self, text: str, variables: Map) -> Any:
        whole = VARIABLE.fullmatch(text.strip())
        if whole is None:
            return VARIABLE.sub(lambda match: self._in_text(match, variables), text)
        is_known, value = _look_up(whole[1], variables)
        if not is_known:
            return text
        return value if isinstance(value, (dict, list)) else Interpolated(self._counted(_as_text(value)))

    def _in_text(self, match: re.Match[str], variables: Map) -> str:
        is_known, value = _look_up(match[1], variables)
        return self._counted(_as_text(value)) if is_known else match[0]

    def _counted(self, text: str) -> str:
        self._left_of_test -= len(text)
        self._left_of_suite -= len(text)
        if self._left_of_test < 0:
            raise TooLong(f"its variables make it longer than {MAX_CHARACTERS_OF_A_TEST:,} characters")
        if self._left_of_suite < 0:
            raise TooLong(f"the variables make the suite longer than {MAX_CHARACTERS_OF_A_SUITE:,} characters")
        return text


def left_literal(raw: Map, variables: Map) -> set[str]:
    """Return the variables that an evaluator's `value` names and that stay as they are: graders call theirs so."""
    own = set(GRADERS_OWN.intersection(variables))
    return own.intersection(_named_in_values([raw.get(key) for key in _GRADED])) if own else own


def _named_in_values(value: Any) -> Iterator[str]:
    """Yield the names of placeholders in texts below a key `value`."""
    if isinstance(value, list):
        for item in value:
            yield from _named_in_values(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from VARIABLE.findall(str(item)) if key == "value" else _named_in_values(item)


def _look_up(name: str, variables: Map) -> tuple[bool, Any]:
    value: Any = variables
    if name in variables:
        return True, variables[name]
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return False, None
        value = value[step]
    return True, value


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    return "" if value is None else to_json(value).decode()
