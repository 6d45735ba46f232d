"""pi (tried with 0.73.1)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.launching import ACCESS, ARGS, MODEL, RESUME, SESSION, SYSTEM, LaunchTable
from eval_pipeline.agents.live_records import pi_live
from eval_pipeline.agents.pi.normalizer import PiNormalizer
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "bash": "command",
    "edit": "edit",
    "find": "search",
    "grep": "search",
    "ls": "search",
    "read": "read",
    "write": "edit",
}

LAUNCH = LaunchTable(
    words=("--mode", "json", MODEL, SYSTEM, ACCESS, RESUME, ARGS, "-p"),
    model="--model",
    system="--append-system-prompt",
    access={"full": (), "read-only": ("--tools", "read,grep,find,ls")},
    resume=("--session", SESSION),
    env={"PI_TELEMETRY": "0"},
)
"""Print mode with JSON events; an argument that begins with `-` is no prompt to it, standard input is."""


PI = AgentCli(
    name="pi",
    aliases=("pi-coding-agent", "pi-cli"),
    executable="pi",
    launch=LAUNCH,
    live=lambda: pi_live,
    output_format="pi",
    normalizers={"pi": PiNormalizer, "pi-coding-agent": PiNormalizer, "pi-cli": PiNormalizer},
    tool_kinds=TOOL_KINDS,
    sessions=JsonlSessions(
        format="pi",
        variable="PI_CODING_AGENT_DIR",
        default_folder=".pi/agent",
        patterns=("sessions/*/*.jsonl",),
        id_length=36,
        session_id=(RecordField(("id",), type="session"),),
        cwd=(RecordField(("cwd",), type="session"),),
    ),
    printed_session_id=(RecordField(("id",), type="session"),),
    keys=("PI_[!C]*", "ANTHROPIC_*", "OPENAI_*", "OPENROUTER_*", "GEMINI_*", "GOOGLE_*", "AWS_*", "AZURE_*"),
    login_files=("auth.json", "models.json", "settings.json"),
)
