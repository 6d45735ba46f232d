"""Where the answers to random tests differ on purpose: a narrow predicate each, and the reason.

docs/differences-from-agentv.md has the same for people. An evaluator's difference explains its score, and whatever
follows from it in the score and the verdict of the test; a difference of the test explains only those two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
MARK = 0.8


@dataclass(frozen=True, slots=True)
class Answers:
    """One evaluator of a test, and what both commands say: their row, our row (rows of `scores`)."""

    test: Row
    entry: Row
    theirs: Row
    ours: Row

    @property
    def threshold(self) -> float:
        return float(self.test.get("execution", {}).get("threshold", MARK))

    def entries(self, kind: str) -> Iterator[Row]:
        """Yield the evaluator and its members, at any depth, of this type."""
        return (entry for entry in _with_members(self.entry) if entry["type"].replace("_", "-") == kind)


@dataclass(frozen=True, slots=True)
class Difference:
    """A deliberate difference: whether it explains an answer, and why it is."""

    explains: Callable[[Answers], bool]
    reason: str


def _with_members(entry: Row) -> Iterator[Row]:
    yield entry
    for member in entry.get("assertions", ()) if entry["type"] == "composite" else ():
        yield from _with_members(member)


def _negated_member(answers: Answers) -> bool:
    members = [member for group in answers.entries("composite") for member in group["assertions"]]
    return any(member.get("negate") for member in members)


def _other_mark(answers: Answers) -> bool:
    aggregators = [group["aggregator"]["type"] for group in answers.entries("composite")]
    return "threshold" in aggregators and answers.threshold != MARK


def _incomplete(answers: Answers) -> bool:
    reasons = ("was not graded", "none of its checks has the id of a criterion")
    return any(answers.entries("rubrics")) and any(reason in str(answers.ours) for reason in reasons)


def _no_object(answers: Answers) -> bool:
    reasons = ("holds no JSON object", "expected output of the case is no JSON object")
    return any(answers.entries("field-accuracy")) and any(reason in str(answers.ours) for reason in reasons)


def _trajectory(answers: Answers) -> bool:
    return any(entry["mode"] in ("exact", "in_order") for entry in answers.entries("tool-trajectory"))


OF_EVALUATORS: Mapping[str, Difference] = {
    "negated member": Difference(_negated_member, "`negate` of a composite's member counts, as documented"),
    "pass mark": Difference(_other_mark, "a composite counts members as passed from the test's threshold on, not 0.8"),
    "incomplete checklist": Difference(_incomplete, "a reply that leaves out a required criterion is no grade"),
    "no object": Difference(_no_object, "an answer such as `42` is JSON without fields, no object with none of them"),
    "trajectory": Difference(_trajectory, "`exact` counts extra calls; `in_order` searches on after other arguments"),
}


def _gate_at_nothing(test: Row, theirs: Row, ours: Row) -> bool:
    """A missed gate makes the score 0, and 0 passes a threshold of 0 there."""
    has_gate = any(entry.get("required") for entry in test["assertions"])
    return ours["score"] == theirs["score"] == 0 and has_gate and test.get("execution", {}).get("threshold") == 0


def _gate_of_the_threshold(test: Row, theirs: Row, ours: Row) -> bool:
    plain = any(entry.get("required") is True and "min_score" not in entry for entry in test["assertions"])
    return plain and test.get("execution", {}).get("threshold", MARK) != MARK


def _rounded(test: Row, theirs: Row, ours: Row) -> bool:
    """A weighted mean of 0.7999999999999999 is 0.8 here."""
    threshold = float(test.get("execution", {}).get("threshold", MARK))
    return bool(threshold - 1e-9 < theirs["score"] < threshold and ours["execution_status"] == "ok")


OF_TESTS: Mapping[str, tuple[Callable[[Row, Row, Row], bool], str]] = {
    "gate at 0": (_gate_at_nothing, "a missed gate fails a test whatever its threshold"),
    "rounding": (_rounded, "a rounding error of a weighted mean misses no threshold"),
    "gate of the threshold": (_gate_of_the_threshold, "`required: true` means 0.8, as documented, not the threshold"),
}
