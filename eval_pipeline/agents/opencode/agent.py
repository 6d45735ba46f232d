"""OpenCode (tried with 1.18.33)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli, Launch, LaunchRequest, option
from eval_pipeline.agents.opencode.normalizer import OpenCodeNormalizer
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "apply_patch": "edit",
    "bash": "command",
    "edit": "edit",
    "glob": "search",
    "grep": "search",
    "list": "search",
    "multiedit": "edit",
    "patch": "edit",
    "read": "read",
    "skill": "skill",
    "task": "task",
    "todoread": "plan",
    "todowrite": "plan",
    "webfetch": "web",
    "websearch": "web",
    "write": "edit",
}


def launch(request: LaunchRequest) -> Launch:
    """`opencode run` is not interactive; every permission is granted, and reasoning is printed."""
    options = ("--format", "json", "--thinking", "--auto", *option("-m", request.model), *request.args)
    command = (request.executable, "run", *options, "--", "{PROMPT}")
    return Launch(
        command=command,
        prompt="argument",
        preamble=request.system,
        env={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
    )


OPENCODE = AgentCli(
    name="opencode",
    aliases=("opencode-ai",),
    executable="opencode",
    launch=launch,
    output_format="opencode",
    normalizers={"opencode": OpenCodeNormalizer},
    tool_kinds=TOOL_KINDS,
    # Sessions are kept in a database; `opencode export` prints one, which is read as a log.
    sessions=JsonlSessions(
        format="opencode",
        variable="XDG_DATA_HOME",
        subfolder="opencode",
        default_folder=".local/share/opencode",
        patterns=(),
        session_id=(RecordField(("sessionID",)), RecordField(("info", "id"))),
        cwd=(RecordField(("info", "directory")),),
        agent_version=(RecordField(("info", "version")),),
    ),
    printed_session_id=(RecordField(("sessionID",)),),
    keys=("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "OPENROUTER_*", "AWS_*", "AZURE_*", "GEMINI_*", "GOOGLE_*"),
    login_files=("auth.json",),
)
