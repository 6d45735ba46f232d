"""`skill-trigger`: whether a skill was used.

What the normalizer understood decides: skills, and files that were read. Tool calls are looked at as AgentV does it,
for sessions whose normalizer does not know skills.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from eval_pipeline.reports.model import (
    CommandEvent,
    Event,
    FileReadEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import Text
from eval_pipeline.scores.evaluators.budgets import OnMissing
from eval_pipeline.scores.evaluators.tool_trajectory import SNAKE_OR_CAMEL, shows_calls
from eval_pipeline.scores.model import Finding, Outcome, Subject

_PATHS = ("path", "file_path", "filePath")
SKILL_TOOLS: Mapping[str, tuple[str, ...]] = dict.fromkeys(("Skill", "skill"), ("skill",))
READING_TOOLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Read", "read", "Read File", "readFile", "readTextFile"), _PATHS),
    "command_execution": ("command", *_PATHS),
}
_RESULTS = (ToolResultEvent, SkillEvent, FileReadEvent)
TELLING_NAMES = ("Using skill: ", "Viewing ", "mcp:")


@EVALUATORS.register("skill-trigger")
@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTrigger:
    """1 when `skill` was used, or, with `should_trigger: false`, was not. Attempts that failed are no use."""

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    skill: Text
    should_trigger: Annotated[bool, Field(strict=True)] = True
    on_missing: OnMissing = "unscored"

    def evaluate(self, subject: Subject) -> Outcome:
        report = subject.report
        sign = next(_signs(report, self.skill), None)
        if sign is None and not shows_calls(report):
            value = 0.0 if self.on_missing == "fail" else None
            return Outcome(value, "the report shows no session: whether a skill was used is unknown")
        used = f"skill {self.skill} was used" if sign is not None else f"skill {self.skill} was not used"
        passed = (sign is not None) == self.should_trigger
        return Outcome(float(passed), used + (f": {sign}" if sign else ""), (Finding(used, passed, sign),))


def _signs(report: SessionReport, skill: str) -> Iterator[str]:
    """What shows that a skill was used: what the normalizer detected first, then event by event."""
    for detected in report.skills:
        if _is_skill(detected.skill, skill):
            yield ", ".join(detected.evidence) or "detected"
    understood = any(isinstance(event, (SkillEvent, FileReadEvent, CommandEvent)) for event in report.events)
    failed = {event.call_id for event in report.events if isinstance(event, _RESULTS) and _failed(event)} - {None}
    for event in report.events:
        if _failed(event) or (isinstance(event, ToolCallEvent) and event.call_id in failed):
            continue
        sign = _understood_sign(event, skill) or _sign_of_call(event, skill, understood)
        if sign is not None:
            yield sign


def _understood_sign(event: Event, skill: str) -> str | None:
    if isinstance(event, SkillEvent) and _is_skill(event.skill, skill):
        return "it was loaded"
    if isinstance(event, FileReadEvent) and f"/skills/{skill}/" in "/" + event.path.replace("\\", "/"):
        return f"{event.path} was read"
    return None


def _sign_of_call(event: Event, skill: str, understood: bool) -> str | None:
    """A call that names the skill, or an answer out of its folder. Reads that were understood speak for themselves."""
    if isinstance(event, ToolCallEvent):
        named = re.compile(rf"(?<![\w-]){re.escape(skill)}(?![\w-])")
        fields = SKILL_TOOLS if understood else {**SKILL_TOOLS, **READING_TOOLS}
        return f"{event.tool} was called" if any(map(named.search, _telling(event, fields))) else None
    if isinstance(event, ToolResultEvent) and not understood and f"skills/{skill}/" in event.output:
        return f"{event.tool or 'a tool'} answered with skills/{skill}/"
    return None


def _is_skill(found: str, skill: str) -> bool:
    """Whether a skill is the one asked for; a plug-in's skill is `plugin:skill`, and its short name will do."""
    return found == skill or found.rpartition(":")[2] == skill


def _failed(event: Event) -> bool:
    if isinstance(event, ToolResultEvent):
        return event.is_error is True
    return isinstance(event, (SkillEvent, FileReadEvent)) and event.ok is False


def _telling(call: ToolCallEvent, fields: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The texts of a call in which a skill's name counts."""
    if call.tool.startswith(TELLING_NAMES):
        yield call.tool
    arguments: Any = call.arguments if isinstance(call.arguments, Mapping) else {}
    for name in fields.get(call.tool, ()):
        if isinstance(arguments.get(name), str):
            yield arguments[name]
