"""Logs of inspect → recorded samples: an epoch is a repetition, a scorer a recorded score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count as count_from
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.errors import InputError
from eval_pipeline.failures import CANCELLED, MAX_STEPS, TARGET_ERROR, TIMEOUT
from eval_pipeline.formats.inspect_ai.archive import JsonMap, open_log
from eval_pipeline.llm.reading import amount, count, mapping, mappings, total
from eval_pipeline.parsing.source import show_path
from eval_pipeline.reports.events import Event, MessageEvent, RecordedScoreEvent, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.result_logs import RecordedSample, recorded_score
from eval_pipeline.reports.usage import Usage, total_usage
from eval_pipeline.suites.model import content_text

_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Correct, incorrect, partial, no answer, and words: the numbers that inspect's own `value_to_float` gives them."""
_ATTACHMENT = "attachment://"
_MILLISECONDS = 1_000
_LIMITS = {"time": TIMEOUT, "working": TIMEOUT, "operator": CANCELLED}
"""Failure classes of limits, by their type; every other one (messages, tokens, cost, …) is of the agent's steps."""


class InspectLogs:
    """Logs of inspect, in both of its formats."""

    patterns: ClassVar[tuple[str, ...]] = ("*.eval", "*.json")

    def samples(self, path: Path) -> Iterator[RecordedSample]:
        with open_log(path) as (header, samples):
            about = mapping(header.get("eval"))
            task, model = about.get("task"), about.get("model")
            if not isinstance(task, str) or not isinstance(model, str):
                raise InputError(f"{show_path(path)} is no log of inspect: it names no task and model")
            scorers = _scores_of(str(scorer["name"]) for scorer in mappings(about.get("scorers")) if "name" in scorer)
            for sample in samples:
                yield _sample(_with_attachments(sample), task, model, scorers)


def _scores_of(scorers: Iterable[str]) -> tuple[str, ...]:
    """Return the names that samples have for the scores of these scorers: without the package that a scorer is from,
    the second one of a name with a 1 behind it, and so on."""
    names: list[str] = []
    for scorer in scorers:
        name = scorer.partition("/")[2] or scorer
        numbered = (f"{name}{number or ''}" for number in count_from(0))
        names.append(next(each for each in numbered if each not in names))
    return tuple(names)


def _sample(sample: JsonMap, task: str, model: str, scorers: tuple[str, ...]) -> RecordedSample:
    choices = sample.get("choices")
    target = sample.get("target")
    return RecordedSample(
        suite=task.rpartition("/")[2],
        task=task,
        runner=model,
        case_id=str(sample.get("id")),
        repetition=count(sample.get("epoch")) or 1,
        input=_input(sample.get("input")),
        expected_output=target if isinstance(target, list) else target or None,
        metadata={**mapping(sample.get("metadata")), **({"choices": choices} if choices else {})},
        report=_report(sample, model),
        scorers=scorers,
    )


def _input(given: Any) -> str | list[dict[str, Any]]:
    if not isinstance(given, list):
        return str(given or "")
    return [
        {"role": str(item.get("role", "user")), "content": content_text(item.get("content"))}
        for item in mappings(given)
    ]


def _report(sample: JsonMap, model: str) -> SessionReport:
    messages = mappings(sample.get("messages"))
    failure_class, error = _failure(sample)
    seconds = amount(sample.get("total_time"))
    return SessionReport(
        execution_id="",
        session_id=sample.get("uuid"),
        final_output=_completion(sample),
        model=model,
        usage=_usage(sample),
        events=(*_events(messages), *_scores(sample)),
        failure_class=failure_class,
        error=error,
        started_at=sample.get("started_at"),
        ended_at=sample.get("completed_at"),
        duration_ms=seconds * _MILLISECONDS if seconds is not None else None,
        model_calls=sum(message.get("source") == "generate" for message in messages) or None,
    )


def _failure(sample: JsonMap) -> tuple[str | None, str | None]:
    error, limit = mapping(sample.get("error")), mapping(sample.get("limit"))
    if error:
        return TARGET_ERROR.id, str(error.get("message") or "the sample ended by an error")
    if limit and not sample.get("scores"):
        failure = _LIMITS.get(str(limit.get("type")), MAX_STEPS)
        return failure.id, f"limit of {limit.get('type')} reached: {limit.get('limit')}"
    return None, None


def _completion(sample: JsonMap) -> str | None:
    output = mapping(sample.get("output"))
    completion = output.get("completion")
    if isinstance(completion, str):
        return completion
    first = next(iter(mappings(output.get("choices"))), None)
    return content_text(mapping(first.get("message")).get("content")) if first is not None else None


def _usage(sample: JsonMap) -> Usage:
    """Return the tokens of all models."""
    return total_usage([_of_model(mapping(used)) for used in mapping(sample.get("model_usage")).values()])


def _of_model(used: JsonMap) -> Usage:
    """Return the tokens of a model. Cached tokens are no part of inspect's `input_tokens`; they are of ours."""
    cached, written = count(used.get("input_tokens_cache_read")), count(used.get("input_tokens_cache_write"))
    cost = amount(used.get("total_cost"))
    return Usage(
        input_tokens=total(count(used.get("input_tokens")), cached, written),
        cached_input_tokens=cached,
        cache_write_tokens=written,
        output_tokens=count(used.get("output_tokens")),
        reasoning_tokens=count(used.get("reasoning_tokens")),
        cost_usd=cost,
        cost_source="reported" if cost is not None else None,
    )


def _events(messages: list[JsonMap]) -> Iterator[Event]:
    last = max((place for place, message in enumerate(messages) if message.get("role") == "assistant"), default=-1)
    for place, message in enumerate(messages):
        role, text = str(message.get("role", "")), content_text(message.get("content"))
        for part in mappings(message.get("content")):
            if part.get("type") == "reasoning" and part.get("reasoning"):
                yield MessageEvent(role=role, text=str(part["reasoning"]), phase="thinking")
        if role == "tool":
            yield _result(message, text)
            continue
        if text:
            phase: Any = ("final" if place == last else "commentary") if role == "assistant" else None
            yield MessageEvent(role=role, text=text, phase=phase)
        for call in mappings(message.get("tool_calls")):
            yield ToolCallEvent(
                tool=str(call.get("function", "")), call_id=call.get("id"), arguments=call.get("arguments")
            )


def _result(message: JsonMap, text: str) -> ToolResultEvent:
    error = mapping(message.get("error"))
    return ToolResultEvent(
        tool=message.get("function"),
        call_id=message.get("tool_call_id"),
        output=text or str(error.get("message") or ""),
        is_error=bool(error),
    )


def _scores(sample: JsonMap) -> Iterator[RecordedScoreEvent]:
    """Yield each score; one with several values gives one for each of them."""
    for name, score in mapping(sample.get("scores")).items():
        value, why = mapping(score).get("value"), mapping(score).get("explanation")
        parts = {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        for part, raw in parts.items():
            yield recorded_score(part, _number(raw) if isinstance(raw, str) else raw, why)


def _number(raw: str) -> float | str:
    """Return the number that a text means, as inspect reads it; the text itself for any other."""
    word = _WORDS.get(raw, _WORDS.get(raw.lower()) if len(raw) > 1 else None)
    if word is not None:
        return word
    try:
        return float(raw)
    except ValueError:
        return raw


def _with_attachments(sample: JsonMap) -> JsonMap:
    """Return a sample whose long texts, which are kept apart under `attachments`, are in their places."""
    attachments = mapping(sample.get("attachments"))
    if not attachments:
        return sample
    kept = ("input", "messages", "output", "scores", "target")
    return {**sample, **{key: _resolved(sample.get(key), attachments) for key in kept}}


def _resolved(value: Any, attachments: JsonMap) -> Any:
    if isinstance(value, str):
        return attachments.get(value.removeprefix(_ATTACHMENT), value) if value.startswith(_ATTACHMENT) else value
    if isinstance(value, dict):
        return {key: _resolved(item, attachments) for key, item in value.items()}
    return [_resolved(item, attachments) for item in value] if isinstance(value, list) else value


FORMAT = InspectLogs()
