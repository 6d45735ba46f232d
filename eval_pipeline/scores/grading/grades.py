"""A reply that ends in a grade (`GRADE: C`) instead of JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from eval_pipeline.scores.grading.fences import Fences
from eval_pipeline.scores.grading.replies import GraderVerdict, Unreadable


@dataclass(frozen=True, slots=True)
class Grades:
    """A last line `GRADE: C`, each grade worth its value. The last one counts; one that is not offered says nothing."""

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
        said = grade_in(reply)
        if said is None:
            raise Unreadable("it has no line GRADE: …")
        grade = self._offered(said)
        if grade is None:
            raise Unreadable(f"its grade is {said}; there are: {', '.join(self.values)}")
        reason = reply.strip()[:_LONGEST_REASON]
        return GraderVerdict(self.values[grade], reason, (), None, {"grade": grade})

    def _offered(self, said: str) -> str | None:
        """The grade that was said: in full, or a word that begins with a grade of one letter (`Correct`: `C`)."""
        upper = {grade.upper(): grade for grade in self.values}
        return upper.get(said.upper()) or (upper.get(said[0].upper()) if said.upper() in _GRADE_WORDS else None)


_LONGEST_REASON = 1_000
_GRADE_WORDS = frozenset({"CORRECT", "INCORRECT", "PARTIAL", "PARTIALLY", "PASS", "FAIL", "YES", "NO"})


def grade_in(reply: str) -> str | None:
    """The last grade that a reply names, in its own letters; characters that nobody sees do not hide it."""
    plain = unicodedata.normalize("NFKC", reply)
    seen = "".join(" " if unicodedata.category(character) == "Cf" else character for character in plain)
    found: list[str] = Grades.pattern.findall(seen)
    return found[-1] if found else None
