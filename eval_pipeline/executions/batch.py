"""Many cases in one run of a program: the file it is given, and its output read back, case by case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.answers import is_answer
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.failures import MALFORMED_REPLY, OUTPUT_MISSING
from eval_pipeline.fingerprints import to_json
from eval_pipeline.suites.model import Case


def cases_file(calls: Sequence[Call]) -> bytes:
    """JSONL, a line a case: `id`, `prompt` (its input as one text), `input` (its messages), `files`.

    What does not make a cell another (a case's metadata, say) is not told: answers that went by it would be reused when
    it changed.
    """
    return b"".join(to_json(_line(call.plan.case)) + b"\n" for call in calls)


def _line(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "prompt": prompt_text(case, files="reference"),
        "input": [{"role": message.role, "content": message.content} for message in case.input],
        "files": case.files,
    }


def batch_answers(output: bytes, calls: Sequence[Call], format_: str) -> list[RawExecution | TargetFailure]:
    """The answer to each call, in their order, from JSONL of `{"id": …, and what a single answer's file holds}`.

    A case without a row failed alone. Raises TargetFailure when the output cannot be told apart: a line that is no
    object with an id, two rows of one id.
    """
    rows: dict[str, Mapping[str, Any]] = {}
    for number, id_, row in _rows(output):
        if id_ in rows:
            raise TargetFailure(MALFORMED_REPLY, f"the batch's output has two rows with the id '{id_}' (line {number})")
        rows[id_] = row
    return [_answer(rows.get(call.plan.case.id), call.plan.case.id, format_) for call in calls]


def _rows(output: bytes) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    for number, line in enumerate(output.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            problem = f"line {number} of the batch's output is not valid JSON: {error}"
            raise TargetFailure(MALFORMED_REPLY, problem) from None
        id_ = row.get("id") if isinstance(row, dict) else None
        if not isinstance(id_, (str, int)) or isinstance(id_, bool):
            raise TargetFailure(MALFORMED_REPLY, f"line {number} of the batch's output is no object with an 'id'")
        yield number, str(id_), {key: value for key, value in row.items() if key != "id"}


def _answer(row: Mapping[str, Any] | None, case: str, format_: str) -> RawExecution | TargetFailure:
    """The row as if it were a single answer's output file; how long one case of many took is not known."""
    if row is None:
        return TargetFailure(OUTPUT_MISSING, f"the batch's output has no row with the id '{case}'")
    if "error" in row and not is_answer(row):
        row = {**row, "output": None}
    return RawExecution(format=format_, payload={"output": to_json(row).decode(), "elapsed_ms": None})
