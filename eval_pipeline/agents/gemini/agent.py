"""Gemini CLI (tried with 0.61.0)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.gemini.chat_log import GeminiSessions
from eval_pipeline.agents.gemini.normalizer import GeminiNormalizer
from eval_pipeline.agents.gemini.session_file import GeminiSessionNormalizer
from eval_pipeline.agents.launching import ACCESS, ARGS, MODEL, RESUME, SESSION, LaunchTable
from eval_pipeline.agents.live_records import GeminiLive
from eval_pipeline.agents.session_store import RecordField
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "activate_skill": "skill",
    "glob": "search",
    "google_web_search": "web",
    "grep_search": "search",
    "list_directory": "search",
    "read_file": "read",
    "read_many_files": "read",
    "replace": "edit",
    "run_shell_command": "command",
    "search_file_content": "search",
    "update_topic": "plan",
    "web_fetch": "web",
    "write_file": "edit",
    "write_todos": "plan",
}

LAUNCH = LaunchTable(
    words=(MODEL, ACCESS, "--skip-trust", "-o", "stream-json", RESUME, ARGS, "--prompt={PROMPT}"),
    model="-m",
    access={
        "full": ("--yolo",),
        "workspace": ("--approval-mode", "auto_edit"),
        "read-only": ("--approval-mode", "default"),
    },
    resume=("--resume", SESSION),
    env={"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
)
"""Prompt mode in a trusted workspace; without the relaunch that ignores signals. Nobody approves what asks."""


GEMINI = AgentCli(
    name="gemini",
    aliases=("gemini-cli",),
    executable="gemini",
    launch=LAUNCH,
    live=GeminiLive,
    output_format="gemini",
    normalizers={
        "gemini": GeminiNormalizer,
        "gemini-cli": GeminiNormalizer,
        "gemini-session": GeminiSessionNormalizer,
    },
    tool_kinds=TOOL_KINDS,
    sessions=GeminiSessions(
        format="gemini-session",
        variable="GEMINI_CLI_HOME",
        subfolder=".gemini",
        default_folder=".gemini",
        patterns=("tmp/*/chats/session-*.jsonl",),
        id_length=8,
        session_id=(RecordField(("sessionId",), type=""), RecordField(("session_id",), type="")),
    ),
    printed_session_id=(RecordField(("session_id",), type="init"),),
    log_completes_output=True,
    reads_stdin=True,
    keys=("GEMINI_[!C]*", "GOOGLE_*", "GEMINI_CLI_NO_RELAUNCH", "GEMINI_CLI_TRUST_WORKSPACE"),
    addresses={"GOOGLE_GEMINI_BASE_URL": "https://generativelanguage.googleapis.com"},
    login_files=("oauth_creds.json", "google_accounts.json", "settings.json"),
)
