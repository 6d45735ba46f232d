"""Codex (tried with 0.169)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.codex.normalizer import CodexNormalizer
from eval_pipeline.agents.launching import ACCESS, ARGS, MODEL, RESUME, SESSION, LaunchTable
from eval_pipeline.agents.live_records import CodexLive
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "apply_patch": "edit",
    "command_execution": "command",
    "container.exec": "command",
    "exec": "command",
    "exec_command": "command",
    "file_change": "edit",
    "local_shell": "command",
    "local_shell_call": "command",
    "shell": "command",
    "shell_command": "command",
    "update_plan": "plan",
    "view_image": "read",
    "web_search": "web",
    "web_search_call": "web",
    "write_stdin": "command",
}

LAUNCH = LaunchTable(
    words=("exec", "--json", "--skip-git-repo-check", ACCESS, MODEL, ARGS, RESUME, "-"),
    model="--model",
    access={
        "full": ("--dangerously-bypass-approvals-and-sandbox",),
        "workspace": ("--sandbox", "workspace-write"),
        "read-only": ("--sandbox", "read-only"),
    },
    default="workspace",
    access_options=frozenset(
        {"-s", "--sandbox", "--full-auto", "--dangerously-bypass-approvals-and-sandbox", "--yolo"}
    ),
    resume=("resume", SESSION),
)
"""`codex exec` is not interactive. It may write in its working folder, unless it is told otherwise."""


CODEX = AgentCli(
    name="codex",
    executable="codex",
    launch=LAUNCH,
    live=CodexLive,
    output_format="codex",
    normalizers={"codex": CodexNormalizer},
    tool_kinds=TOOL_KINDS,
    skills_folder=".agents/skills",
    sessions=JsonlSessions(
        format="codex",
        variable="CODEX_HOME",
        default_folder=".codex",
        patterns=("sessions/*/*/*/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl"),
        id_length=36,
        session_id=(
            RecordField(("payload", "id"), type="session_meta"),
            RecordField(("payload", "session_id"), type="session_meta"),
        ),
        cwd=(
            RecordField(("payload", "cwd"), type="session_meta"),
            RecordField(("payload", "cwd"), type="turn_context"),
        ),
        git_branch=(RecordField(("payload", "git", "branch"), type="session_meta"),),
        agent_version=(RecordField(("payload", "cli_version"), type="session_meta"),),
    ),
    printed_session_id=(RecordField(("thread_id",), type="thread.started"),),
    log_completes_output=True,
    sandbox_hides=("/dev",),
    without_sandbox=frozenset(("--dangerously-bypass-approvals-and-sandbox", "--yolo", "danger-full-access")),
    model_provider="openai",
    keys=("OPENAI_*", "CODEX_[!H]*", "AZURE_OPENAI_*"),
    login_files=("auth.json",),
)
