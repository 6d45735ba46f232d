"""What a scripted model does: actions of a scenario as calls of the tools that a request offers.

Agents have other tools for the same thing. The names and JSON schemas in the request decide what a neutral action
(`shell`, `read`, `write`, `edit`, `skill`) becomes, so that one script drives every CLI.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schema of each tool that a request offers, by its name."""

_TOOLS: Mapping[str, Sequence[str]] = {
    "shell": ("exec_command", "shell_command", "shell", "Bash", "bash", "run_shell_command"),
    "read": ("Read", "read", "read_file", "view"),
    "write": ("Write", "write", "write_file", "create"),
    "edit": ("Edit", "edit", "replace"),
    "skill": ("Skill", "skill", "activate_skill"),
}
_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "command": ("cmd", "command"),
    "path": ("file_path", "filePath", "absolute_path", "path"),
    "content": ("content", "file_text"),
    "old": ("old_string", "oldString", "old_str", "oldText"),
    "new": ("new_string", "newString", "new_str", "newText"),
    "name": ("skill", "name"),
}
_FILLERS: Mapping[str, Any] = {"number": 1, "integer": 1, "boolean": False, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class Action:
    """Something that the model does: a kind of tool, and its arguments by neutral names."""

    kind: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a request offers."""

    name: str
    arguments: Mapping[str, Any]


def call_of(action: Action, schemas: Schemas, folder: str) -> ToolCall:
    """Return the call that carries out an action in a workspace, by the shell where no tool is made for it."""
    name = next((name for name in _TOOLS[action.kind] if name in schemas), None)
    if name is None:
        return call_of(_by_shell(action), schemas, folder) if action.kind != "shell" else ToolCall("shell", {})
    given = dict(action.arguments)
    if "path" in given:
        given["path"] = f"{folder}/{given['path']}"
    properties = schemas[name].get("properties") or {}
    if "edits" in properties and not set(_ARGUMENTS["old"]) & set(properties):
        edit = {"oldText": given.pop("old"), "newText": given.pop("new")}
        return ToolCall(name, {**_named(given, properties), "edits": [edit]})
    return ToolCall(name, _with_required(_named(given, properties), schemas[name]))


def _named(given: Mapping[str, str], properties: Mapping[str, Any]) -> dict[str, Any]:
    return {next((key for key in _ARGUMENTS[name] if key in properties), name): text for name, text in given.items()}


def _with_required(arguments: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add a value for each required argument that the action leaves open."""
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        arguments.setdefault(name, _filler(properties.get(name) or {}))
    return arguments


def _filler(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    return _FILLERS.get(str(schema.get("type", "string")).lower(), "as scripted")


def _by_shell(action: Action) -> Action:
    given = {name: shlex.quote(text) for name, text in action.arguments.items()}
    command = {
        "read": "cat {path}",
        "write": "printf %s {content} > {path}",
        "edit": "sed -i s/{old}/{new}/ {path}",
        "skill": "cat .agents/skills/{name}/SKILL.md",
    }[action.kind]
    return Action("shell", {"command": command.format(**given)})
