"""One program run for many cases: the input file, and the output parsed into one answer per case."""

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
    """Return JSONL with one line per case: `id`, `prompt` (its input as one text), `input` (its messages), `files`.

    Fields outside a plan's identity (such as metadata) are left out: answers that depend on them would be reused after
    they change.
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
    """Return the answer to each call, in order, from JSONL of `{"id": …}` with the fields of a single answer's file.

    A case without a row fails alone. Raises TargetFailure when the output is ambiguous: a line that is not an object
    with an id, or two rows with one id.
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
            raise TargetFailure(MALFORMED_REPLY, f"line {number} of the batch's output is not an object with an 'id'")
        yield number, str(id_), {key: value for key, value in row.items() if key != "id"}


def _answer(row: Mapping[str, Any] | None, case: str, format_: str) -> RawExecution | TargetFailure:
    """Return the row as a single answer's output. The duration of one case in a batch is unknown."""
    if row is None:
        return TargetFailure(OUTPUT_MISSING, f"the batch's output has no row with the id '{case}'")
    if "error" in row and not is_answer(row):
        row = {**row, "output": None}
    return RawExecution(format=format_, payload={"output": to_json(row).decode(), "elapsed_ms": None})
