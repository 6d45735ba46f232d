"""`javascript`, `python` with `value`, and `webhook`: code and services that say what an answer is worth."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.scores.evaluate import bind, build
from eval_pipeline.scores.evaluators import javascript
from eval_pipeline.scores.model import Score
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.local_server import Reply, json_reply, serve
from eval_pipeline_tests.scores.fake_grader import graded
from eval_pipeline_tests.scores.single_scores import a_report

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
CASE = a_case(
    criteria="is a city",
    expected_output=(Message(role="assistant", content={"answer": "Paris"}),),
    metadata={"limit": 5},
)


def of(kind: str, value: str, output: str = "Paris", folder: Path = Path(), **config: Any) -> Score:
    """The score of an answer by an expression, a file or a service."""
    return graded(an_evaluator(kind, value=value, **config), a_report(output), case=CASE, folder=folder)


SAME_IN_BOTH: list[Any] = [
    pytest.param("0.5", {}, 0.5, True, id="a number"),
    pytest.param("0.5", {"threshold": 0.75}, 0.5, False, id="below the threshold"),
    pytest.param("0", {}, 0.0, False, id="nothing"),
    pytest.param("0", {"threshold": 0}, 0.0, True, id="nothing is enough"),
    pytest.param("7", {}, 1.0, True, id="too much"),
    pytest.param("-1", {}, 0.0, False, id="below 0"),
    pytest.param("output == 'Paris'", {}, 1.0, True, id="yes"),
    pytest.param("output == 'Rome'", {}, 0.0, False, id="no"),
    pytest.param("{'score': 0.25, 'reason': 'a quarter'}", {}, 0.25, True, id="a mapping"),
    pytest.param("{'score': 0, 'reason': 'none'}", {}, 0.0, False, id="a mapping of 0"),
    pytest.param("{'score': 0.9, 'pass': 1 > 2}", {}, 0.9, False, id="its own word"),
    pytest.param("{'pass': 2 > 1}", {}, 1.0, True, id="only its word"),
    pytest.param("context['expected_output'][0]['content']['answer'] == output", {}, 1.0, True, id="expected output"),
    pytest.param("context['criteria'] == 'is a city'", {}, 1.0, True, id="criteria"),
    pytest.param("context['metadata']['limit'] == 5", {}, 1.0, True, id="metadata"),
    pytest.param("context['config']['city'] == output", {"config": {"city": "Paris"}}, 1.0, True, id="config"),
    pytest.param("'text'", {}, None, None, id="a text"),
    pytest.param("{'reason': 'no idea'}", {}, None, None, id="a mapping without a score"),
]  # fmt: skip


@pytest.mark.parametrize(
    "kind", [pytest.param("javascript", marks=needs_node), "python"],
)  # fmt: skip
@pytest.mark.parametrize(("value", "config", "score", "passes"), SAME_IN_BOTH)
def test_an_expression_says_what_an_answer_is_worth(
    kind: str, value: str, config: dict[str, Any], score: float | None, passes: bool | None
) -> None:
    result = of(kind, value, **config)

    assert (result.value, result.passes) == (score, passes)
    assert result.reason


def test_a_reason_and_assertions_are_kept() -> None:
    score = of("python", "{'pass': True, 'reason': 'fine', 'assertions': [{'text': 'a', 'passed': True}]}")

    assert (score.reason, [item.text for item in score.findings]) == ("fine", ["a"])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param("javascript", "nothing.here", marks=needs_node),
        pytest.param("javascript", "'text'", marks=needs_node),
        ("python", "nothing.here"),
        ("python", "'text'"),
        ("webhook", "http://127.0.0.1:9/"),
    ],
)
def test_what_breaks_leaves_the_score_open_unless_that_is_to_count(kind: str, value: str) -> None:
    unscored, failed = of(kind, value), of(kind, value, on_error="fail")

    assert (unscored.value, failed.value, failed.passes) == (None, 0.0, False)
    assert failed.reason


# JavaScript.


@needs_node
@pytest.mark.parametrize(
    ("code", "score"),
    [
        ("const n = output.length;\nreturn n === 5", 1.0),
        ("const n = output.length; n / 10", 0.5),
        ("return output === 'Paris';", 1.0),
        ("(await Promise.resolve(output)) === 'Paris'", 1.0),
        ("output === 'Paris' // a comment", 1.0),
        ("({pass: true})", 1.0),
        ("require('node:path').basename('/x/' + output) === 'Paris'", 1.0),
        ("context.expectedOutput[0].content.answer === output", 1.0),
        ("context.trace.eventCount === 0 && context.trace.event_count === 0", 1.0),
        ("console.log('noise'), true", 1.0),
        ("output\n  .startsWith('P')", 1.0),
        ("const n = output.length; return n > 4", 1.0),
        ("JSON.stringify(context.config)", None),
        ("undefined", None),
    ],
)
def test_javascript_is_an_expression_or_the_body_of_a_function(code: str, score: float | None) -> None:
    assert of("javascript", code).value == score


@needs_node
@pytest.mark.parametrize(
    ("name", "text", "function"),
    [
        ("check.js", "module.exports = (output, context) => output === 'Paris' && context.metadata.limit === 5", ""),
        ("check.cjs", "module.exports = { check: async (output) => output === 'Paris' }", ":check"),
        ("check.mjs", "export default (output) => ({ pass: output === 'Paris' })", ""),
        ("check.mjs", "export function named(output) { return output === 'Paris' }", ":named"),
    ],
)
def test_javascript_may_stand_in_a_file(tmp_path: Path, name: str, text: str, function: str) -> None:
    (tmp_path / name).write_text(text)

    assert of("javascript", f"file://{name}{function}", folder=tmp_path).value == 1.0


@needs_node
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("output.nothing.here", "threw TypeError"),
        ("throw new Error('no')\n", "threw Error: no"),
        ("this is not code", "threw SyntaxError"),
        ("process.exit(3)", "ended with 3"),
    ],
)
def test_javascript_that_breaks_leaves_the_score_open(code: str, message: str) -> None:
    score = of("javascript", code)

    assert score.value is None
    assert message in score.reason


@needs_node
def test_javascript_without_an_end_is_ended() -> None:
    score = of("javascript", "while (true) {}\n", timeout_s=0.3)

    assert score.value is None
    assert "took longer than 0.3 s" in score.reason


def test_without_node_javascript_leaves_the_score_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "RUNTIME", "no-such-node")

    score = of("javascript", "true")

    assert score.value is None
    assert "no-such-node is not installed" in score.reason


# Python.


@pytest.mark.parametrize(
    ("code", "score"),
    [
        ("n = len(output)\nreturn n / 10", 0.5),
        ("  n = len(output)\n  if n > 3:\n      return True\n  return False", 1.0),
        ("return output == 'Paris'", 1.0),
        ("bool(re.search('^P', output)) and math.floor(1.5) == 1 and json.loads('1') == 1", 1.0),
        ("assert output == 'Rome', 'not Rome'", 0.0),
        ("None", None),
    ],
)
def test_python_is_an_expression_or_the_body_of_a_function(code: str, score: float | None) -> None:
    assert of("python", code).value == score


FILE = """
async def get_assert(output, context): return {"score": 1.5 if context["metadata"]["limit"] == 5 else 0}
def named(output, expected_output, criteria, metadata): return output in expected_output and metadata["limit"] == 5
"""


@pytest.mark.parametrize("function", ["", ":named"])
def test_python_may_stand_in_a_file_and_be_async(tmp_path: Path, function: str) -> None:
    (tmp_path / "checks.py").write_text(FILE)

    assert of("python", f"file://checks.py{function}", folder=tmp_path).value == 1.0


def test_python_that_breaks_leaves_the_score_open() -> None:
    score = of("python", "output.nothing")

    assert score.value is None
    assert "AttributeError" in score.reason


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "needs function"),
        ({"function": "a:b", "value": "1"}, "needs function"),
        ({"value": "def x(:"}, "value: not valid Python: line 1"),
        ({"value": "a = 1\nreturn )"}, "not valid Python: line 2"),
        ({"value": "1", "threshold": 2}, "threshold"),
    ],
)
def test_python_that_cannot_be_read_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator("python", **config))

    assert message in str(raised.value)


@pytest.mark.parametrize(("kind", "name"), [("python", "check.py"), ("javascript", "check.js")])
def test_editing_a_file_makes_its_scores_new_and_a_missing_one_is_refused(tmp_path: Path, kind: str, name: str) -> None:
    spec, keys = an_evaluator(kind, value=f"file://{name}"), []
    for text in ("def get_assert(output): return 1", "def get_assert(output): return  1"):
        (tmp_path / name).write_text(text)
        keys.append(bind(spec, CASE, tmp_path).key)

    assert keys[0] != keys[1]
    with pytest.raises(InputError, match=r"no file 'no\.x'"):
        bind(an_evaluator(kind, value="file://no.x"), CASE, tmp_path)


# Webhooks.


def test_a_webhook_is_sent_output_and_context_and_says_what_an_answer_is_worth() -> None:
    with serve(json_reply({"pass": False, "score": 0.4, "reason": "half true"})) as server:
        score = of("webhook", f"{server.url}/check", config={"city": "Paris"})

    (request,) = server.requests
    assert (score.value, score.passes, score.reason) == (0.4, False, "half true")
    assert (request.method, request.path, request.json["output"]) == ("POST", "/check", "Paris")
    assert request.json["context"]["config"] == {"city": "Paris"}
    assert request.json["context"]["metadata"] == {"limit": 5}


@pytest.mark.parametrize(
    ("reply", "config", "value", "message"),
    [
        (json_reply(True), {}, 1.0, "returned true"),
        (json_reply({"score": 0}), {}, 0.0, "0"),
        (json_reply({"score": 0.5}), {"threshold": 0.5}, 0.5, "0.5"),
        (json_reply({"error": "busy"}, status=503), {}, None, "status 503"),
        (Reply(body=b"<html>"), {}, None, "not JSON: <html>"),
        (json_reply({}), {}, None, "no score"),
        (Reply(cut=True, chunks=[b"{"]), {}, None, "did not answer"),
        (Reply(hang=True), {"timeout_s": 0.1}, None, "did not answer within 0.1 s"),
    ],
    ids=["yes", "nothing", "a threshold", "an error", "no JSON", "no score", "a cut answer", "no answer"],
)
def test_what_a_webhook_answers_is_its_score_or_leaves_it_open(
    reply: Reply, config: dict[str, Any], value: float | None, message: str
) -> None:
    with serve(reply) as server:
        score = of("webhook", server.url, **config)

    assert score.value == value
    assert message in score.reason


def test_a_webhook_that_nobody_answers_leaves_the_score_open() -> None:
    score = of("webhook", "http://127.0.0.1:9/")

    assert score.value is None
    assert "did not answer" in score.reason


@pytest.mark.parametrize("value", ["ftp://host/x", "check", "http://", "http://host:x/"])
def test_an_address_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="value: "):
        build(an_evaluator("webhook", value=value))
