"""Test cases that a model drafts for an agent: asked for together, checked one by one, and only wrong ones repaired."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.executions.agent_setup import declared_prompt
from eval_pipeline.executions.model import Runner
from eval_pipeline.suites.case_formats import CaseFormat, DraftBrief
from eval_pipeline.sweeps.asking import ask

JsonMap = Mapping[str, Any]
Ask = Callable[[str], str]
"""Returns what a model answers to a prompt. Raises InputError when it does not."""
_FENCED = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_MISSING = "it is missing: fewer cases were written than asked for"


@dataclass(slots=True, kw_only=True)
class Drafts:
    """The usable cases in their order, what is wrong with the others by place, and how often the model was asked."""

    cases: list[JsonMap] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)
    calls: int = 0


def brief_for(agent: Runner, count: int, focus: Sequence[str], known: Sequence[str]) -> DraftBrief:
    """Return what is to be written for an agent, as far as its settings declare its prompt and tools."""
    settings = agent.settings
    tools = settings.get("tools")
    declared = [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list) else None
    prompt = declared_prompt(settings)
    return DraftBrief(count=count, focus=tuple(focus), prompt=prompt, tools=declared, known=tuple(known))


def write_drafts(writer: Ask, format_: CaseFormat, brief: DraftBrief, *, repairs: int = 1) -> Drafts:
    """Return the cases that a model writes. Those that are wrong, missing or named like another are asked for again, as
    often as `repairs`; the others stay as they are.

    Raises InputError when the model does not answer, or answers with something else than a list.
    """
    drafts = Drafts()
    found: dict[int, JsonMap] = {}
    wanted = list(range(brief.count))
    for _ in range(1 + repairs):
        names = [*brief.known, *(str(case.get("name")) for case in found.values())]
        asked = replace(brief, count=len(wanted), known=tuple(names))
        problems = {place + 1: drafts.problems[place] for place in wanted if place in drafts.problems}
        drafts.calls += 1
        items = answered_items(writer(format_.drafts(asked, problems)))
        drafts.problems = dict(_sorted_out(items, wanted, found, format_, brief))
        wanted = sorted(drafts.problems)
        if not wanted:
            break
    drafts.cases = [found[place] for place in sorted(found)]
    return drafts


def _sorted_out(
    items: Sequence[Any], wanted: Sequence[int], found: dict[int, JsonMap], format_: CaseFormat, brief: DraftBrief
) -> Iterator[tuple[int, str]]:
    """Put usable items into the places that are wanted; yield the places that are not filled, and why."""
    for number, place in enumerate(wanted):
        if number >= len(items):
            yield place, _MISSING
            continue
        known = (*brief.known, *(str(case.get("name")) for case in found.values()))
        try:
            found[place] = format_.check_draft(items[number], replace(brief, known=known))
        except InputError as error:
            yield place, str(error)
        except RecursionError:
            yield place, "it is nested too deeply"


def answered_items(answer: str) -> Sequence[Any]:
    """Return the items of a model's answer: a JSON array, also fenced, or an object with one list.

    Raises InputError for another answer.
    """
    fenced = _FENCED.match(answer)
    try:
        value = json.loads(fenced.group(1) if fenced else answer)
    except (ValueError, RecursionError):
        raise InputError(f"the model's answer is not JSON: {' '.join(answer.split())[:200]}") from None
    if isinstance(value, Mapping):
        lists = [each for each in value.values() if isinstance(each, list)]
        value = lists[0] if len(lists) == 1 else value
    if not isinstance(value, list):
        raise InputError("the model's answer is not a JSON array of cases")
    return value


def ask_runner(runner: Runner) -> Ask:
    """Return the function that asks a runner: each prompt is an execution of its own, with its limits and retries."""
    return lambda prompt: ask(runner, prompt, "draft").final_output or ""
