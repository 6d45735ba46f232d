"""Results of promptfoo (`eval -o results.json`) → recorded samples.

A test is a case, a provider with one of the prompts a runner, a test that was repeated a repetition. The score of the
test is recorded as `score`, that of each assertion under its metric or its type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import orjson

from eval_pipeline.failures import TARGET_ERROR
from eval_pipeline.fingerprints import canonical_json, to_json
from eval_pipeline.llm.reading import amount, count, mapping, mappings
from eval_pipeline.parsing.source import show_path
from eval_pipeline.reports.events import MessageEvent, RecordedScoreEvent
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.result_logs import OtherKind, RecordedSample, recorded_score
from eval_pipeline.reports.usage import Usage

JsonMap = Mapping[str, Any]
_ERROR = 2
"""The `failureReason` of a test whose provider failed; 1 is a failed assertion."""


class PromptfooResults:
    """Files that `promptfoo eval -o` writes as JSON."""

    patterns: ClassVar[tuple[str, ...]] = ("*.json",)

    def samples(self, path: Path) -> Iterator[RecordedSample]:
        document = _document(path)
        rows = mappings(mapping(document["results"]).get("results"))
        several = len({_template(row) for row in rows}) > 1
        suite = str(mapping(document.get("config")).get("description") or path.stem)
        numbers: dict[bytes, int] = {}
        times: Counter[tuple[int, str]] = Counter()
        labels = _Labels()
        for row in rows:
            number = numbers.setdefault(canonical_json(_identity(row)), len(numbers) + 1)
            runner = labels.runner(row, several)
            times[number, runner] += 1
            yield _sample(row, suite, runner, number, times[number, runner], several)


class _Labels:
    """Names of runners: the provider's, and with several prompts which of them."""

    def __init__(self) -> None:
        self._prompts: dict[str, int] = {}

    def runner(self, row: JsonMap, several: bool) -> str:
        provider = mapping(row.get("provider"))
        name = str(provider.get("label") or provider.get("id") or row.get("provider") or "provider")
        number = self._prompts.setdefault(_template(row), len(self._prompts) + 1)
        return f"{name}-prompt-{number}" if several else name


def _document(path: Path) -> JsonMap:
    try:
        document = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise OtherKind(f"{show_path(path)} is no JSON: {error}") from None
    results = mapping(mapping(document).get("results"))
    if not isinstance(results.get("results"), list):
        raise OtherKind(f"{show_path(path)} is no file of promptfoo: it has no results.results")
    found: JsonMap = document
    return found


def _template(row: JsonMap) -> str:
    return str(row.get("promptId") or mapping(row.get("prompt")).get("label"))


def _identity(row: JsonMap) -> JsonMap:
    test = mapping(row.get("testCase"))
    return {"vars": row.get("vars"), **{key: test.get(key) for key in ("assert", "description", "metadata")}}


def _sample(row: JsonMap, suite: str, runner: str, number: int, repetition: int, several: bool) -> RecordedSample:
    test = mapping(row.get("testCase"))
    variables = mapping(row.get("vars"))
    about = {"description": test.get("description"), "vars": dict(variables) or None}
    return RecordedSample(
        suite=suite,
        runner=runner,
        case_id=f"test-{number}",
        repetition=repetition,
        input=to_json(variables).decode() if several else _messages(mapping(row.get("prompt")).get("raw")),
        metadata={**mapping(test.get("metadata")), **{key: value for key, value in about.items() if value is not None}},
        report=_report(row),
    )


def _messages(prompt: Any) -> str | list[dict[str, Any]]:
    """Return the messages of a prompt that is a chat in JSON; any other as it is."""
    text = str(prompt or "")
    try:
        parsed = orjson.loads(text) if text.lstrip().startswith("[") else None
    except orjson.JSONDecodeError:
        return text
    chat = mappings(parsed)
    if not chat or not all(isinstance(item.get("content"), str) and item.get("role") for item in chat):
        return text
    return [{"role": str(item["role"]), "content": item["content"]} for item in chat]


def _report(row: JsonMap) -> SessionReport:
    response = mapping(row.get("response"))
    output = response.get("output")
    text = output if output is None or isinstance(output, str) else to_json(output).decode()
    failed = row.get("failureReason") == _ERROR
    return SessionReport(
        execution_id="",
        session_id=row.get("id"),
        final_output=text,
        prompt=str(mapping(row.get("prompt")).get("raw") or "") or None,
        usage=_usage(row, response),
        events=tuple(_events(row, text, failed)),
        failure_class=TARGET_ERROR.id if failed else None,
        error=str(row.get("error") or "the provider failed") if failed else None,
        duration_ms=amount(row.get("latencyMs")),
    )


def _usage(row: JsonMap, response: JsonMap) -> Usage:
    used = mapping(response.get("tokenUsage"))
    details = mapping(used.get("completionDetails"))
    cost = amount(response.get("cost"))
    return Usage(
        input_tokens=count(used.get("prompt")),
        cached_input_tokens=count(details.get("cacheReadInputTokens")),
        output_tokens=count(used.get("completion")),
        reasoning_tokens=count(details.get("reasoning")),
        cost_usd=cost,
        cost_source="reported" if cost is not None else None,
    )


def _events(row: JsonMap, text: str | None, failed: bool) -> Iterator[MessageEvent | RecordedScoreEvent]:
    prompt = mapping(row.get("prompt")).get("raw")
    if isinstance(prompt, str) and prompt:
        yield MessageEvent(role="user", text=prompt)
    if text:
        yield MessageEvent(role="assistant", text=text, phase="final")
    if not failed:
        yield from _scores(row)


def _scores(row: JsonMap) -> Iterator[RecordedScoreEvent]:
    grading = mapping(row.get("gradingResult"))
    yield recorded_score("score", row.get("score"), grading.get("reason"))
    yield recorded_score("pass", row.get("success"), grading.get("reason"))
    names: Counter[str] = Counter()
    for part in mappings(grading.get("componentResults")):
        assertion = mapping(part.get("assertion"))
        name = str(assertion.get("metric") or assertion.get("type") or "assertion")
        names[name] += 1
        place = f" {names[name]}" if names[name] > 1 else ""
        yield recorded_score(f"{name}{place}", part.get("score"), part.get("reason"))


FORMAT = PromptfooResults()
