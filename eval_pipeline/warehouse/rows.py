"""Values of the other rooms → rows of the tables, and back: what the codec cannot derive from the declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Artifact, Attempt, Execution, RawExecution, Runner, WorkspaceTrace
from eval_pipeline.fingerprints import canonical_json, fingerprint
from eval_pipeline.parsing.public_settings import redacted
from eval_pipeline.parsing.secret_names import NO_RULES, SecretRules
from eval_pipeline.reports.model import (
    EVENT_KINDS,
    CommandEvent,
    DetectedSkill,
    Event,
    SessionReport,
    ToolResultEvent,
    Usage,
    event_from_json,
    turn_positions,
    turn_start_from_json,
)
from eval_pipeline.reports.moments import iso, parse_time
from eval_pipeline.reports.usage import costs_of
from eval_pipeline.scores.evaluate import GRADER, PASS_MARK, BoundEvaluator
from eval_pipeline.scores.model import Finding, Score, Status, SubScore, Verdict
from eval_pipeline.suites.model import Case, EvaluatorSpec, Suite
from eval_pipeline.suites.simulation import SimulatedUser
from eval_pipeline.warehouse.codec import encoder, value_of
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.tables import BY_NAME

_SUITES = encoder(
    BY_NAME["suites"],
    Suite,
    given=("suite", "suite_revision", "path", "metadata", "case_count", "invalid_cases", "errors", "loaded_at"),
)
_PERSONA_CHARACTERS = 80
_CASES = encoder(
    BY_NAME["cases"],
    Case,
    given=(
        "suite", "suite_revision", "case_id", "position", "metadata", "evaluators", "workspace", "case_group",
        "persona", "simulated_user", "created_at", "updated_at", "repetitions", "input_key",
    ),
)  # fmt: skip
_RUNNERS = encoder(BY_NAME["runners"], Runner, given=("runner", "runner_revision", "settings", "used_at", "content"))
_EXECUTIONS = encoder(
    BY_NAME["target_executions"],
    Execution,
    given=(
        "sweep_id", "runner_revision", "selected_at", "attempt_count", "exit_code", "format", "raw", "artifacts",
        "workspace", "identity", "retry_of",
    ),
)  # fmt: skip
_REPORTS = encoder(
    BY_NAME["session_reports"],
    SessionReport,
    Usage,
    Execution,
    given=(
        "normalizer", "tool_calls", "commands", "event_count", "selected_at", "turns", "given_up", "prices",
        "started_at", "ended_at", "reported_times",
    ),
)  # fmt: skip
_EVENTS = encoder(
    BY_NAME["session_events"], Execution, given=("position", "kind", "text", "tool", "ok", "event", "turn")
)
_SCORES = encoder(BY_NAME["evaluator_scores"], Score, Execution, given=("details", "scored_at", "sweep_id"))
_MEMBERS = encoder(
    BY_NAME["member_scores"],
    SubScore,
    Score,
    Execution,
    given=("position", "member", "details", "scored_at", "sweep_id"),
)
_VERDICTS = encoder(
    BY_NAME["verdicts"],
    Verdict,
    SessionReport,
    Usage,
    Execution,
    given=(
        "verdict_id", "suite_revision", "runner_revision", "tags", "decision_key", "normalizer", "score_keys",
        "decided_at", "sweep_id", "executed_at", "scores_key", "grading_cost_usd",
    ),
)  # fmt: skip


def suite_row(suite: Suite, errors: Sequence[InputError], now: datetime, rules: SecretRules = NO_RULES) -> Row:
    """Return the `suites` row of a suite; `errors` are those of its cases, `rules` what its project lists as secret."""
    return _SUITES(
        suite,
        suite=suite.name,
        suite_revision=suite.revision,
        path=str(suite.path),
        metadata=redacted(suite.metadata, rules),
        case_count=len(suite.cases),
        invalid_cases=len(errors),
        errors=[str(error) for error in errors],
        loaded_at=now,
    )


def case_rows(suite: Suite, rules: SecretRules = NO_RULES) -> Iterator[Row]:
    """Yield the `cases` rows of a suite; `rules` are what its project lists as secret."""
    for position, case in enumerate(suite.cases):
        yield _CASES(
            case,
            suite=suite.name,
            suite_revision=suite.revision,
            case_id=case.id,
            position=position,
            metadata=redacted(case.metadata, rules),
            evaluators=[_evaluator(spec, rules) for spec in case.evaluators],
            workspace=case.workspace.fingerprint_fields() if case.workspace is not None else None,
            case_group=case.group,
            repetitions=case.repetitions or suite.settings.repetitions,
            input_key=fingerprint(case.fingerprint_fields())[:32],
            persona=_persona(case.user),
            simulated_user=case.user.fingerprint_fields() if case.user is not None else None,
            **{name: _time_of(case.metadata.get(name)) for name in ("created_at", "updated_at")},
        )


def _persona(user: SimulatedUser | None) -> str | None:
    """Return the label of a user: the type of its persona, or the beginning of the text."""
    persona = user.persona if user is not None else None
    label = persona.get("type") if isinstance(persona, Mapping) else persona
    return " ".join(str(label).split())[:_PERSONA_CHARACTERS] if label else None


def _time_of(value: Any) -> datetime | None:
    return parse_time(value) if isinstance(value, str) else None


def _evaluator(spec: EvaluatorSpec, rules: SecretRules) -> Row:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__} | {"config": redacted(spec.config, rules)}


def spec_row(
    bound: BoundEvaluator, graders: Sequence[Row] | None, suite: str, runner: str, now: datetime | None = None
) -> Row:
    """Return the `evaluator_specs` row of an evaluator; `graders` are the runners that grade for it."""
    spec = bound.spec
    files = {name: value for name, value in bound.content.items() if name != PASS_MARK and not name.startswith(GRADER)}
    return {
        "suite": suite,
        "runner": runner,
        "spec_key": bound.key,
        "score_key": bound.score_key,
        "evaluator": spec.name,
        "type": spec.type,
        "version": bound.evaluator.version,
        "arguments": redacted(spec.config),
        "negated": spec.negate,
        "weight": spec.weight,
        "minimum": spec.minimum,
        "failure_class": spec.failure_class,
        "graders": graders,
        "pass_mark": bound.content.get(PASS_MARK),
        "files": files or None,
        "reads": {name: fingerprint(value)[:16] for name, value in bound.reads.items()} or None,
        "used_at": now,
    }


def runner_row(runner: Runner, revision: str, now: datetime, content: Mapping[str, str] | None = None) -> Row:
    """Return the `runners` row of a runner, secrets redacted; `content` are the fingerprints of what it runs."""
    return _RUNNERS(
        runner,
        runner=runner.name,
        runner_revision=revision,
        settings=orjson.loads(canonical_json(runner.public_settings)),
        used_at=now,
        content=content,
    )


def execution_row(
    execution: Execution,
    artifacts: tuple[Artifact, ...],
    inline: bool,
    sweep_id: str,
    runner_revision: str,
    identity: Mapping[str, str] | None = None,
    retry_of: str | None = None,
) -> Row:
    """Return the `target_executions` row.

    `inline` is whether it holds the raw payload (else an artifact does); `identity` are the fingerprints of the parts
    of its plan's content; `retry_of` is the first of the answers that it was executed beside.
    """
    raw = execution.raw
    stored = {"payload": raw.payload if inline else None, "duration_ms": raw.duration_ms} if raw is not None else None
    return _EXECUTIONS(
        execution,
        sweep_id=sweep_id,
        runner_revision=runner_revision,
        selected_at=execution.finished_at,
        attempt_count=len(execution.attempts),
        exit_code=raw.exit_code if raw is not None else None,
        format=raw.format if raw is not None else None,
        raw=stored,
        artifacts=artifacts,
        workspace=_workspace(execution.workspace),
        identity=identity,
        retry_of=retry_of,
    )


def _workspace(trace: WorkspaceTrace | None) -> Row | None:
    if trace is None:
        return None
    place = trace.place or trace.path
    return {"path": str(place) if place else None, "changes": trace.changes, "hooks": trace.hooks}


def stored_execution(row: Mapping[str, Any], raw: RawExecution | None) -> Execution:
    """Return the execution of a decoded `target_executions` row."""
    attempts = tuple(map(_stored_attempt, row["attempts"] or ()))
    return value_of(Execution, row, attempts=attempts, raw=raw, workspace=_stored_workspace(row["workspace"]))


def _stored_attempt(fields: Mapping[str, Any]) -> Attempt:
    return Attempt(**{**fields, "started_at": datetime.fromisoformat(fields["started_at"])})


def _stored_workspace(stored: Mapping[str, Any] | None) -> WorkspaceTrace | None:
    """Return the trace of a workspace without its folder, which may be deleted or reused by another session."""
    if stored is None:
        return None
    return WorkspaceTrace(changes=stored.get("changes"), hooks=stored.get("hooks") or {})


def report_row(
    report: SessionReport, execution: Execution, normalizer: str, now: datetime, prices: str | None = None
) -> Row:
    """Return the `session_reports` row of a report; its events are rows of their own.

    `prices` is the fingerprint of the prices in force.
    """
    return _REPORTS(
        report,
        report.usage,
        execution,
        normalizer=normalizer,
        tool_calls=len(report.tool_calls), commands=len(report.commands), event_count=len(report.events),
        selected_at=now,
        turns=report.turn_starts or None, given_up=report.given_up or None,
        prices=prices,
        started_at=parse_time(report.started_at), ended_at=parse_time(report.ended_at),
        reported_times=[report.started_at, report.ended_at],
    )  # fmt: skip


LONG_TEXT = 4_000
"""Characters beyond which the text of an event is stored only in its own column."""
_EVENT_TEXT = ("text", "command", "path", "output", "skill", "message")


def event_rows(report: SessionReport, execution: Execution) -> Iterator[Row]:
    """Yield the `session_events` rows of a report."""
    turn, starts = 0, frozenset(turn_positions(report.events, report.turn_starts))
    for position, event in enumerate(report.events):
        if position in starts:
            turn += 1
        text, tool, ok = _EVENT_FACTS[type(event)]
        yield _EVENTS(
            execution,
            position=position,
            kind=event.kind,
            text=text(event),
            tool=tool(event),
            ok=ok(event),
            event=_stored_event(event, text(event)),
            turn=turn,
        )


def _stored_event(event: Event, text: Any) -> Any:
    """Return what is stored of an event: a very long text is only in its own column."""
    if not isinstance(text, str) or len(text) <= LONG_TEXT:
        return event
    left_out = _TEXT_FIELDS[type(event)]
    kept = (name for name in event.__dataclass_fields__ if name != left_out)
    return {name: getattr(event, name) for name in kept} | {"kind": event.kind}


def with_text(event: Mapping[str, Any], text: str | None) -> Mapping[str, Any]:
    """Return the fields of a stored event, with the text that is stored beside it."""
    name = _TEXT_FIELDS[EVENT_KINDS[event["kind"]]] if text is not None and event.get("kind") in EVENT_KINDS else None
    return event if name is None or name in event else {**event, name: text}


def _text_field(cls: type) -> str | None:
    """Return the field of an event that the column `text` holds."""
    names = {field.name for field in fields(cls)}
    return next((name for name in _EVENT_TEXT if name in names), None)


_Fact = Callable[[Any], Any]


def _facts(cls: type) -> tuple[_Fact, _Fact, _Fact]:
    """Return how the columns `text`, `tool` and `ok` are read from an event of this class."""
    names = {field.name for field in fields(cls)}
    named = _text_field(cls)
    text = attrgetter(named) if named is not None else _unknown
    tool = attrgetter("tool") if "tool" in names else _unknown
    return text, tool, next((read for name, read in _EVENT_OK.items() if name in names), _unknown)


def _unknown(event: Event) -> None:
    return None


def _succeeded(result: ToolResultEvent) -> bool | None:
    return None if result.is_error is None else not result.is_error


def _exited_well(command: CommandEvent) -> bool | None:
    return None if command.exit_code is None else command.exit_code == 0


_EVENT_OK: dict[str, _Fact] = {"is_error": _succeeded, "exit_code": _exited_well, "ok": attrgetter("ok")}
_TEXT_FIELDS = {cls: _text_field(cls) for cls in EVENT_KINDS.values()}
_EVENT_FACTS = {cls: _facts(cls) for cls in EVENT_KINDS.values()}


def stored_report(row: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> SessionReport:
    """Return the report of a decoded `session_reports` row and the decoded `session_events` rows.

    A row of an older version has no `turns`; its events show them. Times are the session's own texts.
    """
    started_at, ended_at = row.get("reported_times") or [iso(row.get(name)) for name in ("started_at", "ended_at")]
    return value_of(
        SessionReport,
        row,
        **_stored_costs(row),
        given_up=tuple(row.get("given_up") or ()),
        started_at=started_at,
        ended_at=ended_at,
        turn_starts=tuple(map(turn_start_from_json, row["turns"] or ())),
        events=tuple(event_from_json(with_text(event["event"], event["text"])) for event in events),
        skills=tuple(
            value_of(DetectedSkill, skill, evidence=tuple(skill["evidence"])) for skill in row["skills"] or ()
        ),
    )


def _stored_costs(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the answer used and what retries cost (None: unknown): nothing where its cost is not apart."""
    usage, answer, retries = value_of(Usage, row), row.get("answer_cost_usd"), costs_of(row.get("given_up") or ())
    if answer is None and (usage.cost_source or not any(retries)):
        return {"usage": usage, "retries_cost_usd": None if None in retries and not usage.cost_source else 0.0}
    beside = None if row["cost_usd"] is None else row["cost_usd"] - (answer or 0.0)
    return {"usage": replace(usage, cost_usd=answer), "retries_cost_usd": beside or None}


def score_row(score: Score, execution: Execution, sweep_id: str, now: datetime) -> Row:
    """Return the `evaluator_scores` row of a score."""
    return _SCORES(score, execution, details=dict(score.details), scored_at=now, sweep_id=sweep_id)


def member_rows(score: Score, execution: Execution, sweep_id: str, now: datetime) -> Iterator[Row]:
    """Yield the `member_scores` rows of a score."""
    for position, member in enumerate(score.members):
        yield _MEMBERS(
            member,
            score,
            execution,
            position=position,
            member=member.name,
            details=dict(member.details),
            scored_at=now,
            sweep_id=sweep_id,
        )


def stored_score(row: Mapping[str, Any], members: Sequence[Mapping[str, Any]] = ()) -> Score:
    """Return the score of a decoded `evaluator_scores` row, with the sub-scores of decoded `member_scores` rows."""
    return value_of(
        Score,
        row,
        findings=tuple(Finding(**finding) for finding in row["findings"] or ()),
        members=tuple(value_of(SubScore, member, name=member["member"]) for member in members),
    )


def verdict_row(
    verdict: Verdict,
    execution: Execution,
    report: SessionReport,
    *,
    suite_revision: str,
    runner_revision: str,
    tags: tuple[str, ...],
    decision_key: str,
    scores_key: str,
    normalizer: str,
    scores: Sequence[Score],
    sweep_id: str,
    now: datetime,
) -> Row:
    """Return the `verdicts` row of a decided plan."""
    return _VERDICTS(
        verdict,
        report,
        report.usage,
        execution,
        verdict_id=f"{execution.execution_id}-{int(now.timestamp() * 1_000_000):x}",
        suite_revision=suite_revision,
        runner_revision=runner_revision,
        tags=tags,
        decision_key=decision_key,
        normalizer=normalizer,
        scores_key=scores_key,
        score_keys=[score.spec_key for score in scores],
        grading_cost_usd=_sum_if_known(score.grading_cost_usd for score in scores),
        decided_at=now,
        sweep_id=sweep_id,
        executed_at=execution.finished_at,
    )


def _sum_if_known(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def stored_verdict(row: Mapping[str, Any]) -> Verdict:
    """Return the verdict of a decoded `verdicts` row."""
    return value_of(Verdict, row, status=Status(row["status"]))


def raw_of(row: Mapping[str, Any], payload: Any, files: Mapping[str, Path]) -> RawExecution | None:
    """Return the raw execution of a decoded `target_executions` row, with its payload and its files."""
    raw = row["raw"]
    if raw is None or row["format"] is None:
        return None
    return value_of(RawExecution, row, payload=payload or {}, files=files, duration_ms=raw.get("duration_ms"))
