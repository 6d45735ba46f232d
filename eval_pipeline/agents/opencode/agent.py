"""OpenCode (tried with 1.18.33)."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.launching import ACCESS, ARGS, MODEL, RESUME, SESSION, LaunchTable
from eval_pipeline.agents.live_records import opencode_live
from eval_pipeline.agents.opencode.normalizer import OpenCodeNormalizer
from eval_pipeline.agents.opencode.sessions import OpenCodeSessions
from eval_pipeline.agents.session_exports import FILE
from eval_pipeline.agents.session_store import RecordField
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

LAUNCH = LaunchTable(
    words=("run", "--format", "json", "--thinking", ACCESS, MODEL, RESUME, ARGS),
    model="-m",
    access={"full": ("--auto",), "workspace": (), "read-only": ("--agent", "plan")},
    resume=("--session", SESSION),
    env={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
)
"""`opencode run` is not interactive; reasoning is printed. Without `--auto` the workspace is all that it may change.

The prompt is its standard input: it puts an argument with a space into quotes and escapes those inside."""


OPENCODE = AgentCli(
    name="opencode",
    aliases=("opencode-ai",),
    executable="opencode",
    launch=LAUNCH,
    live=lambda: opencode_live,
    output_format="opencode",
    normalizers={"opencode": OpenCodeNormalizer},
    tool_kinds=TOOL_KINDS,
    skills_folder=".config/opencode/skills",
    # Sessions are kept in a database; `opencode export` prints one, which is read as a log.
    sessions=OpenCodeSessions(
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
    exports=("export", SESSION),
    imports=("import", FILE),
    keys=("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "OPENROUTER_*", "AWS_*", "AZURE_*", "GEMINI_*", "GOOGLE_*"),
    login_files=("auth.json",),
)
