"""Session → one line of a transcript file, as AgentV's `import` writes it and its `eval run --transcript` reads it.

A transcript has messages and tool calls. It has no thinking of the agent, no text that the agent's harness put into the
user's role, and no facts without a field in the format (failures, exit codes, skills).
"""

from __future__ import annotations

from typing import Any

from eval_pipeline.agents.session_import import Session
from eval_pipeline.reports.messages import session_messages, token_counts

JsonObject = dict[str, Any]


def transcript_line(session: Session) -> JsonObject:
    """Return the session as a JSON object: `input`, `output`, `token_usage`, `duration_ms`, `cost_usd`, `source`.

    `input` is the user's first message; `output` has all messages in order. Unknown values are null, and absent from
    `source`.
    """
    report = session.report
    source = {
        "provider": session.agent,
        "session_id": session.session_id,
        "model": report.model,
        "timestamp": report.started_at,
        "git_branch": session.git_branch,
        "cwd": session.cwd,
        "version": report.agent_version,
    }
    return {
        "input": session.prompt,
        "output": session_messages(report),
        "token_usage": token_counts(report.usage) or None,
        "duration_ms": report.duration_ms,
        "cost_usd": report.usage.cost_usd,
        "source": {name: value for name, value in source.items() if value is not None},
    }
