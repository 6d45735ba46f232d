"""`mini-swe-agent`: the trajectory that mini-swe-agent keeps (`session`, a file `*.traj.json`).

The run ends by a command that submits the answer; it is recorded as not carried out and is no command here. A session
that was killed has no trajectory; then what it printed is read. The trajectory is unverified: written from the
description of format 1.1, not from recordings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from eval_pipeline.agents.mini_swe_agent.printed import SUBMISSION, read_printed
from eval_pipeline.agents.session_endings import (
    Ending,
    ReadSession,
    cut_short,
    failed,
    json_or_none,
    session_report,
    summed,
    with_answer,
)
from eval_pipeline.agents.session_entries import CallReader, Entry, ToolCall, ToolOutcome, command_call, spoken
from eval_pipeline.failures import MAX_STEPS, FailureClass
from eval_pipeline.reports.jsonl_records import JsonMap, amount, count, listing, mapping, shown, text
from eval_pipeline.reports.model import MessageEvent, SessionReport, Usage
from eval_pipeline.reports.normalize import RawSession
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {"bash": "command"}
READERS: Mapping[str, CallReader] = {"bash": command_call}
_STATUSES: Mapping[str, FailureClass] = {"LimitsExceeded": MAX_STEPS}


class MiniSweAgentNormalizer:
    """One run of mini-swe-agent by its trajectory (`session`), else by what it printed."""

    version = "3"

    def normalize(self, material: RawSession) -> SessionReport:
        if material.document("session") is None and (printed := material.ends("stdout")):
            return session_report(material, read_printed(printed, material.ends("stderr")), READERS)
        trajectory, unknown = mapping(json_or_none(material.document("session"))), Counter[str]()
        info = mapping(trajectory.get("info"))
        messages = [mapping(message) for message in listing(trajectory.get("messages"))]
        config = mapping(mapping(info.get("config")).get("model"))
        session = ReadSession(
            entries=tuple(
                entry
                for number, message in enumerate(messages, start=1)
                for entry in _entries(message, number, unknown)
            ),
            ending=_ending(info, printed=bool(material.ends("stdout")), stderr=material.ends("stderr")),
            usage=_usage(messages, mapping(info.get("model_stats"))),
            model=text(config.get("model_name")),
            agent_version=text(info.get("mini_version")),
            model_calls=count(mapping(info.get("model_stats")).get("api_calls")),
            unknown=unknown,
        )
        return session_report(material, session, READERS)


def _entries(message: JsonMap, number: int, unknown: Counter[str]) -> Iterator[Entry]:
    role, content = text(message.get("role")) or "no role", shown(message.get("content"))
    if role == "user" and content:
        yield MessageEvent(role="user", text=content, line=number)
    elif role == "assistant":
        yield from spoken(content, at=None, line=number)
        for call in map(mapping, listing(message.get("tool_calls"))):
            function = mapping(call.get("function"))
            raw = function.get("arguments")
            arguments = json_or_none(raw) if isinstance(raw, str) else raw
            if SUBMISSION not in str(mapping(arguments).get("command")):
                name = text(function.get("name")) or ""
                yield ToolCall(id=text(call.get("id")), tool=name, raw_arguments=arguments, line=number)
    elif role == "tool":
        yield from _outcome(message, content, number)
    elif role not in ("user", "system", "exit"):
        unknown[role] += 1


def _outcome(message: JsonMap, content: str, number: int) -> Iterator[ToolOutcome]:
    """The result of a command; the submission has a negative code and is left out."""
    extra = mapping(message.get("extra"))
    exit_code = count(extra.get("returncode"))
    if exit_code is not None or not isinstance(extra.get("returncode"), int):
        yield ToolOutcome(
            id=text(message.get("tool_call_id")),
            output=text(extra.get("raw_output")) or content,
            is_error=bool(exit_code) or bool(extra.get("exception_info")),
            exit_code=exit_code,
            line=number,
        )


def _ending(info: JsonMap, *, printed: bool, stderr: str | None) -> Ending:
    status = text(info.get("exit_status"))
    if status is None:
        return cut_short(printed=printed, stderr=stderr)
    if status != "Submitted":
        return failed(status, failure=_STATUSES.get(status))
    return with_answer(text(info.get("submission")))


def _usage(messages: Sequence[JsonMap], stats: JsonMap) -> Usage:
    """The sum over the model calls, as the provider counted them; the cost is litellm's."""
    replies = [mapping(mapping(message.get("extra")).get("response")) for message in messages]
    usages = [mapping(reply.get("usage")) for reply in replies]
    cost = amount(stats.get("instance_cost"))
    return Usage(
        input_tokens=summed(usages, "prompt_tokens"),
        cached_input_tokens=summed([mapping(usage.get("prompt_tokens_details")) for usage in usages], "cached_tokens"),
        output_tokens=summed(usages, "completion_tokens"),
        reasoning_tokens=summed(
            [mapping(usage.get("completion_tokens_details")) for usage in usages], "reasoning_tokens"
        ),
        cost_usd=cost or None,
        cost_source="reported" if cost else None,
    )
