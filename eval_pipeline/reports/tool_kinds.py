"""What a tool does, whatever it is called: the vocabulary by which evaluators look at tool calls.

Each agent CLI names its tools in its own way; its map of tools to kinds comes with it, through the registry. For tools
of anybody else there is the usual meaning of their names.
"""

from __future__ import annotations

from typing import Literal, get_args

ToolKind = Literal["read", "edit", "command", "search", "skill", "web", "task", "plan", "other"]
"""`read` one file · `edit` create, change or delete files · `command` a shell · `search` list and search files ·
`skill` load a skill · `web` search or fetch · `task` start or steer another agent · `plan` keep a list of steps."""

TOOL_KINDS: tuple[ToolKind, ...] = get_args(ToolKind)
