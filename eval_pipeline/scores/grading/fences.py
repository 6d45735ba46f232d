"""Fences that separate judged text from the instructions to a grader: judged text is data.

The text is placed between two marks that carry a key. The key is the hash of all judged texts, so equal questions stay
equal (graders are cached by content), and no text can contain the key of its own question. Imitations of a mark, a chat
role or a verdict are visibly changed first; everything else stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.scores.grading.disguises import GAP, QUOTE, spelled

LONGEST = 200_000
"""The maximum number of characters of one text. The middle of a longer text is replaced by a note."""
QUOTED = "quoted-from-the-text"
"""The field that marks an object of the judged text which resembles a verdict."""
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
_FIELDS = "|".join(map(spelled, ("score", "pass", "checks")))
_COLON = rf"\s{{0,20}}{GAP}{spelled(':')}"
_VERDICT_FIELD = re.compile(
    rf"{QUOTE}{GAP}(?:{_FIELDS}){GAP}{QUOTE}{_COLON}"
    rf"|(?<=\{{)\s{{0,20}}(?:{_FIELDS}){_COLON}"  # without quotes, as JavaScript and YAML have it
)
_DECORATION = "[\\s*_\"'`\u00ad\u200b-\u200d\u2060\ufeff]{0,20}"
_GRADE_LINE = re.compile(
    rf"(?<![a-z])((?:{spelled('grade')}|{spelled('GRADE')}|grade))({_DECORATION}{spelled(':')})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Fences:
    """The marks of one question. `key` is unknown to the judged text.

    `grades`: the verdict is a line `GRADE: …`, so such lines in the texts are neutralized, too.
    """

    key: str
    grades: bool = False

    def around(self, name: str, text: str) -> str:
        """Return a text between its marks, with imitations neutralized."""
        inner = neutralize(truncate(text))
        if self.grades:
            inner = _GRADE_LINE.sub(r"\1 (quoted)\2", inner)
        return self.between(name, inner)

    def between(self, name: str, inner: str) -> str:
        """Return our own text between the marks, unchanged; texts of others inside it are neutralized already."""
        return f"<<<BEGIN {name} {self.key}\n{inner}\nEND {name} {self.key}>>>"


def fences_for(texts: Iterable[str], *, grades: bool = False) -> Fences:
    """Return the fences of a question about these texts."""
    return Fences(fingerprint(list(texts))[:_KEY_DIGITS], grades)


def neutralize(text: str) -> str:
    """Return the text with imitations of our marks, a chat role or a verdict made harmless and visible."""
    text = break_delimiters(text)
    for pattern, replacement in _ROLE_MARKS:
        text = pattern.sub(replacement, text)
    return _VERDICT_FIELD.sub(lambda match: f'"{QUOTED}": true, {match[0]}', text)


def break_delimiters(text: str) -> str:
    """Return the text with imitated marks broken up (`[END DATA]`: `[END-DATA]`)."""
    for pattern, replacement in _IMITATIONS:
        text = pattern.sub(replacement, text)
    return text


def truncate(text: str, longest: int = LONGEST) -> str:
    """Return the text, or its start and end with a note about the characters left out."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
