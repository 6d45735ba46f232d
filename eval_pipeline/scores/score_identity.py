"""The identity of scores, beside their execution: what they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.suites.model import Case, Conversation, EvaluatorSpec, Message

if TYPE_CHECKING:
    from eval_pipeline.scores.evaluate import AnyEvaluator


def spec_key(
    spec: EvaluatorSpec, evaluator: AnyEvaluator | type[AnyEvaluator], case: Case, content: Mapping[str, str]
) -> str:
    """Return a score's identity beside its execution.

    It hashes the spec, the evaluator's version, the fields of the case that it reads, and the content of its files and
    revisions of its graders.
    """
    read = [_without_paths(getattr(case, name)) for name in evaluator.reads]
    return fingerprint([
        spec.type, spec.name, spec.weight, spec.minimum, spec.negate, spec.failure_class, spec.config,
        evaluator.version, read, content,
    ])[:32]  # fmt: skip


def score_key(
    spec: EvaluatorSpec,
    evaluator: AnyEvaluator | type[AnyEvaluator],
    reads: Mapping[str, object],
    content: Mapping[str, str],
) -> str:
    """Return the identity of what a score's value depends on: `spec_key` without name, weight, gate, failure class."""
    return fingerprint([spec.type, spec.negate, spec.config, evaluator.version, reads, content])[:32]


def fields_read(evaluator: AnyEvaluator | type[AnyEvaluator], case: Case) -> dict[str, object]:
    """Return the fields of a case that an evaluator reads, by name."""
    return {name: _without_paths(getattr(case, name)) for name in evaluator.reads}


def _without_paths(value: object) -> object:
    """Return a field of a case without file locations, so that another checkout of a suite has the same scores."""
    if isinstance(value, Message | Conversation):
        return value.fingerprint_fields()
    return [_without_paths(item) for item in value] if isinstance(value, tuple) else value
