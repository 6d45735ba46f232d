"""What skillgym's adapters start, collect and read of sessions, held against our agents.

`normalize`: the raw files of a session → its report. `collect`: what is known of a session before its report (its id,
or why there is none). `run` and `explain`: the command of a new session, and of one that goes on, with its answer.
Each returns why we differ deliberately, None where we answer alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.session_environment import SessionEnvironment
from eval_pipeline.agents.settings import command_settings
from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolResultEvent
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.suites.model import Case

_ROLES = {
    ("opencode", "normalize"): {"session": "raw.session.export.json"},
    ("codex", "normalize"): {"session": "raw.session.jsonl"},
    ("copilot", "normalize"): {"stdout": "raw.stdout.jsonl", "telemetry": "raw.telemetry.jsonl"},
    ("opencode", "collect"): {"stdout": "raw.stdout.log", "session": "raw.export-command.stdout"},
}
_USUAL_ROLES = {
    "normalize": {"stdout": "raw.session.jsonl"},
    "collect": {"stdout": "raw.stdout.log", "stderr": "raw.stderr.log"},
    "explain": {"stdout": "raw.explain__question-01__stdout.log"},
}
WITH_REASONING = "output tokens include reasoning"
OTHER_WORDS = "the prompt goes through stdin or behind `--`, options are today's, and no model is run by `npx`"
_OTHER_OUTPUTS = {
    "cursor-agent": "the result of a command is what it printed",
    "copilot": "the result of a tool is what the model saw, not what the terminal shows of it",
}


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One row: its agent, its method, and the folder of its files."""

    folder: Path

    @property
    def agent(self) -> str:
        return self.folder.name.split("__")[0]

    @property
    def method(self) -> str:
        return self.folder.name.split("__")[1]

    @property
    def request(self) -> dict[str, Any]:
        return dict(json.loads(self.text("input.json")))

    @property
    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self.text("expected.json")))

    @property
    def cwd(self) -> Path:
        return Path(self.request.get("run_input", self.request.get("explain_input", {}))["cwd"])

    def text(self, name: str) -> str:
        """A file of the row with its machine path put in."""
        return (self.folder / name).read_text("utf-8").replace("<tmp>", "/recorded").replace("$TMP", "/recorded")

    def holds(self, session_id: str | None) -> bool:
        """Whether a raw file of the row names a session; else its id was handed on beside the files."""
        return session_id is not None and any(session_id in path.read_text() for path in self.folder.glob("raw.*"))

    def report(self) -> SessionReport:
        """Our report of the row's files."""
        roles = _ROLES.get((self.agent, self.method)) or _USUAL_ROLES[self.method]
        texts = {role: self.text(name) for role, name in roles.items() if (self.folder / name).exists()}
        if self.agent == "codex" and self.method == "collect":
            (rollout,) = self.folder.glob("artifactsDir/**/*.jsonl")
            texts["session"] = rollout.read_text()
        format_ = AGENTS.get(self.agent).output_format
        raw = RawExecution(format=format_, payload=texts)
        case = Case(id="recorded", input=())
        return normalize_raw(RawSession(execution_id="recorded", raw=raw, case=case, cwd=self.cwd))


def compare(folder: Path) -> str | None:
    """Compare one row; return why we differ deliberately. Raises AssertionError."""
    row = SessionRow(folder)
    return _BY_METHOD[row.method](row)


def _normalize(row: SessionRow) -> str | None:
    theirs, report = row.answer["full_report_as_produced"], row.report()
    events: list[Mapping[str, Any]] = theirs["events"]

    assert [str(row.cwd / path) for path in report.file_reads] == list(dict.fromkeys(theirs["files"]["observedReads"]))
    assert [skill.skill for skill in report.skills] == [skill["skill"] for skill in theirs["detectedSkills"]]
    assert [skill.confidence for skill in report.skills] == [each["confidence"] for each in theirs["detectedSkills"]]
    assert list(report.commands) == [event["command"] for event in events if event["type"] == "command"]
    differences = [*_tools(report, events), *_outputs(row, report, events)]
    assert _spoken(report) == [event["text"] for event in events if event["type"] == "message"]
    session_id = theirs.get("sessionId")
    assert report.session_id == session_id or not row.holds(session_id)
    fallback = theirs["finalOutput"] == row.request["artifacts"].get("stdout")
    assert fallback or (report.final_output or "") == theirs["finalOutput"]
    differences += _usage(report, theirs["usage"])
    return "; ".join(differences) or None


def _tools(report: SessionReport, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Compare the calls of tools; a result whose call is missing has one in our report."""
    ours = [call.tool for call in report.tool_calls]
    theirs = [event["tool"] for event in events if event["type"] == "toolCall"]
    results = [event["tool"] for event in events if event["type"] == "toolResult"]
    assert ours in (theirs, results)
    return [] if ours == theirs else ["a result without its call has one"]


def _outputs(row: SessionRow, report: SessionReport, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Compare the results of tools: ours is what the tool printed or what the model saw, theirs may be all about it."""
    ours = [event.output for event in report.events if isinstance(event, ToolResultEvent)]
    theirs = [event["output"] for event in events if event["type"] == "toolResult"]
    if ours == theirs:
        return []
    assert len(ours) == len(theirs)
    assert all(part in whole or whole in part for part, whole in zip(ours, theirs, strict=True))
    assert row.agent in _OTHER_OUTPUTS
    return [_OTHER_OUTPUTS[row.agent]]


def _spoken(report: SessionReport) -> list[str]:
    return [event.text for event in report.events if isinstance(event, MessageEvent)]


def _usage(report: SessionReport, theirs: Mapping[str, Any]) -> list[str]:
    """Compare tokens; whether the output differs by the reasoning that skillgym counts apart."""
    ours, reasoning = report.usage, theirs.get("reasoningTokens", 0)
    assert (ours.input_tokens, ours.cached_input_tokens) == (theirs.get("inputTokens"), theirs.get("cacheTokens"))
    assert ours.output_tokens in (theirs.get("outputTokens"), theirs.get("outputTokens", 0) + reasoning)
    return [WITH_REASONING] if reasoning else []


def _collect(row: SessionRow) -> str | None:
    report, answer = row.report(), row.answer
    problem = answer.get("error_as_produced")
    if problem is not None:
        assert report.failure_class is not None
        reported = str(problem["message"]).rpartition("run failed: ")
        assert not reported[1] or reported[2] in (report.error or "")
        return None
    theirs = answer["raw_run_artifacts_as_produced"]
    if row.agent == "codex":
        assert "second session" in _spoken(report)
        return "a session's id is in its records, not in the name of its file"
    assert report.session_id == theirs["sessionId"]
    return None


def _command(row: SessionRow, session: str | None) -> list[str]:
    config = row.request["agent_config"]
    given = {"agent": row.agent, "model": config["model"], "args": config.get("commandArgs", [])}
    command: list[str] = command_settings(given, session)["command"]
    return command


def _run(row: SessionRow) -> str | None:
    observed = row.answer["observed"]
    if "files" in observed:
        return _seeded(row)
    command = _command(row, None)
    (theirs,) = observed.get("calls") or [observed["call"]]
    assert {"--model", "-m"}.intersection(command)
    assert row.request["agent_config"]["model"] in command
    assert set(row.request["agent_config"].get("commandArgs", ())) <= set(command)
    shared = {"exec", "run", "--json", "--format", "json", "--thinking", "--output-format", "stream-json", "--verbose"}
    shared |= {"--dangerously-skip-permissions", "--skip-git-repo-check"}
    assert shared.intersection(theirs["args"]) <= set(command)
    return OTHER_WORDS


def _seeded(row: SessionRow) -> str | None:
    """A session sees the user's login in a home of its own."""
    cli = AGENTS.get(row.agent)
    (seeded,) = row.request["home_files"]
    assert Path(seeded).name in cli.login_files
    assert SessionEnvironment(cli=cli).isolated
    return "the login is linked into a fresh home, and is no copy among the artifacts"


def _explain(row: SessionRow) -> str | None:
    answer, report = row.answer, row.report()
    session = row.request["explain_input"]["sessionId"]
    assert session in _command(row, session)
    (theirs,) = answer["explain_result_as_produced"]["answers"]
    assert report.final_output == theirs["answer"]
    assert report.session_id == theirs["sessionId"] == session
    return OTHER_WORDS


_BY_METHOD: Mapping[str, Callable[[SessionRow], str | None]] = {
    "normalize": _normalize, "collect": _collect, "run": _run, "explain": _explain,
}  # fmt: skip
