"""Claude Code (tried with 2.1.330)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.claude_code.normalizer import ClaudeCodeNormalizer
from eval_pipeline.agents.claude_code.session_file import ClaudeSessionNormalizer
from eval_pipeline.agents.launching import ACCESS, ARGS, LIMITS, MODEL, RESUME, SESSION, SYSTEM, LaunchTable
from eval_pipeline.agents.live_records import claude_live
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "Agent": "task",
    "Bash": "command",
    "BashOutput": "command",
    "Edit": "edit",
    "ExitPlanMode": "plan",
    "Glob": "search",
    "Grep": "search",
    "KillShell": "command",
    "LS": "search",
    "ListAgents": "task",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "NotebookRead": "read",
    "PowerShell": "command",
    "Read": "read",
    "SendMessage": "task",
    "Skill": "skill",
    "Task": "task",
    "TaskStop": "task",
    "TodoRead": "plan",
    "TodoWrite": "plan",
    "WebFetch": "web",
    "WebSearch": "web",
    "Workflow": "task",
    "Write": "edit",
}

LAUNCH = LaunchTable(
    words=(
        *("-p", "--output-format", "stream-json", "--verbose"),
        *(ACCESS, MODEL, LIMITS, SYSTEM, RESUME, ARGS),
    ),
    model="--model",
    system="--append-system-prompt",
    limits={"max_turns": "--max-turns", "max_budget_usd": "--max-budget-usd"},
    access={
        "full": ("--dangerously-skip-permissions",),
        "workspace": ("--permission-mode", "acceptEdits"),
        "read-only": ("--disallowedTools", "Edit,Write,NotebookEdit,Bash"),
    },
    resume=("--resume", SESSION),
)
"""Print mode, every permission granted unless it is told otherwise."""


CLAUDE_CODE = AgentCli(
    name="claude",
    aliases=("claude",),
    executable="claude",
    launch=LAUNCH,
    live=lambda: claude_live,
    output_format="claude-code",
    normalizers={
        "claude-code": ClaudeCodeNormalizer,
        "claude": ClaudeCodeNormalizer,
        "claude-session": ClaudeSessionNormalizer,
    },
    tool_kinds=TOOL_KINDS,
    sessions=JsonlSessions(
        format="claude-session",
        variable="CLAUDE_CONFIG_DIR",
        default_folder=".claude",
        patterns=("projects/*/*.jsonl",),
        excluded_prefix="agent-",
        session_id=(RecordField(("sessionId",)),),
        cwd=(RecordField(("cwd",)),),
        git_branch=(RecordField(("gitBranch",)),),
        agent_version=(RecordField(("version",)),),
    ),
    printed_session_id=(RecordField(("session_id",)),),
    log_completes_unfinished=True,
    keys=("ANTHROPIC_*", "CLAUDE_CODE_*", "AWS_*", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUD_ML_REGION"),
    addresses={"ANTHROPIC_BASE_URL": "https://api.anthropic.com"},
    login_files=(".credentials.json",),
    variables_of_root={"IS_SANDBOX": "1"},
    cumulative=frozenset({"cost_usd"}),
    model_provider="anthropic",
)
