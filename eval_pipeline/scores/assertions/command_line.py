"""A shell command as its parts: program, positionals and options.

No expansion and no operators; one level of `bash -lc '…'` is unwrapped, and an option takes the next word as its value
unless that begins with a dash. Ported suites depend on this reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

OptionValue = str | Literal[True]
_SHELLS = frozenset({"bash", "sh", "zsh", "fish", "dash"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCommand:
    """A command in parts. Options are lists of values by name; True is a flag without a value. `unwrapped`: the command
    was the argument of a shell's `-c`."""

    executable: str | None
    positionals: tuple[str, ...]
    options: Mapping[str, tuple[OptionValue, ...]]
    end_of_options: bool
    unwrapped: bool

    @property
    def shown(self) -> str:
        """The parts in one line, for messages."""
        parts = [f"executable={quoted(self.executable)}"] if self.executable is not None else []
        if self.positionals:
            parts.append(f"positionals={quoted(self.positionals)}")
        if self.options:
            options = (f"{name}: {quoted(list(values))}" for name, values in self.options.items())
            parts.append(f"options={{{', '.join(options)}}}")
        if self.end_of_options:
            parts.append("end_of_options=true")
        if self.unwrapped:
            parts.append("normalized from shell wrapper")
        return ", ".join(parts)


def quoted(value: object) -> str:
    """Return a value as JSON in one line, for messages."""
    return json.dumps(value, ensure_ascii=False, default=str)


@lru_cache(maxsize=2_000)
def parse_command(line: str) -> ParsedCommand:
    """Return the parts of a command line."""
    words = split_words(line)
    inner = _shell_argument(words)
    if inner is not None:
        words = split_words(inner)
    options: dict[str, list[OptionValue]] = {}
    positionals, ended = _sort(words[1:], options)
    return ParsedCommand(
        executable=words[0] if words else None,
        positionals=tuple(positionals),
        options={name: tuple(values) for name, values in options.items()},
        end_of_options=ended,
        unwrapped=inner is not None,
    )


def split_words(line: str) -> list[str]:
    """Return the words of a line: single quotes are literal, elsewhere a backslash keeps the next character. An open
    quote ends with the line; an empty word is none."""
    words: list[str] = []
    word: list[str] = []
    quote: str | None = None
    characters = iter(line)
    for character in characters:
        if character == "\\" and quote != "'":
            word.append(next(characters, ""))
        elif character == quote:
            quote = None
        elif quote is not None:
            word.append(character)
        elif character in "'\"":
            quote = character
        elif character.isspace():
            words.append("".join(word))
            word = []
        else:
            word.append(character)
    words.append("".join(word))
    return [text for text in words if text]


def _shell_argument(words: Sequence[str]) -> str | None:
    """Return what a shell is to carry out, or None without a shell in one of the first two words."""
    at = next((place for place, word in enumerate(words[:2]) if word.rpartition("/")[2] in _SHELLS), None)
    if at is None:
        return None
    flag = next((place for place in range(at + 1, len(words)) if words[place][0] == "-" and "c" in words[place]), None)
    return words[flag + 1] if flag is not None and flag + 1 < len(words) else None


def _sort(words: list[str], options: dict[str, list[OptionValue]]) -> tuple[list[str], bool]:
    """Put options into `options`; return the positionals, and whether `--` ended the options."""
    positionals: list[str] = []
    waiting = words[::-1]
    while waiting:
        word = waiting.pop()
        if word == "--":
            return positionals + waiting[::-1], True
        if word == "-" or not word.startswith("-"):
            positionals.append(word)
            continue
        for name, value in _options_in(word, waiting):
            options.setdefault(name, []).append(value)
    return positionals, False


def _options_in(word: str, waiting: list[str]) -> list[tuple[str, OptionValue]]:
    """Return the options of a word; a value in the next word is taken from `waiting`."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if equals:
            return [(name, value)]
    elif len(word) > 2:
        letters = word[1:]
        if letters.isascii() and letters.isalpha():
            return [(f"-{letter}", True) for letter in letters]
        return [(word[:2], word[2:])]
    follows = bool(waiting) and not waiting[-1].startswith("-")
    return [(word, waiting.pop() if follows else True)]
