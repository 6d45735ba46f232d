"""Files that are larger than what is searched at once: no secret stays in them, wherever it is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from eval_pipeline.parsing.redacted_files import PIECE_BYTES, redact_files

SECRET = "tok-0123456789-abcdefghij"


def padded(*parts: str) -> bytes:
    """These texts at the beginning, around the ends of the pieces that are read, and at the end of a file."""
    content = bytearray(b"x" * (2 * PIECE_BYTES + 1_000))
    places = (0, PIECE_BYTES - 12, 2 * PIECE_BYTES - 1, len(content) - len(SECRET))
    for place, part in zip(places, parts, strict=False):
        content[place : place + len(part)] = part.encode()
    return bytes(content)


def test_a_secret_at_the_end_of_a_piece_is_replaced_in_a_large_file(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(padded(SECRET, SECRET, SECRET, SECRET))
    large.chmod(0o640)

    redact_files(tmp_path, [SECRET])

    content = large.read_bytes()
    assert SECRET.encode() not in content
    assert content.count(b"***") == 4
    assert content.replace(b"***", b"") == b"x" * (2 * PIECE_BYTES + 1_000 - 4 * len(SECRET))
    assert stat.S_IMODE(large.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["large"]


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "whole"])
def test_half_a_secret_at_the_end_of_a_large_file_goes_where_the_file_was_cut(tmp_path: Path, cut: bool) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * (PIECE_BYTES + 10) + SECRET[:15].encode())

    redact_files(tmp_path, [SECRET], cut=cut)

    assert (SECRET[:15].encode() in large.read_bytes()) is not cut


def test_a_large_file_without_a_secret_is_not_written(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(padded("nothing", "secret"))
    before = large.stat()

    redact_files(tmp_path, [SECRET], cut=True)

    assert (large.stat().st_ino, large.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
