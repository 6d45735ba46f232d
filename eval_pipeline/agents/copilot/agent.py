"""GitHub Copilot CLI (tried with 1.0.102)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.copilot.normalizer import CopilotNormalizer
from eval_pipeline.agents.launching import ACCESS, ARGS, MODEL, RESUME, SESSION, LaunchTable
from eval_pipeline.agents.live_records import copilot_live
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "apply_patch": "edit",
    "bash": "command",
    "create": "edit",
    "edit": "edit",
    "fetch": "web",
    "glob": "search",
    "grep": "search",
    "list_bash": "command",
    "list_powershell": "command",
    "powershell": "command",
    "read_bash": "command",
    "read_powershell": "command",
    "report_intent": "plan",
    "rg": "search",
    "skill": "skill",
    "stop_bash": "command",
    "stop_powershell": "command",
    "str_replace_editor": "edit",
    "task": "task",
    "update_todo": "plan",
    "view": "read",
    "web_fetch": "web",
    "web_search": "web",
    "write_bash": "command",
    "write_powershell": "command",
}

LAUNCH = LaunchTable(
    words=(
        *("-p={PROMPT}", "--output-format", "json", ACCESS),
        *("--no-auto-update", "--no-ask-user", MODEL, RESUME, ARGS),
    ),
    model="--model",
    access={
        "full": ("--allow-all-tools", "--allow-all-paths"),
        "workspace": ("--allow-all-tools", "--disallow-temp-dir"),
        "read-only": ("--allow-all-tools", "--deny-tool=write", "--deny-tool=shell"),
    },
    resume=(f"--resume={SESSION}",),
)
"""Prompt mode, every tool and every path allowed unless it is told otherwise. As one word, any prompt is a prompt."""


COPILOT = AgentCli(
    name="copilot",
    aliases=("copilot-cli",),
    executable="copilot",
    launch=LAUNCH,
    live=lambda: copilot_live,
    output_format="copilot",
    normalizers={"copilot": CopilotNormalizer, "copilot-cli": CopilotNormalizer},
    tool_kinds=TOOL_KINDS,
    sessions=JsonlSessions(
        format="copilot",
        variable="COPILOT_HOME",
        default_folder=".copilot",
        patterns=("session-state/*/events.jsonl", "session-state/*.jsonl"),
        log_name="events.jsonl",
        session_id=(RecordField(("data", "sessionId"), type="session.start"),),
        cwd=(
            RecordField(("data", "context", "cwd"), type="session.start"),
            RecordField(("data", "context", "cwd"), type="session.resume"),
        ),
        git_branch=(RecordField(("data", "context", "branch"), type="session.start"),),
        agent_version=(RecordField(("data", "copilotVersion"), type="session.start"),),
    ),
    printed_session_id=(RecordField(("sessionId",), type="result"),),
    log_completes_output=True,
    reads_stdin=True,
    keys=("COPILOT_[!H]*", "GH_TOKEN", "GITHUB_TOKEN"),
    addresses={"COPILOT_PROVIDER_BASE_URL": ""},
    login_files=("config.json",),
    cache_variable="XDG_CACHE_HOME",
)
