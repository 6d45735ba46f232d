"""Kinds of tools: a vocabulary for evaluators that does not depend on tool names.

Each agent CLI registers the kinds of its tools here. Other tools, and tools in reports stored before kinds existed,
have the usual kind of their name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from eval_pipeline.plugins import Registry

ToolKind = Literal["read", "edit", "command", "search", "skill", "web", "task", "plan", "other"]
"""`read` a file · `edit` create, change or delete files · `command` a shell · `search` list and search files ·
`skill` load a skill · `web` search or fetch · `task` start or steer another agent · `plan` keep a list of steps."""

EXPLORING_KINDS: frozenset[ToolKind] = frozenset({"read", "search", "web"})
"""Kinds of tools that only look."""

SHELLS = frozenset({"exec_command", "local_shell", "shell"})
"""Tools (in lower case) that are the shell itself: a call of one is a command and no tool."""

TOOL_KINDS: Registry[Mapping[str, ToolKind]] = Registry(
    "map of tool kinds",
    folder=None,
    entry_point_group="eval_pipeline.tool_kinds",
    bundles={"eval_pipeline.agents": "kinds_by_format"},
)
"""Names of tools → kinds, by the raw format that the names come from."""

_USUAL: Mapping[str, ToolKind] = {
    **dict.fromkeys(("read", "readfile", "readtextfile", "view", "viewfile", "openfile"), "read"),
    **dict.fromkeys(("edit", "editfile", "write", "writefile", "create", "createfile", "deletefile", "patch"), "edit"),
    **dict.fromkeys(("bash", "shell", "localshell", "execcommand", "commandexecution", "terminal"), "command"),
    **dict.fromkeys(("runcommand", "runshellcommand", "runterminalcommand", "powershell"), "command"),
    **dict.fromkeys(("search", "searchfiles", "grep", "glob", "list", "ls", "listdir", "listfiles"), "search"),
    **dict.fromkeys(("skill", "activateskill", "invokeskill", "loadskill"), "skill"),
    **dict.fromkeys(("websearch", "webfetch", "fetch"), "web"),
    **dict.fromkeys(("task", "agent", "subagent"), "task"),
    **dict.fromkeys(("plan", "todowrite", "updateplan"), "plan"),
}  # fmt: skip
_SIGNS = re.compile(r"[^a-z0-9]+")


def usual_kind(tool: str) -> ToolKind:
    """The kind of a tool by the usual meaning of its name: `Read File`, `read_file` and `readFile` read."""
    return _USUAL.get(_SIGNS.sub("", tool.lower()), "other")


def kind_in_format(tool: str, format_: str) -> ToolKind | None:
    """The kind of a tool whose name comes from a raw format; None for a format without tool names of its own."""
    kinds = TOOL_KINDS.find(format_)
    return None if kinds is None else kinds.get(tool) or usual_kind(tool)
