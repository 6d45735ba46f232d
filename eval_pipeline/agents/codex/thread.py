"""Codex's records → a thread: what the agent said and did, in order of first sight.

Here is what the generations of the format call differently: events printed by `codex exec --json` (`item.…`, before
them `msg`), and items and history kept in a rollout file. A call is put together from all the records that tell of it.
How a thread becomes a report is in `normalizers/codex.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from eval_pipeline.agents.session_events import resolved
from eval_pipeline.agents.shell_reads import unwrap_shell
from eval_pipeline.reports.jsonl_records import (
    JsonMap,
    Record,
    amount,
    count,
    first,
    listing,
    mapping,
    moment,
    parse_json,
    shown,
    text,
)
from eval_pipeline.reports.model import ErrorEvent, Event, MessageEvent, RetryEvent

How = Literal["create", "edit", "delete"]

_SHELL_TOOLS = frozenset({
    "exec_command", "shell", "shell_command", "local_shell", "local_shell_call", "container.exec", "bash",
})  # fmt: skip
_HOW: dict[str, How] = {"add": "create", "update": "edit", "delete": "delete"}
_DONE = {"completed": True, "failed": False, "declined": False}
_HARNESS_TEXTS = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "<skill>", "# AGENTS.md instruct")

_COMMAND_LINE = re.compile(r"\ACommand:\s+(?P<command>.+)$", re.MULTILINE)
_EXIT_CODE = re.compile(r"(?:^Process exited with code |^Exit code: )(\d{1,5})$", re.MULTILINE)
_OUTPUT_BEGINS = re.compile(r"^Output:\n", re.MULTILINE)
_SUCCEEDED = re.compile(r"\AScript completed\b")
_FAILED = re.compile(
    r"\A(?:unsupported call|failed to parse function arguments|Script failed|exec_command failed"
    r"|apply_patch verification failed|(?:Wall time: [\d.]+ seconds\n)?aborted by user)\b"
)
_PATCHED = re.compile(r"^\*\*\* (?P<how>Add|Update|Delete) File: (?P<path>.+)$", re.MULTILINE)
_RETRY = re.compile(
    r"(?:reconnecting\W*|retrying )(?P<attempt>\d{1,9})/(?P<limit>\d{1,9})"
    r"(?: in (?P<delay>\d{1,9}(?:\.\d{1,9})?)(?P<unit>ms|s)\b)?",
    re.IGNORECASE,
)
_STATUS = re.compile(r"\bstatus:? (?:code )?([45]\d\d)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """One record: its kind (`item/…` printed, `response/…`, `kept/…` and `event/…` in a rollout), what it says, and
    where it stood."""

    kind: str
    body: JsonMap
    at: str | None
    line: int


@dataclass(slots=True)
class Call:
    """One thing the agent did, filled in as records tell of it.

    `tool` is None for what a tool's own script did (code mode); `is_error` None while nothing says.
    """

    id: str | None
    at: str | None
    line: int
    folder: str | None = None
    tool: str | None = None
    arguments: Any = None
    command: str | None = None
    writes: dict[str, How] = field(default_factory=dict)
    exit_code: int | None = None
    output: str | None = None
    is_error: bool | None = None
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Where the result of a call stood, and its text."""

    call: Call
    output: str
    at: str | None
    line: int


@dataclass(slots=True)
class Thread:
    """What has been read so far. `ending` is None while nothing tells how the run ended."""

    folder: str | None
    told: list[Event | Call | Answer] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    last_words: str | None = None
    ending: Literal["completed", "failed"] | None = None
    error: str | None = None
    error_kind: Any = None
    retried: bool = False
    ttft_ms: float | None = None
    unknown: Counter[str] = field(default_factory=Counter)

    def knows(self, step: Step) -> bool:
        """Whether the call that a step tells of has been seen."""
        return _call_id(step) in self.calls

    def call(self, step: Step) -> Call:
        """The call that a step tells of, begun when it is new."""
        id_ = _call_id(step)
        if id_ is not None and id_ in self.calls:
            return self.calls[id_]
        call = Call(id_, step.at, step.line, folder=self.folder)
        self.told.append(call)
        if id_ is not None:
            self.calls[id_] = call
        return call

    def answer(self, call: Call, output: str, step: Step) -> None:
        self.told.append(Answer(call, output, step.at, step.line))

    def say(self, message: MessageEvent) -> None:
        """Adds a message, unless it is the last one told again (rollouts tell each twice, retries repeat thoughts)."""
        last = next((event for event in reversed(self.told) if not isinstance(event, RetryEvent)), None)
        again = isinstance(last, MessageEvent) and (last.role, last.text) == (message.role, message.text)
        if message.text and not again:
            self.told.append(message)


def step_of(record: Record) -> Step:
    """A record as a step."""
    value = record.value
    body = mapping(first(value, "payload", "msg", "item")) or value
    kind = _kind(record, body)
    if kind.startswith("kept/"):
        body = mapping(body.get("item"))
    return Step(kind, body, moment(value.get("timestamp")), record.line)


def _kind(record: Record, body: JsonMap) -> str:
    type_ = record.type
    inner = text(first(body, "type", "item_type")) or "no type"
    if type_ in ("item.started", "item.updated", "item.completed"):
        return f"item/{inner}" if type_ == "item.completed" or inner in _TWO_PART_ITEMS else "item/in progress"
    if type_ == "event_msg" and inner == "item_completed":
        return f"kept/{text(mapping(body.get('item')).get('type')) or 'no type'}"
    if type_ == "event_msg" or (not type_ and "msg" in record.value):
        return f"event/{inner}"
    if type_ == "response_item" or f"response/{type_}" in _KINDS:
        return f"response/{inner}"
    return type_ or "no type"


def own_turns(kept: Sequence[Step], printed: Sequence[Step]) -> Sequence[Step]:
    """The part of a rollout that belongs to this run: the rollout of a resumed thread begins with earlier turns."""
    begins = [index for index, step in enumerate(kept) if step.kind == "event/task_started"]
    if not printed or not begins:
        return kept
    wanted = max(1, sum(step.kind == "turn.started" for step in printed))
    return kept[begins[max(0, len(begins) - wanted)] :]


def read_thread(kept: Sequence[Step], printed: Sequence[Step], *, folder: str | None) -> Thread:
    """The thread that a rollout's own turns tell, completed by what was printed; without a rollout what was printed."""
    thread = Thread(folder)
    rich = any(step.kind.startswith(("response/", "kept/")) for step in kept)
    for step in kept if rich else printed:
        _tell(step, thread)
    for step in printed if rich else ():
        if step.kind in _ONLY_PRINTED or step.kind not in _KINDS:
            _tell(step, thread)
    if rich:
        _add_unfinished(printed, thread)
    says_how_it_ended = printed or any(step.kind == "event/task_started" for step in kept)
    if thread.ending is None and thread.last_words and not says_how_it_ended:
        thread.ending = "completed"  # older rollouts stop after the last words
    return thread


def _add_unfinished(printed: Sequence[Step], thread: Thread) -> None:
    """Commands that were running when the run was killed: code mode keeps them only once they are done."""
    known = {call.command for call in thread.told if isinstance(call, Call)}
    items = {_call_id(step): step for step in printed if step.kind == "item/command_execution"}
    for step in items.values():
        command = _command(step.body.get("command"))
        if step.body.get("status") == "in_progress" and command is not None and command not in known:
            thread.told.append(Call(None, step.at, step.line, folder=thread.folder, command=command))


def status_in(message: str) -> int | None:
    """The HTTP status that an error's text names."""
    match = _STATUS.search(message)
    return int(match[1]) if match is not None else None


def _tell(step: Step, thread: Thread) -> None:
    tell = _KINDS.get(step.kind)
    if tell is not None:
        tell(step, thread)
    elif step.kind not in _QUIET_KINDS:
        thread.unknown[step.kind] += 1


def _call_id(step: Step) -> str | None:
    return text(first(step.body, "call_id", "callId", "id"))


# What was said


def _said(step: Step, thread: Thread) -> None:
    """An assistant's message; even an empty one is its last words."""
    words = _words(step, "text", "message")
    commented = step.body.get("phase") == "commentary"
    if not commented:
        thread.last_words = words
    thread.say(MessageEvent(role="assistant", text=words, phase="commentary", at=step.at, line=step.line))


def _thought(step: Step, thread: Thread) -> None:
    body = step.body
    words = _words(step, "text") or shown(first(body, "summary_text", "summary"))
    thread.say(MessageEvent(role="assistant", text=words, phase="thinking", at=step.at, line=step.line))


def _message(step: Step, thread: Thread) -> None:
    """A message of the thread's history; `developer` and `system` are the CLI's instructions, no part of the talk."""
    tell = {"assistant": _said, "user": _user_said}.get(str(step.body.get("role")))
    if tell is not None:
        tell(step, thread)


def _user_said(step: Step, thread: Thread) -> None:
    words = _words(step, "text", "message")
    injected = words.startswith(_HARNESS_TEXTS)
    thread.say(MessageEvent(role="user", text=words, injected=injected, at=step.at, line=step.line))


def _words(step: Step, *names: str) -> str:
    return text(first(step.body, *names)) or shown(listing(step.body.get("content")))


# What was called


def _function_call(step: Step, thread: Thread) -> None:
    body = step.body
    call = thread.call(step)
    call.tool = text(first(body, "name", "tool")) or text(body.get("type"))
    call.arguments = _arguments(first(body, "arguments", "args", "input", "action"))
    given = mapping(call.arguments)
    call.folder = resolved(text(first(given, "workdir", "cwd", "working_directory")) or ".", thread.folder)
    if call.tool in _SHELL_TOOLS:
        call.command = call.command or _command(first(given, "cmd", "command"))
    elif call.tool == "apply_patch":
        for match in _PATCHED.finditer(text(first(given, "input", "patch")) or str(call.arguments)):
            call.writes.setdefault(resolved(match["path"].strip(), thread.folder), _HOW[match["how"].lower()])


def _arguments(raw: Any) -> Any:
    """Arguments as JSON when they are JSON, else as the text they are."""
    if not isinstance(raw, str):
        return raw
    try:
        return parse_json(raw)
    except (ValueError, RecursionError):
        return raw


def _command(raw: Any) -> str | None:
    """The script a shell was given: from a text or a list of words, without `bash -lc`."""
    if isinstance(raw, list) and raw and all(isinstance(word, str) for word in raw):
        return unwrap_shell(raw)
    return unwrap_shell(raw) if isinstance(raw, str) and raw.strip() else None


def _function_output(step: Step, thread: Thread) -> None:
    output = shown(step.body.get("output"))
    named = _COMMAND_LINE.search(output)
    asked = thread.knows(step) or named is not None
    call = thread.call(step) if asked else Call(_call_id(step), step.at, step.line)
    if named is not None and call.command is None:
        call.command, call.tool = _command(named["command"]), call.tool or "exec_command"
    _read_output(call, output)
    thread.answer(call, output, step)


def _read_output(call: Call, output: str) -> None:
    """What the text of a result says of exit code and output, unless an item has said it already."""
    structured = mapping(_arguments(output)) if output.startswith("{") else {}
    match = _EXIT_CODE.search(output)
    code = int(match[1]) if match is not None else count(mapping(structured.get("metadata")).get("exit_code"))
    if call.exit_code is None and code is not None:
        begin = _OUTPUT_BEGINS.search(output)
        plain = output[begin.end() :] if begin is not None else output
        call.exit_code, call.output = code, text(structured.get("output")) or plain
    if call.is_error is None:
        said = True if _FAILED.search(output) else False if _SUCCEEDED.match(output) else None
        call.is_error = call.exit_code != 0 if call.exit_code is not None else said


def _command_item(step: Step, thread: Thread) -> None:
    """A command as an item (printed or kept) or as its begin and end events (older)."""
    body, new = step.body, not thread.knows(step)
    call = thread.call(step)
    call.command = _command(body.get("command")) or call.command
    call.folder = _folder(body.get("cwd")) or call.folder
    if new and _by_model(step):
        call.tool, call.arguments = "command_execution", {"command": call.command}
    if body.get("status") != "in_progress" and "exit_code" in body:
        call.exit_code = count(body.get("exit_code"))
        call.output = shown(body.get("aggregated_output", _streams(body)))
        call.is_error = call.exit_code != 0
        call.duration_ms = _duration(body.get("duration"))
        if _by_model(step):
            thread.answer(call, call.output, step)


def _by_model(step: Step) -> bool:
    """Whether the record stands for the model's call itself; in a rollout that has a record of its own."""
    return not step.kind.startswith("kept/")


def _streams(body: JsonMap) -> str:
    return "".join(text(body.get(name)) or "" for name in ("stdout", "stderr"))


def _folder(raw: Any) -> str | None:
    """A folder given as a path or as a file URL."""
    location = text(raw)
    return unquote(urlsplit(location).path) if location and location.startswith("file:///") else location


def _duration(raw: Any) -> float | None:
    seconds, nanos = amount(mapping(raw).get("secs")), amount(mapping(raw).get("nanos"))
    return None if seconds is None and nanos is None else (seconds or 0.0) * 1000 + (nanos or 0.0) / 1e6


def _change_item(step: Step, thread: Thread) -> None:
    """Files changed by a patch: a list of changes (printed) or changes by path (kept, older events)."""
    body, new = step.body, not thread.knows(step)
    call = thread.call(step)
    call.writes = {resolved(path, thread.folder): how for path, how in _changes(body.get("changes"))} or call.writes
    if new and _by_model(step):
        call.tool, call.arguments = "file_change", {"changes": body.get("changes")}
    done = _DONE.get(str(body.get("status")), body.get("success"))
    if isinstance(done, bool):
        call.is_error = not done
        if _by_model(step):
            thread.answer(call, _streams(body), step)


def _changes(raw: Any) -> Iterator[tuple[str, How]]:
    for change in map(mapping, listing(raw)):
        if path := text(change.get("path")):
            yield path, _HOW.get(str(change.get("kind")), "edit")
    for path, detail in mapping(raw).items():
        kind = mapping(detail).get("type") or next(iter(mapping(detail)), None)
        if path:
            yield path, _HOW.get(str(kind), "edit")


def _other_tool(step: Step, thread: Thread) -> None:
    """Calls of other servers' tools and web searches, told once when begun and once when done."""
    body, new = step.body, not thread.knows(step)
    call = thread.call(step)
    invoked = mapping(body.get("invocation")) or body
    if new:
        call.tool = _tool_name(invoked)
        call.arguments = _arguments(first(invoked, "arguments", "query", "action"))
    result, error, status = body.get("result"), body.get("error"), text(body.get("status"))
    if result is not None or error is not None or status in _DONE:
        call.is_error = error is not None or status == "failed" or "Err" in mapping(result)
        thread.answer(call, shown(error if error is not None else mapping(result).get("content", result)), step)


def _tool_name(invoked: JsonMap) -> str:
    server, tool = text(invoked.get("server")), text(invoked.get("tool"))
    return f"mcp:{server}/{tool}" if server and tool else "web_search"


# What went wrong, and the end


def _warning(step: Step, thread: Thread) -> None:
    message = _error_text(step)
    if message:
        thread.told.append(ErrorEvent(message=message, status=status_in(message), at=step.at, line=step.line))


def _error_text(step: Step) -> str:
    return text(step.body.get("message")) or shown(mapping(step.body.get("error")).get("message"))


def _error(step: Step, thread: Thread) -> None:
    """An error of the stream: a retry says so, any other may be the end."""
    message = _error_text(step)
    match = _RETRY.search(message)
    if match is None:
        thread.error, thread.error_kind = message or thread.error, step.body.get("codex_error_info")
        _warning(step, thread)
        return
    thread.retried = True
    thread.told.append(
        RetryEvent(
            attempt=int(match["attempt"]),
            limit=int(match["limit"]),
            delay_ms=float(match["delay"]) * (1000 if match["unit"] == "s" else 1) if match["delay"] else None,
            status=status_in(message),
            message=message,
            at=step.at,
            line=step.line,
        )
    )


def _turn_completed(step: Step, thread: Thread) -> None:
    thread.ttft_ms = amount(step.body.get("time_to_first_token_ms")) or thread.ttft_ms
    failure = mapping(step.body.get("error"))
    if not failure:
        thread.ending = thread.ending or "completed"
        return
    thread.ending, thread.error_kind = "failed", failure.get("codex_error_info")
    thread.error = text(failure.get("message")) or thread.error


def _turn_failed(step: Step, thread: Thread) -> None:
    thread.ending = "failed"
    reason = text(step.body.get("reason"))
    aborted = f"the turn was aborted: {reason}" if reason is not None else None
    thread.error = _error_text(step) or thread.error or aborted


_KINDS: Mapping[str, Callable[[Step, Thread], None]] = {
    "error": _error,
    "event/agent_message": _said,
    "event/agent_reasoning": _thought,
    "event/error": _error,
    "event/exec_command_begin": _command_item,
    "event/exec_command_end": _command_item,
    "event/mcp_tool_call_begin": _other_tool,
    "event/mcp_tool_call_end": _other_tool,
    "event/patch_apply_begin": _change_item,
    "event/patch_apply_end": _change_item,
    "event/stream_error": _error,
    "event/task_complete": _turn_completed,
    "event/turn_aborted": _turn_failed,
    "event/user_message": _user_said,
    "event/warning": _warning,
    "item/agent_message": _said,
    "item/assistant_message": _said,
    "item/command_execution": _command_item,
    "item/error": _warning,
    "item/file_change": _change_item,
    "item/mcp_tool_call": _other_tool,
    "item/reasoning": _thought,
    "item/web_search": _other_tool,
    "kept/AgentMessage": _said,
    "kept/CommandExecution": _command_item,
    "kept/FileChange": _change_item,
    "kept/Reasoning": _thought,
    "kept/UserMessage": _user_said,
    "response/custom_tool_call": _function_call,
    "response/custom_tool_call_output": _function_output,
    "response/function_call": _function_call,
    "response/function_call_output": _function_output,
    "response/local_shell_call": _function_call,
    "response/message": _message,
    "response/reasoning": _thought,
    "response/web_search_call": _function_call,
    "turn.completed": _turn_completed,
    "turn.failed": _turn_failed,
}
_TWO_PART_ITEMS = frozenset({"command_execution", "file_change", "mcp_tool_call"})
_ONLY_PRINTED = frozenset({"error", "item/error", "turn.completed", "turn.failed"})
_QUIET_KINDS = frozenset({
    "thread.started", "turn.started", "session.created", "session_meta", "turn_context", "world_state", "compacted",
    "token_usage_record", "item/in progress", "item/todo_list", "event/agent_message_delta",
    "event/agent_reasoning_delta", "event/agent_reasoning_section_break", "event/background_event",
    "event/context_compacted", "event/exec_command_output_delta", "event/session_configured", "event/task_started",
    "event/thread_settings_applied", "event/token_count", "event/turn_diff", "response/additional_tools",
    "response/compaction", "response/ghost_snapshot",
})  # fmt: skip
