"""`skill-trigger`: what shows that a skill was used, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import (
    CommandEvent,
    DetectedSkill,
    Event,
    FileReadEvent,
    MessageEvent,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from eval_pipeline.scores.evaluate import build
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score

ASKED = MessageEvent(role="user", text="use csv")


def call(tool: str, call_id: str | None = None, **arguments: Any) -> ToolCallEvent:
    return ToolCallEvent(tool=tool, call_id=call_id, arguments=arguments)


USED = [
    pytest.param([SkillEvent(skill="csv")], id="loaded"),
    pytest.param([SkillEvent(skill="tables:csv")], id="loaded-from-a-plug-in"),
    pytest.param([FileReadEvent(path="/home/skills/csv/notes.md")], id="file-of-the-skill-read"),
    pytest.param([call("Skill", skill="csv")], id="skill-tool"),
    pytest.param([call("skill", skill="csv")], id="skill-tool-in-small-letters"),
    pytest.param([call("Read", file_path="/s/csv/SKILL.md")], id="read-tool"),
    pytest.param([call("Read File", path="/s/csv/SKILL.md")], id="read-tool-of-two-words"),
    pytest.param([call("read", filePath="s/csv/SKILL.md")], id="read-tool-in-camel-case"),
    pytest.param([call("command_execution", command="cat s/csv/SKILL.md")], id="command"),
    pytest.param([call("Using skill: csv")], id="tool-named-by-the-skill"),
    pytest.param([call("mcp:csv/run")], id="mcp-tool"),
    pytest.param([call("Bash", command="ls"), call("Skill", skill="csv")], id="after-another-call"),
    pytest.param(
        [call("open"), ToolResultEvent(tool="open", output="# from skills/csv/SKILL.md")], id="answer-out-of-its-folder"
    ),
]
NOT_USED = [
    pytest.param(
        [call("Skill", skill="csv"), ToolResultEvent(tool="Skill", output="no such skill", is_error=True)],
        id="failed-call-without-an-id",
    ),
    pytest.param(
        [SkillEvent(skill="csv", call_id="1"), ToolResultEvent(tool="Skill", call_id="1", output="", is_error=True)],
        id="skill-of-a-failed-call",
    ),
    pytest.param([], id="no-call"),
    pytest.param([call("Bash", command="cat csv")], id="another-tool"),
    pytest.param([call("Skill", skill="csv-export")], id="a-longer-name"),
    pytest.param([call("Skill", args="csv")], id="another-field"),
    pytest.param([call("Skill", skill=["csv"])], id="no-text"),
    pytest.param([ToolCallEvent(tool="Skill", arguments="csv")], id="no-arguments"),
    pytest.param([SkillEvent(skill="csv", ok=False)], id="loading-failed"),
    pytest.param(
        [call("Skill", "1", skill="csv"), SkillEvent(skill="csv", call_id="1", ok=False)], id="call-that-failed"
    ),
    pytest.param(
        [call("Skill", "1", skill="csv"), ToolResultEvent(call_id="1", is_error=True)], id="call-answered-with-an-error"
    ),
    pytest.param([FileReadEvent(path="/work/csv/main.py")], id="project-of-the-same-name"),
    pytest.param(
        [
            call("command_execution", command="ls skills/csv"),
            CommandEvent(command="ls skills/csv"),
            ToolResultEvent(output="skills/csv/SKILL.md"),
        ],
        id="listing-in-a-session-whose-commands-are-understood",
    ),
]


@pytest.mark.parametrize("should_trigger", [True, False])
@pytest.mark.parametrize("events", USED)
def test_a_skill_that_was_used_is_seen(events: list[Event], should_trigger: bool) -> None:
    spec = an_evaluator("skill-trigger", skill="csv", should_trigger=should_trigger)

    result = score(spec, a_report(events=(ASKED, *events)))

    assert result.value == should_trigger
    assert result.reason.startswith("skill csv was used: ")


@pytest.mark.parametrize("should_trigger", [True, False])
@pytest.mark.parametrize("events", NOT_USED)
def test_a_skill_that_was_not_used_is_not_seen(events: list[Event], should_trigger: bool) -> None:
    spec = an_evaluator("skill-trigger", skill="csv", should_trigger=should_trigger)

    result = score(spec, a_report(events=(ASKED, *events)))

    assert result.value == (not should_trigger)
    assert result.reason == "skill csv was not used"


def test_what_the_normalizer_detected_is_the_evidence() -> None:
    detected = DetectedSkill(skill="csv", confidence="strong", evidence=("read /s/csv/SKILL.md",))

    result = score(an_evaluator("skill-trigger", skill="csv"), a_report(skills=(detected,)))

    assert [(finding.passed, finding.evidence) for finding in result.findings] == [(True, "read /s/csv/SKILL.md")]


@pytest.mark.parametrize(
    ("should_trigger", "on_missing", "value"),
    [(True, "unscored", None), (False, "unscored", None), (True, "fail", 0.0), (False, "fail", 1.0)],
)
def test_a_report_that_shows_no_session_says_nothing_about_skills(
    should_trigger: bool, on_missing: str, value: float | None
) -> None:
    spec = an_evaluator("skill-trigger", skill="csv", should_trigger=should_trigger, on_missing=on_missing)

    result = score(spec, a_report("done"))

    assert result.value == value
    assert "unknown" in result.reason


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param({}, "skill: required", id="no-skill"),
        pytest.param({"skill": ""}, "skill: expected a text that is not empty", id="empty"),
        pytest.param({"skill": "a", "should_trigger": "no"}, "should_trigger: expected true or false", id="text"),
    ],
)
def test_a_wrong_argument_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator("skill-trigger", **config))

    assert str(raised.value).startswith(f"skill-trigger {message}")
