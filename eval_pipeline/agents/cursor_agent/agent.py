"""Cursor's agent. Unverified: written from public adapters' sources, because the CLI was not at hand."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.cursor_agent.normalizer import CursorAgentNormalizer
from eval_pipeline.agents.launching import ACCESS, ARGS, MODEL, RESUME, SESSION, LaunchTable
from eval_pipeline.agents.live_records import cursor_live
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "delete": "edit",
    "edit": "edit",
    "glob": "search",
    "grep": "search",
    "ls": "search",
    "read": "read",
    "semSearch": "search",
    "shell": "command",
    "task": "task",
    "updateTodos": "plan",
    "webSearch": "web",
    "write": "edit",
}

LAUNCH = LaunchTable(
    words=(ACCESS, "--print", "--output-format", "stream-json", MODEL, RESUME, ARGS, "--", "{PROMPT}"),
    model="--model",
    access={"full": ("--yolo",), "read-only": ()},
    resume=("--resume", SESSION),
)
"""Print mode, every tool allowed unless it is told otherwise: then changes are proposed, not made."""


CURSOR_AGENT = AgentCli(
    name="cursor-agent",
    aliases=("cursor-cli",),
    executable="cursor-agent",
    launch=LAUNCH,
    live=lambda: cursor_live,
    output_format="cursor-agent",
    normalizers={"cursor-agent": CursorAgentNormalizer, "cursor-cli": CursorAgentNormalizer},
    tool_kinds=TOOL_KINDS,
    # Chats are kept in a database, which is not read.
    sessions=JsonlSessions(
        format="cursor-agent",
        variable="CURSOR_CONFIG_DIR",
        default_folder=".cursor",
        patterns=(),
        session_id=(RecordField(("session_id",)),),
        cwd=(RecordField(("cwd",)),),
    ),
    printed_session_id=(RecordField(("session_id",)),),
    keys=("CURSOR_[!C]*",),
    login_files=("cli-config.json",),
)
