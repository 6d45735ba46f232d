"""Which values of a configuration are secrets: by the words of a name, by the shape of a value, or because the project
lists the name. What a secret looks like elsewhere is in `escapes.py`; it is replaced in `redaction.py`.

A name is read word by word (`apiKey`, `API_KEY`, `x-api-key`). The words after the telling one decide whether the value
is the secret itself or only about it: `token_count`, `auth_type` and `key_path` are not secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET = _names(
    "token tokens secret secrets password passwords passwd pwd passphrase credential credentials cookie cookies "
    "authorization bearer jwt apikey apikeys signature sig dsn"
)
_AT_THE_END = ("password", "passwd", "passphrase", "secret", "token")
"""Words that are telling at the end of a longer one, too."""
_MAYBE = _names("key keys auth pass pat signature sig")
"""Words that are secrets in a longer name; alone only with a value that nobody can read."""
_ABOUT = _names(
    "count counts limit limits budget usage length len size type types mode kind name names url uri endpoint host path "
    "paths file files dir folder scheme algorithm alg format enabled required ttl expires expiry expiration header "
    "field variable var source provider policy cost price rate threshold per sock parallelism used window helper "
    "manager store ring board k"
)
"""Words after the telling one that make the value something about a secret."""
_BEFORE_TOKEN = _names("max min stop special eos bos pad unk mask")
_BEFORE_TOKENS = _BEFORE_TOKEN | _names("total input output prompt completion reasoning cached num count n budget")
_BEFORE_KEY = _names(
    "sort primary foreign cache partition group dict hot public object idempotency dedup join map row unique label "
    "answer result output input json yaml"
)
_HARMLESS_BEFORE: Mapping[str, frozenset[str]] = {
    "token": _BEFORE_TOKEN,
    "tokens": _BEFORE_TOKENS,
    **dict.fromkeys(("key", "keys"), _BEFORE_KEY),
    "pass": _names("must min max first should all expected to on if by"),
}
_PASSWORDS = _names("password passwd pwd passphrase secret")
"""Words whose value may be a number."""
_NEVER_RANDOM = _names(
    "model name path dir folder file url uri revision commit sha hash digest version ref image id ids uuid"
)
"""Words of names whose values look random and are no secrets."""
HARMLESS_HEADERS = _names(
    "accept accept-charset accept-encoding accept-language anthropic-beta anthropic-version api-version cache-control "
    "connection content-encoding content-language content-length content-type date expect host http-referer "
    "idempotency-key openai-beta openai-organization openai-project origin pragma prefer referer te traceparent "
    "tracestate transfer-encoding upgrade user-agent x-title"
)
SHORTEST_SECRET = 8
"""Shorter values may be ordinary words, which are not replaced in answers."""
_KNOWN_PREFIX = re.compile(
    r"(sk|pk|rk)-[\w-]{16,}|sk_(live|test)_\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abeprs]-[\w-]{10,}"
    r"|(AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|glpat-[\w-]{15,}|hf_\w{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
)
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_TITLE = re.compile(r"[A-Z][a-z]{3,}")
_HEX = re.compile(r"[0-9a-f]+\Z|[0-9A-F]+\Z")
_MIXED, _LOWER = 0.42, 0.25
"""Least share of changes between classes of characters: random texts have 0.6 and 0.4, names of things 0.2."""


@dataclass(frozen=True, slots=True)
class SecretRules:
    """What a project lists: names or patterns (`*_ID`) of fields and environment variables, in any letter case.

    `secrets` are secret whatever their names are; `not_secrets` are not, and go first.
    """

    secrets: tuple[str, ...] = ()
    not_secrets: tuple[str, ...] = ()

    def listed(self, name: str) -> bool | None:
        """Return whether the project lists a name as a secret or as none; None when it lists it nowhere."""
        name = name.lower()
        if any(fnmatchcase(name, pattern.lower()) for pattern in self.not_secrets):
            return False
        return True if any(fnmatchcase(name, pattern.lower()) for pattern in self.secrets) else None


NO_RULES = SecretRules()


def is_secret(name: str, value: str | int, rules: SecretRules = NO_RULES) -> bool:
    """Return whether a value is a secret by its name, or by its shape."""
    listed = rules.listed(name)
    if listed is not None:
        return listed
    words = _words(name)
    return _named_secret(words, value) or (
        isinstance(value, str) and _NEVER_RANDOM.isdisjoint(words) and is_random(value)
    )


def is_secret_header(name: str, value: str | int, rules: SecretRules = NO_RULES) -> bool:
    """Return whether the value of an HTTP header is a secret: any but short ones and those of harmless headers."""
    listed = rules.listed(name)
    if listed is not None or name.lower() in HARMLESS_HEADERS:
        return bool(listed)
    return len(str(value)) >= SHORTEST_SECRET or is_secret(name, value)


def is_unknown_header(name: str, value: str | int, rules: SecretRules = NO_RULES) -> bool:
    """Return whether the value of a header is a secret only because nothing is known of its name."""
    unlisted = rules.listed(name) is None and is_secret_header(name, value, rules)
    return unlisted and not is_secret(name, value, rules)


def is_about_secret(name: str) -> bool:
    """Return whether a name within a secret mapping is harmless: `type`, `url`, `user` of `auth`."""
    words = _words(name)
    return bool(words) and (words[-1] in _ABOUT or words[-1] in ("user", "username", "email", "region", "issuer"))


def is_random(value: str) -> bool:
    """Return whether a text is long and looks random: a key of a known provider, or mixed letters and digits.

    Paths, addresses, hashes, UUIDs and names made of words are not.
    """
    if len(value) < 20 or any(char.isspace() for char in value.strip()):
        return value.startswith("-----BEGIN ") and _KNOWN_PREFIX.match(value) is not None
    if _KNOWN_PREFIX.fullmatch(value):
        return True
    if value.startswith(("/", "~", ".", "sha256:", "sha512:")) or "://" in value:
        return False
    return any(_is_mixed(match[0]) for match in _RUN.finditer(value))


def is_word(value: str) -> bool:
    """Return whether a value is an ordinary word, a number, a path or an address, which answers may contain."""
    return (len(value) < 16 and (value.isalpha() or value.isdigit())) or _is_place(value)


def secret_variables(environment: Mapping[str, str], rules: SecretRules = NO_RULES) -> Iterator[tuple[str, str]]:
    """Yield name and value of the environment variables that are secrets."""
    for name, value in environment.items():
        if is_secret_variable(name, value, rules):
            yield name, value


def is_secret_variable(name: str, value: str, rules: SecretRules = NO_RULES) -> bool:
    """Return whether an environment variable is a secret; one with an ordinary word as its value only if listed."""
    listed = rules.listed(name)
    return listed if listed is not None else is_secret(name, value) and not is_word(value)


def _named_secret(words: Sequence[str], value: str | int) -> bool:
    telling = [at for at, word in enumerate(words) if word in _SECRET or word in _MAYBE]
    if not telling:
        return False
    at = telling[-1]
    word, before = words[at], words[at - 1] if at else ""
    if before in _HARMLESS_BEFORE.get(word, ()) or not _ABOUT.isdisjoint(words[at + 1 :]):
        return False
    if not isinstance(value, str):
        return word in _PASSWORDS
    if word not in _MAYBE or any(words[other] in _SECRET - _MAYBE for other in telling):
        return not _is_place(value) or word in _PASSWORDS
    return not _is_place(value) if len(words) > 1 and at + 1 == len(words) else is_unreadable(value)


@lru_cache(maxsize=1024)
def _words(name: str) -> tuple[str, ...]:
    return tuple(part for word in _WORD.findall(name) for part in _parts(word.lower()))


def _parts(word: str) -> tuple[str, ...]:
    """Return a word that ends with a telling one, as in PGPASSWORD, in its two parts."""
    end = next((end for end in _AT_THE_END if word.endswith(end) and word != end), None)
    return (word,) if end is None else (word.removesuffix(end), end)


def _is_place(value: str) -> bool:
    """Whether a value is a path, or an address without a password."""
    if value.startswith(("/", "~/", "./", "../")) and "\n" not in value and len(value) < 4_096:
        return value.count("/") > 1 or "." in value
    return re.match(r"[a-z][a-z0-9+.-]*://[^@/]*(/|\Z)", value) is not None and "@" not in value


def is_unreadable(value: str) -> bool:
    """Return whether a value is no word: letters and digits without white space, 12 at least."""
    letters, digits = any(map(str.isalpha, value)), sum(map(str.isdigit, value))
    return len(value) >= 12 and letters and digits > 1 and not any(map(str.isspace, value))


def _is_mixed(run: str) -> bool:
    if _HEX.match(run) or not any(map(str.isdigit, run)) or run.isdigit():
        return False
    share = sum(_kind(one) != _kind(two) for one, two in pairwise(run)) / len(run)
    if sum(map(len, _TITLE.findall(run))) > 0.6 * len(run):
        return False  # WordsInOneName
    cased = not (run.islower() or run.isupper())
    digits = sum(map(str.isdigit, run))
    return share >= (_MIXED if cased else _LOWER) and digits >= (1 if cased else 3)


def _kind(char: str) -> int:
    return char.isdigit() + 2 * char.isupper()
