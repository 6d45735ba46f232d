"""Gemini CLI (tried with 0.61.0)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli, Launch, LaunchRequest, option
from eval_pipeline.agents.gemini.normalizer import GeminiNormalizer
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
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


def launch(request: LaunchRequest) -> Launch:
    """Prompt mode, every tool allowed and the workspace trusted; without the relaunch that ignores signals."""
    options = (*option("-m", request.model), "--yolo", "--skip-trust", "-o", "stream-json", *request.args)
    return Launch(
        command=(request.executable, *options, "--prompt={PROMPT}"),
        prompt="argument",
        preamble=request.system,
        env={"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
    )


GEMINI = AgentCli(
    name="gemini",
    aliases=("gemini-cli",),
    executable="gemini",
    launch=launch,
    output_format="gemini",
    normalizers={"gemini": GeminiNormalizer, "gemini-cli": GeminiNormalizer},
    tool_kinds=TOOL_KINDS,
    # The logs in `tmp/*/chats` have another format, which no normalizer reads.
    sessions=JsonlSessions(
        format="gemini",
        variable="GEMINI_CLI_HOME",
        subfolder=".gemini",
        default_folder=".gemini",
        patterns=(),
        session_id=(RecordField(("session_id",)),),
    ),
    printed_session_id=(RecordField(("session_id",), type="init"),),
    keys=("GEMINI_[!C]*", "GOOGLE_*", "GEMINI_CLI_NO_RELAUNCH", "GEMINI_CLI_TRUST_WORKSPACE"),
    addresses={"GOOGLE_GEMINI_BASE_URL": "https://generativelanguage.googleapis.com"},
    login_files=("oauth_creds.json", "google_accounts.json", "settings.json"),
)
