"""Claude Code (tried with 2.1.330)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli, Launch, LaunchRequest, option
from eval_pipeline.agents.claude_code.normalizer import ClaudeCodeNormalizer
from eval_pipeline.agents.claude_code.session_file import ClaudeSessionNormalizer
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


def launch(request: LaunchRequest) -> Launch:
    """Print mode, every permission granted."""
    return Launch(
        command=(
            request.executable,
            "-p",
            *("--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"),
            *option("--model", request.model),
            *option("--max-turns", request.max_turns),
            *option("--max-budget-usd", request.max_budget_usd),
            *option("--append-system-prompt", request.system),
            *request.args,
        ),
    )


CLAUDE_CODE = AgentCli(
    name="claude",
    aliases=("claude",),
    executable="claude",
    launch=launch,
    limits=frozenset({"max_turns", "max_budget_usd"}),
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
    keys=("ANTHROPIC_*", "CLAUDE_CODE_*", "AWS_*", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUD_ML_REGION"),
    addresses={"ANTHROPIC_BASE_URL": "https://api.anthropic.com"},
    login_files=(".credentials.json",),
    variables_of_root={"IS_SANDBOX": "1"},
    model_provider="anthropic",
)
