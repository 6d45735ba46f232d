"""pi (tried with 0.73.1)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli, Launch, LaunchRequest, option
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


def launch(request: LaunchRequest) -> Launch:
    """Print mode with JSON events; an argument that begins with `-` is no prompt to it, standard input is."""
    options = ("--mode", "json", *option("--model", request.model), *option("--append-system-prompt", request.system))
    command = (request.executable, *options, *request.args, "-p")
    return Launch(command=command, env={"PI_TELEMETRY": "0"})


PI = AgentCli(
    name="pi",
    aliases=("pi-coding-agent", "pi-cli"),
    executable="pi",
    launch=launch,
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
