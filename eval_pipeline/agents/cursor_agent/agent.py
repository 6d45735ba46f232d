"""Cursor's agent. Unverified: written from public adapters' sources, because the CLI was not at hand."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli, Launch, LaunchRequest, option
from eval_pipeline.agents.cursor_agent.normalizer import CursorAgentNormalizer
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


def launch(request: LaunchRequest) -> Launch:
    """Print mode, every tool allowed."""
    options = ("--yolo", "--print", "--output-format", "stream-json", *option("--model", request.model))
    command = (request.executable, *options, *request.args, "--", "{PROMPT}")
    return Launch(command=command, prompt="argument", preamble=request.system)


CURSOR_AGENT = AgentCli(
    name="cursor-agent",
    aliases=("cursor-cli",),
    executable="cursor-agent",
    launch=launch,
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
