"""The end of a sweep that the project file names: its gate, and the notifications about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.errors import EvalPipelineError, InputError, NoResults, error_text
from eval_pipeline.leaderboards.gate_rules import PREVIOUS, GateRules
from eval_pipeline.leaderboards.gates import Gate
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.leaderboards.show import drift_line
from eval_pipeline.leaderboards.sweep_gates import SweepGate, drops_of_pairs, of_decision, sweep_gate
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.sweeps.judging import Judging, judge_anchors
from eval_pipeline.sweeps.named_pairs import expected_pairs, unreadable_suites
from eval_pipeline.sweeps.named_sweeps import named_sweep
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.anchors import drift_rows, flagged
from eval_pipeline.warehouse.comparable_sweeps import run_of, sweeps_named
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.selections import read_results, select, sweep_ids
from eval_pipeline.warehouse.spending import spent_by_run
from eval_pipeline.warehouse.store import Connection


def gate_of(session: ProjectSession, name: str) -> SweepGate | None:
    """Return the gate of the newest finished sweep of a name; None without rules.

    Raises UnknownName for a name that the project file does not have, InputError when none of it has finished.
    """
    rules = named_sweep(session.project, name).gate
    if rules is None:
        return None
    with session.warehouse.published() as connection:
        ids = sweeps_named(connection, name)
        if not ids:
            raise InputError(f"no sweep '{name}' has finished; run it first (eval-pipeline run --sweep {name})")
        before = _before(connection, ids, rules)
        results = _results(connection, ids[0], session)
        earlier = _results(connection, before, session) if before is not None else None
    return sweep_gate(results, earlier, rules, _missing(session, name, results))


def _missing(session: ProjectSession, name: str, results: Results) -> dict[str, str]:
    """What a sweep is to cover and has no results of, with the reason: pairs, and files that are no suites."""
    if not session.suites:
        session.load_suites()
    stored = {PairKey(suite, runner) for suite, runner in results.frame.select("suite", "runner").unique().iter_rows()}
    pairs = [pair for pair in expected_pairs(session, name) if pair not in stored]
    missing = {f"{pair.suite} × {pair.runner}": "nothing of it is stored" for pair in pairs}
    return missing | {
        error.place.file or "a suite": f"cannot be read: {error.problem}" for error in unreadable_suites(session, name)
    }


def drops_of_run(session: ProjectSession, name: str) -> dict[PairKey, Gate]:
    """Return how each pair of the newest finished sweep of a name changed against the sweep that its gate compares
    with; nothing where it compares with none."""
    rules = named_sweep(session.project, name).gate
    if rules is None or not rules.compares:
        return {}
    with session.warehouse.published() as connection:
        ids = sweeps_named(connection, name)
        before = _before(connection, ids, rules) if ids else None
        if before is None:
            return {}
        now, earlier = (_results(connection, sweep_id, session) for sweep_id in (ids[0], before))
    return {PairKey(*pair): gate for pair, gate in drops_of_pairs(now, earlier, rules).items()}


def gate_of_run(session: ProjectSession, name: str, run_id: str | None) -> SweepGate | None:
    """Return the gate of the sweep of a name that a Dagster run carried out; None without rules, and where the sweep
    did not finish or stored nothing: the newest one that did is an earlier one."""
    try:
        with session.warehouse.published() as connection:
            ids = sweeps_named(connection, name)
            stored = ids[:1] and ids[0] in sweep_ids(connection)
            finished = stored and run_of(connection, ids[0]) == run_id
    except NoResults:
        return None
    return gate_of(session, name) if finished else None


def _before(connection: Connection, ids: Sequence[str], rules: GateRules) -> str | None:
    """The sweep that drops are measured from; None where there is none yet."""
    if not rules.compares:
        return None
    others = ids[1:] if rules.against == PREVIOUS else sweeps_named(connection, rules.against)
    return next(iter(others), None)


def _results(connection: Connection, sweep_id: str, session: ProjectSession) -> Results:
    selection = select(connection, f"sweep:{sweep_id}")
    return read_results(connection, selection, sweep_id, session.project.defaults.cluster_by)


@dataclass(frozen=True, slots=True)
class AnchorsEnd:
    """The anchors of a sweep at its end: the new grading, the judges beyond their control limits or not measured,
    and why one of both is missing."""

    judging: Judging | None = None
    drift: Sequence[str] = ()
    problem: str | None = None

    @property
    def lines(self) -> list[str]:
        """What a notification reports."""
        return [*self.drift, *([f"anchors are not graded: {self.problem}"] if self.problem is not None else [])]


NO_ANCHORS = AnchorsEnd()


def judge_at_end(session: ProjectSession, name: str, run_id: str | None) -> AnchorsEnd:
    """Grade the anchors of a sweep of the project file again, within what its run left of its budgets; nothing without
    any anchors.

    An error is the `problem` of the result: gate, notifications and retention follow in any case.
    """
    judging, drift, problem = None, list[str](), None
    try:
        if named_sweep(session.project, name).anchors is not None:
            judging = judge_anchors(session, name, spent=spent_by_run(session.warehouse, name, run_id))
    except Exception as error:  # noqa: BLE001 — see above
        problem = _text_of(error)
    try:
        drift = _drift_of(session, name)
    except Exception as error:  # noqa: BLE001 — see above
        problem = problem or _text_of(error)
    return AnchorsEnd(judging, drift, problem)


def _text_of(error: Exception) -> str:
    return redact_text(str(error) if isinstance(error, EvalPipelineError) else error_text(error), cut=True)


def _drift_of(session: ProjectSession, name: str) -> list[str]:
    """Return which judges of a sweep's anchors are beyond control limits or not measured; nothing without anchors."""
    if named_sweep(session.project, name).anchors is None:
        return []
    try:
        with session.warehouse.published() as connection:
            return [drift_line(row) for row in flagged(drift_rows(connection, name))]
    except NoResults:
        return []


def send_notifications(
    session: ProjectSession, name: str, gate: SweepGate | None, problem: str | None, anchors: AnchorsEnd = NO_ANCHORS
) -> list[str]:
    """Notify about the end of a sweep, as the project file configures it; return what could not be delivered."""
    rules = named_sweep(session.project, name).notify
    events = _events(gate, problem)
    events += ["judge-drift"] if anchors.lines else []
    if rules is None or not rules.wants(events):
        return []
    from eval_pipeline.sweeps.notifications import notify  # noqa: PLC0415 — imports an HTTP client

    document = _document(name, gate, problem, anchors.lines)
    return list(notify(rules, document, session.project.root, session.project.environment))


def _events(gate: SweepGate | None, problem: str | None) -> list[str]:
    of_gate = {"NO-GO": "failed-gate", "INCONCLUSIVE": "inconclusive-gate"}
    happened = [of_gate[gate.decision]] if gate is not None and gate.decision in of_gate else []
    return [*happened, *(["error"] if problem is not None else [])]


def _document(name: str, gate: SweepGate | None, problem: str | None, drift: Sequence[str]) -> dict[str, Any]:
    """Return what a notification contains; `text` is what a chat shows."""
    lines = gate.lines if gate is not None else ()
    decision = gate.decision if gate is not None else None
    of_judges = [f"judge drift: {line}" for line in drift]
    reasons = [
        *of_decision(lines, "NO-GO"),
        *of_decision(lines, "INCONCLUSIVE"),
        *([problem] if problem else []),
        *of_judges,
    ]
    ended = decision or ("did not succeed" if problem is not None else "finished")
    return {
        "sweep": name,
        "decision": decision,
        "problem": problem,
        "judge_drift": list(drift),
        "rules": [{"rule": x.rule, "subject": x.subject, "decision": x.decision, "text": x.text} for x in lines],
        "text": "\n".join([f"eval-pipeline: sweep {name}: {ended}", *reasons]),
    }
