"""Conversion and review of AgentV's eval files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.suites.conversion import RawSuite
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.review import EvaluatorPlaces


class EvalFiles:
    """Base of the formats of eval files. `convert` and `validate` import its modules, loading a suite does not."""

    def read_raw(self, path: Path) -> RawSuite:
        from eval_pipeline.formats.agentv.conversion import read_eval_file  # noqa: PLC0415

        return read_eval_file(path)

    def in_line(self, suite: RawSuite) -> RawSuite:
        from eval_pipeline.formats.agentv.conversion import with_tests_in_line  # noqa: PLC0415

        return with_tests_in_line(suite)

    def review(self, suite: Suite) -> Iterator[Diagnostic]:
        from eval_pipeline.formats.agentv.review import review  # noqa: PLC0415

        return review(suite, self.read_raw)

    def evaluator_places(self, suite: Suite) -> EvaluatorPlaces:
        from eval_pipeline.formats.agentv.review import WrittenEvaluators  # noqa: PLC0415

        return WrittenEvaluators(suite, self.read_raw).place
