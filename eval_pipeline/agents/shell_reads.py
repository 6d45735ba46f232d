"""A shell command → the files that it reads, for agents that read files through a shell.

The text is parsed without running a shell: `cat`, `head`, `tail`, `sed`, `nl`, `less` and the like, in chains and
pipes, below `cd`, inside `bash -lc '…'`. Redirects, here-documents, globs and files that only a running shell could
name are left out. Nothing here raises, whatever the text.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_SCRIPT_OPTION = re.compile(r"-[a-z]*c\Z")
_PREFIXES = frozenset({
    "if", "then", "else", "elif", "while", "until", "do", "!", "{",
    "time", "exec", "command", "builtin", "sudo", "nohup", "env",
})  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_MAX_NESTING = 4

_TOKEN = re.compile(
    r"""
      (?P<space> (?: [ \t\r] | \\\n )+ )
    | (?P<comment> \#[^\n]* )
    | (?P<redirect> \d* (?: <<< | <<-? | <> | <& | < | >> | >& | >\| | > ) | &>>? )
    | (?P<operator> \n | ;;? | && | \|\|  | \|& | \| | & | \( | \) )
    | (?P<word> (?: [^\s'"\\;&|()<>] | \\. | \\\Z | '[^']*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\\?\Z) )+ )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(
    r"""'(?P<single>[^']*)'? | "(?P<double>(?:[^"\\]|\\.)*)"? | \\(?P<escaped>.?) | (?P<plain>[^'"\\]+) | .""",
    re.VERBOSE | re.DOTALL,
)
_DOUBLE_ESCAPE = re.compile(r"\\([\"\\$`]|\n)")
_GLOB = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class ShellReads:
    """The files a command reads, each once, in order; and what its exit code means for each of them.

    A path is relative to the folder the command runs in, or begins with `/`, `~` or `$`. `guarded`: every part has to
    succeed for exit code 0; `single`: the command is one program.
    """

    paths: tuple[str, ...] = ()
    guarded: bool = True
    single: bool = True

    def ok(self, exit_code: int | None) -> bool | None:
        """Whether the reads worked, as far as the exit code of the whole command shows."""
        if exit_code == 0:
            return True if self.guarded else None
        return None if exit_code is None or not self.single else False


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    glob: bool


@dataclass(frozen=True, slots=True)
class _Operator:
    text: str


@dataclass(slots=True)
class _Folder:
    """The working folder during a command; None when it depends on a running shell."""

    current: str | None = ""
    outer: list[str | None] = field(default_factory=list)


def shell_reads(command: str) -> ShellReads:
    """Return the files that a shell command reads."""
    return _reads(command, _MAX_NESTING)


def unwrap_shell(command: str | Sequence[str]) -> str:
    """The script inside `/bin/bash -lc '…'` (a text or a list of words); any other command as one text."""
    words = _split(command) if isinstance(command, str) else [str(word) for word in command]
    script = _script(words)
    if script is not None:
        return script
    return command if isinstance(command, str) else shlex.join(words)


def _script(words: Sequence[str]) -> str | None:
    if len(words) == 3 and posixpath.basename(words[0]) in _SHELLS and _SCRIPT_OPTION.match(words[1]):
        return words[2]
    return None


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _reads(command: str, nesting: int) -> ShellReads:
    folder = _Folder()
    paths: dict[str, None] = {}
    parts: list[ShellReads] = []
    for words, joined_by in _commands(command, folder):
        words = _without_prefixes(words)
        if not words:
            continue
        inner = _inner(words, nesting)
        for path in (*_named(words), *inner.paths):
            if (whole := _below(folder.current, path)) is not None:
                paths[whole] = None
        parts.append(ShellReads(inner.paths, inner.guarded and (not parts or joined_by == "&&"), inner.single))
        _move(words, folder)
    single = len(parts) == 1 and parts[0].single
    return ShellReads(tuple(paths), all(part.guarded for part in parts), single)


def _inner(words: Sequence[_Word], nesting: int) -> ShellReads:
    """Return the files that the script of a nested `bash -c '…'` reads."""
    script = _script([word.text for word in words])
    return _reads(script, nesting - 1) if script is not None and nesting > 0 else ShellReads()


def _commands(text: str, folder: _Folder) -> Iterator[tuple[list[_Word], str]]:
    """Each simple command with the operator before it; parentheses keep the folder outside as it was."""
    words: list[_Word] = []
    joined_by = ""
    for token in _tokens(text):
        if isinstance(token, _Word):
            words.append(token)
            continue
        yield words, joined_by
        joined_by = joined_by if token.text == "(" and not words else token.text
        words = []
        if token.text == "(":
            folder.outer.append(folder.current)
        elif token.text == ")" and folder.outer:
            folder.current = folder.outer.pop()
    yield words, joined_by


def _tokens(text: str) -> Iterator[_Word | _Operator]:
    """Yield words and operators; a redirect includes its target, a here-document its lines."""
    at, redirect, delimiters = 0, "", list[str]()
    while match := _TOKEN.match(text, at):
        kind, at = match.lastgroup, match.end()
        if kind == "redirect":
            redirect = match[0]
        elif kind == "word":
            word = _word(match[0])
            if redirect.lstrip("0123456789") in ("<<", "<<-"):
                delimiters.append(word.text)
            elif not redirect:
                yield word
            redirect = ""
        elif kind == "operator":
            redirect = ""
            yield _Operator(match[0])
            if match[0] == "\n" and delimiters:
                at, delimiters = _after_documents(text, at, delimiters), []


def _after_documents(text: str, at: int, delimiters: Sequence[str]) -> int:
    """Return the position after the lines of a command's here-documents."""
    for delimiter in delimiters:
        end = re.compile(rf"^\t*{re.escape(delimiter)}$\n?", re.MULTILINE).search(text, at)
        at = end.end() if end is not None else len(text)
    return at


def _word(raw: str) -> _Word:
    """Return a word without quotes, and whether a shell would expand it as a glob."""
    text, glob = "", False
    for piece in _PIECE.finditer(raw):
        if piece.lastgroup == "double":
            text += _DOUBLE_ESCAPE.sub(lambda match: match[1].replace("\n", ""), piece["double"])
        elif piece.lastgroup is not None:
            text += piece[piece.lastgroup]
            glob = glob or (piece.lastgroup == "plain" and _GLOB.search(piece["plain"]) is not None)
    return _Word(text, glob)


def _without_prefixes(words: list[_Word]) -> list[_Word]:
    """Return the words from the program's name on, without `then`, `sudo`, `NAME=value` and the like."""
    for index, word in enumerate(words):
        if word.text not in _PREFIXES and not _ASSIGNMENT.match(word.text):
            return words[index:]
    return []


def _move(words: Sequence[_Word], folder: _Folder) -> None:
    """Apply `cd`."""
    if words[0].text not in ("cd", "pushd"):
        return
    targets = _operands(words, frozenset())
    known = len(targets) == 1 and targets[0].text != "-" and not targets[0].glob
    folder.current = _below(folder.current, targets[0].text) if known else None


def _below(folder: str | None, path: str) -> str | None:
    """Return a path relative to the command's first folder."""
    if path.startswith(("/", "~", "$")):
        return path
    return None if folder is None else posixpath.normpath(posixpath.join(folder, path))


def _named(words: Sequence[_Word]) -> Iterator[str]:
    """The files that a simple command names to read."""
    program = posixpath.basename(words[0].text)
    find = _READERS.get(program)
    if find is not None:
        yield from (word.text for word in find(words) if _is_file(word))


def _is_file(word: _Word) -> bool:
    plain_variable = word.text.startswith("$") and "/" not in word.text
    return bool(word.text) and word.text != "-" and not word.glob and "\n" not in word.text and not plain_variable


def _operands(words: Sequence[_Word], valued: frozenset[str]) -> list[_Word]:
    """The words that are no options; an option of `valued` takes the next word with it."""
    operands: list[_Word] = []
    rest = iter(words[1:])
    for word in rest:
        if word.text == "--":
            return [*operands, *rest]
        if word.text in valued:
            next(rest, None)
        elif not word.text.startswith("-") or word.text == "-":
            operands.append(word)
    return operands


def _plain(*valued: str) -> Callable[[Sequence[_Word]], list[_Word]]:
    """A program whose operands are all files."""
    return lambda words: _operands(words, frozenset(valued))


def _sed(words: Sequence[_Word]) -> list[_Word]:
    """sed: the first operand is the script, unless an option has it; with `-i` it edits and prints nothing."""
    options = [word.text for word in words[1:] if word.text.startswith("-") and word.text != "-"]
    if any(option.startswith(("-i", "--in-place")) or re.match(r"-[nErsuz]+i", option) for option in options):
        return []
    files = _operands(words, frozenset({"-e", "--expression", "-f", "--file", "-l"}))
    given = any(option.startswith(("-e", "--expression", "-f", "--file")) for option in options)
    return files if given else files[1:]


_READERS: dict[str, Callable[[Sequence[_Word]], list[_Word]]] = {
    "cat": _plain(),
    "tac": _plain("-s", "--separator"),
    "nl": _plain("-b", "-d", "-f", "-h", "-i", "-l", "-n", "-s", "-v", "-w"),
    "head": _plain("-n", "-c", "--lines", "--bytes"),
    "tail": _plain("-n", "-c", "-s", "--lines", "--bytes", "--pid", "--sleep-interval"),
    "less": _plain("-p", "-P", "-o", "-O", "-k", "-t", "-T", "-x", "-y", "-z", "-b", "-h", "-j"),
    "more": _plain("-n", "--lines"),
    "bat": _plain("-l", "--language", "-r", "--line-range", "-H", "--style", "--theme", "--color"),
    "batcat": _plain("-l", "--language", "-r", "--line-range", "-H", "--style", "--theme", "--color"),
    "sed": _sed,
}
