"""Redaction: the secrets of a configuration, and their replacement in values, texts and files, escaped or not.

`KNOWN` holds the secrets of this process: of the environment, of the runners that were loaded, of what suites take from
the environment. Everything that stores, logs or prints asks it, so that no value has to be passed to every such place.

A secret shorter than eight characters (`api_key: none`) is not replaced in answers: it may be an ordinary word, and
replacing it would change answers. Contents that are compressed or encrypted are not searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from eval_pipeline.fingerprints import hide_in_fingerprints, to_json
from eval_pipeline.parsing.escapes import forms_of
from eval_pipeline.parsing.secret_names import SHORTEST_SECRET, SecretRules, is_secret, secret_variables

REDACTED = "***"
SHORTEST_PIECE = 8
"""The least characters of a secret that are replaced where a text was cut."""


class Redactor:
    """Replaces a set of secrets. Searching comes first and is cheap: most values contain none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = frozenset(secret for secret in secrets if len(secret) >= SHORTEST_SECRET)
        forms = {form for secret in self.secrets for form in forms_of(secret) if len(form) >= SHORTEST_SECRET}
        self._texts = sorted(forms, key=lambda form: (-len(form), form))
        encoded = {form.encode("utf-8", "surrogatepass") for form in forms}
        encoded |= {to_json(form)[1:-1] for form in forms}  # a form within the JSON that is searched
        self._bytes = sorted(encoded, key=lambda form: (-len(form), form))
        ends = ((form, match.end()) for form in self._bytes for match in re.finditer(b"\n", form))
        self._first_lines = [form[:end] for form, end in ends if end < len(form)]

    def __bool__(self) -> bool:
        return bool(self.secrets)

    @property
    def longest(self) -> int:
        """The bytes of the longest form."""
        return len(self._bytes[0]) if self._bytes else 0

    def finds(self, content: bytes) -> bool:
        """Return whether a secret is in some bytes."""
        for secret in self._bytes:  # noqa: SIM110 — twice as fast as `any` on the short rows of most tables
            if secret in content:
                return True
        return False

    def text(self, text: str, *, cut: bool = False) -> str:
        """Return a text without secrets; with `cut` also without the pieces of one that a cut leaves."""
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, REDACTED)
        return _without_pieces(text, self._texts) if cut else text

    def content(self, content: bytes) -> bytes:
        """Return bytes without secrets."""
        for secret in self._bytes:
            if secret in content:
                content = content.replace(secret, REDACTED.encode())
        return content

    def without_cut_end(self, content: bytes) -> bytes:
        """Return bytes without the beginning of a secret at their end."""
        shortest = min(SHORTEST_PIECE, SHORTEST_SECRET) // 2
        for secret in self._bytes:
            for length in range(min(len(secret) - 1, len(content)), shortest - 1, -1):
                if content.endswith(secret[:length]):
                    return content[:-length] + REDACTED.encode()
        return content

    def lines_begun(self, content: bytes) -> int:
        """Return the length of the end of some bytes that may be the first lines of a secret of several."""
        return max((len(lines) for lines in self._first_lines if content.endswith(lines)), default=0)

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets, also in keys; the same object when it contains none."""
        if not self.secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        text = to_json(value)  # one search of the text instead of a walk
        return self._walked(orjson.loads(text)) if self.finds(text) else value

    def line(self, line: bytes) -> bytes:
        """Return a line of JSON without secrets."""
        if not self.secrets or not self.finds(line):
            return line
        ending = b"\n" if line.endswith(b"\n") else b""
        cleaned = to_json(self._walked(orjson.loads(line))) + ending
        return self.content(cleaned) if self.finds(cleaned) else cleaned

    def matches(self, content: bytes) -> re.Pattern[bytes] | None:
        """Return a pattern of the secrets in some bytes; None when there are none."""
        present = [secret for secret in self._bytes if secret in content]
        return re.compile(b"|".join(map(re.escape, present))) if present else None

    def _walked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._walked(item) for key, item in value.items()}
        return [self._walked(item) for item in value] if isinstance(value, list) else value


def _without_pieces(text: str, secrets: Sequence[str]) -> str:
    """Return a text without beginnings and ends of secrets. A piece of letters only has to be more than half of one."""
    for secret in secrets:
        head, tail = secret[:SHORTEST_PIECE], secret[-SHORTEST_PIECE:]
        if head in text:
            text = _without_beginnings(text, secret, head)
        if tail in text:
            text = _without_beginnings(text[::-1], secret[::-1], tail[::-1])[::-1]
    return text


def _without_beginnings(text: str, secret: str, head: str) -> str:
    kept, done, at = list[str](), 0, text.find(head)
    while at >= 0:
        length = _common_length(text[at : at + len(secret)], secret)
        piece = secret[:length]
        if not piece.isalpha() or length > len(secret) // 2:
            kept += [text[done:at], REDACTED]
            done = at + length
        at = text.find(head, at + length)
    return "".join([*kept, text[done:]])


def _common_length(one: str, other: str) -> int:
    different = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(different, min(len(one), len(other)))


class KnownSecrets:
    """The secrets that this process knows, of every project that it loaded. `clear` is for tests."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._values: frozenset[str] = frozenset()
        self._redactor: tuple[frozenset[str], Redactor] | None = None
        hide_in_fingerprints.clear()

    def add(self, secrets: Iterable[str]) -> None:
        """Learn secrets."""
        new = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
        if not new <= self._values:
            self._values |= new

    def add_environment(self, environment: Mapping[str, str], rules: SecretRules) -> None:
        """Learn the secrets of an environment, by the rules of a project."""
        self.add(value for _, value in secret_variables(environment, rules))

    def add_filled(self, names: Iterable[str], environment: Mapping[str, str], rules: SecretRules) -> None:
        """Learn the secrets, by the rules of a project, among the variables that its suite takes from the environment:
        fingerprints have the name of each in its place."""
        for name in names:
            value = environment.get(name, "")
            if len(value) >= SHORTEST_SECRET and is_secret(name, value, rules):
                self.add([value])
                hide_in_fingerprints.add(value, f"${{{{ {name} }}}}")

    def redactor(self, more: Iterable[str] = ()) -> Redactor:
        """Return what replaces these secrets, and more."""
        if self._values.issuperset(more):
            if self._redactor is None or self._redactor[0] is not self._values:
                self._redactor = self._values, _redactor(self._values)
            return self._redactor[1]
        return _redactor(self._values.union(more))


@lru_cache(maxsize=64)
def _redactor(secrets: frozenset[str]) -> Redactor:
    return Redactor(secrets)


KNOWN = KnownSecrets()


def redact(value: Any, secrets: Sequence[str] = ()) -> Any:
    """Return a JSON value with every known secret replaced, also in keys; the same object when it contains none."""
    return KNOWN.redactor(secrets).value(value)


def redact_text(text: str, secrets: Sequence[str] = (), *, cut: bool = False) -> str:
    """Return a text with every known secret replaced; with `cut` also the pieces of one that a cut leaves."""
    return KNOWN.redactor(secrets).text(text, cut=cut)


def redact_line(line: bytes) -> bytes:
    """Return a line of JSON with every known secret replaced."""
    return KNOWN.redactor().line(line)
