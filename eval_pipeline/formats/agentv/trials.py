"""The repetitions of a test → one result of a run folder, as AgentV has them: the best repetition with a common score.

Its strategies: `pass_at_k` takes the best score, `mean` the mean, `confidence_interval` the low end of the interval of
the mean, ours `pass_all` the worst. A repetition without a score is left out. The status follows the common score
(AgentV: any passed repetition passes), so that it is the one of the table `case_results`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from eval_pipeline.formats.agentv.results import STATUSES, costs, evaluator_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.messages import known
from eval_pipeline.scores.model import Status, Verdict, at_least
from eval_pipeline.statistics.repetitions import reduce_repetitions

_REDUCERS = {"pass_at_k": "max", "pass_all": "min", "confidence_interval": "lower_bound", "mean": "mean"}


def by_test(records: Iterable[ResultRow]) -> Iterator[list[ResultRow]]:
    """Yield the repetitions of each test with one runner, in the order of the records."""
    for _, of_test in groupby(records, key=lambda record: (record.suite, record.runner, record.case_id)):
        together: list[ResultRow] = []
        for record in of_test:
            if together and record.repetition <= together[-1].repetition:
                yield together
                together = []
            together.append(record)
        yield together


def best_of(repetitions: Sequence[ResultRow]) -> ResultRow:
    """Return the repetition of the highest score, the first of equals."""
    return max(repetitions, key=lambda record: -1.0 if record.verdict.score is None else record.verdict.score)


def common_result(repetitions: Sequence[ResultRow]) -> ResultRow:
    """Return the best repetition with the score and the status of all."""
    best = best_of(repetitions)
    if len(repetitions) == 1:
        return best
    strategy = best.strategy or "mean"
    score = reduce_repetitions([record.verdict.score for record in repetitions], _REDUCERS[strategy])
    verdict = replace(best.verdict, score=score, status=_status(repetitions, strategy, score, best.verdict))
    return replace(best, verdict=verdict, repetition=1)


def _status(repetitions: Sequence[ResultRow], strategy: str, score: float | None, best: Verdict) -> Status:
    statuses = [record.verdict.status for record in repetitions]
    graded = [status for status in statuses if status.graded]
    if not graded or score is None:
        return best.status
    passed = sum(status.as_expected for status in graded)
    if strategy == "pass_all" and passed == len(graded) < len(statuses):
        return Status.ERROR
    passes = {"pass_at_k": passed > 0, "pass_all": passed == len(graded)}
    return Status.PASSED if passes.get(strategy, at_least(score, best.threshold)) else Status.FAILED


def trials(repetitions: Sequence[ResultRow], folders: Mapping[int, str]) -> dict[str, Any]:
    """Return AgentV's `trials` and `aggregation` of a test; nothing without repetitions."""
    if len(repetitions) == 1:
        return {}
    attempts = [_trial(record, number, folders) for number, record in enumerate(repetitions)]
    return {"trials": attempts, "aggregation": _aggregation(repetitions)}


def _trial(record: ResultRow, number: int, folders: Mapping[int, str]) -> dict[str, Any]:
    verdict = record.verdict
    passed = verdict.status.as_expected if verdict.status.graded else None
    return known({
        "attempt": number,
        "score": verdict.score if verdict.score is not None else 0,
        "verdict": "skip" if passed is None else "pass" if passed else "fail",
        "scores": [evaluator_json(score, verdict.threshold) for score in record.scores],
        "error": (record.error or verdict.reason) if verdict.status is Status.ERROR else None,
        **costs(record),
        "execution_status": STATUSES[verdict.status],
        "artifact_dir": folders[record.repetition],
    })  # fmt: skip


def _aggregation(repetitions: Sequence[ResultRow]) -> dict[str, Any]:
    strategy = repetitions[0].strategy or "mean"
    scores = [record.verdict.score for record in repetitions]
    counted: Mapping[str, Mapping[str, float | None]] = {
        "pass_at_k": {
            "passed_attempts": sum(record.verdict.status.as_expected for record in repetitions),
            "total_attempts": len(repetitions),
        },
        "confidence_interval": {
            "mean": reduce_repetitions(scores, "mean"),
            "ci95_lower": reduce_repetitions(scores, "lower_bound"),
        },
    }
    spread = {name: reduce_repetitions(scores, name) for name in ("mean", "min", "max")}
    return {"strategy": strategy, **counted.get(strategy, spread)}
