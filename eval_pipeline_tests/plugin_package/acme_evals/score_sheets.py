"""The stored results `acme-sheets`: lines of case, answer and points, separated by tabs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from eval_pipeline import InputError, RecordedSample, RecordedScoreEvent, SessionReport, SourceLocation


class ScoreSheets:
    """One file is one system's answers to one set of cases."""

    patterns: ClassVar[tuple[str, ...]] = ("*.sheet",)

    def samples(self, path: Path) -> Iterator[RecordedSample]:
        """Yield a sample a line; raises InputError for a line that has not three fields."""
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            try:
                case, answer, points = line.split("\t")
                score = RecordedScoreEvent(name="points", value=float(points))
            except ValueError:
                place = SourceLocation(str(path), number)
                raise InputError("expected case, answer and points", place) from None
            report = SessionReport(execution_id="", final_output=answer, events=(score,))
            yield RecordedSample(
                suite="sheets", runner=path.stem, case_id=case, repetition=1, input=case, report=report
            )


SCORE_SHEETS = ScoreSheets()
