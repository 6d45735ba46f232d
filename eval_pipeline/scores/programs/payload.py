"""The JSON object on the standard input of a grading program: AgentV's, so that users' scripts run unchanged.

It has two shapes. AgentV 4.9 has the messages under `output`; its later versions have the text of the answer under
`output`, the whole conversation under `messages`, and that with its events under `trace`. The rest is the same in both.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.messages import output_messages
from eval_pipeline.scores.model import Subject
from eval_pipeline.scores.programs.messages import authored, token_usage, trace_summary, with_prompt
from eval_pipeline.scores.programs.trace_events import full_trace
from eval_pipeline.suites.model import EvaluatorSpec

Shape = Literal["messages", "text"]
_PROGRAMS = ("code-grader", "code_grader")
_MEMBERS = ("assertions", "assert", "evaluators")
INLINE_CHARS = 50_000
_SUFFIXES = {"image/jpeg": "jpg", "image/svg+xml": "svg"}


def with_payload(spec: EvaluatorSpec, shape: str | None) -> EvaluatorSpec:
    """Return an evaluator whose grading programs have this shape where they have none of their own; None: as it is."""
    if shape is None:
        return spec
    config = _with_payload(spec.config, is_program=spec.type in _PROGRAMS, shape=shape)
    return spec if config is spec.config else replace(spec, config=config)


def _with_payload(config: Mapping[str, Any], *, is_program: bool, shape: str) -> Mapping[str, Any]:
    """Return the arguments of an evaluator, its grading programs with this shape where they have none of their own.

    `is_program` is whether it is such a program itself; programs of prompts and members of composites are found.
    """
    changed: dict[str, Any] = {"payload": shape} if is_program and "payload" not in config else {}
    prompt = config.get("prompt")
    if isinstance(prompt, Mapping) and "command" in prompt and "payload" not in prompt:
        changed["prompt"] = {**prompt, "payload": shape}
    for key in _MEMBERS:
        if isinstance(config.get(key), list):
            changed[key] = [_member_with_payload(member, shape) for member in config[key]]
    return {**config, **changed} if changed else config


def _member_with_payload(member: Any, shape: str) -> Any:
    if not isinstance(member, Mapping):
        return member
    return _with_payload(member, is_program=member.get("type") in _PROGRAMS, shape=shape)


def grading_payload(subject: Subject, config: Mapping[str, Any] | None, shape: Shape, folder: Path) -> dict[str, Any]:
    """Return the object for one subject. Large outputs and images are written to `folder` and named by their path.

    Unknown facts are null, never 0. `answer`, `messages`, `metadata`, `test_id` and `trace_summary` are additions to
    AgentV 4.9, `test_id` to the later versions.
    """
    case, report = subject.case, subject.report
    messages = output_messages(report)
    summary = trace_summary(report, messages)
    prompt = with_image_files(authored(case.input), folder / "input")
    if shape == "text":
        messages = with_prompt(prompt, messages)
    return {
        "criteria": case.criteria or "",
        "expected_output": with_image_files(authored(case.expected_output), folder / "expected"),
        **_output(messages if shape == "messages" else report.final_output, folder),
        "input_files": list(case.files),
        "input": prompt,
        "trace": summary if shape == "messages" or summary is None else full_trace(report, summary, messages),
        "token_usage": token_usage(report.usage),
        "cost_usd": report.usage.cost_usd,
        "duration_ms": report.duration_ms,
        "start_time": report.started_at,
        "end_time": report.ended_at,
        "file_changes": report.file_changes,
        "workspace_path": str(subject.workspace) if subject.workspace is not None else None,
        "config": dict(config) if config else None,
        **({"answer": report.final_output} if shape == "messages" else {}),
        "messages": messages,
        "metadata": dict(case.metadata),
        "test_id": case.id,
        "trace_summary": summary,
    }


def _output(output: Sequence[Any] | str | None, folder: Path) -> dict[str, Any]:
    """The output itself, or null and the path of a JSON file when it is long."""
    text = to_json(output)
    if len(text) <= INLINE_CHARS:
        return {"output": output}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "output.json"
    path.write_bytes(text)
    return {"output": None, "output_path": str(path)}


def with_image_files(messages: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return the messages with each inline image written to a file and named by `path`."""
    number = 0
    for message in messages:
        if not isinstance(message.get("content"), list):
            continue
        parts = []
        for part in message["content"]:
            data = _image_data(part)
            if data is not None:
                number += 1
                part = {**part, "path": str(_write_image(data, part, folder / f"image-{number}"))}
            parts.append(part)
        message["content"] = parts
    return messages


def _image_data(part: Any) -> bytes | None:
    source = part.get("source") if isinstance(part, Mapping) and part.get("type") == "image" else None
    if not isinstance(source, str) or not source.startswith("data:") or ";base64," not in source:
        return None
    try:
        return base64.b64decode(source.partition(";base64,")[2], validate=True)
    except binascii.Error:
        return None


def _write_image(data: bytes, part: Mapping[str, Any], stem: Path) -> Path:
    media_type = str(part.get("media_type") or "")
    suffix = _SUFFIXES.get(media_type) or media_type.rpartition("/")[2] or "bin"
    path = stem.with_suffix("." + "".join(sign for sign in suffix if sign.isalnum()))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
