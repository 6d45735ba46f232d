"""Exports on disk, whole or not at all, and result files read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.errors import InputError
from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.exports.files import write_file, write_folder
from eval_pipeline.exports.result_files import read_result_file
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.scores.model import Status
from eval_pipeline_tests.exports.sample_rows import NOON, a_record, a_verdict

ROW = {"test_id": "c1", "suite": "s", "target": "r", "score": 0.9, "execution_status": "ok",
       "timestamp": "2026-03-01T12:00:00.000Z"}  # fmt: skip

OWN = {"case_id": "c1", "suite": "s", "runner": "r", "status": "passed", "score": 0.9}


def broken_off() -> Iterator[FileChunk]:
    yield FileChunk("one", b"1")
    raise RuntimeError("the disk is full")


def written(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_pieces_of_one_path_become_one_file(tmp_path: Path) -> None:
    write_folder([FileChunk("a/b/c", b"1"), FileChunk("d", b"2"), FileChunk("a/b/c", b"3")], tmp_path / "deep" / "run")

    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"deep/run/a/b/c": b"13", "deep/run/d": b"2"}


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_what_breaks_off_leaves_nothing_behind(tmp_path: Path, write: Any) -> None:
    with pytest.raises(RuntimeError, match="the disk is full"):
        write(broken_off(), tmp_path / "export")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_there_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "export"
    write_file([FileChunk("", b"old")], path)

    with pytest.raises(RuntimeError):
        write_file(broken_off(), path)
    before = path.read_bytes()
    write_file([FileChunk("", b"n"), FileChunk("", b"ew")], path)

    assert (before, path.read_bytes()) == (b"old", b"new")


@pytest.mark.parametrize("there", ["folder", "file"])
def test_a_run_folder_never_mixes_with_what_is_there(tmp_path: Path, there: str) -> None:
    path = tmp_path / "run"
    written(path / "kept" if there == "folder" else path, "kept")

    with pytest.raises(InputError, match="exists already; name a new folder"):
        write_folder([FileChunk("a", b"1")], path)


def test_an_empty_folder_may_become_a_run_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()

    write_folder([FileChunk("a", b"1")], tmp_path / "run")

    assert (tmp_path / "run" / "a").read_bytes() == b"1"


@pytest.mark.parametrize("format_", ["agentv", "json", "jsonl", "agentv-json", "agentv-jsonl"])
def test_an_export_is_read_back_as_the_results_it_was_made_from(tmp_path: Path, format_: str) -> None:
    half = a_verdict(Status.FAILED, 0.5)
    records: list[ResultRow] = [
        a_record("a"),
        a_record("b", status=Status.FAILED, verdict=half),
        a_record("b", repetition=2),
        a_record("c", runner="other", status=Status.ERROR, report=None),
    ]
    chosen = EXPORTS.get(format_)()
    path = tmp_path / f"run.{format_.removeprefix('agentv-')}"
    pieces = chosen.pieces(records, ExportOptions(name="current", at=NOON))
    (write_folder if chosen.folder else write_file)(pieces, path)

    imported = read_result_file(path)

    assert imported.frame.select("suite", "runner", "case_id", "repetition", "status", "score").rows() == [
        ("maths", "solver", "a", 1, "passed", 1.0),
        ("maths", "solver", "b", 1, "failed", 0.5),
        ("maths", "solver", "b", 2, "passed", 1.0),
        ("maths", "other", "c", 1, "error", None),
    ]
    assert imported.at is not None


@pytest.mark.parametrize(
    ("row", "status", "score"),
    [
        pytest.param({}, "passed", 0.9, id="ok"),
        pytest.param({"execution_status": "quality_failure", "score": 0.7}, "failed", 0.7, id="failed"),
        pytest.param({"execution_status": "execution_error", "score": 0}, "error", None, id="error-is-not-zero"),
        pytest.param({"execution_status": None, "score": 0.79}, "failed", 0.79, id="older-file-below-the-mark"),
        pytest.param({"execution_status": None, "score": 1}, "passed", 1.0, id="older-file"),
        pytest.param({"status": "expected-failed", "score": 0}, "expected-failed", 0.0, id="our-own-word"),
        pytest.param({"status": "error", "score": None}, "error", None, id="ungraded"),
    ],
)
def test_a_row_tells_status_and_score(tmp_path: Path, row: dict[str, Any], status: str, score: float | None) -> None:
    imported = read_result_file(written(tmp_path / "index.jsonl", ROW | row)).frame

    assert imported.select("status", "score").rows() == [(status, score)]


def test_older_rows_in_camel_case_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "results.jsonl", {"testId": "c1", "target": "r", "score": 0.5})

    assert read_result_file(path).frame.select("suite", "runner", "case_id", "score").rows() == [("", "r", "c1", 0.5)]


def test_a_run_begins_with_its_first_row_else_when_its_folder_says(tmp_path: Path) -> None:
    later = {**ROW, "timestamp": "2026-03-01T13:00:00.000Z"}
    timed = written(tmp_path / "timed" / "index.jsonl", later, ROW)
    named = written(tmp_path / "2026-03-01T12-00-00-000Z" / "index.jsonl", {**ROW, "timestamp": None})
    silent = written(tmp_path / "silent" / "index.jsonl", {**ROW, "timestamp": "soon"})

    assert read_result_file(timed.parent).at == read_result_file(named.parent).at == NOON
    assert read_result_file(silent).at is None


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("index.jsonl", ["{"], "index.jsonl:1: not JSON"),
        ("index.jsonl", [ROW, "[1]"], "index.jsonl:2: expected an object with test_id and score"),
        ("index.jsonl", [ROW | {"score": "high"}], 'index.jsonl:1: score: expected a number, got "high"'),
        ("index.jsonl", [ROW | {"score": True}], "index.jsonl:1: score: expected a number, got true"),
        ("index.jsonl", ['{"test_id": "c", "score": 1e999}'], "index.jsonl:1: not JSON: number is infinity"),
        ("index.jsonl", [ROW | {"test_id": 7}], "index.jsonl:1: test_id: expected a text, got 7"),
        ("x.jsonl", [OWN | {"status": "good"}], "x.jsonl:1: status: expected one of passed, failed,"),
        ("x.jsonl", [OWN, OWN | {"score": None}], "x.jsonl:2: score: expected a number, got null"),
        ("x.jsonl", [OWN | {"runner": 7}], "x.jsonl:1: runner: expected a text, got 7"),
        ("x.jsonl", ["[1]"], "x.jsonl:1: expected an object with case_id and score"),
        ("x.json", [{"rows": []}], "x.json: results: expected a list"),
        ("x.json", ["no"], "x.json: not JSON"),
    ],
)
def test_a_file_that_holds_no_results_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, lines: list[Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputError) as caught:
        read_result_file(written(tmp_path / name, *lines))

    assert str(caught.value).startswith(message)


def test_a_folder_without_an_index_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a run folder has an index\.jsonl"):
        read_result_file(tmp_path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
ODD_FIELDS = st.fixed_dictionaries({}, optional=dict.fromkeys((*ROW, *OWN, "testId"), ANYTHING))
ODD_ROW = ODD_FIELDS | ODD_FIELDS.map(lambda odd: ROW | odd) | ODD_FIELDS.map(lambda odd: OWN | odd)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ODD_ROW | ANYTHING, max_size=3).map(lambda rows: "\n".join(map(json.dumps, rows))) | st.text(max_size=9),
    st.sampled_from(["index.jsonl", "results.jsonl", "results.json"]),
)
def test_any_file_holds_results_or_says_what_is_wrong(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    try:
        imported = read_result_file(path).frame
    except InputError as error:
        assert error.place.file
    else:
        assert imported.filter(imported["status"] != "error")["score"].is_finite().all()
