"""Steps of Codex → a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from eval_pipeline.agents.codex.calls import (
    change_item,
    command_item,
    command_of,
    function_call,
    function_output,
    other_tool,
)
from eval_pipeline.agents.codex.messages import (
    assistant_message,
    history_message,
    reasoning,
    stream_error,
    turn_completed,
    turn_failed,
    user_message,
    warning,
)
from eval_pipeline.agents.codex.steps import Step, call_id_of
from eval_pipeline.agents.codex.thread import Call, Thread


def read_thread(kept: Sequence[Step], printed: Sequence[Step], *, folder: str | None) -> Thread:
    """The thread of a rollout's own turns, completed by standard output; without a rollout, of standard output."""
    thread = Thread(folder)
    rich = any(step.kind.startswith(("response/", "kept/")) for step in kept)
    for step in kept if rich else printed:
        _add(step, thread)
    for step in printed if rich else ():
        if step.kind in _ONLY_PRINTED or step.kind not in _BY_KIND:
            _add(step, thread)
    if rich:
        _add_unfinished(printed, thread)
    reports_ending = any(step.kind in _OF_TURNS or step.kind.startswith("item/") for step in (*printed, *kept))
    if thread.ending is None and thread.last_words and not reports_ending:
        thread.ending = "completed"  # older rollouts stop after the last message
    return thread


def _add_unfinished(printed: Sequence[Step], thread: Thread) -> None:
    """Add commands of a killed run that were still running: code mode records a command when it finishes."""
    known = {call.command for call in thread.entries if isinstance(call, Call)}
    items = {call_id_of(step): step for step in printed if step.kind == "item/command_execution"}
    for step in items.values():
        command = command_of(step.body.get("command"))
        if step.body.get("status") == "in_progress" and command is not None and command not in known:
            thread.entries.append(Call(None, step.at, step.line, folder=thread.folder, command=command))


def _add(step: Step, thread: Thread) -> None:
    add = _BY_KIND.get(step.kind)
    if add is not None:
        add(step, thread)
    elif step.kind not in _QUIET_KINDS:
        thread.unknown[step.kind] += 1


_BY_KIND: Mapping[str, Callable[[Step, Thread], None]] = {
    "error": stream_error,
    "event/agent_message": assistant_message,
    "event/agent_reasoning": reasoning,
    "event/error": stream_error,
    "event/exec_command_begin": command_item,
    "event/exec_command_end": command_item,
    "event/mcp_tool_call_begin": other_tool,
    "event/mcp_tool_call_end": other_tool,
    "event/patch_apply_begin": change_item,
    "event/patch_apply_end": change_item,
    "event/stream_error": stream_error,
    "event/task_complete": turn_completed,
    "event/turn_aborted": turn_failed,
    "event/user_message": user_message,
    "event/warning": warning,
    "item/agent_message": assistant_message,
    "item/assistant_message": assistant_message,
    "item/command_execution": command_item,
    "item/error": warning,
    "item/file_change": change_item,
    "item/mcp_tool_call": other_tool,
    "item/reasoning": reasoning,
    "item/web_search": other_tool,
    "kept/AgentMessage": assistant_message,
    "kept/CommandExecution": command_item,
    "kept/FileChange": change_item,
    "kept/Reasoning": reasoning,
    "kept/UserMessage": user_message,
    "response/custom_tool_call": function_call,
    "response/custom_tool_call_output": function_output,
    "response/function_call": function_call,
    "response/function_call_output": function_output,
    "response/local_shell_call": function_call,
    "response/message": history_message,
    "response/reasoning": reasoning,
    "response/web_search_call": function_call,
    "turn.completed": turn_completed,
    "turn.failed": turn_failed,
}
_OF_TURNS = frozenset({"turn.started", "event/task_started"})
_ONLY_PRINTED = frozenset({"error", "item/error", "turn.completed", "turn.failed"})
_QUIET_KINDS = frozenset({
    "thread.started", "turn.started", "session.created", "session_meta", "turn_context", "world_state", "compacted",
    "token_usage_record", "item/in progress", "item/todo_list", "event/agent_message_delta",
    "event/agent_reasoning_delta", "event/agent_reasoning_section_break", "event/background_event",
    "event/context_compacted", "event/exec_command_output_delta", "event/session_configured", "event/task_started",
    "event/thread_settings_applied", "event/token_count", "event/turn_diff", "response/additional_tools",
    "response/compaction", "response/ghost_snapshot",
})  # fmt: skip
