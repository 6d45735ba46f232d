"""Coding agents as commands: how each is started without anybody there to ask, and prints what it does as JSON.

An entry comes with `executable`, `args`, `model` and the like, and leaves as settings of the `command` adapter.
"""

from __future__ import annotations

from typing import Any

_SANDBOXES = ("-s", "--sandbox", "--full-auto", "--dangerously-bypass-approvals-and-sandbox", "--yolo")


def codex_command(entry: dict[str, Any]) -> dict[str, Any]:
    """Codex, which asks nobody when run by `exec`. It may write where it works, unless `args` choose a sandbox."""
    program, args = _program(entry, "codex")
    mode = () if any(str(arg).split("=")[0] in _SANDBOXES for arg in args) else ("--sandbox", "workspace-write")
    words = [program, "exec", "--json", "--skip-git-repo-check", *mode, *_option("--model", entry.get("model")), *args]
    return {**entry, "command": [*words, "-"], "prompt": "stdin", "format": "codex"}


def claude_command(entry: dict[str, Any]) -> dict[str, Any]:
    """Claude Code, its permissions not asked for."""
    program, args = _program(entry, "claude")
    options = [
        *_option("--model", entry.get("model")),
        *_option("--max-turns", entry.pop("max_turns", None)),
        *_option("--max-budget-usd", entry.pop("max_budget_usd", None)),
        *_option("--append-system-prompt", entry.pop("system", None)),
    ]
    output = ["--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
    words = [program, "-p", *output, *options, *args]
    return {**entry, "command": words, "prompt": "stdin", "format": "claude-code"}


def copilot_command(entry: dict[str, Any]) -> dict[str, Any]:
    """GitHub Copilot, its tools and paths allowed."""
    program, args = _program(entry, "copilot")
    allowed = ["--output-format", "json", "--allow-all-tools", "--allow-all-paths", "--no-auto-update", "--no-ask-user"]
    words = [program, "-p", "{PROMPT}", *allowed, *_option("--model", entry.get("model")), *args]
    return {**entry, "command": words, "format": "copilot"}


def _program(entry: dict[str, Any], default: str) -> tuple[Any, list[Any]]:
    """The program and what its user adds to its arguments, taken out of the entry."""
    args = entry.pop("args", None)
    return entry.pop("executable", default), args if isinstance(args, list) else [] if args is None else [args]


def _option(name: str, value: Any) -> list[str]:
    return [] if value is None else [name, str(value)]
