"""Text that is judged, set apart from what a grader is told: it is data, whatever it says.

Such a text stands between two marks that carry a key. The key is the hash of everything that is judged, so equal
questions stay equal (graders are cached by content), and no text can hold the key of a question that it is part of.
What imitates a mark, a chat role or a verdict is changed visibly before it goes in; everything else stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from eval_pipeline.fingerprints import fingerprint

LONGEST = 200_000
"""Characters of one text that a grader is shown; the middle of a longer one is left out, and that is said."""
QUOTED = "quoted-from-the-text"
"""The field that marks an object of the judged text which could be read as a verdict."""
_KEY_DIGITS = 12

_ROLE_WORDS = "System|Human|User|Assistant|Developer|Grader|Judge"
_IMITATIONS = (
    (re.compile(r"\[(begin|end)[ \t]+(data)\]", re.IGNORECASE), r"[\1-\2]"),
    (re.compile(r"<<<(?=[ \t]*(?:begin|end)\b)", re.IGNORECASE), "<<-"),
    (re.compile(r"(\bend\b[^\n>]{0,80})>>>", re.IGNORECASE), r"\1->>"),
)
_ROLE_MARKS = (
    (re.compile(r"<\|([^|<>\n]{1,40})\|>"), r"<¦\1¦>"),
    (re.compile(r"\[(/?INST)\]"), r"(\1)"),
    (re.compile(r"<<(/?SYS)>>"), r"<(\1)>"),
    (re.compile(r"<(/?(?:system|human|assistant|developer|grader|judge))>", re.IGNORECASE), r"‹\1›"),
    (re.compile(rf"^([ \t]*)({_ROLE_WORDS}|{_ROLE_WORDS.upper()})[ \t]*:", re.MULTILINE), r"\1[\2]:"),
)
_VERDICT_FIELD = re.compile(r"""(["'])(?:score|pass|checks)\1\s*:""")
_GRADE_LINE = re.compile(r"\b(grade)(\s*:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fences:
    """The marks of one question. `key` is what only an honest reply can know.

    `grades`: the verdict will be a line `GRADE: …`, which the texts must not hold either.
    """

    key: str
    grades: bool = False

    def around(self, name: str, text: str) -> str:
        """A text between its marks, changed where it imitates what it is not."""
        inner = neutralized(shortened(text))
        if self.grades:
            inner = _GRADE_LINE.sub(r"\1 (quoted)\2", inner)
        return self.between(name, inner)

    def between(self, name: str, inner: str) -> str:
        """A text of our own making between the marks, as it is: what it holds of others is neutralized already."""
        return f"<<<BEGIN {name} {self.key}\n{inner}\nEND {name} {self.key}>>>"


def fences_for(texts: Iterable[str], *, grades: bool = False) -> Fences:
    """The fences of a question about these texts."""
    return Fences(fingerprint(list(texts))[:_KEY_DIGITS], grades)


def neutralized(text: str) -> str:
    """The text with everything in it that imitates our marks, a chat role or a verdict made harmless and visible."""
    text = without_delimiters(text)
    for pattern, instead in _ROLE_MARKS:
        text = pattern.sub(instead, text)
    return _VERDICT_FIELD.sub(lambda match: f'"{QUOTED}": true, {match[0]}', text)


def without_delimiters(text: str) -> str:
    """The text with what imitates the marks around judged text taken apart (`[END DATA]`: `[END-DATA]`)."""
    for pattern, instead in _IMITATIONS:
        text = pattern.sub(instead, text)
    return text


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text, or its begin and end with a word about what is left out between them."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
