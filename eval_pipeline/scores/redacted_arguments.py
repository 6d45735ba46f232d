"""Arguments of evaluators that compare texts: redacted, as the answers are that they look into."""

from __future__ import annotations

from eval_pipeline.parsing.redaction import redact
from eval_pipeline.suites.model import EvaluatorSpec, JsonMap

_COMPARING = frozenset({"contains", "contains-any", "contains-all", "equals", "starts-with", "ends-with"})
"""Evaluators, without `not-` and `i`, that look for their argument in the answer."""


def comparable(spec: EvaluatorSpec) -> JsonMap:
    """Return the arguments: `not-contains: ${{ TOKEN }}` looks for the `***` that took the place of a leak."""
    type_ = spec.type.replace("_", "-").removeprefix("not-").removeprefix("i")
    config: JsonMap = redact(spec.config) if type_ in _COMPARING else spec.config
    return config
