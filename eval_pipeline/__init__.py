"""The public face: what a plug-in, a notebook or a script imports. Everything else may change between versions.

Verbs:
    load_suite          a suite file → `Suite`
    run_sweep           a project → outcomes per suite × runner, and the way to their rows
    open_results        a data folder → a read-only connection to the published tables
    build_definitions   a project → Dagster definitions, to be merged with those of a code location of yours
    EvalProject         the same as a component of Dagster, for `defs.yaml`
    EvalResults         a resource of Dagster: the published tables, for assets of yours

Values of a plug-in, by kind:
    evaluator           `Subject` → `Outcome`; the subject has a `Case` and a `SessionReport`
    adapter             `Runner`, `Call` → `RawExecution`, or raises `TargetFailure`
    normalizer          `RawSession` → `SessionReport`
    format              a file's text and `LoadOptions` → `Suite` of `Case`s with `Message`s and `EvaluatorSpec`s
    wire                `Endpoint`, `Options` → requests; responses → `Reply`; most extend `OpenAI` (chat completions)
    tool                settings, `ToolPlace`, `FieldCursor`; `ToolRequest` → `ToolAnswer`, or raises `ToolError`
    result log          a file of another system → `RecordedSample`s, with a `RecordedScoreEvent` for each score
    export              `ResultRow`s and `ExportOptions` → `FileChunk`s
    agent               an `AgentCli` value with its `Launch`

Words of a Python suite, a module that defines `suite`:
    Case                            `Case(id=…, prompt=…, check=…)`; `check(report, ctx)` may be async
    skills, commands, file_reads,   checks over a session report; each raises an AssertionError
    tool_calls, output
    command, parse_command          a command by its parts
    soft, classify, explain         collect failures, give them a class, ask the agent about them

A plug-in is installed with one entry point in the group `eval_pipeline.<kind>s` (`eval_pipeline.result_logs`). In a
notebook or a test the `register_…` decorators do the same for one process:

    @register_evaluator("word-count")
    class WordCount: ...

Names are imported on first use: `import eval_pipeline` itself loads neither Dagster nor DuckDB nor Polars.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval_pipeline.agents.agent_cli import AGENTS
    from eval_pipeline.agents.agent_cli import AgentCli as AgentCli
    from eval_pipeline.agents.launching import Launch as Launch
    from eval_pipeline.agents.launching import LaunchRequest as LaunchRequest
    from eval_pipeline.agents.session_store import JsonlSessions as JsonlSessions
    from eval_pipeline.agents.session_store import RecordField as RecordField
    from eval_pipeline.cli.notebook import SweepResult as SweepResult
    from eval_pipeline.cli.notebook import run_sweep as run_sweep
    from eval_pipeline.errors import EvalPipelineError as EvalPipelineError
    from eval_pipeline.errors import InputError as InputError
    from eval_pipeline.errors import InputErrors as InputErrors
    from eval_pipeline.errors import SourceLocation as SourceLocation
    from eval_pipeline.executions.adapters import ADAPTERS
    from eval_pipeline.executions.adapters import Call as Call
    from eval_pipeline.executions.model import RawExecution as RawExecution
    from eval_pipeline.executions.model import Runner as Runner
    from eval_pipeline.executions.model import TargetFailure as TargetFailure
    from eval_pipeline.executions.prompt import prompt_text as prompt_text
    from eval_pipeline.executions.tools import TOOLS
    from eval_pipeline.executions.tools import ToolAnswer as ToolAnswer
    from eval_pipeline.executions.tools import ToolError as ToolError
    from eval_pipeline.executions.tools import ToolPlace as ToolPlace
    from eval_pipeline.executions.tools import ToolRequest as ToolRequest
    from eval_pipeline.exports import EXPORTS
    from eval_pipeline.exports import ExportOptions as ExportOptions
    from eval_pipeline.exports import FileChunk as FileChunk
    from eval_pipeline.failures import FailureClass as FailureClass
    from eval_pipeline.failures import failure_class as failure_class
    from eval_pipeline.leaderboards.result_rows import ResultRow as ResultRow
    from eval_pipeline.llm.model import Endpoint as Endpoint
    from eval_pipeline.llm.model import Options as Options
    from eval_pipeline.llm.model import Reply as Reply
    from eval_pipeline.llm.wires import WIRES
    from eval_pipeline.llm.wires.openai import OpenAI as OpenAI
    from eval_pipeline.orchestration.build import build_definitions as build_definitions
    from eval_pipeline.orchestration.component import EvalProject as EvalProject
    from eval_pipeline.orchestration.resources import EvalResults as EvalResults
    from eval_pipeline.parsing.fields import FieldCursor as FieldCursor
    from eval_pipeline.parsing.tables import Field as Field
    from eval_pipeline.parsing.tables import FieldTable as FieldTable
    from eval_pipeline.parsing.tables import Kind as Kind
    from eval_pipeline.plugins import PluginError as PluginError
    from eval_pipeline.reports.events import RecordedScoreEvent as RecordedScoreEvent
    from eval_pipeline.reports.model import MessageEvent as MessageEvent
    from eval_pipeline.reports.model import SessionReport as SessionReport
    from eval_pipeline.reports.model import ToolCallEvent as ToolCallEvent
    from eval_pipeline.reports.model import ToolResultEvent as ToolResultEvent
    from eval_pipeline.reports.model import Usage as Usage
    from eval_pipeline.reports.normalize import NORMALIZERS
    from eval_pipeline.reports.normalize import RawSession as RawSession
    from eval_pipeline.reports.result_logs import RESULT_LOGS
    from eval_pipeline.reports.result_logs import RecordedSample as RecordedSample
    from eval_pipeline.scores.assertions.command_line import parse_command as parse_command
    from eval_pipeline.scores.assertions.failed_checks import classify as classify
    from eval_pipeline.scores.assertions.failed_checks import explain as explain
    from eval_pipeline.scores.assertions.helpers import commands as commands
    from eval_pipeline.scores.assertions.helpers import file_reads as file_reads
    from eval_pipeline.scores.assertions.helpers import output as output
    from eval_pipeline.scores.assertions.helpers import skills as skills
    from eval_pipeline.scores.assertions.helpers import soft as soft
    from eval_pipeline.scores.assertions.helpers import tool_calls as tool_calls
    from eval_pipeline.scores.assertions.matching import command as command
    from eval_pipeline.scores.evaluate import EVALUATORS
    from eval_pipeline.scores.model import Outcome as Outcome
    from eval_pipeline.scores.model import Subject as Subject
    from eval_pipeline.suites.load import FORMATS
    from eval_pipeline.suites.load import LoadOptions as LoadOptions
    from eval_pipeline.suites.load import load_suite as load_suite
    from eval_pipeline.suites.model import Case as Case
    from eval_pipeline.suites.model import EvaluatorSpec as EvaluatorSpec
    from eval_pipeline.suites.model import Message as Message
    from eval_pipeline.suites.model import Suite as Suite
    from eval_pipeline.suites.model import content_revision as content_revision
    from eval_pipeline.warehouse.published import open_results as open_results

    register_adapter = ADAPTERS.register
    register_agent = AGENTS.register
    register_evaluator = EVALUATORS.register
    register_export = EXPORTS.register
    register_format = FORMATS.register
    register_normalizer = NORMALIZERS.register
    register_result_log = RESULT_LOGS.register
    register_tool = TOOLS.register
    register_wire = WIRES.register

__all__ = [
    "AgentCli",
    "Call",
    "Case",
    "Endpoint",
    "EvalPipelineError",
    "EvalProject",
    "EvalResults",
    "EvaluatorSpec",
    "ExportOptions",
    "FailureClass",
    "Field",
    "FieldCursor",
    "FieldTable",
    "FileChunk",
    "InputError",
    "InputErrors",
    "JsonlSessions",
    "Kind",
    "Launch",
    "LaunchRequest",
    "LoadOptions",
    "Message",
    "MessageEvent",
    "OpenAI",
    "Options",
    "Outcome",
    "PluginError",
    "RawExecution",
    "RawSession",
    "RecordField",
    "RecordedSample",
    "RecordedScoreEvent",
    "Reply",
    "ResultRow",
    "Runner",
    "SessionReport",
    "SourceLocation",
    "Subject",
    "Suite",
    "SweepResult",
    "TargetFailure",
    "ToolAnswer",
    "ToolCallEvent",
    "ToolError",
    "ToolPlace",
    "ToolRequest",
    "ToolResultEvent",
    "Usage",
    "build_definitions",
    "classify",
    "command",
    "commands",
    "content_revision",
    "explain",
    "failure_class",
    "file_reads",
    "load_suite",
    "open_results",
    "output",
    "parse_command",
    "prompt_text",
    "register_adapter",
    "register_agent",
    "register_evaluator",
    "register_export",
    "register_format",
    "register_normalizer",
    "register_result_log",
    "register_tool",
    "register_wire",
    "run_sweep",
    "skills",
    "soft",
    "tool_calls",
]

_HOMES = {
    "AgentCli": "eval_pipeline.agents.agent_cli",
    "Call": "eval_pipeline.executions.adapters",
    "Case": "eval_pipeline.suites.model",
    "Endpoint": "eval_pipeline.llm.model",
    "EvalPipelineError": "eval_pipeline.errors",
    "EvalProject": "eval_pipeline.orchestration.component",
    "EvalResults": "eval_pipeline.orchestration.resources",
    "EvaluatorSpec": "eval_pipeline.suites.model",
    "ExportOptions": "eval_pipeline.exports",
    "FailureClass": "eval_pipeline.failures",
    "Field": "eval_pipeline.parsing.tables",
    "FieldCursor": "eval_pipeline.parsing.fields",
    "FieldTable": "eval_pipeline.parsing.tables",
    "FileChunk": "eval_pipeline.exports",
    "InputError": "eval_pipeline.errors",
    "InputErrors": "eval_pipeline.errors",
    "JsonlSessions": "eval_pipeline.agents.session_store",
    "Kind": "eval_pipeline.parsing.tables",
    "Launch": "eval_pipeline.agents.launching",
    "LaunchRequest": "eval_pipeline.agents.launching",
    "LoadOptions": "eval_pipeline.suites.load",
    "Message": "eval_pipeline.suites.model",
    "MessageEvent": "eval_pipeline.reports.model",
    "OpenAI": "eval_pipeline.llm.wires.openai",
    "Options": "eval_pipeline.llm.model",
    "Outcome": "eval_pipeline.scores.model",
    "PluginError": "eval_pipeline.plugins",
    "RawExecution": "eval_pipeline.executions.model",
    "RawSession": "eval_pipeline.reports.normalize",
    "RecordField": "eval_pipeline.agents.session_store",
    "RecordedSample": "eval_pipeline.reports.result_logs",
    "RecordedScoreEvent": "eval_pipeline.reports.events",
    "Reply": "eval_pipeline.llm.model",
    "ResultRow": "eval_pipeline.leaderboards.result_rows",
    "Runner": "eval_pipeline.executions.model",
    "SessionReport": "eval_pipeline.reports.model",
    "SourceLocation": "eval_pipeline.errors",
    "Subject": "eval_pipeline.scores.model",
    "Suite": "eval_pipeline.suites.model",
    "SweepResult": "eval_pipeline.cli.notebook",
    "TargetFailure": "eval_pipeline.executions.model",
    "ToolAnswer": "eval_pipeline.executions.tools",
    "ToolCallEvent": "eval_pipeline.reports.model",
    "ToolError": "eval_pipeline.executions.tools",
    "ToolPlace": "eval_pipeline.executions.tools",
    "ToolRequest": "eval_pipeline.executions.tools",
    "ToolResultEvent": "eval_pipeline.reports.model",
    "Usage": "eval_pipeline.reports.model",
    "build_definitions": "eval_pipeline.orchestration.build",
    "classify": "eval_pipeline.scores.assertions.failed_checks",
    "command": "eval_pipeline.scores.assertions.matching",
    "commands": "eval_pipeline.scores.assertions.helpers",
    "content_revision": "eval_pipeline.suites.model",
    "explain": "eval_pipeline.scores.assertions.failed_checks",
    "failure_class": "eval_pipeline.failures",
    "file_reads": "eval_pipeline.scores.assertions.helpers",
    "load_suite": "eval_pipeline.suites.load",
    "open_results": "eval_pipeline.warehouse.published",
    "output": "eval_pipeline.scores.assertions.helpers",
    "parse_command": "eval_pipeline.scores.assertions.command_line",
    "prompt_text": "eval_pipeline.executions.prompt",
    "register_adapter": "eval_pipeline.executions.adapters:ADAPTERS",
    "register_agent": "eval_pipeline.agents.agent_cli:AGENTS",
    "register_evaluator": "eval_pipeline.scores.evaluate:EVALUATORS",
    "register_export": "eval_pipeline.exports:EXPORTS",
    "register_format": "eval_pipeline.suites.load:FORMATS",
    "register_normalizer": "eval_pipeline.reports.normalize:NORMALIZERS",
    "register_result_log": "eval_pipeline.reports.result_logs:RESULT_LOGS",
    "register_tool": "eval_pipeline.executions.tools:TOOLS",
    "register_wire": "eval_pipeline.llm.wires:WIRES",
    "run_sweep": "eval_pipeline.cli.notebook",
    "skills": "eval_pipeline.scores.assertions.helpers",
    "soft": "eval_pipeline.scores.assertions.helpers",
    "tool_calls": "eval_pipeline.scores.assertions.helpers",
}
"""The module of each name; for a decorator the module and its registry."""


if not TYPE_CHECKING:  # a type checker knows the names from above, and reports the others

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, registry = _HOMES[name].partition(":")
        value = getattr(importlib.import_module(module), registry or name)
        globals()[name] = value.register if registry else value
        return globals()[name]


def __dir__() -> list[str]:
    return [*globals(), *__all__]
