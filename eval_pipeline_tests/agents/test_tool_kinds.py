"""What tools do: kinds come with the agent CLI, and nobody outside `agents/` knows a CLI or its tools by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import eval_pipeline
from eval_pipeline.agents.agent_cli import all_agents
from eval_pipeline.reports.model import SessionReport, ToolCallEvent
from eval_pipeline.reports.tool_kinds import usual_kind
from eval_pipeline_tests.agents.recorded_sessions import printed, report_of
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import score

HOUSE = Path(eval_pipeline.__file__).parent
OUTSIDE = [
    path for path in sorted(HOUSE.rglob("*.py")) if path.relative_to(HOUSE).parts[0] not in ("agents", "formats")
]
ALLOWED = {
    "exports/otel.py": {"claude", "gemini"},  # how names of models begin
    "llm/wires/gemini.py": {"gemini"},  # a wire format of models
    "reports/tool_kinds.py": {"exec_command", "local_shell"},  # what AgentV counts as commands
}


def kinds(report: SessionReport) -> list[tuple[str, str]]:
    return [(use.tool, use.kind) for use in report.tool_uses]


@pytest.mark.parametrize(
    ("format_", "recording", "expected"),
    [
        ("claude-code", ("claude", "files", "stdout.jsonl"),
         [("Read", "read"), ("Bash", "command"), ("Write", "edit"), ("Edit", "edit")]),
        ("claude-session", ("claude", "files", "session.jsonl"),
         [("Read", "read"), ("Bash", "command"), ("Write", "edit"), ("Edit", "edit")]),
        ("codex", ("codex", "patch", "session.jsonl"),
         [("exec_command", "command"), ("exec_command", "command"), ("apply_patch", "edit"), ("apply_patch", "edit")]),
        ("copilot", ("copilot", "files", "session.jsonl"),
         [("view", "read"), ("bash", "command"), ("create", "edit"), ("edit", "edit")]),
    ],
    ids=["claude", "claude, its transcript", "codex", "copilot"],
)  # fmt: skip
def test_a_recorded_session_has_the_kinds_of_its_tools(
    format_: str, recording: tuple[str, str, str], expected: list[tuple[str, str]]
) -> None:
    role = "stdout" if recording[2].startswith("stdout") else "session"

    assert kinds(report_of(format_, **{role: printed(*recording)})) == expected


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("Read File", "read"), ("readTextFile", "read"), ("write_file", "edit"), ("Grep", "search"), ("list", "search"),
        ("run_shell_command", "command"), ("activate_skill", "skill"), ("WebFetch", "web"), ("Task", "task"),
        ("TodoWrite", "plan"), ("mcp:tickets/search", "other"), ("", "other"),
    ],
)  # fmt: skip
def test_a_tool_of_nobody_known_does_what_its_name_usually_means(tool: str, kind: str) -> None:
    assert usual_kind(tool) == kind
    assert ToolCallEvent(tool=tool).does == kind


@pytest.mark.parametrize("format_", ["copilot", "claude-session"])
def test_looking_around_is_counted_whatever_the_tools_are_called(format_: str) -> None:
    cli = {"copilot": "copilot", "claude-session": "claude"}[format_]
    report = report_of(format_, session=printed(cli, "files", "session.jsonl"))
    spec = an_evaluator("execution-metrics", target_exploration_ratio=0.25, exploration_tolerance=0)

    assert score(spec, report).value == 1.0


def test_every_kind_of_a_map_is_one_that_evaluators_know() -> None:
    known = {"read", "edit", "command", "search", "skill", "web", "task", "plan", "other"}

    assert {kind for agent in all_agents() for kind in agent.tool_kinds.values()} <= known


def test_no_module_outside_names_an_agent_or_its_tools() -> None:
    names = names_of_agents_and_tools()
    assert OUTSIDE
    modules = {str(path.relative_to(HOUSE)): names.intersection(texts(path)) for path in OUTSIDE}
    wrong = {module: named - ALLOWED.get(module, set()) for module, named in modules.items()}

    assert {module: named for module, named in wrong.items() if named} == {}


def names_of_agents_and_tools() -> frozenset[str]:
    names = {name for agent in all_agents() for name in (agent.name, *agent.aliases, *agent.normalizers)}
    tools = {tool for agent in all_agents() for tool in agent.tool_kinds if not tool.isalpha() or not tool.islower()}
    return frozenset(names | tools)


def texts(path: Path) -> Iterator[str]:
    """The texts that a module has as values, keys and the like."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
