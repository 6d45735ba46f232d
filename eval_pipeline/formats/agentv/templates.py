"""`include:` among assertions: entries in another file, `.agentv/templates/<name>.yaml` or a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from eval_pipeline.errors import did_you_mean
from eval_pipeline.formats.agentv.documents import read_document
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.parsing.file_search import NotFound
from eval_pipeline.suites.model import content_revision

MAX_DEPTH = 3
_SUFFIXES = (".yaml", ".yml")
_TEMPLATES = ".agentv/templates"


def template_entries(
    entry: Map, cursor: FieldCursor, context: LoadContext, depth: int = 1
) -> Iterator[tuple[Any, FieldCursor]]:
    """The entries of the template that `entry` includes, each with its place."""
    if depth > MAX_DEPTH:
        raise cursor.error(f"templates include one another more than {MAX_DEPTH} deep", "include")
    name = entry["include"]
    if not isinstance(name, str) or not name.strip():
        raise cursor.error(f"expected the name or path of a template, got {kind(name)}", "include")
    document, there = _template(name.strip(), cursor, context)
    context.included[there.source.path] = content_revision(document)
    listed, at = document, there
    if isinstance(document, Mapping):
        listed, at = document.get("assertions"), there.at("assertions")
    if not isinstance(listed, list):
        raise at.error(f"expected a list of assertions, got {kind(listed)}")
    for index, item in enumerate(listed):
        if isinstance(item, Mapping) and "include" in item and "type" not in item:
            yield from template_entries(item, at.at(index), context, depth + 1)
        else:
            yield item, at.at(index)


def _template(name: str, cursor: FieldCursor, context: LoadContext) -> tuple[Any, FieldCursor]:
    plain = name.removeprefix("file://")
    if plain != name or "/" in plain or PurePath(plain).suffix in _SUFFIXES:
        return read_document(context.find(plain, cursor, "include"), context, cursor)
    for suffix in _SUFFIXES:
        try:
            return read_document(context.roots.file(f"{_TEMPLATES}/{plain}{suffix}"), context, cursor)
        except NotFound:
            continue
    folders = (root / _TEMPLATES for root in (context.roots.folder, *context.roots.roots))
    known = [path.stem for folder in folders for path in folder.glob("*") if path.suffix in _SUFFIXES]
    near = did_you_mean(plain, known)
    raise cursor.error(f"no template '{plain}' in {_TEMPLATES} of the suite's folder or above it{near}", "include")
