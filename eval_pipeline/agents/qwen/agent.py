"""Qwen Code (tried with 0.15.10)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli, Launch, LaunchRequest, option
from eval_pipeline.agents.qwen.normalizer import QwenNormalizer
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
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


def launch(request: LaunchRequest) -> Launch:
    """Prompt mode, every tool allowed."""
    options = (*option("-m", request.model), "--yolo", "-o", "stream-json")
    limits = option("--max-session-turns", request.max_turns)
    command = (request.executable, *options, *limits, *request.args, "--prompt={PROMPT}")
    return Launch(command=command, prompt="argument", preamble=request.system)


QWEN = AgentCli(
    name="qwen",
    aliases=("qwen-code",),
    executable="qwen",
    launch=launch,
    limits=frozenset({"max_turns"}),
    output_format="qwen",
    normalizers={"qwen": QwenNormalizer, "qwen-code": QwenNormalizer},
    tool_kinds=TOOL_KINDS,
    # The logs in `projects/*/chats` have another format, which no normalizer reads.
    sessions=JsonlSessions(
        format="qwen",
        variable="QWEN_HOME",
        default_folder=".qwen",
        patterns=(),
        session_id=(RecordField(("session_id",)),),
        cwd=(RecordField(("cwd",)),),
    ),
    printed_session_id=(RecordField(("session_id",)),),
    keys=("QWEN_[!H]*", "OPENAI_*", "DASHSCOPE_*", "BAILIAN_*"),
    addresses={"OPENAI_BASE_URL": ""},
    login_files=("oauth_creds.json", "settings.json"),
)
