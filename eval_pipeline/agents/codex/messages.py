"""Steps of Codex that hold messages, errors and the end of a turn."""

from __future__ import annotations

import re

from eval_pipeline.agents.codex.steps import Step, error_text, status_in, text_of
from eval_pipeline.agents.codex.thread import Thread
from eval_pipeline.reports.jsonl_records import amount, first, mapping, shown, text
from eval_pipeline.reports.model import ErrorEvent, MessageEvent, RetryEvent

_HARNESS_TEXTS = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "<skill>", "# AGENTS.md instruct")
_RETRY = re.compile(
    r"(?:reconnecting\W*|retrying )(?P<attempt>\d{1,9})/(?P<limit>\d{1,9})"
    r"(?: in (?P<delay>\d{1,9}(?:\.\d{1,9})?)(?P<unit>ms|s)\b)?",
    re.IGNORECASE,
)


def assistant_message(step: Step, thread: Thread) -> None:
    """A message of the assistant; the last one is the answer, even when it is empty."""
    content = text_of(step, "text", "message")
    message = MessageEvent(role="assistant", text=content, phase="commentary", at=step.at, line=step.line)
    entry = thread.add_message(message)
    if step.body.get("phase") != "commentary":
        thread.last_words, thread.final_message = content, entry


def reasoning(step: Step, thread: Thread) -> None:
    """Thinking of the model."""
    body = step.body
    content = text_of(step, "text") or shown(first(body, "summary_text", "summary"))
    thread.add_message(MessageEvent(role="assistant", text=content, phase="thinking", at=step.at, line=step.line))


def history_message(step: Step, thread: Thread) -> None:
    """A message of the thread's history; `developer` and `system` are instructions of the CLI, no messages."""
    add = {"assistant": assistant_message, "user": user_message}.get(str(step.body.get("role")))
    if add is not None:
        add(step, thread)


def user_message(step: Step, thread: Thread) -> None:
    """A message in the user's role; the CLI adds some of them."""
    content = text_of(step, "text", "message")
    injected = content.startswith(_HARNESS_TEXTS)
    thread.add_message(MessageEvent(role="user", text=content, injected=injected, at=step.at, line=step.line))


def warning(step: Step, thread: Thread) -> None:
    """Add an error that does not end the session."""
    message = error_text(step)
    if message:
        thread.entries.append(ErrorEvent(message=message, status=status_in(message), at=step.at, line=step.line))


def stream_error(step: Step, thread: Thread) -> None:
    """An error of the stream: a retry by its text, else possibly the end."""
    message = error_text(step)
    match = _RETRY.search(message)
    if match is None:
        thread.error, thread.error_kind = message or thread.error, step.body.get("codex_error_info")
        warning(step, thread)
        return
    thread.retried = True
    thread.entries.append(
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


def turn_completed(step: Step, thread: Thread) -> None:
    """The end of a turn; a rollout reports a failed one so, too."""
    thread.ttft_ms = amount(step.body.get("time_to_first_token_ms")) or thread.ttft_ms
    failure = mapping(step.body.get("error"))
    if not failure:
        thread.ending = thread.ending or "completed"
        return
    thread.ending, thread.error_kind = "failed", failure.get("codex_error_info")
    thread.error = text(failure.get("message")) or thread.error


def turn_failed(step: Step, thread: Thread) -> None:
    """A turn that failed or was aborted."""
    thread.ending = "failed"
    reason = text(step.body.get("reason"))
    aborted = f"the turn was aborted: {reason}" if reason is not None else None
    thread.error = error_text(step) or thread.error or aborted
