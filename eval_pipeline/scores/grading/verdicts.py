"""JSON formats of a grader's reply: a score with assertions, a checklist, scores from 0 to 10.

Each format has its instruction (`request`) and its reader (`read`). An unreadable reply is a problem, never a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.scores.grading.criteria import MAX_SCORE, Criterion
from eval_pipeline.scores.grading.fences import Fences
from eval_pipeline.scores.grading.replies import KEY, GraderVerdict, UnreadableReply, read_object
from eval_pipeline.scores.grading.values import TRUE, read_bool, read_number, read_whole, shown
from eval_pipeline.scores.model import Finding, at_least

MAX_FINDINGS = 8
GOOD_BAND = 7
"""The minimum score from 0 to 10 that counts as a passed finding."""


@dataclass(frozen=True, slots=True)
class FreeForm:
    """`{"score": 0.8, "assertions": [{"text", "passed", "evidence"}]}`; also `{"pass", "score", "reason"}`."""

    def request(self, fences: Fences) -> str:
        return _request(
            f'{{"{KEY}": "{fences.key}", "score": <a number from 0.0 (nothing is met) to 1.0 (everything is met)>, '
            '"reason": "<one sentence>", "assertions": [{"text": "<what you checked>", "passed": <true or false>, '
            '"evidence": "<what in the answer shows it>"}]}',
            f"At most {MAX_FINDINGS} assertions, the most important ones.",
        )

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        return read_object(reply, fences, judged, self._verdict)

    def _verdict(self, reply_: Mapping[str, Any]) -> GraderVerdict:
        passes = None if reply_.get("pass") is None else read_bool(reply_["pass"], "pass")
        if "score" in reply_:
            value = read_number(reply_["score"], "score", 1)
        elif passes is not None:
            value = float(passes)
        else:
            raise UnreadableReply('has no "score"')
        findings = tuple(_findings(reply_.get("assertions")))[:MAX_FINDINGS]
        reason = _text_of(reply_, "reason", "reasoning")
        details = {"details": reply_["details"]} if reply_.get("details") else {}
        return GraderVerdict(value, reason or _by_findings(findings), findings, passes, details)


@dataclass(frozen=True, slots=True)
class Checklist:
    """`{"checks": [{"id", "satisfied", "reasoning"}]}`: the weight that is met, divided by the weight that was graded.

    The sum is computed here; a total in the reply is ignored.
    """

    criteria: tuple[Criterion, ...]

    def request(self, fences: Fences) -> str:
        return _request(
            f'{{"{KEY}": "{fences.key}", "checks": [{{"id": "<id of the criterion>", "satisfied": <true or false>, '
            '"reasoning": "<one sentence>"}], "overall_reasoning": "<one sentence>"}',
            f"One check for each criterion: {', '.join(criterion.id for criterion in self.criteria)}.",
        )

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        return read_object(reply, fences, judged, self._verdict)

    def _verdict(self, reply_: Mapping[str, Any]) -> GraderVerdict:
        checks = _checks(reply_, self.criteria)
        met = {id_: read_bool(_either(check, "satisfied", "pass"), f"check {id_}") for id_, check in checks.items()}
        judged = [criterion for criterion in self.criteria if criterion.id in met]
        value = _weighted([(criterion.weight, float(met[criterion.id])) for criterion in judged])
        unmet = [criterion for criterion in judged if not met[criterion.id]]
        gated = any(criterion.required is not False for criterion in unmet)
        findings = tuple(
            Finding(criterion.outcome or criterion.id, met[criterion.id], _reasoning(checks[criterion.id]))
            for criterion in judged
        )
        reason = _total(reply_, f"{len(judged) - len(unmet)} of {len(judged)} criteria are met", unmet)
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
            f'to {MAX_SCORE}>, "reasoning": "<one sentence>"}}], "overall_reasoning": "<one sentence>"}}',
            f"One check for each criterion: {', '.join(criterion.id for criterion in self.criteria)}.",
        )

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        return read_object(reply, fences, judged, self._verdict)

    def _verdict(self, reply_: Mapping[str, Any]) -> GraderVerdict:
        checks = _checks(reply_, self.criteria)
        raw = {id_: read_whole(check.get("score"), f"check {id_}") for id_, check in checks.items()}
        judged = [criterion for criterion in self.criteria if criterion.id in raw]
        value = _weighted([(criterion.weight, raw[criterion.id] / MAX_SCORE) for criterion in judged])
        below = [criterion for criterion in judged if not _reaches(criterion, raw[criterion.id])]
        findings = tuple(self._finding(criterion, raw[criterion.id], checks[criterion.id]) for criterion in judged)
        missing = [criterion for criterion in self.criteria if criterion.id not in raw]
        scores = ", ".join(f"{id_} {score}" for id_, score in raw.items())
        return GraderVerdict(
            value,
            _total(reply_, f"of {MAX_SCORE}: {scores}", below),
            findings,
            False if below else None,
            {"raw_scores": raw, "normalization": f"score / {MAX_SCORE}", "aggregation": "weighted mean"},
            _ids(missing),
            _ids([criterion for criterion in missing if not _reaches(criterion, 0)]),
        )

    def _finding(self, criterion: Criterion, score: int, check: Mapping[str, Any]) -> Finding:
        band = next((band.outcome for band in criterion.bands if band.low <= score <= band.high), None)
        text = f"{criterion.outcome or criterion.id}: {score}" + (f" ({band})" if band else "")
        return Finding(text, _reaches(criterion, score) and score >= GOOD_BAND, _reasoning(check))


def _request(shape: str, more: str) -> str:
    return (
        f"Reply with one JSON object and nothing else, of this shape:\n{shape}\n{more} "
        f'"{KEY}" must be repeated exactly as it stands here.'
    )


def _findings(assertions: Any) -> Iterator[Finding]:
    """Yield the assertions of a reply. An entry without a text is skipped; only a true `passed` counts as passed."""
    if assertions is None:
        return
    if not isinstance(assertions, list):
        raise UnreadableReply(f"assertions: expected a list, got {shown(assertions)}")
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


def _checks(reply_: Mapping[str, Any], criteria: Sequence[Criterion]) -> dict[str, Mapping[str, Any]]:
    """Return the checks of known criteria by id, the last one of each; others are ignored."""
    listed = reply_.get("checks")
    if not isinstance(listed, list):
        raise UnreadableReply('has no "checks"' if listed is None else f"checks: expected a list, got {shown(listed)}")
    known = {criterion.id for criterion in criteria}
    checks = {
        str(check["id"]): check for check in listed if isinstance(check, Mapping) and str(check.get("id")) in known
    }
    if not checks:
        raise UnreadableReply(f"none of its checks has the id of a criterion: {', '.join(sorted(known))}")
    return checks


def _ids(criteria: Iterable[Criterion]) -> tuple[str, ...]:
    return tuple(criterion.id for criterion in criteria)


def _either(reply_: Mapping[str, Any], *keys: str) -> Any:
    return next((reply_[key] for key in keys if reply_.get(key) is not None), None)


def _text_of(reply_: Mapping[str, Any], *keys: str) -> str | None:
    value = _either(reply_, *keys)
    return value.strip() if isinstance(value, str) and value.strip() else None


def _reasoning(check: Mapping[str, Any]) -> str | None:
    return _text_of(check, "reasoning", "reason", "evidence")


def _total(reply_: Mapping[str, Any], counted: str, failed: Sequence[Criterion]) -> str:
    """Return the reason of a verdict on several criteria: the count, the failed ones, and the grader's summary."""
    names = f"; not met: {', '.join(criterion.id for criterion in failed)}" if failed else ""
    summary = _text_of(reply_, "overall_reasoning", "reason")
    return f"{counted}{names}" + (f". {summary}" if summary else "")


def _weighted(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the weighted mean; 0 without any weight."""
    weight = sum(weight for weight, _ in pairs)
    return sum(weight * value for weight, value in pairs) / weight if weight else 0.0


def _reaches(criterion: Criterion, score: int) -> bool:
    """Return whether a score from 0 to 10 passes the criterion's gate: its minimum share, or 10 when required."""
    min_share = criterion.min_share if criterion.min_share is not None else 1.0 if criterion.required else 0.0
    return at_least(score / MAX_SCORE, min_share)
