"""The evaluator `acme-sentences`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from eval_pipeline import Outcome, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceCount:
    """1 when the output has at most `most` sentences."""

    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    most: int

    def evaluate(self, subject: Subject) -> Outcome:
        """Count what ends in a full stop, an exclamation mark or a question mark."""
        count = len(re.findall(r"[.!?](?:\s|$)", subject.output))
        return Outcome(float(count <= self.most), f"{count} sentences")
