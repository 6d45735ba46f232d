"""A shell line with placeholders → the line to run and its environment variables: values are data, never shell.

A value does not become part of the line: its placeholder becomes a reference to an environment variable, quoted as its
context requires. `{PROMPT}`, `"{PROMPT}"` and `'{PROMPT}'` pass a program the same single argument, and the shell never
interprets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

PLACEHOLDER = r"(?<!\$)\{([A-Z][A-Z_]*(?:_\d+)?)\}"
_VARIABLE = "EVAL_PIPELINE_{}"
_PLAIN, _SINGLE, _DOUBLE = "", "'", '"'
_TOKENS = {
    _PLAIN: re.compile(rf"{PLACEHOLDER}|\\.|(?<!\S)#[^\n]*|\$?\(|[)'\"]", re.DOTALL),
    _SINGLE: re.compile(rf"{PLACEHOLDER}|'"),
    _DOUBLE: re.compile(rf"{PLACEHOLDER}|\\.|\$\(|\"", re.DOTALL),
}
_REFERENCE = {_PLAIN: '"${%s}"', _SINGLE: "'\"${%s}\"'", _DOUBLE: "${%s}"}


def placeholders(text: str) -> list[str]:
    """Return the names of the `{PLACEHOLDERS}` in a text; `${…}` belongs to the shell."""
    return re.findall(PLACEHOLDER, text)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace placeholders in one pass, so that text inside a value is never replaced."""
    return re.sub(PLACEHOLDER, lambda match: values.get(match[1], match[0]), text)


def fill_shell_line(line: str, values: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the line with variable references for placeholders, and the variables with their values."""
    named = {name: _VARIABLE.format(name) for name in placeholders(line) if name in values}
    return "".join(_pieces(line, named)), {variable: values[name] for name, variable in named.items()}


def _pieces(line: str, named: Mapping[str, str]) -> Iterator[str]:
    """Yield the line in pieces and track the open quotes (`$(…)` inside quotes starts a new context)."""
    quotes, position = [_PLAIN], 0
    while match := _TOKENS[quotes[-1]].search(line, position):
        yield line[position : match.start()]
        token, position = match[0], match.end()
        if match[1] in named:
            yield _REFERENCE[quotes[-1]] % named[match[1]]
            continue
        yield token
        _follow(quotes, token)
    yield line[position:]


def _follow(quotes: list[str], token: str) -> None:
    if token == quotes[-1] or (token == ")" and len(quotes) > 1):
        quotes.pop()
    elif token in (_SINGLE, _DOUBLE):
        quotes.append(token)
    elif token in ("(", "$("):
        quotes.append(_PLAIN)
