"""Qwen Code (tried with 0.15.10)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.launching import ACCESS, ARGS, LIMITS, MODEL, RESUME, SESSION, LaunchTable
from eval_pipeline.agents.live_records import QwenLive
from eval_pipeline.agents.qwen.chat_log import QwenSessions
from eval_pipeline.agents.qwen.normalizer import QwenNormalizer
from eval_pipeline.agents.qwen.session_file import QwenSessionNormalizer
from eval_pipeline.agents.session_store import RecordField
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "agent": "task",
    "edit": "edit",
    "exit_plan_mode": "plan",
    "glob": "search",
    "grep_search": "search",
    "list_directory": "search",
    "monitor": "command",
    "read_file": "read",
    "read_many_files": "read",
    "run_shell_command": "command",
    "send_message": "task",
    "skill": "skill",
    "task": "task",
    "task_stop": "task",
    "todo_write": "plan",
    "tool_search": "search",
    "web_fetch": "web",
    "web_search": "web",
    "write_file": "edit",
}

LAUNCH = LaunchTable(
    words=(MODEL, ACCESS, "-o", "stream-json", LIMITS, RESUME, ARGS, "--prompt={PROMPT}"),
    model="-m",
    limits={"max_turns": "--max-session-turns"},
    access={
        "full": ("--yolo",),
        "workspace": ("--approval-mode", "auto-edit"),
        "read-only": ("--approval-mode", "default"),
    },
    resume=("--resume", SESSION),
)
"""Prompt mode. Nobody approves what asks."""


QWEN = AgentCli(
    name="qwen",
    aliases=("qwen-code",),
    executable="qwen",
    launch=LAUNCH,
    live=QwenLive,
    output_format="qwen",
    normalizers={"qwen": QwenNormalizer, "qwen-code": QwenNormalizer, "qwen-session": QwenSessionNormalizer},
    tool_kinds=TOOL_KINDS,
    sessions=QwenSessions(
        format="qwen-session",
        variable="QWEN_HOME",
        default_folder=".qwen",
        patterns=("projects/*/chats/*.jsonl",),
        session_id=(RecordField(("sessionId",), type="user"),),
        cwd=(RecordField(("cwd",)),),
        git_branch=(RecordField(("gitBranch",)),),
        agent_version=(RecordField(("version",)),),
    ),
    log_completes_output=True,
    reads_stdin=True,
    printed_session_id=(RecordField(("session_id",)),),
    cumulative=frozenset({"input_tokens", "cached_input_tokens", "output_tokens"}),
    keys=("QWEN_[!H]*", "OPENAI_*", "DASHSCOPE_*", "BAILIAN_*"),
    addresses={"OPENAI_BASE_URL": ""},
    login_files=("oauth_creds.json", "settings.json"),
)
