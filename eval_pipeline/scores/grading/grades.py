"""A reply that ends in a grade (`GRADE: C`) instead of JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from eval_pipeline.scores.grading.fences import Fences
from eval_pipeline.scores.grading.replies import GraderVerdict, UnreadableReply


@dataclass(frozen=True, slots=True)
class Grades:
    """A last line `GRADE: C`; each grade has a value. The last line counts; an unknown grade is unreadable."""

    values: Mapping[str, float]
    pattern: ClassVar[re.Pattern[str]] = re.compile(
        r"\bgrade[\s*_\"'`]*:(?:[\s*_\"'`$({\[]|\\(?:boxed|text)\{)*([A-Za-z][\w-]*)", re.IGNORECASE
    )

    def request(self, fences: Fences) -> str:
        offered = ", ".join(f"{grade} (worth {value:g})" for grade, value in self.values.items())
        return (
            "Give your reasons first. End with a line of its own that says GRADE: and one of these grades, and nothing "
            f"after it: {offered}."
        )

    def read(self, reply: str, fences: Fences, judged: Sequence[str]) -> GraderVerdict:
        name = last_grade(reply)
        if name is None:
            raise UnreadableReply("it has no line GRADE: …")
        grade = self._offered(name)
        if grade is None:
            raise UnreadableReply(f"its grade is {name}; there are: {', '.join(self.values)}")
        reason = reply.strip()[:_LONGEST_REASON]
        return GraderVerdict(self.values[grade], reason, (), None, {"grade": grade})

    def _offered(self, name: str) -> str | None:
        """Return the grade of a name: exact, or a word that starts with a one-letter grade (`Correct`: `C`)."""
        upper = {grade.upper(): grade for grade in self.values}
        return upper.get(name.upper()) or (upper.get(name[0].upper()) if name.upper() in _GRADE_WORDS else None)


_LONGEST_REASON = 1_000
_GRADE_WORDS = frozenset({"CORRECT", "INCORRECT", "PARTIAL", "PARTIALLY", "PASS", "FAIL", "YES", "NO"})

_PRONOUN = re.compile(
    r"I(?:['’]\w+|\s+(?:am|was|do|did|have|had|can|cannot|could|must|may|might|will|would|should|think|believe|need|find|see|give|assign|apologize)\b)",
    re.IGNORECASE,
)
"""The beginning of a sentence (`GRADE: I cannot say`), which is no grade `I`."""

_SEVERAL = re.compile(r"[A-Z](?:\s*(?:/|\||\bor\b)\s*[A-Z]\b)+")
"""Several grades (`GRADE: C/P/I`), which are none."""


def last_grade(reply: str) -> str | None:
    """Return the last grade in a reply, as written. Invisible characters are ignored."""
    plain = unicodedata.normalize("NFKC", reply)
    visible = "".join(" " if unicodedata.category(character) == "Cf" else character for character in plain)
    *_, last = [None, *Grades.pattern.finditer(visible)]
    if last is None:
        return None
    no_grade = _PRONOUN.match(visible, last.start(1)) or _SEVERAL.match(visible, last.start(1))
    return str(no_grade[0] if no_grade else last[1])
