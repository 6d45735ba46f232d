"""Files of JSONL, read line by line: what is kept of a large one is bounded, and what is left out is counted.

A file of up to `WHOLE_BYTES` is kept as it is. In a larger one long texts are cut, the shorter the more of it is kept
(`TEXT_LIMITS`), and records between the first and the last ones are left out, except for those of types that a
normalizer names: sums need them all. A line that is longer than `LINE_BYTES` is never held as a whole: its long texts
are cut while it is read.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from eval_pipeline.reports.jsonl_records import JsonMap, Record, Records, objects_of

LINE_BYTES = 1_000_000
"""The longest line that is parsed as it is."""
WHOLE_BYTES = 16_000_000
TEXT_LIMITS = ((300_000, 400_000), (1_000_000, 4_000), (4_000_000, 300))
"""How many characters of one text of a large file are kept until so many bytes of the file are kept."""
_EVERYTHING = ((WHOLE_BYTES + 1, LINE_BYTES),)
KEPT_RECORDS = 20_000
"""After so many records of any file only the last ones are kept."""
LAST_BYTES = 300_000
LAST_LINES = 200
_UNREADABLE = b"?"
"""In place of a line that is too long even without its long texts: it counts as one that cannot be parsed."""
_OTHER_BYTES = 500
"""What a record has beside its longest text, about."""
_SLASH = ord("\\")
_HEAD, _TAIL = 2_000, 1_000
"""The bytes that stay of each end of a text in a line that is too long."""
_CUT = re.compile(r" … \[[\d,]+ \w+ of the output are left out here\] … ")
_VALID_HEAD = re.compile(rb"(?:[^\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+")
_CLEAN_START = re.compile(rb"(?<=[^\\])[^\\\x80-\xff]")


def read_record_file(path: Path, essential: Collection[str] = ()) -> Records:
    """Return the records of a JSONL file; records of an `essential` type are never left out. Raises OSError."""
    with path.open("rb") as file:
        limits = TEXT_LIMITS if path.stat().st_size > WHOLE_BYTES else _EVERYTHING
        return _Reader(essential, limits).read(file)


def read_document(path: Path) -> str:
    """Return the text of a JSON file, with every long text in it cut when it is larger than `WHOLE_BYTES`."""
    if path.stat().st_size <= WHOLE_BYTES:
        return path.read_bytes().decode("utf-8", "replace")
    cutter = _TextCutter()
    with path.open("rb") as file:
        pieces = iter(lambda: file.read(LINE_BYTES), b"")
        kept = b"".join(part for piece in pieces for part in cutter.feed(piece))
    return kept.decode("utf-8", "replace")


def read_ends(path: Path, most_bytes: int) -> str:
    """Return the text of a file; of a larger one its beginning and its end."""
    size, half = path.stat().st_size, most_bytes // 2
    with path.open("rb") as file:
        if size <= most_bytes:
            return file.read().decode("utf-8", "replace")
        head = file.read(half)
        file.seek(size - half)
        return f"{_text(head)}\n{_note(size - 2 * half, 'bytes')}\n{_text(file.read())}"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def cut_text(text: str, most: int) -> str:
    """Return a text of at most `most` characters and a note: its beginning and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}{_note(len(text) - 2 * half, 'characters')}{text[len(text) - half :]}"


def is_cut(text: str) -> bool:
    """Return whether a part of a text is left out."""
    return _CUT.search(text) is not None


def _note(left_out: int, unit: str) -> str:
    return f" … [{left_out:,} {unit} of the output are left out here] … "


class _Reader:
    """Reads one file. Records are kept until the limits; then lines wait among the last ones until they are old."""

    def __init__(self, essential: Collection[str], limits: Sequence[tuple[int, int]]) -> None:
        self._limits = limits
        self._most_bytes, self._shortest = limits[-1]
        self._marks = [f'"{name}"'.encode() for name in essential]
        self._rows: list[Record] = []
        self._last: deque[tuple[int, bytes]] = deque()
        self._last_bytes = self._kept_bytes = self._kept = 0
        self._unparsed = self._left_out = 0
        self._gap: int | None = None

    def read(self, file: BinaryIO) -> Records:
        for number, line in _lines(file):
            if self._kept < KEPT_RECORDS and self._kept_bytes < self._most_bytes:
                self._keep(number, line, next(most for limit, most in self._limits if self._kept_bytes < limit))
            else:
                self._queue(number, line)
        for number, line in self._last:
            self._keep(number, line, self._limits[0][1])
        return Records(tuple(self._rows), self._unparsed, self._left_out, self._gap)

    def _keep(self, number: int, line: bytes, most: int) -> None:
        line = line.strip(b"\xef\xbb\xbf \t\r\n")
        if not line:
            return
        rows = [Record(number, _shortened(value, most) if len(line) > most else value) for value in objects_of(line)]
        self._unparsed += not rows
        self._rows += rows
        self._kept += 1
        self._kept_bytes += min(len(line), most + _OTHER_BYTES)

    def _queue(self, number: int, line: bytes) -> None:
        self._last.append((number, line))
        self._last_bytes += len(line)
        while len(self._last) > LAST_LINES or (self._last_bytes > LAST_BYTES and len(self._last) > 1):
            number, line = self._last.popleft()
            self._last_bytes -= len(line)
            if any(mark in line for mark in self._marks):
                self._keep(number, line, self._shortest)
            elif line.strip():
                self._left_out += 1
                self._gap = self._gap or number


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their numbers; of one that is too long, what stays of it."""
    number = 0
    while line := file.readline(LINE_BYTES):
        number += 1
        yield number, line if len(line) < LINE_BYTES or line.endswith(b"\n") else _long_line(line, file)


def _long_line(begin: bytes, file: BinaryIO) -> bytes:
    """Return a line with every long text in it cut, to its end; nothing where it has too many short ones."""
    cutter, kept, size = _TextCutter(), list[bytes](), 0
    piece = begin
    while piece:
        for part in cutter.feed(piece):
            size += len(part)
            if size <= LINE_BYTES:
                kept.append(part)
        if piece.endswith(b"\n"):
            break
        piece = file.readline(LINE_BYTES)
    return b"".join(kept) if size <= LINE_BYTES else _UNREADABLE


class _TextCutter:
    """Cuts the texts of a JSON line that comes in pieces."""

    def __init__(self) -> None:
        self._inside = False
        self._escaped = False
        self._head, self._tail = bytearray(), bytearray()
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield what stays of the next piece."""
        at = 0
        while at < len(piece):
            if not self._inside:
                quote = piece.find(b'"', at)
                end = quote + 1 or len(piece)
                yield piece[at:end]
                self._inside, at = quote >= 0, end
                continue
            quote = self._closing_quote(piece, at)
            self._add(piece[at : quote if quote >= 0 else len(piece)])
            if quote < 0:
                return
            yield self._text() + b'"'
            self._inside, at = False, quote + 1

    def _closing_quote(self, piece: bytes, at: int) -> int:
        """Return where the text ends in a piece; -1 when it goes on in the next one."""
        first = at
        at += self._escaped
        while (quote := piece.find(b'"', at)) >= 0:
            if _slashes_before(piece, quote, at) % 2 == 0:
                self._escaped = False
                return quote
            at = quote + 1
        self._escaped = at <= len(piece) and _slashes_before(piece, len(piece), max(at, first)) % 2 == 1
        return -1

    def _add(self, content: bytes) -> None:
        self._length += len(content)
        missing = _HEAD + _TAIL - len(self._head)
        self._head += content[: max(0, missing)]
        self._tail = (self._tail + content[max(0, missing) :])[-_TAIL:] if len(content) > missing else self._tail

    def _text(self) -> bytes:
        head, tail, length = bytes(self._head), bytes(self._tail), self._length
        self._head, self._tail, self._length = bytearray(), bytearray(), 0
        if length <= _HEAD + _TAIL:
            return head
        match = _VALID_HEAD.match(head[:_HEAD])
        start = _CLEAN_START.search(tail)
        kept_head, kept_tail = match[0] if match else b"", tail[start.start() :] if start else b""
        kept_head = kept_head.decode("utf-8", "ignore").encode()
        return kept_head + _note(length - len(kept_head) - len(kept_tail), "bytes").encode() + kept_tail


def _slashes_before(piece: bytes, end: int, begin: int) -> int:
    at = end
    while at > begin and piece[at - 1] == _SLASH:
        at -= 1
    return end - at


def _shortened(value: JsonMap, most: int) -> JsonMap:
    """Return a record with every long text in it cut."""
    shortened: JsonMap = _walked(value, most)
    return shortened


def _walked(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return cut_text(value, most)
    if isinstance(value, dict):
        return {key: _walked(item, most) for key, item in value.items()}
    return [_walked(item, most) for item in value] if isinstance(value, list) else value
