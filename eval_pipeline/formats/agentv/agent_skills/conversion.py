"""Agent-Skills' `evals.json` ⇄ a raw suite.

The format has prompts, expected answers, files and assertions as text. Other fields are reported as lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.source import yaml_source
from eval_pipeline.suites.conversion import (
    ConversionLoss,
    NewFile,
    RawSuite,
    SuiteWriter,
    parse_json,
    pretty_json,
    read_text,
)

Test = Mapping[str, Any]


def read_evals(path: Path) -> RawSuite:
    """Return an `evals.json` as a raw suite. Raises InputError."""
    text = read_text(path)
    source = yaml_source(path, text)
    document = parse_json(text, source)
    if not isinstance(document, Mapping):
        raise source.error((), "expected an object with a list of evals")
    evals = document.get("evals")
    if not isinstance(evals, list) or not all(isinstance(entry, Mapping) for entry in evals):
        raise source.error(("evals",), "expected a list of evals")
    lost = ConversionLoss()
    for name in _others(document, "skill_name", "evals"):
        lost.add(f"'{name}' of the file")
    tests = [_test_of(entry, lost) for entry in evals]
    skill = document.get("skill_name")
    document = {"name": skill} if isinstance(skill, str) else {}
    return RawSuite(path=path, document=document, tests=tests, source=source, at=("evals",), lost=tuple(lost.notes()))


def _others(mapping: Mapping[str, Any], *known: str) -> list[str]:
    return [name for name in mapping if name not in known]


def _test_of(entry: Test, lost: ConversionLoss) -> dict[str, Any]:
    """Return an eval as a test: the expected output is also its criteria, each assertion the prompt of a grader."""
    for name in _others(entry, "id", "prompt", "expected_output", "files", "assertions"):
        lost.add(f"'{name}'", entry.get("id"))
    id_: Any = entry.get("id")
    expected = entry.get("expected_output")
    test: dict[str, Any] = {"id": str(id_) if isinstance(id_, int) else id_}
    if expected is not None:
        test["criteria"] = expected
    test["input"] = entry.get("prompt")
    if entry.get("files"):
        test["input_files"] = entry["files"]
    if expected is not None:
        test["expected_output"] = expected
    if isinstance(entry.get("assertions"), list):
        test["assertions"] = [
            {"name": f"assertion-{number}", "type": "llm-grader", "prompt": text}
            for number, text in enumerate(entry["assertions"], start=1)
        ]
    return test


def as_agent_skills(suite: RawSuite, target: Path) -> tuple[list[NewFile], ConversionLoss]:
    """Return the suite as `evals.json`; fields that the format lacks are reported as lost."""
    lost = ConversionLoss()
    for name in _others(suite.document, "name", "assertions", "assert", "$schema"):
        lost.add(f"'{name}' of the suite")
    shared = _assertions(suite.document, lost, None)
    tests = [test for test in suite.tests if isinstance(test, Mapping)]
    evals = [_eval_of(test, number, shared, lost) for number, test in enumerate(tests, start=1)]
    document = {"skill_name": suite.name, "evals": evals}
    return [NewFile(target, [pretty_json(document)])], lost


def _eval_of(test: Test, number: int, shared: list[str], lost: ConversionLoss) -> dict[str, Any]:
    id_ = test.get("id")
    for name in _others(test, "id", "input", "criteria", "expected_output", "input_files", "assertions", "assert"):
        lost.add(f"'{name}'", id_)
    written: dict[str, Any] = {"id": _number(id_, number, lost), "prompt": _prompt(test, lost)}
    if (expected := _expected(test, lost)) is not None:
        written["expected_output"] = expected
    if test.get("input_files"):
        written["files"] = test["input_files"]
    assertions = [*_assertions(test, lost, id_), *shared]
    return {**written, "assertions": assertions} if assertions else written


def _number(id_: object, number: int, lost: ConversionLoss) -> int:
    if isinstance(id_, int) or (isinstance(id_, str) and id_.isdecimal() and str(int(id_)) == id_):
        return int(id_)
    lost.add("ids that are no numbers (they are counted instead)", id_)
    return number


def _prompt(test: Test, lost: ConversionLoss) -> str:
    """Return the text of all input messages, without their roles."""
    given = test.get("input")
    if isinstance(given, str):
        return given
    messages = given if isinstance(given, list) else [given]
    if len(messages) != 1 or not isinstance(messages[0], Mapping) or messages[0].get("role") != "user":
        lost.add("the roles of several messages", test.get("id"))
    return "\n\n".join(
        _words(message.get("content") if isinstance(message, Mapping) else message) for message in messages
    )


def _expected(test: Test, lost: ConversionLoss) -> str | None:
    expected, criteria = test.get("expected_output"), test.get("criteria")
    if expected is None:
        return criteria if isinstance(criteria, str) else None
    if criteria not in (None, expected):
        lost.add("'criteria' beside an expected output", test.get("id"))
    last = expected[-1] if isinstance(expected, list) and expected else expected
    if last is not expected:
        lost.add("all but the last expected message", test.get("id"))
    return _words(last.get("content") if isinstance(last, Mapping) and "role" in last else last)


def _words(value: Any) -> str:
    """Return the text of a message's content; other values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_words(part.get("value") if isinstance(part, Mapping) else part) for part in value)
    return to_json(value).decode()


def _assertions(holder: Mapping[str, Any], lost: ConversionLoss, id_: object) -> list[str]:
    """Return the assertions of a test as text: prompts and criteria unchanged, other evaluators as a sentence."""
    listed = holder.get("assertions", holder.get("assert"))
    return [words for entry in (listed if isinstance(listed, list) else ()) for words in _in_words(entry, lost, id_)]


def _in_words(entry: Any, lost: ConversionLoss, id_: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    given = dict(entry) if isinstance(entry, Mapping) else {}
    kind = str(given.pop("type", "")).replace("_", "-")
    if kind == "llm-grader" and isinstance(given.get("prompt"), str):
        if given.keys() - {"name", "prompt"}:
            lost.add("settings of graders (weights, targets, gates)", id_)
        yield given["prompt"]
    elif kind == "rubrics" and isinstance(given.get("criteria"), list):
        lost.add("weights and gates of rubrics", id_)
        yield from (_criterion(criterion) for criterion in given["criteria"])
    else:
        lost.add(f"that '{kind}' is computed (it becomes a sentence for a grader)", id_)
        given.pop("name", None)
        arguments = ", ".join(f"{name}: {_words(value)}" for name, value in given.items())
        yield f"The answer passes the check {kind}" + (f" ({arguments})" if arguments else "")


def _criterion(criterion: Any) -> str:
    if isinstance(criterion, Mapping):
        return str(criterion.get("outcome") or criterion.get("description") or _words(criterion))
    return _words(criterion)


AGENT_SKILLS = SuiteWriter(suffix=".evals.json", write=as_agent_skills, in_line=True, lossless=False)
