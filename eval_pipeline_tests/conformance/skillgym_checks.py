"""skillgym's rows about checks: each goes through the words of the public face, and through an evaluator in YAML.

A row's matcher `{"$regex": …}` is a compiled pattern there and `{regex: …}` here; both have to decide alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import eval_pipeline
from eval_pipeline import Case, EvaluatorSpec, SessionReport, ToolCallEvent, parse_command
from eval_pipeline.reports.model import CommandEvent, DetectedSkill, Event, FileReadEvent
from eval_pipeline.scores.assertions.failed_checks import class_of, collecting, questions_of
from eval_pipeline.scores.evaluate import bind, evaluate
from eval_pipeline.scores.javascript_regex import compile_javascript
from eval_pipeline.scores.model import Subject
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.recorded_facts import Row

FILES = ("assertions", "oracle_assertions")
PARSING = "oracle_parse_command"
_GROUPS = {"skills": "skills", "commands": "commands", "fileReads": "file_reads", "toolCalls": "tool_calls",
           "output": "output"}  # fmt: skip
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
_NUMBERED = ("count", "at_least", "at_most")
_PARSED = ("executable", "positionals", "options", "endOfOptions", "normalizedFromShell")


def is_check(row: Row) -> bool:
    return row.family == "skillgym" and row.file in (*FILES, PARSING)


def observe(row: Row) -> Observations:
    """Return how the row's check decides: whether it passes, what it says, its class and its questions."""
    if row.file == PARSING or row.kind == "parse_command":
        line = row.data["command"] if row.file == PARSING else row.data["args"][0]
        return {AS_WRITTEN: Observation(values=_parsed(line))}
    if "sequence" in row.data:
        results = [_run({**row.data, **step}) for step in row.data["sequence"]]
        return {AS_WRITTEN: Observation(values={"results": [result["result"] for result in results]})}
    if row.kind == "api-surface":
        surface = [callable(eval_pipeline.skills.has), callable(eval_pipeline.soft)]
        return {AS_WRITTEN: Observation(values={"result": "pass" if all(surface) else "fail"})}
    values = _run(row.data)
    group = _group(str(row.data["helper"]))
    if group is not None:
        values["as YAML"] = _evaluated(row, *group)
    return {AS_WRITTEN: Observation(values=values)}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what the row holds."""
    values, expected = seen.values, row.data
    if row.file == PARSING or row.kind == "parse_command":
        recorded = expected if row.file == PARSING else {**expected["value"], **expected["also_as_produced"]}
        assert {name: values[name] for name in _PARSED} == {name: recorded[name] for name in _PARSED}
        return
    if "sequence" in expected:
        assert values["results"] == [step["expect"] for step in expected["sequence"]]
        return
    assert values["result"] == expected["expect"]
    if "as YAML" in values:
        assert values["as YAML"] == expected["expect"]
    if expected["expect"] == "fail":
        assert values["error"] == "AssertionError"
        _check_message(expected, values["message"])
    if "default_explain_question" in expected:
        assert bool(values["questions"]) == (expected["default_explain_question"] is not None)
    if "failureClass" in expected:
        assert values["class"] == expected["failureClass"]


def _check_message(expected: Mapping[str, Any], message: str) -> None:
    assert expected.get("message_must_contain", "") in message
    patterns = [expected.get("message_must_match", ""), *expected.get("message_must_match_all", ())]
    for pattern in patterns:
        assert re.search(pattern, message), (pattern, message)


# Through the words of the public face


def _run(data: Mapping[str, Any]) -> dict[str, Any]:
    report = report_of(data.get("report", {}))
    try:
        with collecting():
            for call in data.get("calls", [data]):
                _call(call, report)
    except AssertionError as error:
        tag = class_of(error)
        return {
            "result": "fail",
            "error": "AssertionError",
            "message": str(error),
            "questions": [question.text for question in questions_of(error)],
            "class": None if tag is None else dict(tag._asdict()),
        }
    return {"result": "pass", "questions": []}


def _call(call: Mapping[str, Any], report: SessionReport) -> None:
    steps = str(call["helper"]).split(".")[1:]
    if steps == ["classify"]:
        class_, block = call["args"]
        with eval_pipeline.classify(class_):
            for inner in block["calls"]:
                _call(inner, report)
        return
    words: Any = eval_pipeline
    for step in steps:
        words = getattr(words, _GROUPS.get(step) or _snake(step))
    arguments = [_python(argument) for argument in call["args"]]
    if len(steps) == 2 and steps[0] == "soft":
        words(*arguments)
        return
    options = arguments.pop() if arguments and isinstance(arguments[-1], dict) and _is_options(arguments[-1]) else {}
    words(report, *arguments, **{_snake(name): value for name, value in options.items()})


def _is_options(value: Mapping[str, Any]) -> bool:
    return bool(value) and set(value) <= {"message", "explain", "minConfidence"}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def _python(value: Any) -> Any:
    if isinstance(value, list):
        return [_python(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$regex" in value:
        return _pattern(value["$regex"], value.get("flags", ""))
    if "$commandMatcher" in value:
        return _built(value["$commandMatcher"])
    if "$predicate" in value:
        return _predicate(value["$predicate"])
    names = {"endOfOptions": "end_of_options"}
    return {names.get(name, name): _python(item) for name, item in value.items()}


def _pattern(pattern: str, flags: str) -> Any:
    """Return a pattern as a suite in Python has it; one that only JavaScript reads as it is read there."""
    try:
        return re.compile(pattern, sum(_FLAGS[flag] for flag in set(flags) & _FLAGS.keys()))
    except re.error:
        return compile_javascript(pattern, flags)


def _built(parts: Mapping[str, Any]) -> Any:
    builder = eval_pipeline.command(_python(parts.get("executable"))).args(*map(_python, parts.get("positionals", ())))
    for name, values in parts.get("options", {}).items():
        for value in values if isinstance(values, list) else [values]:
            builder.option(name, _python(value))
    builder = builder.end_of_options() if parts.get("endOfOptions") else builder
    return builder.strict() if parts.get("strict") or parts.get("exact") else builder


def _predicate(fact: Mapping[str, Any]) -> Any:
    def where(arguments: Mapping[str, Any]) -> bool:
        value = arguments.get(fact["arg"])
        return value == fact["equals"] if "equals" in fact else bool(re.search(fact["regex"], str(value)))

    return where


# Through an evaluator


def _group(helper: str) -> tuple[str, str] | None:
    """The type of the evaluator and its argument; None for what has no form in YAML."""
    steps = helper.split(".")
    if len(steps) != 3 or steps[1] not in _GROUPS:
        return None
    return _GROUPS[steps[1]].replace("_", "-"), _snake(steps[2])


def _evaluated(row: Row, type_: str, name: str) -> str:
    arguments = [_yaml(argument) for argument in row.data["args"]]
    options = arguments.pop() if arguments and isinstance(arguments[-1], dict) and _is_options(arguments[-1]) else {}
    given = {_snake(option): value for option, value in options.items() if option != "explain"}
    config = {**given, name: _argument(type_, name, arguments)}
    spec = EvaluatorSpec(type=type_, name="check", config=json.loads(json.dumps(config)))
    case = Case(id="row", input=())
    subject = Subject(case, report_of(row.data["report"]))
    (score,) = evaluate(subject, [bind(spec, case, Path())])
    return {1.0: "pass", 0.0: "fail"}.get(score.value if score.value is not None else -1.0, score.reason)


def _argument(type_: str, name: str, arguments: Sequence[Any]) -> Any:
    if name in _NUMBERED:
        return {"skill" if type_ == "skills" else "match": arguments[0], "number": arguments[1]}
    if name == "before":
        return list(arguments)
    return arguments[0] if arguments else True


def _yaml(value: Any) -> Any:
    if isinstance(value, list):
        return [_yaml(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$regex" in value:
        return {"regex": value["$regex"], "flags": value.get("flags", "")}
    if "$commandMatcher" in value:
        return _yaml(value["$commandMatcher"])
    if "where" in value:
        fact = value["where"]["$predicate"]
        argument = fact["equals"] if "equals" in fact else {"regex": fact["regex"]}
        tool = {"tool": _yaml(value["tool"])} if "tool" in value else {}
        return {**tool, "args": {fact["arg"]: argument}}
    names = {"endOfOptions": "end_of_options"}
    return {names.get(name, name): _yaml(item) for name, item in value.items()}


# Reports


def report_of(fragment: Mapping[str, Any]) -> SessionReport:
    """Return the session report of a row's fragment."""
    events = [_event(event) for event in fragment.get("events", ())]
    reads = fragment.get("files", {}).get("observedReads", ())
    if not any(isinstance(event, FileReadEvent) for event in events):
        events += [FileReadEvent(path=path) for path in reads]
    skills = tuple(
        DetectedSkill(skill=item["skill"], confidence=item["confidence"], evidence=tuple(item["evidence"]))
        for item in fragment.get("detectedSkills", ())
    )
    return SessionReport(
        execution_id="row", final_output=fragment.get("finalOutput"), events=tuple(events), skills=skills, model_calls=1
    )


def _event(event: Mapping[str, Any]) -> Event:
    if event["type"] == "command":
        return CommandEvent(command=event["command"])
    if event["type"] == "fileRead":
        return FileReadEvent(path=event["path"])
    assert event["type"] == "toolCall", event
    return ToolCallEvent(tool=event["tool"], arguments=event.get("args"))


def _parsed(line: str) -> dict[str, Any]:
    command = parse_command(line)
    return {
        "executable": command.executable,
        "positionals": list(command.positionals),
        "options": {name: list(values) for name, values in command.options.items()},
        "endOfOptions": command.end_of_options,
        "normalizedFromShell": command.unwrapped,
    }
