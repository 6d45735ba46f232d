"""The reply of a judge: one object for each metric, and one verdict for each expected outcome.

The score is computed here, never by the judge: the weighted mean of its points over 5 (a metric that is met or not
counts 1 or 0).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.scores.grading.fences import Fences
from eval_pipeline.scores.grading.judge_metrics import LABELS, MOST_POINTS, Metric
from eval_pipeline.scores.grading.replies import KEY, GraderVerdict, UnreadableReply, read_object
from eval_pipeline.scores.grading.values import shown
from eval_pipeline.scores.model import Finding

OUTCOMES = "expected_outcomes"
WEAK, STRONG = 3, 4


@dataclass(frozen=True, slots=True)
class ExpectedOutcome:
    """One thing that a conversation is to achieve: a label or statement, and the state that is expected of it."""

    text: str
    expected: Any = True

    @property
    def statement(self) -> str:
        """The outcome as a statement."""
        words = self.text.replace("_", " ") if " " not in self.text else self.text
        return words if self.expected is True else f"{words}: {shown_state(self.expected)}"


def shown_state(value: Any) -> str:
    """Return an expected state in words."""
    if value is False:
        return "no, this must not be so"
    return "nothing" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class JudgeForm:
    """A reply format of these metrics and outcomes."""

    metrics: tuple[Metric, ...]
    outcomes: tuple[ExpectedOutcome, ...]
    gated_by_outcomes: bool

    def request(self, fences: Fences) -> str:
        blocks = [f'"{metric.id}": {_BINARY if metric.binary else _SCORED}' for metric in self.metrics]
        if self.outcomes:
            numbers = f"one entry for each of the {len(self.outcomes)} outcomes, in their order"
            blocks.append(f'"{OUTCOMES}": [{_OUTCOME}, <{numbers}>]')
        shape = ",\n ".join([f'"{KEY}": "{fences.key}"', *blocks])
        return (
            f"Reply with one JSON object and nothing else, of this shape:\n{{{shape}}}\n"
            f'"{KEY}" must be repeated exactly as it stands here.'
        )

    @property
    def response_format(self) -> dict[str, Any]:
        """The reply as a strict JSON schema, for providers that hold a model to one.

        It depends on the metrics only, so that all conversations of a suite are judged through one client. The bounds
        of a score are words: not every provider knows bounds of numbers in a schema.
        """
        metrics = {metric.id: _PASS_SCHEMA if metric.binary else _SCORE_SCHEMA for metric in self.metrics}
        properties: dict[str, Any] = {KEY: _TEXT, **metrics}
        if self.outcomes:
            properties[OUTCOMES] = {"type": "array", "items": _OUTCOME_SCHEMA}
        schema = {"name": "judgement", "strict": True, "schema": _object(**properties)}
        return {"type": "json_schema", "json_schema": schema}

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        return read_object(reply, fences, judged, self._verdict)

    def _verdict(self, reply_: Mapping[str, Any]) -> GraderVerdict:
        read = [metric for metric in self.metrics if reply_.get(metric.id) is not None]
        if self.metrics and not read:
            raise UnreadableReply(f"has none of the metrics {', '.join(metric.id for metric in self.metrics)}")
        scores = [_metric_score(metric, reply_[metric.id]) for metric in read]
        results = dict(self._outcome_results(reply_.get(OUTCOMES)))
        missing_outcomes = [f"outcome {number}" for number in range(1, len(self.outcomes) + 1) if number not in results]
        missing_metrics = [metric.id for metric in self.metrics if metric not in read]
        weight = math.fsum(score["weight"] for score in scores)
        value = (
            math.fsum(score["points"] * score["weight"] for score in scores) / (MOST_POINTS * weight) if weight else 0.0
        )
        outcomes = [self._outcome(number, result) for number, result in sorted(results.items())]
        return GraderVerdict(
            value,
            summary(value, scores, outcomes),
            (*_outcome_findings(outcomes), *_metric_findings(scores)),
            None,
            {"metrics": scores, "outcomes": outcomes},
            missing=(*missing_metrics, *missing_outcomes),
            open_gates=(*missing_metrics, *(missing_outcomes if self.gated_by_outcomes else ())),
        )

    def _outcome_results(self, raw: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the readable results by the number of their outcome: by statement, else by position."""
        entries = [entry for entry in raw if isinstance(entry, Mapping)] if isinstance(raw, list) else []
        by_text = {outcome.text: number for number, outcome in enumerate(self.outcomes, start=1)}
        by_text |= {outcome.statement: number for number, outcome in enumerate(self.outcomes, start=1)}
        for position, entry in enumerate(entries, start=1):
            in_place = self.outcomes[position - 1] if len(entries) == len(self.outcomes) else None
            number = by_text.get(str(entry.get("statement")), position if in_place else None)
            if in_place and entry.get("statement") in (in_place.text, in_place.statement):
                number = position  # two outcomes of one text are told apart by their order
            if number is not None and isinstance(entry.get("passed"), bool):
                yield number, entry

    def _outcome(self, number: int, result: Mapping[str, Any]) -> dict[str, Any]:
        outcome = self.outcomes[number - 1]
        return {
            "outcome": outcome.text,
            "expected": outcome.expected,
            "passed": result["passed"],
            "justification": _text(result.get("justification")),
        }


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: Mapping[str, Any] = {"type": "string"}
_EXPLAINED: Mapping[str, Mapping[str, Any]] = {
    "justification": _TEXT,
    "failure_code": {"anyOf": [_TEXT, {"type": "null"}]},
    "turns": {"type": "array", "items": {"type": "integer"}},
}
_SCORE_SCHEMA = _object(
    score={"type": "integer", "description": f"A whole number from 0 to {MOST_POINTS}"}, **_EXPLAINED
)
_PASS_SCHEMA = _object(passed={"type": "boolean"}, **_EXPLAINED)
_OUTCOME_SCHEMA = _object(statement=_TEXT, passed={"type": "boolean"}, justification=_TEXT)
_SCORED = (
    f'{{"score": <whole number from 0 to {MOST_POINTS}>, "justification": "<why, with turns>", '
    '"failure_code": <"snake_case_reason" for 2 points or fewer, else null>, "turns": [<turn numbers>]}'
)
_BINARY = _SCORED.replace(f'"score": <whole number from 0 to {MOST_POINTS}>', '"passed": <true or false>')
_OUTCOME = '{"statement": "<the outcome>", "passed": <true or false>, "justification": "<what shows it>"}'


def _metric_score(metric: Metric, raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise UnreadableReply(f"{metric.id}: expected an object, got {shown(raw)}")
    points = _passed(metric, raw) * MOST_POINTS if metric.binary else _points(metric, raw.get("score"))
    return {
        "metric": metric.id,
        "points": points,
        "label": ("pass" if points else "fail") if metric.binary else LABELS[points],
        "weight": metric.weight or 0.0,
        "binary": metric.binary,
        "tier": metric.tier,
        "justification": _text(raw.get("justification")),
        "failure_code": _text(raw.get("failure_code")),
        "turns": _turns(metric, raw.get("turns")),
    }


def _passed(metric: Metric, raw: Mapping[str, Any]) -> bool:
    if not isinstance(raw.get("passed"), bool):
        raise UnreadableReply(f"{metric.id}: passed: expected true or false, got {shown(raw.get('passed'))}")
    return bool(raw["passed"])


def _points(metric: Metric, raw: Any) -> int:
    """Return the points: a number or its text, cut to a whole number and to the scale."""
    try:
        points = int(raw) if isinstance(raw, (int, float, str)) else None
    except (ValueError, OverflowError):
        points = None
    if points is None:
        raise UnreadableReply(f"{metric.id}: score: expected a whole number from 0 to {MOST_POINTS}, got {shown(raw)}")
    return min(max(points, 0), MOST_POINTS)


def _turns(metric: Metric, raw: Any) -> list[int]:
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(turn, int) and not isinstance(turn, bool) for turn in raw):
        raise UnreadableReply(f"{metric.id}: turns: expected a list of whole numbers, got {shown(raw)}")
    return raw


def _text(raw: Any) -> str | None:
    return raw.strip() if isinstance(raw, str) and raw.strip() else None


def summary(value: float, scores: Sequence[Mapping[str, Any]], outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Return the result in words: the score, unmet outcomes, the weakest and strongest metric, failed binary ones."""
    scored = [score for score in scores if not score["binary"]]
    parts = [f"score {100 * value:.1f} of 100"] if scores else []
    if outcomes:
        unmet = [outcome["outcome"] for outcome in outcomes if not outcome["passed"]]
        met = len(outcomes) - len(unmet)
        parts.append(f"{met} of {len(outcomes)} outcomes hold" + (f"; not: {', '.join(unmet)}" if unmet else ""))
    if scored:
        weakest, strongest = min(scored, key=_by_points), max(scored, key=_by_points)
        if weakest["points"] < WEAK:
            parts.append(f"weakest: {weakest['metric']} ({weakest['points']}/{MOST_POINTS})")
        if strongest["points"] >= STRONG and strongest is not weakest:
            parts.append(f"strongest: {strongest['metric']} ({strongest['points']}/{MOST_POINTS})")
    parts += [f"{score['metric']} failed" for score in scores if score["binary"] and not score["points"]]
    return "; ".join(parts)


def _by_points(score: Mapping[str, Any]) -> int:
    return int(score["points"])


def _outcome_findings(outcomes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for outcome in outcomes:
        yield Finding(
            ExpectedOutcome(outcome["outcome"], outcome["expected"]).statement,
            outcome["passed"],
            outcome["justification"],
        )


def _metric_findings(scores: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for score in scores:
        points = score["label"] if score["binary"] else f"{score['points']}/{MOST_POINTS} ({score['label']})"
        yield Finding(f"{score['metric']}: {points}", score["points"] >= WEAK, score["justification"])
