"""AgentV's rows about evaluators and whole tests, written as suites: a test, its recorded answer, its graders' replies.

What a row gives as an input stays an input: the recorded replies of a grader's model, the results of a composite's
members, the scores of a conversation's turns. What it records as an answer is never part of a suite.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from eval_pipeline.plugins import canonical_name
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.row_outcomes import not_offered, not_recorded

Json = Mapping[str, Any]
GRADERS = frozenset({"llm-grader", "llm-rubric", "agent-rubric", "rubrics", "trajectory:goal-success"})
PROGRAMS = frozenset({"code-grader", "script"})
WHOLE_TESTS = frozenset({"test-aggregate", "observed-test"})
PASS_MARK = 0.8
PROVIDER_ERROR = "provider_error"
SANDBOX = "target_sandbox_infra_failure"
_RESOLVED = frozenset({"resolvedPromptScript", "resolvedPromptPath", "prompt_path"})
BY_FILE, BY_PROGRAM = "by the words of a file", "by the words of a program"
_FILES = {
    "prompt.txt": f"Judge {BY_FILE}: {{{{ output }}}}",
    "prompt.py": f"import json, sys\nprint('Judge {BY_PROGRAM}:', json.load(sys.stdin)['output'])\n",
}

_READ = "import json, os, sys\ngiven = json.load(sys.stdin)\n"
_REPORT = "print(json.dumps({'score': float(%s)}))\n"
STAND_INS: Mapping[str, str] = {
    "echo-grader": _READ + _REPORT % "bool(given.get('output_path') or given['output'])",
    "payload-shape-grader": _READ
    + _REPORT
    % "(given['expected_output'][0]['content'], given['config']) == ({'answer': 'Paris'}, {'mode': 'strict'})",
    "test-grader": _READ
    + _REPORT % "json.loads(given.get('answer') or given['output']) == given['expected_output'][0]['content']",
    "test-grader-error": "import sys\nsys.exit('it broke')\n",
    "test-trace-summary": _READ + _REPORT % "given['trace']['tool_calls'] == {'Read': 2, 'Edit': 1}",
}
"""Programs in the place of the reference's, which are no part of its rows: each checks the input that it receives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTest:
    """A test as its author would write it, and what the outside answers: the target, and the model of each grader.

    `replies` are those to the evaluator at a position; without an entry its grader receives no usable reply.
    `conversation` are the answers to the turns of a live conversation.
    """

    test: Json
    answer: Json
    suite: Json = field(default_factory=dict)
    replies: Mapping[int, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    conversation: Sequence[str] = ()

    @property
    def evaluators(self) -> list[Any]:
        """The entries that the test lists, under the spelling that is read."""
        return list(self.test.get(evaluators_key(self.test)) or ())

    def with_evaluators(self, entries: Sequence[Any]) -> WrittenTest:
        """Return the same test with other entries."""
        return replace(self, test={**self.test, evaluators_key(self.test): list(entries)})


def evaluators_key(test: Json) -> str:
    """Return the spelling under which a test lists its evaluators."""
    return next((key for key in ("assertions", "assert", "evaluators") if test.get(key) is not None), "assertions")


def kind_of(entry: Json) -> str:
    return canonical_name(str(entry.get("type")))


def stop_of(row: Row) -> str | None:
    """Return AgentV's code for what kept a whole test from a score; one without a code is the target's."""
    if row.data.get("execution_status") != "execution_error":
        return None
    return str(row.data.get("failure_reason_code") or PROVIDER_ERROR)


def is_stop(row: Row) -> bool:
    """Return whether something other than the target or its graders kept a test from a score."""
    return row.kind == "test-aggregate" and stop_of(row) not in (None, PROVIDER_ERROR, "evaluator_error")


def hook_of(row: Row) -> tuple[str, str]:
    """Return the hook that stopped a test, and its last words."""
    words = output_of(row.data)
    hook = re.search(r"before_(?:all|each)", words)
    return (hook[0] if hook else "before_all"), words.rpartition(": ")[2]


def recorded_scores(row: Row) -> Sequence[Json]:
    """Return the results of the evaluators of a whole test, as AgentV recorded them."""
    observed = row.data.get("observed") or {}
    recorded: Sequence[Json] = observed.get("evaluators") or row.data.get("evaluator_scores_observed") or ()
    return recorded


def written(row: Row) -> WrittenTest:
    """Return the test of a row. Skips rows that leave out what their answer comes from."""
    if row.kind == "observed-test":
        return WrittenTest(test=dict(row.data["test"]), answer=_answer(row))
    if row.kind == "test-aggregate":
        return _conversation(row) if "turns" in row.data["config"] else _whole_test(row)
    common = {"id": "row", "criteria": row.data.get("criteria") or "as recorded",
              "input": row.data.get("question") or "as recorded"}  # fmt: skip
    expected = {"expected_output": row.data["expected_output"]} if "expected_output" in row.data else {}
    entry, files = _entry(row)
    test = {**common, **expected, "assertions": [entry]}
    return WrittenTest(test=test, answer=_answer(row), replies={0: _recorded_replies(row)}, files=files)


# Single evaluators


def _entry(row: Row) -> tuple[dict[str, Any], dict[str, str]]:
    """The evaluator of a row, and the files that it needs beside the suite."""
    config = dict(row.data.get("config") or {})
    if row.kind == "negate":
        return _inner(row, config), {}
    if row.kind == "inline-assert":
        return _inline(config)
    entry = {"type": row.kind, **config}
    if row.kind == "composite":
        entry["assertions"] = [_member(row, member) for member in entry["assertions"]]
    if row.kind in PROGRAMS:
        return _program(entry)
    if row.kind == "webhook":
        not_recorded("the reply of the webhook")
    if row.kind in ("skill-used", "not-skill-used") and "skill_calls" not in row.data:
        not_recorded("the skills that the session used")
    if row.kind == "javascript" or '"javascript"' in json.dumps(entry):
        _require("node")
    if entry.pop("inverse", False):
        entry["type"] = f"not-{entry['type']}"
    return entry, {}


def _inner(row: Row, config: Json) -> dict[str, Any]:
    """An evaluator that gives the recorded result, negated."""
    inner = row.data["inner_result"]
    value = None if inner["verdict"] == "skip" else {"score": inner["score"], "assertions": inner["assertions"]}
    return {"type": "python", "name": "inner", "value": repr(value), "threshold": PASS_MARK, **config}


def _inline(config: Json) -> tuple[dict[str, Any], dict[str, str]]:
    """A function of the author's that returns what the row's returned."""
    start = "async def" if config["async"] else "def"
    code = f"{start} check():\n    return {config['returns']!r}\n"
    return {"type": "python", "name": "inline", "function": "inline:check"}, {"inline.py": code}


def _member(row: Row, member: Json) -> dict[str, Any]:
    """A member that gives its recorded result, which is the input of the aggregator."""
    results = {result["name"]: result for result in row.data["member_results"]}
    result = results[member["name"]]
    value = "None" if result["verdict"] == "skip" else repr(float(result["score"]))
    common = {name: member[name] for name in ("weight", "required", "negate") if name in member}
    return {"type": "python", "name": member["name"], "value": value, "threshold": PASS_MARK, **common}


def _program(entry: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """An entry whose command can be run here: as it is, or a program of ours in the place of the reference's."""
    command = entry["command"]
    script = next((word for word in command if word.startswith("<")), None)
    if script is None:
        _require(command[0])
        return entry, {}
    program = STAND_INS.get(PurePosixPath(script).stem)
    if program is None:
        not_recorded("the program that its score comes from")
    return {**entry, "command": [sys.executable, "stand_in.py"]}, {"stand_in.py": program}


def _require(program: str) -> None:
    if shutil.which(program) is None:
        not_offered(f"{program} is not installed on this machine")


def _recorded_replies(row: Row) -> list[str]:
    replies = [reply for turn in row.data.get("grader_responses") or () for reply in turn]
    if row.kind in GRADERS:
        _check_replies(row, replies)
    return replies


def _check_replies(row: Row, replies: Sequence[str]) -> None:
    if not replies:
        not_recorded("the grader's reply")
    documents = [_object(reply) for reply in replies]
    if row.data.get("workspace_path") and not any(documents):
        not_recorded("the file that the grader wrote its verdict to")
    if row.data.get("verdict") == "fail" and any(document.get("pass") is True for document in documents):
        not_recorded("the threshold that its verdict comes from")


def _object(reply: str) -> Json:
    try:
        document = json.loads(reply)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


# Whole tests


def _whole_test(row: Row) -> WrittenTest:
    """A whole test. Scores of graders whose replies are not recorded are its input, where anything else is asserted."""
    config = row.data["config"]
    entries = [_as_written(entry) for entry in config.get("assertions") or ()]
    scores = recorded_scores(row)
    _check_measures(row)
    test = {"id": "row", "criteria": "as recorded", "input": row.data.get("question") or "as recorded"}
    if entries:
        test["assertions"] = entries
    suite = {"evaluator": config["evaluator"]} if config.get("evaluator") else {}
    replies = {at: _reply_of(row, at) for at in _graded(entries, scores)}
    if not entries and stop_of(row) is None:
        replies = {0: [json.dumps({"score": row.data["score"]})]}
    if replies and not _asserts_more_than_its_grader(row, entries):
        not_recorded("the grader's reply, and asserts nothing but its score")
    return WrittenTest(test=test, answer=_answer(row), suite=suite, replies=replies, files=_FILES)


def _as_written(entry: Any) -> Any:
    """An entry with its prompt as a suite names it; theirs are recorded as AgentV resolved them."""
    if not isinstance(entry, Mapping) or not _RESOLVED & entry.keys():
        return entry
    rest = {name: value for name, value in entry.items() if name not in _RESOLVED}
    by_program = {"command": [sys.executable, "prompt.py"]}
    return {**rest, "prompt": by_program if "resolvedPromptScript" in entry else "file://prompt.txt"}


def _graded(entries: Sequence[Any], scores: Sequence[Json]) -> Iterator[int]:
    """The positions of entries that a model grades, and that AgentV did not skip."""
    for at, score in enumerate(scores):
        of_text = at < len(entries) and not isinstance(entries[at], Mapping)
        if (of_text or score["type"] in GRADERS) and score["verdict"] != "skip":
            yield at


def _reply_of(row: Row, at: int) -> list[str]:
    entry, score = (row.data["config"]["assertions"])[at], recorded_scores(row)[at]["score"]
    negated = isinstance(entry, Mapping) and entry.get("negate") is True
    if isinstance(entry, str) or entry.get("rubrics") or isinstance(entry.get("criteria") or entry.get("value"), list):
        not_recorded("the grader's reply about each criterion")
    return [json.dumps({"score": 1 - score if negated else score, "reason": "as recorded"})]


def _asserts_more_than_its_grader(row: Row, entries: Sequence[Any]) -> bool:
    """Whether a status, a gate, a prompt or another evaluator is part of what the row asserts."""
    gated = any(isinstance(entry, Mapping) and {"required", "weight", "prompt"} & entry.keys() for entry in entries)
    return "execution_status" in row.data["asserted"] or len(entries) > 1 or gated


def _check_measures(row: Row) -> None:
    """Skip tests whose evaluators scored a measure that the row does not hold."""
    needed = {"latency": "duration_ms", "cost": "cost_usd", "token-usage": "token_usage"}
    text = json.dumps(row.data["config"])
    scored = {score["type"]: score["score"] for score in recorded_scores(row)}
    for kind, name in needed.items():
        inside = f'"{kind}"' in text and kind not in scored
        if row.data.get(name) is None and (scored.get(kind) == 1 or (inside and row.data["score"] == 1)):
            not_recorded("the measure that its score comes from")
    sessions = {"tool-trajectory", "execution-metrics", "skill-trigger"}
    shown = isinstance(row.data.get("output_messages"), list) or row.data.get("trace")
    if not shown and any(scored.get(kind) == 1 for kind in sessions):
        not_recorded("the session that its score comes from")


# Conversations


def _conversation(row: Row) -> WrittenTest:
    """A live conversation: each turn answered by its number, and scored as recorded where an evaluator scores it."""
    config = row.data["config"]
    scores = {score["name"]: score["score"] for score in recorded_scores(row)}
    turns = [_turn(turn, scores.get(f"turn-{number}")) for number, turn in enumerate(config["turns"], start=1)]
    test = {"id": "row", "input": row.data["question"], **config, "turns": turns}
    answers = [f"answer {number}" for number in range(1, len(turns) + 1)]
    return WrittenTest(test=test, answer={}, conversation=answers)


def _turn(turn: Json, score: float | None) -> Json:
    """A turn whose criteria, judged by a model, are replaced by their recorded score: the input of the conversation."""
    if not all(isinstance(entry, str) for entry in turn.get("assertions") or [{}]) or score is None:
        return turn
    recorded = {"type": "python", "name": "recorded", "value": repr(float(score)), "threshold": PASS_MARK}
    return {**turn, "assertions": [recorded]}


# Answers of targets


def _answer(row: Row) -> dict[str, Any]:
    """What the recorded target answered, as a row of a recording."""
    data = row.data
    if stop_of(row) == PROVIDER_ERROR and row.kind in WHOLE_TESTS:
        return {"error": output_of(data)}
    measures = {name: data[name] for name in ("cost_usd", "token_usage", "duration_ms") if data.get(name) is not None}
    if "observed" in data:
        measures["duration_ms"] = 1.0
    if data.get("trace") and not isinstance(data.get("output_messages"), list):
        return {"report": _report(data, measures)}
    messages = data.get("output_messages")
    listed = [_expanded(message) for message in messages] if isinstance(messages, list) else None
    return {"output": output_of(data), **({"messages": listed} if listed else {}), **measures}


def output_of(data: Json) -> str:
    if isinstance(data.get("output"), str):
        return str(data["output"])
    messages = data.get("output_messages")
    return messages if isinstance(messages, str) else ""


def _expanded(message: Json) -> Json:
    """A message; its content may be a text with how often it is repeated."""
    content = message.get("content")
    if isinstance(content, Mapping) and "__repeat__" in content:
        return {**message, "content": content["__repeat__"] * content["count"]}
    return message


def _report(data: Json, measures: Json) -> dict[str, Any]:
    """A session of which only a summary is recorded: as many calls of each tool, or its events."""
    trace = data["trace"]
    usage = data.get("token_usage") or {}
    tokens = {
        "input_tokens": usage.get("input"),
        "output_tokens": usage.get("output"),
        "cost_usd": data.get("cost_usd"),
    }
    events = list(_events(trace)) or [{"kind": "message", "role": "user", "text": "as recorded"}, *_calls(trace)]
    return {
        "final_output": output_of(data),
        "duration_ms": measures.get("duration_ms"),
        "model_calls": trace.get("llm_call_count"),
        "usage": {name: value for name, value in tokens.items() if value is not None},
        "events": events,
    }


def _calls(trace: Json) -> Iterator[Json]:
    for tool, count in trace["tool_calls"].items():
        yield from ({"kind": "tool_call", "tool": tool} for _ in range(count))


def _events(trace: Json) -> Iterator[Json]:
    for event in trace.get("events") or ():
        if event["type"] == "tool_call":
            yield {"kind": "tool_call", "tool": event["tool"]["name"], "arguments": event["tool"].get("input")}
        elif "message" in event:
            message = event["message"]
            text = str(message.get("content"))
            yield {"kind": "message", "role": message["role"], "text": text, "phase": "commentary"}
