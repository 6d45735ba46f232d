"""`codex`: what `codex exec --json` prints, and the rollout file of its thread.

The rollout holds more (which tools the model called, folders, times, usage of one turn, statuses of errors) and is read
first when it is there; standard output then adds what the rollout leaves out: retries, and how the run ended. Sources:
recordings of 0.169, and for older shapes (`msg`, `item_type`, rollouts without turns) issues of the CLI.
"""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.agents.codex.ending import ending_of
from eval_pipeline.agents.codex.events import events_of
from eval_pipeline.agents.codex.reading import read_thread
from eval_pipeline.agents.codex.steps import Step, own_turns, step_of
from eval_pipeline.agents.codex.usage import usage_of
from eval_pipeline.agents.session_events import detected_skills, within
from eval_pipeline.reports.jsonl_records import text
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import RawSession

ESSENTIAL = ("turn.completed", "turn.failed", "token_count", "token_usage_record")
"""Records that are read even from the middle of a large output: sums and the ending need them."""


class CodexNormalizer:
    """One run of Codex: its standard output and, when it was kept, its rollout (`session`)."""

    version = "3"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, rollout = material.records("stdout", ESSENTIAL), material.records("session", ESSENTIAL)
        printed, kept = [step_of(row) for row in stdout.rows], [step_of(row) for row in rollout.rows]
        current, steps = own_turns(kept, printed), [*printed, *kept]
        folder = _folder(steps, material)
        thread = read_thread(current, printed, folder=folder)
        end = ending_of(thread, usage_of(kept, current, printed), printed=bool(steps), stderr=material.ends("stderr"))
        events = within(events_of(thread, end), folder, material.folder)
        return SessionReport(
            execution_id=material.execution_id,
            final_output=end.final_output,
            session_id=_session_id(steps),
            model=_fact(steps, "turn_context", "model") or _fact(steps, "event/session_configured", "model"),
            agent_version=_fact(steps, "session_meta", "cli_version"),
            usage=end.usage,
            events=events,
            skills=detected_skills(events),
            failure_class=end.failure.id if end.failure is not None else None,
            error=end.error,
            ttft_ms=thread.ttft_ms,
            model_calls=sum(step.kind == "token_usage_record" for step in current) or None,
            unknown_events=dict(thread.unknown),
            unparsed_lines=stdout.unparsed_lines + rollout.unparsed_lines,
        )


def _folder(steps: Sequence[Step], material: RawSession) -> str | None:
    return _fact(steps, "turn_context", "cwd") or _fact(steps, "session_meta", "cwd") or material.folder


def _fact(steps: Sequence[Step], kind: str, name: str) -> str | None:
    return next((value for step in steps if step.kind == kind and (value := text(step.body.get(name)))), None)


def _session_id(steps: Sequence[Step]) -> str | None:
    names = (
        ("thread.started", "thread_id"), ("session.created", "session_id"), ("session_meta", "id"),
        ("session_meta", "session_id"), ("event/session_configured", "session_id"),
    )  # fmt: skip
    return next((value for kind, name in names if (value := _fact(steps, kind, name))), None)
