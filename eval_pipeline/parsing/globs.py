"""Patterns of paths: `*` and `?` within a folder, `**` across folders, `[abc]` one of these characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_TOKENS = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", re.DOTALL)
_TRANSLATED = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=1_000)
def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns whether a path (with `/`) matches. A pattern without `/` matches in any folder."""
    whole = pattern.removeprefix("./")
    if "/" not in whole:
        whole = f"**/{whole}"
    compiled = re.compile("".join(map(_translate, _TOKENS.findall(whole))), re.DOTALL)
    return lambda path: compiled.fullmatch(path.replace("\\", "/")) is not None


def _translate(token: str) -> str:
    if token in _TRANSLATED:
        return _TRANSLATED[token]
    if len(token) > 1:  # a class of characters
        negated = "^" if token[1] in "!^" else ""
        return f"[{negated}{re.escape(token[2:-1] if negated else token[1:-1])}]".replace(r"\-", "-")
    return re.escape(token)
