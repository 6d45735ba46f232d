"""Files of JSONL that are too large to be held: what is kept of them, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolResultEvent
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.reports.record_files import KEPT_RECORDS, LINE_BYTES, is_cut, read_record_file
from eval_pipeline.suites.model import Case

BEGIN = '{"type": "thread.started", "thread_id": "t-1"}\n'
END = '{"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 4}}\n'


def command(number: int, output: str) -> str:
    item = {"id": f"i{number}", "type": "command_execution", "command": f"cat {number}", "exit_code": 0}
    return json.dumps({"type": "item.completed", "item": {**item, "aggregated_output": output}}) + "\n"


def message(text: str) -> str:
    item = {"id": text, "type": "agent_message", "text": text}
    return json.dumps({"type": "item.completed", "item": item}) + "\n"


def report_of(folder: Path, *pieces: str) -> SessionReport:
    path = folder / "stdout"
    path.write_text("".join(pieces))
    raw = RawExecution(format="codex", files={"stdout": path}, exit_code=0)
    return normalize_raw(RawSession(execution_id="e", raw=raw, case=Case(id="c", input=())))


def test_outputs_of_a_usual_session_are_whole(tmp_path: Path) -> None:
    report = report_of(tmp_path, BEGIN, command(1, "x" * 900_000), message("done"), END)

    assert [len(event.output) for event in report.events if isinstance(event, ToolResultEvent)] == [900_000]
    assert report.final_output == "done"


def test_a_thousand_large_outputs_are_cut_and_counted(tmp_path: Path) -> None:
    outputs = (command(number, "x" * 20_000) for number in range(1_000))

    report = report_of(tmp_path, BEGIN, *outputs, message("done"), END)

    results = [event for event in report.events if isinstance(event, ToolResultEvent)]
    assert len(report.commands) == len(results) == 1_000
    assert len(results[0].output) == 20_000
    assert is_cut(results[500].output)
    assert (report.final_output, report.usage.input_tokens, report.session_id) == ("done", 9, "t-1")
    assert sum(len(event.output) for event in results) < 5_000_000


def test_records_in_the_middle_of_very_many_are_left_out_with_a_note(tmp_path: Path) -> None:
    messages = (message(f"m{number}") for number in range(KEPT_RECORDS + 300))

    report = report_of(tmp_path, BEGIN, *messages, END, message("done"))

    (note,) = [event for event in report.events if isinstance(event, MessageEvent) and event.role == "system"]
    assert note.text.startswith(f"103 lines of stdout from line {KEPT_RECORDS + 1:,} on are left out")
    assert report.events[-1] == MessageEvent(role="assistant", text="done", phase="final", line=KEPT_RECORDS + 303)
    assert report.usage.input_tokens == 9


def test_a_sum_needs_the_records_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    step = {"type": "step_finish", "part": {"tokens": {"input": 1, "output": 1}, "reason": "tool-calls"}}
    other = {"type": "text", "part": {"text": "t"}}
    path.write_text("".join(json.dumps(record) + "\n" for record in [step, other] * (KEPT_RECORDS // 2 + 300)))
    raw = RawExecution(format="opencode", files={"stdout": path})

    report = normalize_raw(RawSession(execution_id="e", raw=raw, case=Case(id="c", input=())))

    assert report.usage.input_tokens == KEPT_RECORDS // 2 + 300


@pytest.mark.parametrize(
    "text",
    ["x" * 2_500_000, "\\" * 600_000, '"' * 600_000, "é" * 600_000, "\n\t" * 300_000, "😀" * 100_000],
    ids=["plain", "backslashes", "quotes", "two bytes", "escapes", "surrogates"],
)
def test_a_long_line_is_cut_while_it_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lines"
    value = {"type": "a", "output": text, "after": {"exit_code": 3, "text": 'short "\\ text'}}
    path.write_text(json.dumps(value) + "\n" + json.dumps({"type": "b"}))

    first, second = read_record_file(path).rows

    assert first.value["after"] == {"exit_code": 3, "text": 'short "\\ text'}
    assert is_cut(first.value["output"])
    assert first.value["output"].startswith(text[:50])
    assert text[0] != "x" or first.value["output"].endswith(text[:900])
    assert (second.line, second.type) == (2, "b")


@pytest.mark.parametrize(
    "line", [json.dumps({"a": list(range(400_000))}), '{"a": "' + "x" * 3_000_000], ids=["many values", "no end"]
)
def test_a_long_line_that_cannot_be_cut_is_counted(tmp_path: Path, line: str) -> None:
    path = tmp_path / "lines"
    path.write_text(line + '\n{"type": "b"}\n')

    records = read_record_file(path)

    assert [row.type for row in records.rows] == ["b"]
    assert records.unparsed_lines == 1
    assert len(line) > LINE_BYTES


def test_a_file_that_ends_inside_a_character_is_read_to_there(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"type": "a", "text": "\xc3"}\n{"type": "b", "te\xc3')

    records = read_record_file(path)

    assert [(row.type, row.value.get("text")) for row in records.rows] == [("a", "\ufffd")]
    assert records.unparsed_lines == 1


def test_every_length_of_text_around_the_limit_survives(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    values: list[dict[str, Any]] = [
        {"pad": "p" * LINE_BYTES, "t": "\\" * size + "é\n"} for size in range(2_985, 3_005, 3)
    ]
    path.write_text("".join(json.dumps(value) + "\n" for value in values))

    rows = read_record_file(path).rows

    assert len(rows) == len(values)
    assert rows[0].value["t"][:1_000] == "\\" * 1_000
