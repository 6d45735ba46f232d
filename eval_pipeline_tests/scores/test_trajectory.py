"""`trajectory:…`, `skill-used` and `not-…`: what a session did, by names, counts, order and arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import (
    CommandEvent,
    DetectedSkill,
    MessageEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from eval_pipeline.scores.evaluate import build
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score, score_text

SESSION = SessionReport(
    execution_id="e1",
    final_output="Done.",
    events=(
        MessageEvent(role="user", text="Find it"),
        MessageEvent(role="assistant", text="Hm.", phase="thinking"),
        MessageEvent(role="assistant", text="I search.", phase="commentary"),
        ToolCallEvent(tool="search_orders", arguments={"id": "1", "page": 1, "at": "now", "in": {"a": [1, 2]}}),
        ToolCallEvent(tool="search_orders", arguments='{"id": "2"}'),
        ToolCallEvent(tool="Bash", call_id="b1", arguments={"command": "npm test --all"}),
        CommandEvent(command="npm test --all", call_id="b1"),
        ToolCallEvent(tool="exec_command", arguments={"cmd": ["npm", "ci"]}),
        CommandEvent(command="ls", call_id=None),
        ToolCallEvent(tool="compose_reply", arguments={"tone": True}),
        MessageEvent(role="assistant", text="Done.", phase="final"),
    ),
)


def holds(kind: str, value: Any, report: SessionReport = SESSION) -> float | None:
    """The value of a check of a session."""
    return score(an_evaluator(kind, value=value), report).value


@pytest.mark.parametrize(
    ("value", "used"),
    [
        ("search_orders", True),
        ("SEARCH_*", True),
        ("search_order?", True),
        ("search", False),
        (["search_orders", "compose_reply"], True),
        (["search_orders", "delete"], False),
        ({"name": "search_orders", "min": 2, "max": 2}, True),
        ({"pattern": "search*", "min": 3}, False),
        ({"pattern": "search*", "max": 1}, False),
        ("Bash", True),
        ("exec_command", False),
        ("x.y", False),
    ],
)
def test_tools_are_used_by_name_pattern_and_count(value: Any, used: bool) -> None:
    assert holds("trajectory:tool-used", value) == float(used)


@pytest.mark.parametrize(
    ("value", "unused"),
    [
        ("delete", True),
        (["delete", "search_orders"], False),
        (["delete", "drop"], True),
        ({"pattern": "search*", "min": 3}, True),
        ({"pattern": "search*", "min": 2}, False),
    ],
)
def test_not_used_means_none_of_them(value: Any, unused: bool) -> None:
    assert holds("not-trajectory:tool-used", value) == float(unused)


@pytest.mark.parametrize(
    ("value", "as_expected"),
    [
        (["search_orders", "compose_reply"], True),
        (["compose_reply", "search_orders"], False),
        (["search*", "search*", "search*"], False),
        ({"steps": ["search_orders", {"pattern": "comp*"}]}, True),
        ({"mode": "exact", "steps": ["search_orders", "search_orders", "bash", "compose_reply"]}, True),
        ({"mode": "exact", "steps": ["search_orders", "compose_reply"]}, False),
    ],
)
def test_tools_are_called_in_an_order(value: Any, as_expected: bool) -> None:
    assert holds("trajectory:tool-sequence", value) == float(as_expected)
    assert holds("not-trajectory:tool-sequence", value) == float(not as_expected)


@pytest.mark.parametrize(
    ("kind", "value", "as_expected"),
    [
        ("trajectory:tool-used", {"type": "read"}, True),
        ("trajectory:tool-used", {"type": "web"}, False),
        ("trajectory:tool-used", {"pattern": "s*", "type": "edit"}, True),
        ("trajectory:tool-sequence", [{"type": "read"}, {"type": "edit"}], True),
        ("trajectory:tool-sequence", [{"type": "edit"}, {"type": "read"}], False),
        ("trajectory:step-count", {"type": ["read", "edit"], "min": 2, "max": 2}, True),
    ],
)
def test_tools_are_known_by_what_they_do(kind: str, value: Any, as_expected: bool) -> None:
    events = (ToolCallEvent(tool="peek", tool_kind="read"), ToolCallEvent(tool="scribble", tool_kind="edit"))

    assert holds(kind, value, a_report(events=events)) == float(as_expected)


@pytest.mark.parametrize(
    ("value", "as_expected"),
    [
        ({"type": "command", "pattern": "npm*", "min": 2, "max": 2}, True),
        ({"type": "command", "min": 3, "max": 3}, True),
        ({"type": "command", "pattern": "ls", "max": 0}, False),
        ({"type": "command", "pattern": "npm", "min": 2}, True),
        ({"type": "tool", "min": 4, "max": 4}, True),
        ({"type": ["tool", "command"], "min": 6, "max": 6}, True),
        ({"type": "message", "max": 2}, True),
        ({"type": "reasoning", "min": 1, "max": 1}, True),
        ({"max": 9}, True),
        ({"max": 8}, False),
        ({"name": "nothing", "max": 0}, True),
    ],
)
def test_steps_are_counted_by_type_and_pattern(value: Any, as_expected: bool) -> None:
    assert holds("trajectory:step-count", value) == float(as_expected)


@pytest.mark.parametrize(
    ("value", "as_expected"),
    [
        ({"args": {"id": "1"}}, True),
        ({"args": {"id": "2"}}, True),
        ({"args": {"id": "3"}}, False),
        ({"arguments": {"in": {"a": [1, 2]}}}, True),
        ({"args": {"in": {"a": [1]}}}, False),
        ({"args": {"page": True}}, False),
        ({"args": {"page": 1.0}}, True),
        ({"args": {"id": "2"}, "mode": "exact"}, True),
        ({"args": {"id": "1"}, "mode": "exact"}, False),
        ({"args": {"id": "1", "page": 1}, "mode": "exact", "ignore": ["a?", "in"]}, True),
        ({"args": {"id": "1", "at": "then", "in": {"a": [1, 2]}}, "mode": "exact", "ignore": "at",
          "defaults": {"page": 1}}, True),
        ({"args": {"id": "1"}, "mode": "exact", "ignore": ["at", "in"], "defaults": {"page": 2}}, False),
        ({"name": "compose_reply", "args": {"tone": 1}}, False),
        ({"name": "nothing", "args": {}}, False),
    ],
)  # fmt: skip
def test_a_call_has_the_arguments(value: dict[str, Any], as_expected: bool) -> None:
    assert holds("trajectory:tool-args-match", {"name": "search_orders", **value}) == float(as_expected)


def test_what_was_found_is_the_reason() -> None:
    reason = score(
        an_evaluator("trajectory:tool-args-match", value={"name": "search*", "args": {"id": 3}}), SESSION
    ).reason

    assert reason.startswith('search* was never called with {"id":3}, but with {"id":"1"')


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("trajectory:tool-used", 5, "expected a name"),
        ("trajectory:tool-used", [], "expected names"),
        ("trajectory:tool-used", {"min": 1}, "needs a name or a pattern"),
        ("trajectory:tool-used", {"name": "x", "mni": 1}, "unknown field 'mni'"),
        ("trajectory:tool-used", {"name": "x", "min": 2, "max": 1}, "max 1 is less than min 2"),
        ("trajectory:tool-used", {"name": "x", "min": True}, "min: expected a whole number"),
        ("trajectory:tool-sequence", "x", "expected a list of tools"),
        ("trajectory:tool-sequence", [], "expected a list of tools"),
        ("trajectory:tool-sequence", {"steps": ["a"], "mode": "any"}, "mode: expected in_order or exact"),
        ("trajectory:tool-sequence", {"steps": ["a"], "max": 1}, "steps and mode and nothing else"),
        ("trajectory:tool-sequence", [{"type": "tool"}], "needs a name or a pattern"),
        ("trajectory:step-count", {"type": "tool"}, "needs min or max"),
        ("trajectory:step-count", {"type": "span", "max": 1}, "type: expected one or several of"),
        ("trajectory:step-count", "x", "expected a mapping"),
        ("trajectory:tool-args-match", {"name": "x"}, "needs args"),
        ("trajectory:tool-args-match", {"name": "x", "args": {}, "mode": "x"}, "mode: expected partial or exact"),
        ("trajectory:tool-args-match", {"name": "x", "args": {}, "defaults": 1}, "defaults: expected a mapping"),
        ("trajectory:tool-args-match", {"name": "x", "args": {}, "ignore": [1]}, "ignore: expected a name"),
        ("skill-used", 5, "expected a skill"),
        ("skill-used", [""], "expected a skill"),
        ("skill-used", {"min": 1}, "expected a mapping with name or pattern"),
        ("skill-used", {"name": "x", "min": -1}, "min: expected a whole number"),
        ("not-skill-used", {"name": "x", "min": 1}, "takes no min or max"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_looked_for_is_refused(kind: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator(kind, value=value))

    assert message in str(raised.value)


SKILLS = SessionReport(
    execution_id="e1",
    final_output="done",
    model_calls=3,
    events=(
        ToolCallEvent(tool="Skill", call_id="s1", arguments={"skill": "csv-analyzer"}),
        SkillEvent(skill="csv-analyzer", strength="explicit", call_id="s1"),
        SkillEvent(skill="csv-analyzer", strength="strong"),
        SkillEvent(skill="office:web-search", strength="strong"),
        SkillEvent(skill="broken", ok=False),
        ToolCallEvent(tool="Skill", call_id="s2", arguments={"skill": "refused"}),
        ToolResultEvent(call_id="s2", is_error=True),
        ToolCallEvent(tool="skill", call_id="s3", arguments={"skill": "tidy"}),
        ToolCallEvent(tool="skill", call_id="s4", arguments={"skill": "tidy"}),
    ),
)


@pytest.mark.parametrize(
    ("value", "used"),
    [
        ("csv-analyzer", True),
        ("csv", False),
        ("web-search", True),
        ("office:web-search", True),
        ("broken", False),
        ("refused", False),
        (["csv-analyzer", "web-search"], True),
        (["csv-analyzer", "missing"], False),
        ({"name": "csv-analyzer", "min": 1, "max": 1}, True),
        ({"name": "tidy", "min": 2}, True),
        ({"pattern": "*search", "min": 2}, False),
        ({"pattern": "T*"}, True),
        ({"name": "missing", "max": 3}, True),
    ],
)
def test_skills_are_used_by_name_pattern_and_count(value: Any, used: bool) -> None:
    assert holds("skill-used", value, SKILLS) == float(used)


@pytest.mark.parametrize(
    ("value", "unused"), [("missing", True), (["missing", "tidy"], False), ({"pattern": "*search", "max": 0}, False)]
)
def test_a_skill_is_not_used_when_none_of_them_was(value: Any, unused: bool) -> None:
    assert holds("not-skill-used", value, SKILLS) == float(unused)


def test_a_skill_that_the_normalizer_detected_was_used_once() -> None:
    detected = a_report("x", skills=(DetectedSkill(skill="tidy", confidence="medium", evidence=("a file",)),))

    assert holds("skill-used", {"name": "tidy", "max": 1}, detected) == 1.0


ANSWER = replace(a_report("Done."), events=(MessageEvent(role="assistant", text="Done.", phase="final"),))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("trajectory:tool-used", "x"),
        ("trajectory:step-count", {"max": 9}),
        ("skill-used", "x"),
        ("not-skill-used", "x"),
    ],
)
def test_an_answer_alone_says_nothing_of_a_session_unless_that_is_to_count(kind: str, value: Any) -> None:
    spec = an_evaluator(kind, value=value)

    assert score(spec, ANSWER).value is None
    assert score(replace(spec, config={**spec.config, "on_missing": "fail"}), ANSWER).value == 0.0


@pytest.mark.parametrize(
    ("kind", "output", "config", "value"),
    [
        ("not-contains", "yes", {"value": "yes"}, 0.0),
        ("not-contains", "no", {"value": "yes"}, 1.0),
        ("not-icontains-any", "YES", {"value": ["no", "yes"]}, 0.0),
        ("not-contains-all", "yes", {"value": ["no", "yes"]}, 1.0),
        ("not-regex", "a1", {"value": r"\d"}, 0.0),
        ("not-equals", "a", {"value": "b"}, 1.0),
        ("not-starts-with", "ab", {"value": "a"}, 0.0),
        ("not-is-json", "{", {}, 1.0),
        ("not_is_json", "{}", {}, 0.0),
        ("not-latency", "x", {"threshold": 5}, None),
    ],
)
def test_not_is_the_opposite(kind: str, output: str, config: dict[str, Any], value: float | None) -> None:
    assert score_text(kind, output, **config).value == value
