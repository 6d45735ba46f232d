"""The forms of a grader's reply that are JSON: a score with assertions, a checklist, scores from 0 to 10.

Each says what it asks for (`request`) and reads what came (`read`). What cannot be read is a problem, never a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.scores.grading.criteria import BEST, Criterion
from eval_pipeline.scores.grading.fences import Fences
from eval_pipeline.scores.grading.replies import KEY, GraderVerdict, Unreadable, read_object
from eval_pipeline.scores.grading.values import TRUE, shown, truth, whole, within
from eval_pipeline.scores.model import Finding, at_least

MOST_FINDINGS = 8
GOOD_BAND = 7
"""The least score from 0 to 10 that shows as a finding that holds."""


@dataclass(frozen=True, slots=True)
class FreeForm:
    """`{"score": 0.8, "assertions": [{"text", "passed", "evidence"}]}`; also `{"pass", "score", "reason"}`."""

    def request(self, fences: Fences) -> str:
        return _request(
            f'{{"{KEY}": "{fences.key}", "score": <a number from 0.0 (nothing is met) to 1.0 (everything is met)>, '
            '"reason": "<one sentence>", "assertions": [{"text": "<what you checked>", "passed": <true or false>, '
            '"evidence": "<what in the answer shows it>"}]}',
            f"At most {MOST_FINDINGS} assertions, the most important ones.",
        )

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        return read_object(reply, fences, judged, self._opinion)

    def _opinion(self, found: Mapping[str, Any]) -> GraderVerdict:
        passes = None if found.get("pass") is None else truth(found["pass"], "pass")
        if "score" in found:
            value = within(found["score"], "score", 1)
        elif passes is not None:
            value = float(passes)
        else:
            raise Unreadable('has no "score"')
        findings = tuple(_findings(found.get("assertions")))[:MOST_FINDINGS]
        said = _said(found, "reason", "reasoning")
        details = {"details": found["details"]} if found.get("details") else {}
        return GraderVerdict(value, said or _by_findings(findings), findings, passes, details)


@dataclass(frozen=True, slots=True)
class Checklist:
    """`{"checks": [{"id", "satisfied", "reasoning"}]}`: the weight that is met, of the weight that was judged.

    The sum is made here; a total that the grader gives is not looked at.
    """

    criteria: tuple[Criterion, ...]

    def request(self, fences: Fences) -> str:
        return _request(
            f'{{"{KEY}": "{fences.key}", "checks": [{{"id": "<id of the criterion>", "satisfied": <true or false>, '
            '"reasoning": "<one sentence>"}], "overall_reasoning": "<one sentence>"}',
            f"One check for each criterion: {', '.join(criterion.id for criterion in self.criteria)}.",
        )

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        return read_object(reply, fences, judged, self._opinion)

    def _opinion(self, found: Mapping[str, Any]) -> GraderVerdict:
        checks = _checks(found, self.criteria)
        met = {id_: truth(_either(check, "satisfied", "pass"), f"check {id_}") for id_, check in checks.items()}
        judged = [criterion for criterion in self.criteria if criterion.id in met]
        value = _weighted([(criterion.weight, float(met[criterion.id])) for criterion in judged])
        unmet = [criterion for criterion in judged if not met[criterion.id]]
        gated = any(criterion.required is not False for criterion in unmet)
        findings = tuple(
            Finding(criterion.outcome or criterion.id, met[criterion.id], _why(checks[criterion.id]))
            for criterion in judged
        )
        reason = _total(found, f"{len(judged) - len(unmet)} of {len(judged)} criteria are met", unmet)
        missing = [criterion for criterion in self.criteria if criterion.id not in met]
        gates = [criterion for criterion in missing if criterion.required is not False]
        passes = False if gated else None
        return GraderVerdict(value, reason, findings, passes, missing=_ids(missing), open_gates=_ids(gates))


@dataclass(frozen=True, slots=True)
class Ranges:
    """`{"checks": [{"id", "score", "reasoning"}]}` with whole scores from 0 to 10: their weighted mean over 10."""

    criteria: tuple[Criterion, ...]

    def request(self, fences: Fences) -> str:
        return _request(
            f'{{"{KEY}": "{fences.key}", "checks": [{{"id": "<id of the criterion>", "score": <a whole number from 0 '
            f'to {BEST}>, "reasoning": "<one sentence>"}}], "overall_reasoning": "<one sentence>"}}',
            f"One check for each criterion: {', '.join(criterion.id for criterion in self.criteria)}.",
        )

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        return read_object(reply, fences, judged, self._opinion)

    def _opinion(self, found: Mapping[str, Any]) -> GraderVerdict:
        checks = _checks(found, self.criteria)
        raw = {id_: whole(check.get("score"), f"check {id_}") for id_, check in checks.items()}
        judged = [criterion for criterion in self.criteria if criterion.id in raw]
        value = _weighted([(criterion.weight, raw[criterion.id] / BEST) for criterion in judged])
        below = [criterion for criterion in judged if not _reaches(criterion, raw[criterion.id])]
        findings = tuple(self._finding(criterion, raw[criterion.id], checks[criterion.id]) for criterion in judged)
        missing = [criterion for criterion in self.criteria if criterion.id not in raw]
        scores = ", ".join(f"{id_} {score}" for id_, score in raw.items())
        return GraderVerdict(
            value,
            _total(found, f"of {BEST}: {scores}", below),
            findings,
            False if below else None,
            {"raw_scores": raw, "normalization": f"score / {BEST}", "aggregation": "weighted mean"},
            _ids(missing),
            _ids([criterion for criterion in missing if not _reaches(criterion, 0)]),
        )

    def _finding(self, criterion: Criterion, score: int, check: Mapping[str, Any]) -> Finding:
        band = next((band.outcome for band in criterion.bands if band.low <= score <= band.high), None)
        text = f"{criterion.outcome or criterion.id}: {score}" + (f" ({band})" if band else "")
        return Finding(text, _reaches(criterion, score) and score >= GOOD_BAND, _why(check))


def _request(shape: str, more: str) -> str:
    return (
        f"Reply with one JSON object and nothing else, of this shape:\n{shape}\n{more} "
        f'"{KEY}" must be repeated exactly as it stands here.'
    )


def _findings(assertions: Any) -> Iterator[Finding]:
    """The assertions of a reply; an entry without a text says nothing, a `passed` that is not true has not."""
    if assertions is None:
        return
    if not isinstance(assertions, list):
        raise Unreadable(f"assertions: expected a list, got {shown(assertions)}")
    for entry in assertions:
        text = entry.get("text") if isinstance(entry, Mapping) else None
        if isinstance(text, str) and text.strip():
            passed = entry.get("passed")
            met = passed is True or (isinstance(passed, str) and passed.strip().lower() in TRUE)
            evidence = entry.get("evidence")
            yield Finding(text, met, evidence if isinstance(evidence, str) and evidence else None)


def _by_findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "the grader gave no reason"
    failed = [finding.text for finding in findings if not finding.passed]
    return "; ".join(failed) or f"all {len(findings)} points hold"


def _checks(found: Mapping[str, Any], criteria: Sequence[Criterion]) -> dict[str, Mapping[str, Any]]:
    """The checks of known criteria by id, the last one of each; what else is there is left alone."""
    listed = found.get("checks")
    if not isinstance(listed, list):
        raise Unreadable('has no "checks"' if listed is None else f"checks: expected a list, got {shown(listed)}")
    known = {criterion.id for criterion in criteria}
    checks = {str(one["id"]): one for one in listed if isinstance(one, Mapping) and str(one.get("id")) in known}
    if not checks:
        raise Unreadable(f"none of its checks has the id of a criterion: {', '.join(sorted(known))}")
    return checks


def _ids(criteria: Iterable[Criterion]) -> tuple[str, ...]:
    return tuple(criterion.id for criterion in criteria)


def _either(found: Mapping[str, Any], *keys: str) -> Any:
    return next((found[key] for key in keys if found.get(key) is not None), None)


def _said(found: Mapping[str, Any], *keys: str) -> str | None:
    said = _either(found, *keys)
    return said.strip() if isinstance(said, str) and said.strip() else None


def _why(check: Mapping[str, Any]) -> str | None:
    return _said(check, "reasoning", "reason", "evidence")


def _total(found: Mapping[str, Any], counted: str, failed: Sequence[Criterion]) -> str:
    """The reason of an opinion on several criteria: what was counted, what failed, what the grader says of it all."""
    names = f"; not met: {', '.join(criterion.id for criterion in failed)}" if failed else ""
    said = _said(found, "overall_reasoning", "reason")
    return f"{counted}{names}" + (f". {said}" if said else "")


def _weighted(parts: Sequence[tuple[float, float]]) -> float:
    """The weighted mean; without any weight there is nothing that could be met."""
    weight = sum(weight for weight, _ in parts)
    return sum(weight * value for weight, value in parts) / weight if weight else 0.0


def _reaches(criterion: Criterion, score: int) -> bool:
    """Whether a score from 0 to 10 passes the criterion's gate: its least share, or the best when it is required."""
    least = criterion.least if criterion.least is not None else 1.0 if criterion.required else 0.0
    return at_least(score / BEST, least)
