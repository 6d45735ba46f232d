"""Log files of inspect: a zip archive (`.eval`), or one JSON document (`.json`) → its header and its samples."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from eval_pipeline.errors import InputError
from eval_pipeline.llm.reading import mappings
from eval_pipeline.parsing.fields import kind
from eval_pipeline.parsing.json_text import read_foreign_json
from eval_pipeline.parsing.source import show_path
from eval_pipeline.reports.result_logs import OtherKind
from eval_pipeline.warehouse.compressed_json import CompressedJson

JsonMap = Mapping[str, Any]
_HEADER, _START = "header.json", "_journal/start.json"
_SAMPLES = "samples/"
_ZSTD = 93
_LOCAL_HEADER = 30
"""Bytes of an entry's header in the archive, before its name and its extra field."""


@contextmanager
def open_log(path: Path) -> Iterator[tuple[JsonMap, Iterator[JsonMap]]]:
    """Yield the header of a log and its samples, which are read one by one. Raises InputError, OSError."""
    if path.suffix == ".json":
        yield _document(path)
        return
    compressed = CompressedJson()
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            names = archive.namelist()
            header = _HEADER if _HEADER in names else _START
            if header not in names:
                raise InputError(f"{show_path(path)} is no log of inspect: it has no {_HEADER}")
            entries = (name for name in names if name.startswith(_SAMPLES) and name.endswith(".json"))
            samples = (_entry(archive, file, name, compressed) for name in entries)
            yield _entry(archive, file, header, compressed), samples
    except zipfile.BadZipFile:
        raise InputError(f"{show_path(path)} is no log of inspect: it is no zip archive") from None
    finally:
        compressed.close()


def _document(path: Path) -> tuple[JsonMap, Iterator[JsonMap]]:
    try:
        document = read_foreign_json(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise OtherKind(f"{show_path(path)} is no JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("eval"), dict):
        raise OtherKind(f"{show_path(path)} is no log of inspect: it has no 'eval'")
    return document, iter(mappings(document.get("samples")))


def _entry(archive: zipfile.ZipFile, file: BinaryIO, name: str, compressed: CompressedJson) -> JsonMap:
    """Return the document of an entry, decompressed by DuckDB where the library does not know the method."""
    info = archive.getinfo(name)
    try:
        content: bytes | str = (
            compressed.text(_raw(file, info), info.file_size) if info.compress_type == _ZSTD else archive.read(info)
        )
        document = read_foreign_json(content)
    except (orjson.JSONDecodeError, struct.error, zipfile.BadZipFile, InputError) as error:
        raise InputError(f"{show_path(Path(str(archive.filename)))}: {name} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{show_path(Path(str(archive.filename)))}: {name}: expected an object, got {kind(document)}")
    return document


def _raw(file: BinaryIO, info: zipfile.ZipInfo) -> bytes:
    file.seek(info.header_offset)
    name_length, extra_length = struct.unpack("<HH", file.read(_LOCAL_HEADER)[26:])
    file.seek(info.header_offset + _LOCAL_HEADER + name_length + extra_length)
    return file.read(info.compress_size)
