"""Samples of lm-evaluation-harness (`--log_samples`) → recorded samples.

A document is a case, its metrics are recorded scores; those of a filter other than the only one are named
`metric,filter`, as in the harness's own results. The model is that of the `results_….json` beside the samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import orjson

from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.reading import mapping, mappings
from eval_pipeline.parsing.json_text import read_foreign_json
from eval_pipeline.parsing.source import show_path
from eval_pipeline.reports.events import MessageEvent, RecordedScoreEvent
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.result_logs import RecordedSample, recorded_score
from eval_pipeline.suites.model import content_text

JsonMap = Mapping[str, Any]
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl\Z")
_NO_FILTER = "none"


class LmEvalSamples:
    """Files of samples, one for each task of a run."""

    patterns: ClassVar[tuple[str, ...]] = ("samples_*.jsonl",)

    def samples(self, path: Path) -> Iterator[RecordedSample]:
        rows = _rows(path)
        match = _NAME.match(path.name)
        task, model = match["task"] if match else path.stem, _model(path, match["time"] if match else "")
        filters = {str(row.get("filter", _NO_FILTER)) for row in rows}
        by_document: dict[str, list[JsonMap]] = {}
        for row in rows:
            by_document.setdefault(str(row["doc_id"]), []).append(row)
        for document, each in by_document.items():
            yield from _samples(each, document, task, model, len(filters) > 1)


def _rows(path: Path) -> list[JsonMap]:
    rows: list[JsonMap] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            row = read_foreign_json(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{show_path(path)}:{number}: no JSON: {error}") from None
        if not isinstance(row, dict) or "doc_id" not in row or "arguments" not in row:
            raise InputError(f"{show_path(path)}:{number}: no sample of lm-eval: it has no doc_id and arguments")
        rows.append(row)
    return rows


def _model(path: Path, time: str) -> str:
    """Return the model of the results beside the samples: those of the same time, else any; else the folder's name."""
    beside = sorted(path.parent.glob("results_*.json"), key=lambda each: time not in each.name)
    for file in beside:
        try:
            results = mapping(read_foreign_json(file.read_bytes()))
        except (OSError, orjson.JSONDecodeError):
            continue
        name = results.get("model_name") or results.get("model_source")
        if isinstance(name, str) and name:
            return name
    return path.parent.name


def _samples(
    rows: Sequence[JsonMap], document: str, task: str, model: str, has_filters: bool
) -> Iterator[RecordedSample]:
    first = rows[0]
    requests = _requests(first)
    answers = _answers(first, requests)
    scores = tuple(_scores(rows, has_filters, len(answers)))
    target = first.get("target")
    prompt = _messages(requests[0][0]) if requests else ""
    for repetition, (answer, spoken) in enumerate(answers, start=1):
        yield RecordedSample(
            suite=task,
            runner=model,
            case_id=document,
            repetition=repetition,
            input=prompt,
            expected_output=str(target) if target is not None else None,
            metadata={"doc": first.get("doc")},
            report=_report(model, prompt, answer, spoken, scores),
        )


def _requests(row: JsonMap) -> list[tuple[Any, Any]]:
    """Return the arguments of each request: the context, and the continuation or the settings."""
    given = row.get("arguments")
    each = list(given.values()) if isinstance(given, dict) else _listed(given)
    pairs = [list(item.values()) if isinstance(item, dict) else item for item in each]
    return [(pair[0], pair[1] if len(pair) > 1 else None) for pair in pairs if isinstance(pair, list) and pair]


def _answers(row: JsonMap, requests: Sequence[tuple[Any, Any]]) -> list[tuple[str | None, bool]]:
    """Return the answers of the model: what it generated, each time, or of several continuations the most likely one.

    The second value is whether the model wrote it.
    """
    responses = _listed(row.get("resps"))
    texts = responses[0] if responses and isinstance(responses[0], list) else responses
    if texts and all(isinstance(text, str) for text in texts):
        return [(text, True) for text in texts]
    likelihoods = [_likelihood(response) for response in responses]
    known = [(value, place) for place, value in enumerate(likelihoods) if value is not None]
    if len(known) != len(requests) or len(known) < 2:
        return [(None, False)]
    chosen = requests[max(known)[1]][1]
    return [(chosen.strip() if isinstance(chosen, str) else None, False)]


def _listed(value: Any) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def _likelihood(response: Any) -> float | None:
    """Return the log-likelihood of a continuation, which is stored as `[[value, is_greedy]]`."""
    while isinstance(response, list) and response:
        response = response[0]
    try:
        return float(response)
    except (TypeError, ValueError):
        return None


def _messages(context: Any) -> str | list[dict[str, Any]]:
    """Return a context as a text, or as the messages of a chat, which are stored as JSON."""
    value = context[0] if isinstance(context, list) and len(context) == 1 else context
    try:
        chat = mappings(orjson.loads(value)) if isinstance(value, str) and value.startswith("[{") else mappings(value)
    except orjson.JSONDecodeError:
        chat = []
    if chat and all(item.get("role") for item in chat):
        return [{"role": str(item["role"]), "content": content_text(item.get("content"))} for item in chat]
    return value if isinstance(value, str) else to_json(value).decode()


def _report(
    model: str,
    prompt: str | list[dict[str, Any]],
    answer: str | None,
    spoken: bool,
    scores: Sequence[RecordedScoreEvent],
) -> SessionReport:
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    events = [MessageEvent(role=message["role"], text=message["content"]) for message in asked if message["content"]]
    if answer:
        events.append(MessageEvent(role="assistant", text=answer, phase="final"))
    return SessionReport(
        execution_id="", final_output=answer, model=model, events=(*events, *scores), model_calls=1 if spoken else None
    )


def _scores(rows: Sequence[JsonMap], has_filters: bool, answers: int) -> Iterator[RecordedScoreEvent]:
    """Yield each metric of each filter. Of several answers to a document the harness scores all as one."""
    for row in rows:
        filter_ = str(row.get("filter", _NO_FILTER))
        named = f",{filter_}" if has_filters else ""
        parts = [f"of {to_json(row.get('filtered_resps')).decode()[:200]}"] if has_filters else []
        text = ", ".join([*parts, *([f"one score for {answers} answers"] if answers > 1 else [])])
        for metric in (name for name in _listed(row.get("metrics")) if isinstance(name, str)):
            yield recorded_score(f"{metric}{named}", row.get(metric), text)


FORMAT = LmEvalSamples()
