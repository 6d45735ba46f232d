"""The metrics of the judge of a conversation: eight scored from 0 to 5, one that is met or not, and those of a suite.

Ids, tiers and default weights are those of Connexity's registry; the weights of a selection are normalized to 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from eval_pipeline.errors import did_you_mean

MOST_POINTS = 5
LABELS = ("critical_fail", "fail", "poor", "acceptable", "good", "excellent")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_CUSTOM = frozenset(
    {"name", "display_name", "description", "tier", "default_weight", "score_type", "rubric", "include_in_defaults"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of a judge. `rubric` is what it assesses; `weight` is its share of the score, None: has to be set."""

    id: str
    rubric: str
    tier: str = "delivery"
    weight: float | None = 1.0
    binary: bool = False
    default: bool = True


def _scored(id_: str, tier: str, weight: float, rubric: str) -> Metric:
    return Metric(id=id_, tier=tier, weight=weight, rubric=rubric)


REGISTRY: Mapping[str, Metric] = {
    metric.id: metric
    for metric in (
        _scored(
            "tool_routing", "execution", 0.15,
            "The right tools are called, in the right order, and no tool is called without need. Where no tool was "
            "needed and none was called, this is flawless.",
        ),
        _scored(
            "parameter_extraction", "execution", 0.15,
            "The arguments of the calls that were made are taken correctly and completely from the dialogue and the "
            "results before. Without calls, this is flawless unless a needed call is missing.",
        ),
        _scored(
            "result_interpretation", "execution", 0.15,
            "What tools returned is conveyed faithfully; errors of tools are dealt with; internals are not leaked.",
        ),
        _scored(
            "grounding_fidelity", "knowledge", 0.125,
            "Every claim can be traced to the conversation, to results of tools or to the agent's own rules; no fact, "
            "promise or policy is made up.",
        ),
        _scored(
            "instruction_compliance", "knowledge", 0.125,
            "The agent follows its instructions and business rules, and stays in its role.",
        ),
        _scored(
            "information_gathering", "process", 0.10,
            "What is needed is asked for before acting, and nothing is asked for that is already known.",
        ),
        _scored(
            "conversation_management", "process", 0.10,
            "Ambiguity is cleared up, errors and detours are recovered from, and the conversation is closed properly.",
        ),
        _scored(
            "response_delivery", "delivery", 0.10,
            "Answers are concise and natural, ask one thing at a time, and do not repeat themselves.",
        ),
        Metric(
            id="task_completion", tier="execution", weight=None, binary=True, default=False,
            rubric="The main task that the expected outcomes describe is achieved.",
        ),
    )
}  # fmt: skip


def resolve(selection: Sequence[Any] | None, custom: Iterable[Any] = ()) -> tuple[Metric, ...]:
    """Return the selected metrics with weights that add up to 1; without a selection, those of the defaults.

    A selection has names, or mappings with `metric` and `weight`. Raises ValueError for an unknown or repeated metric
    and for weights that are missing, negative or all 0.
    """
    known = {**REGISTRY, **{metric.id: metric for metric in map(_custom, custom)}}
    chosen = [_selected(entry, known) for entry in selection] if selection else [m for m in known.values() if m.default]
    twice = next((metric.id for metric in chosen if [each.id for each in chosen].count(metric.id) > 1), None)
    if twice is not None:
        raise ValueError(f"metrics: '{twice}' is selected twice")
    total = math.fsum(metric.weight or 0.0 for metric in chosen)
    if total <= 0:
        raise ValueError("metrics: every weight is 0; give at least one metric a weight")
    return tuple(replace(metric, weight=(metric.weight or 0.0) / total) for metric in chosen)


def _selected(entry: Any, known: Mapping[str, Metric]) -> Metric:
    given = {"metric": entry} if isinstance(entry, str) else entry
    if not isinstance(given, Mapping) or not set(given) <= {"metric", "weight"} or "metric" not in given:
        raise ValueError(f"metrics: expected a name, or a mapping with metric and weight, got {entry!r}")
    name = str(given["metric"])
    if name not in known:
        raise ValueError(f"metrics: no metric '{name}'{did_you_mean(name, known)}")
    weight = given.get("weight")
    weight = known[name].weight if weight is None else weight
    if weight is None:
        raise ValueError(f"metrics: '{name}' has no weight of its own; set one")
    return replace(known[name], weight=_checked_weight(weight, name))


def _checked_weight(weight: Any, name: str) -> float:
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
        raise ValueError(f"metrics: the weight of '{name}' has to be a number of at least 0, got {weight!r}")
    return float(weight)


def _custom(raw: Any) -> Metric:
    if not isinstance(raw, Mapping):
        raise ValueError(f"custom_metrics: expected a mapping, got {raw!r}")
    unknown = next((key for key in raw if key not in _CUSTOM), None)
    if unknown is not None:
        raise ValueError(f"custom_metrics: unknown field '{unknown}'{did_you_mean(str(unknown), _CUSTOM)}")
    name, kind = raw.get("name"), raw.get("score_type", "scored")
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError(f"custom_metrics: a name has lower-case letters, digits and _, got {name!r}")
    if kind not in ("scored", "binary"):
        raise ValueError(f"custom_metrics: score_type of '{name}' has to be scored or binary, got {kind!r}")
    return Metric(
        id=name,
        rubric=str(raw.get("rubric") or raw.get("description") or raw.get("display_name") or name.replace("_", " ")),
        tier=str(raw.get("tier") or "delivery"),
        weight=_checked_weight(raw.get("default_weight", 1.0), name),
        binary=kind == "binary",
        default=raw.get("include_in_defaults") is True,
    )


PassWhen = Literal["outcomes", "score", "both"]
