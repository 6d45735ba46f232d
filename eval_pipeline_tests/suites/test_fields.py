"""The tables of fields and the readers agree: what a reader looks for is in its table, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.formats.agentv.documents import RawTest
from eval_pipeline.formats.agentv.load_context import open_context
from eval_pipeline.formats.agentv.suite import read_suite
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.source import Source
from eval_pipeline.parsing.tables import Field, FieldTable, Kind
from eval_pipeline.suites import fields
from eval_pipeline.suites.load import LoadOptions
from eval_pipeline_tests.watched_keys import WatchedKeys

HOOK: dict[str, Any] = {"command": ["true"], "timeout_ms": 10, "cwd": ".", "reset": "none"}
REPOSITORY: dict[str, Any] = {
    "path": "repo",
    "source": {"type": "git", "url": "https://example.com/x.git"},
    "checkout": {"ref": "main", "resolve": "remote", "ancestor": 1},
    "clone": {"depth": 2, "filter": "blob:none", "sparse": ["src"]},
}
LOCAL: dict[str, Any] = {"path": "local", "source": {"type": "local", "path": "."}}
UNREAD = {"suite": {"$schema"}, "test": {"note"}}
"""Fields that are accepted and change nothing."""
BESIDE = {
    "workspace": {"static_path", "static", "pool", "docker"},  # removed from AgentV: an error names today's field
    "turn": {"execution"},  # a turn's evaluators are looked for as a test's are
}
"""What a reader looks for beside the fields of its table."""


class Watched:
    """Suites whose mappings are watched; `read` are the keys that were looked up, by the title of their table."""

    def __init__(self) -> None:
        self._mappings: dict[str, list[WatchedKeys]] = {}

    def of(self, table: FieldTable, **values: Any) -> WatchedKeys:
        mapping = WatchedKeys(values)
        self._mappings.setdefault(table.title, []).append(mapping)
        return mapping

    def read(self, table: FieldTable) -> set[str]:
        return {key for mapping in self._mappings[table.title] for key in mapping.keys_read}


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """What was looked up in one suite that has every kind of field."""
    monkeypatch.chdir(tmp_path)
    watch = Watched()
    evaluator = watch.of(fields.EVALUATOR, type="contains", value="4", required=True)
    script = watch.of(fields.HOOK, script="true")
    hooks = watch.of(fields.HOOKS, before_all=watch.of(fields.HOOK, **HOOK), after_all=script)
    workspace = watch.of(fields.WORKSPACE, hooks=hooks, repos=[
        watch.of(fields.REPOSITORY, **{
            **REPOSITORY,
            "source": watch.of(fields.REPOSITORY_SOURCE, **REPOSITORY["source"]),
            "checkout": watch.of(fields.CHECKOUT, **REPOSITORY["checkout"]),
            "clone": watch.of(fields.CLONE, **REPOSITORY["clone"]),
        }),
        {**LOCAL, "source": watch.of(fields.REPOSITORY_SOURCE, **LOCAL["source"])},
    ])  # fmt: skip
    message = watch.of(fields.MESSAGE, role="user", content="2 + 2?")
    repeat = watch.of(fields.REPEAT, count=2)
    plain: dict[str, Any] = {field: None for field in fields.CASE if field not in ("note", "mode", "assertions")}
    cases = [
        watch.of(fields.CASE, **{
            **plain, "id": "c1", "input": [message], "assertions": [evaluator], "expected_output": "4",
            "execution": WatchedKeys({}), "repeat": repeat, "workspace": workspace,
        }),
        watch.of(fields.CASE, id="c2", turns=[watch.of(fields.TURN, input="hi", criteria="polite")], input="hi",
                 execution=watch.of(fields.CASE_EXECUTION, threshold=1.0)),
    ]  # fmt: skip
    cursor = FieldCursor(Source(tmp_path / "all.yaml", "all.yaml", lambda path: None))
    document = watch.of(fields.SUITE, tests=[], execution=watch.of(fields.SUITE_EXECUTION, threshold=1.0))
    context = open_context(tmp_path / "all.yaml", LoadOptions({}))
    suite = read_suite(document, cursor, context, "agentv-yaml", [RawTest(case, cursor) for case in cases])
    older = watch.of(fields.SUITE, evalcases=[{"id": "c1", "input": "hi", "criteria": "polite"}])
    other = read_suite(older, cursor, context, "agentv-yaml")
    assert suite.errors == other.errors == ()
    return watch


TABLES = [
    fields.SUITE, fields.CASE, fields.CASE_EXECUTION, fields.REPEAT, fields.WORKSPACE, fields.HOOKS, fields.HOOK,
    fields.REPOSITORY, fields.REPOSITORY_SOURCE, fields.CHECKOUT, fields.CLONE, fields.TURN, fields.MESSAGE,
    fields.EVALUATOR,
]  # fmt: skip


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_a_reader_looks_for_the_fields_of_its_table_and_no_others(table: FieldTable, watched: Watched) -> None:
    ignored = UNREAD.get(table.title, set())
    known = table.names | (fields.SUITE_EXECUTION.names if table.title == "execution" else set())

    assert sorted(known - watched.read(table) - ignored) == []
    assert sorted(watched.read(table) - known - BESIDE.get(table.title, set())) == []


def tables_below(table: FieldTable, seen: dict[str, FieldTable] | None = None) -> Mapping[str, FieldTable]:
    """A table and every table that a field of it has, by title."""
    seen = {} if seen is None else seen
    if table.title not in seen:
        seen[table.title] = table
        for field in table.values():
            if field.kind.table is not None:
                tables_below(field.kind.table, seen)
    return seen


def test_a_field_is_described_in_one_sentence() -> None:
    tables = tables_below(fields.SUITE).values()
    described = {f"{table.title}.{field.name}": field for table in tables for field in table.values()}

    assert described
    assert {name: field.doc for name, field in described.items() if not is_sentence(field.doc)} == {}
    assert [name for name, field in described.items() if not field.kind.title] == []


def is_sentence(text: str) -> bool:
    return text[:1].isupper() and text.endswith(".")


def test_a_schema_has_every_field_and_its_older_spellings() -> None:
    schema = fields.suite_fields().json_schema()

    assert set(schema["properties"]) == fields.SUITE.names
    assert schema["properties"]["evalcases"]["deprecated"] is True
    assert schema["properties"]["name"]["description"] == "The name of the suite (default: the name of its file)."
    assert schema["additionalProperties"] is False


WRONG: Mapping[str, object] = {
    "a text": {"a": 1}, "true or false": "perhaps", "a whole number of at least 1": 0, "a number above 0": 0,
    "a number of at least 0": -1, "a number from 0 to 1": 2, "a text or a list of texts": {"a": 1}, "a mapping": 3,
}  # fmt: skip


def wrong_value(kind: Kind) -> object:
    return "neither" if kind.title.startswith("one of") else WRONG.get(kind.title)


def scalar_fields(table: FieldTable) -> list[Any]:
    return [
        pytest.param(field, id=field.name)
        for field in table.values()
        if wrong_value(field.kind) is not None and field.name not in UNREAD.get(table.title, set())
    ]


@pytest.mark.parametrize("field", scalar_fields(fields.CASE))
def test_a_field_of_a_case_is_checked_as_its_kind_says(field: Field, tmp_path: Path) -> None:
    cursor = FieldCursor(Source(tmp_path / "a.yaml", "a.yaml", lambda path: None))
    case = {"id": "c1", "input": "hi", "criteria": "x", "turns": None, field.name: wrong_value(field.kind)}
    if field.name in ("window_size", "on_turn_failure", "aggregation"):
        case["turns"] = [{"input": "hi", "criteria": "x"}]

    suite = read_suite({}, cursor, open_context(tmp_path / "a.yaml", LoadOptions({})), "x", [RawTest(case, cursor)])

    (error,) = suite.errors
    assert (error.place.field or "").startswith(field.name)
    assert "expected" in error.problem or field.name == "id"
