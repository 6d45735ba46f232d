"""Steps of Codex that describe calls: functions, commands, patches, tools of other servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from eval_pipeline.agents.codex.steps import Step, call_id_of
from eval_pipeline.agents.codex.thread import Call, How, Thread
from eval_pipeline.agents.session_events import resolved
from eval_pipeline.agents.shell_reads import unwrap_shell
from eval_pipeline.reports.jsonl_records import JsonMap, amount, count, first, listing, mapping, parse_json, shown, text

_SHELL_TOOLS = frozenset({
    "exec_command", "shell", "shell_command", "local_shell", "local_shell_call", "container.exec", "bash",
})  # fmt: skip
_HOW: dict[str, How] = {"add": "create", "update": "edit", "delete": "delete"}
_DONE = {"completed": True, "failed": False, "declined": False}
_COMMAND_LINE = re.compile(r"\ACommand:\s+(?P<command>.+)$", re.MULTILINE)
_EXIT_CODE = re.compile(r"(?:^Process exited with code |^Exit code: )(\d{1,5})$", re.MULTILINE)
_OUTPUT_BEGINS = re.compile(r"^Output:\n", re.MULTILINE)
_SUCCEEDED = re.compile(r"\AScript completed\b")
_FAILED = re.compile(
    r"\A(?:unsupported call|failed to parse function arguments|Script failed|exec_command failed"
    r"|apply_patch verification failed|(?:Wall time: [\d.]+ seconds\n)?aborted by user)\b"
)
_PATCHED = re.compile(r"^\*\*\* (?P<how>Add|Update|Delete) File: (?P<path>.+)$", re.MULTILINE)


def function_call(step: Step, thread: Thread) -> None:
    """A call of a tool by the model."""
    body = step.body
    call = thread.call(step)
    call.tool = text(first(body, "name", "tool")) or text(body.get("type"))
    call.arguments = _arguments(first(body, "arguments", "args", "input", "action"))
    arguments = mapping(call.arguments)
    call.folder = resolved(text(first(arguments, "workdir", "cwd", "working_directory")) or ".", thread.folder)
    if call.tool in _SHELL_TOOLS:
        call.command = call.command or command_of(first(arguments, "cmd", "command"))
    elif call.tool == "apply_patch":
        for match in _PATCHED.finditer(text(first(arguments, "input", "patch")) or str(call.arguments)):
            call.writes.setdefault(resolved(match["path"].strip(), thread.folder), _HOW[match["how"].lower()])


def _arguments(raw: Any) -> Any:
    """Arguments as JSON when they are JSON, else as the text they are."""
    if not isinstance(raw, str):
        return raw
    try:
        return parse_json(raw)
    except (ValueError, RecursionError):
        return raw


def command_of(raw: Any) -> str | None:
    """The script that a shell gets: a text or a list of words, without `bash -lc`."""
    if isinstance(raw, list) and raw and all(isinstance(word, str) for word in raw):
        return unwrap_shell(raw)
    return unwrap_shell(raw) if isinstance(raw, str) and raw.strip() else None


def function_output(step: Step, thread: Thread) -> None:
    """The result of a call of a tool."""
    output = shown(step.body.get("output"))
    named = _COMMAND_LINE.search(output)
    known = thread.knows(step) or named is not None
    call = thread.call(step) if known else Call(call_id_of(step), step.at, step.line)
    if named is not None and call.command is None:
        call.command, call.tool = command_of(named["command"]), call.tool or "exec_command"
    _read_output(call, output)
    thread.answer(call, output, step)


def _read_output(call: Call, output: str) -> None:
    """Adds exit code and output by the text of a result, unless an item has reported them already."""
    structured = mapping(_arguments(output)) if output.startswith("{") else {}
    match = _EXIT_CODE.search(output)
    code = int(match[1]) if match is not None else count(mapping(structured.get("metadata")).get("exit_code"))
    if call.exit_code is None and code is not None:
        begin = _OUTPUT_BEGINS.search(output)
        plain = output[begin.end() :] if begin is not None else output
        call.exit_code, call.output = code, text(structured.get("output")) or plain
    if call.is_error is None:
        by_text = True if _FAILED.search(output) else False if _SUCCEEDED.match(output) else None
        call.is_error = call.exit_code != 0 if call.exit_code is not None else by_text


def command_item(step: Step, thread: Thread) -> None:
    """A command as an item (printed or kept) or as its begin and end events (older)."""
    body, new = step.body, not thread.knows(step)
    call = thread.call(step)
    call.command = command_of(body.get("command")) or call.command
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
    """Whether the record is the model's call itself; in a rollout that has a record of its own."""
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


def change_item(step: Step, thread: Thread) -> None:
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


def other_tool(step: Step, thread: Thread) -> None:
    """A call of another server's tool or a web search: one record when it begins, one when it is done."""
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
