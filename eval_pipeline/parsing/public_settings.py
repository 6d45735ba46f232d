"""Settings without their secrets, and the secrets in them: by name, by shape, and by where they are.

Places are headers (any but the harmless ones), the user and the fields of an address, options of a command
(`--api-key VALUE`), assignments in a line (`API_KEY=… program`), fields of a text that is JSON, and everything below a
secret name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

import orjson

from eval_pipeline.parsing.interpolation import names_in
from eval_pipeline.parsing.redaction import REDACTED
from eval_pipeline.parsing.secret_names import (
    NO_RULES,
    SecretRules,
    is_about_secret,
    is_random,
    is_secret,
    is_secret_header,
    is_unknown_header,
    is_unreadable,
)

_SCHEME = re.compile(r"(bearer|basic|token|digest|apikey)\s+", re.IGNORECASE)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE)
_USER = re.compile(r"(?<=://)([^/?#@\s]*)@")
_QUERY_FIELD = re.compile(r"(?<=[?&#;])([^=&#;\s]+)=([^&#;\s\"'<>]+)")
_OPTION = re.compile(r"--?([A-Za-z][\w-]*)\Z")
_ASSIGNED = re.compile(
    r"(?<![\w?&#;])(--?)?([A-Za-z][\w-]*)(=|\s*:\s*|(?<=[\w-])\s+)(?:(?:bearer|basic)\s+)?([^\s\"',;&]+)",
    re.IGNORECASE,
)


_MAYBE_ASSIGNED = re.compile(r"[=:]|--?\w")


@dataclass(slots=True)
class _Search:
    """A walk through settings: what it found so far."""

    rules: SecretRules
    found: list[str] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)

    def value(self, value: Any, name: str = "", within: str | None = None) -> Any:
        """Return a value without secrets. `within` is the secret name or `headers` that it is below."""
        if isinstance(value, Mapping):
            below = self._below(name, within)
            return {key: self.value(item, str(key), below) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return self._list(value, name, within)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            return value
        if self._is_secret(name, value, within):
            return self._hidden(str(value))
        return self._text_or_json(value) if isinstance(value, str) else value

    def _text_or_json(self, text: str) -> str:
        """Return a text without secrets; one that is a JSON document is searched field by field."""
        document = _document(text)
        if document is None:
            return self.text(text)
        before = len(self.found)
        cleaned = self.value(document)
        return orjson.dumps(cleaned).decode() if len(self.found) > before else text

    def text(self, text: str) -> str:
        """Return a text without the secrets of addresses and assignments in it."""
        if "://" in text:
            text = _ADDRESS.sub(lambda match: self._address(match[0]), text)
        return _ASSIGNED.sub(self._assigned, text) if _MAYBE_ASSIGNED.search(text) else text

    def _below(self, name: str, within: str | None) -> str | None:
        if within is not None or not name:
            return within
        if re.search(r"headers?\Z", name, re.IGNORECASE):
            return "headers"
        return name if self.rules.listed(name) is not False and is_secret(name, "aB3dE6gH9kL2", self.rules) else None

    def _is_secret(self, name: str, value: str | int, within: str | None) -> bool:
        if within == "headers":
            if is_unknown_header(name, value, self.rules):
                self.unknown.append((name, str(value)))
            return is_secret_header(name, value, self.rules)
        if within is not None and self.rules.listed(name) is not False and isinstance(value, str):
            return not is_about_secret(name)
        return bool(name) and is_secret(name, value, self.rules)

    def _list(self, values: Any, name: str, within: str | None) -> list[Any]:
        below, cleaned, option = self._below(name, within), list[Any](), ""
        for value in values:
            secret = isinstance(value, str) and bool(option) and is_secret(option, value, self.rules)
            cleaned.append(self._hidden(value) if secret else self.value(value, name if below else "", below))
            match = _OPTION.match(value) if isinstance(value, str) else None
            option = match[1] if match else ""
        return cleaned

    def _hidden(self, value: str) -> str:
        self.found.append(value)
        if _SCHEME.match(value):
            self.found.append(_SCHEME.sub("", value, count=1))
        self.found += [part for _, _, part in _cookie_parts(value)]
        return REDACTED

    def _address(self, address: str) -> str:
        address = _USER.sub(self._user, address)
        return _QUERY_FIELD.sub(self._query_field, address)

    def _user(self, match: re.Match[str]) -> str:
        user, colon, password = match[1].partition(":")
        self.found += [password, unquote(password)] if colon else [user, unquote(user)] if is_random(user) else []
        if colon:
            return f"{REDACTED if is_random(user) else user}:{REDACTED}@"
        return f"{REDACTED if is_random(user) else user}@"

    def _query_field(self, match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if value == REDACTED or not (is_secret(name, value, self.rules) or _is_query_key(name, self.rules)):
            return match[0]
        self.found += [value, unquote_plus(value)]
        return f"{name}={REDACTED}"

    def _assigned(self, match: re.Match[str]) -> str:
        option, name, between, value = match.groups()
        if value == REDACTED or not is_secret(name, value, self.rules):
            return match[0]
        if not option and (not between.strip() or not (name.isupper() or is_unreadable(value))):
            return match[0]  # prose: "the secret: never tell"
        self.found.append(value)
        return match[0].removesuffix(value) + REDACTED


def _document(text: str) -> Any:
    """Return the mapping or list that a text is in JSON; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _cookie_parts(value: str) -> list[tuple[str, str, str]]:
    """The values of `session=abc; theme=dark`."""
    parts = [part.strip().partition("=") for part in value.split(";")] if "=" in value else []
    return [part for part in parts if len(part[2]) >= 12]


def _is_query_key(name: str, rules: SecretRules) -> bool:
    return name.lower() in ("key", "sig", "signature", "auth", "code", "pass", "k") and rules.listed(name) is not False


def redacted(value: Any, rules: SecretRules = NO_RULES) -> Any:
    """Return settings with their secrets, by the rules of their project, replaced by `***`."""
    return _Search(rules).value(value)


def secrets_in(value: Any, rules: SecretRules = NO_RULES) -> list[str]:
    """Return the secret texts in settings, which must never be stored. Of `Bearer abc`, `abc` is a secret, too."""
    search = _Search(rules)
    search.value(value)
    return list(dict.fromkeys(text for text in search.found if text))


def unknown_headers(value: Any, rules: SecretRules = NO_RULES) -> list[tuple[str, str]]:
    """Return name and value of the headers in settings that are secrets only because nothing is known of their names,
    sorted. In settings as they are written, those that the environment fills in are left out."""
    search = _Search(rules)
    search.value(value)
    return sorted(header for header in search.unknown if not names_in(header[1]))
