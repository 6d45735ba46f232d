"""A shell line with placeholders → the line to run and the variables it reads: values are data, never shell.

A value does not become part of the line: its placeholder becomes a reference to an environment variable, written as
the quotes around it ask. `{PROMPT}`, `"{PROMPT}"` and `'{PROMPT}'` give a program the same one argument, and nothing
in it is ever run.
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
    """The names of the `{PLACEHOLDERS}` in a text; what follows a `$` is the shell's."""
    return re.findall(PLACEHOLDER, text)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Placeholders replaced in one pass, so that nothing inside a value is taken for one."""
    return re.sub(PLACEHOLDER, lambda match: values.get(match[1], match[0]), text)


def fill_shell_line(line: str, values: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The line with references for placeholders, and the environment variables that hold their values."""
    named = {name: _VARIABLE.format(name) for name in placeholders(line) if name in values}
    return "".join(_pieces(line, named)), {variable: values[name] for name, variable in named.items()}


def _pieces(line: str, named: Mapping[str, str]) -> Iterator[str]:
    """The line piece by piece, with an eye on which quotes are open (`$(…)` inside quotes begins anew)."""
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
