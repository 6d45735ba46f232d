"""Stored executions and verdicts of pairs, by plan."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson

from eval_pipeline.executions.model import Execution, Plan, RawExecution
from eval_pipeline.failures import NORMALIZATION
from eval_pipeline.reports.model import SessionReport, Usage
from eval_pipeline.scores.model import Score, SubScore
from eval_pipeline.suites.incomplete import LIMITS, NONE_COUNTS, IncompleteRule
from eval_pipeline.suites.model import Case
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.codec import decoder, field_names
from eval_pipeline.warehouse.columns import Column, Row, Table
from eval_pipeline.warehouse.journal import PairKey, journaled_executions
from eval_pipeline.warehouse.shared_files import SharedFiles, local_artifact
from eval_pipeline.warehouse.store import Connection, Warehouse
from eval_pipeline.warehouse.tables import BY_NAME

_LOG = logging.getLogger(__name__)
BATCH = 2_000
Item = TypeVar("Item")

_STORED = """
WITH pairs AS (
    SELECT unnest($suites::VARCHAR[]) AS suite, unnest($runners::VARCHAR[]) AS runner,
           unnest($limits_count::BOOLEAN[]) AS limits_count),
exceptions AS (
    SELECT DISTINCT unnest($excepted_suites::VARCHAR[]) AS suite, unnest($excepted_cases::VARCHAR[]) AS case_id,
           true AS excepted),
e AS (
    SELECT e.suite, e.runner, e.key, e.execution_id, e.format, e.sweep_id, r.normalizer AS report_normalizer,
           r.cost_usd, e.answered_by, e.started_at,
           e.retry_of, e.identity ->> 'fallback' AS fallback_revision, e.identity IS NOT NULL AS identified,
           if(r.cost_source = 'reported' AND e.answered_by IS NULL AND r.given_up IS NULL, 'reported', r.prices)
               AS prices,
           (e.completed AND coalesce(r.failure_class, $normalization) = $normalization) OR (
               coalesce(e.failure_class, r.failure_class, '') IN $limits
               AND p.limits_count <> coalesce(x.excepted, false)) AS valid,
           max(if(valid, NULL, row(e.sweep_id, e.started_at))) OVER (PARTITION BY e.suite, e.runner, e.key) AS last_try,
           arg_max(if(valid, NULL, coalesce(e.retry_of, '')), if(valid, NULL, e.started_at))
               OVER (PARTITION BY e.suite, e.runner, e.key) AS last_retry_of,
           row_number() OVER (PARTITION BY e.suite, e.runner, e.key ORDER BY valid DESC, e.selected_at DESC) AS newest,
           e.selected_at < max(e.selected_at) OVER (PARTITION BY e.suite, e.runner, e.case_id, e.repetition)
               AS deselected
    FROM target_executions e JOIN pairs p USING (suite, runner) LEFT JOIN session_reports r USING (execution_id)
    LEFT JOIN exceptions x ON x.suite = e.suite AND x.case_id = e.case_id),
v AS (
    SELECT execution_id, decision_key, normalizer, status, suite_revision, runner_revision, failure_class, scores_key,
           array_to_string(tags, chr(31)) AS tags,
           row_number() OVER (PARTITION BY execution_id ORDER BY decided_at DESC) AS newest,
           execution_id <> arg_max(execution_id, decided_at) OVER (
               PARTITION BY suite, suite_revision, runner, runner_revision, case_id, repetition) AS displaced
    FROM verdicts SEMI JOIN pairs USING (suite, runner))
SELECT e.suite, e.runner, e.key, e.execution_id, e.valid, e.format, e.sweep_id, e.report_normalizer,
       v.decision_key, v.normalizer, v.status, v.suite_revision, v.failure_class, e.cost_usd,
       v.tags, e.prices, e.answered_by, coalesce(e.last_try > row(e.sweep_id, e.started_at), false) AS superseded,
       v.runner_revision, e.fallback_revision, e.identified, e.retry_of, nullif(e.last_retry_of, ''),
       coalesce(e.deselected, false), coalesce(v.displaced, false), v.scores_key
FROM (SELECT * FROM e WHERE {chosen}) e LEFT JOIN (SELECT * FROM v WHERE newest = 1) v USING (execution_id)
"""
_OF_PLANS = _STORED.format(chosen="newest = 1")
_OF_RETRIES = _STORED.format(chosen="valid AND coalesce(retry_of, execution_id) IN (SELECT unnest($firsts::VARCHAR[]))")


class StoredExecution(NamedTuple):
    """The stored execution of a plan key: the newest valid one, else the newest.

    `valid` is whether the target finished and the session completed, or ended at a limit and counts; `cost_usd` is the
    cost of the session, None when unknown, and `prices` the identity of the prices that it was computed with
    (`reported`: of none). `answered_by` is the fallback that answered, `fallback_revision` its revision. `superseded`
    is whether the plan was tried again later and did not complete; `identified` whether this version or a later one
    stored it. `retry_of` is the first answer beside which it counts, `last_retry_of` that of the last try that did not
    complete. `deselected` is whether another execution of its case and repetition was selected later, `displaced`
    whether another one has the newest verdict at the revisions of its own. The other fields come from its newest
    verdict; None without one; `tags` as `joined_tags`.
    """

    key: str
    execution_id: str
    valid: bool
    format: str | None
    sweep_id: str
    report_normalizer: str | None
    decision_key: str | None
    normalizer: str | None
    status: str | None
    suite_revision: str | None
    failure_class: str | None
    cost_usd: float | None
    tags: str | None = None
    prices: str | None = None
    answered_by: str | None = None
    superseded: bool = False
    runner_revision: str | None = None
    fallback_revision: str | None = None
    identified: bool = False
    retry_of: str | None = None
    last_retry_of: str | None = None
    deselected: bool = False
    displaced: bool = False
    scores_key: str | None = None


def joined_tags(tags: Iterable[str]) -> str:
    """Return the tags of a case in the form that stored ones are compared in."""
    return "\x1f".join(tags)


def find_stored(stored: Mapping[str, StoredExecution], plan: Plan) -> StoredExecution | None:
    """Return the stored execution of a plan, else the one that an older version stored of it by a key of fewer parts;
    that one has another `key`."""
    execution = stored.get(plan.key)
    if execution is None and plan.earlier_key is not None:
        earlier = stored.get(plan.earlier_key)
        return earlier if earlier is not None and not earlier.identified else None
    return execution


def has_other_tags(stored: StoredExecution, case: Case) -> bool:
    """Return whether the stored verdict has other tags than the case; False without a verdict."""
    return stored.status is not None and stored.tags != joined_tags(case.tags)


def stored_executions(
    warehouse: Warehouse, pairs: Sequence[PairKey], rules: Mapping[PairKey, IncompleteRule] | None = None
) -> dict[PairKey, dict[str, StoredExecution]]:
    """Return the stored executions of these pairs, by plan key; `rules` are those of sessions that a limit ended."""

    def read(connection: Connection) -> dict[PairKey, dict[str, StoredExecution]]:
        known: dict[PairKey, dict[str, StoredExecution]] = {pair: {} for pair in pairs}
        for pair, stored in _stored(connection, _OF_PLANS, dict.fromkeys(pairs, NONE_COUNTS) | dict(rules or {})):
            known[pair][stored.key] = stored
        return known

    return warehouse.read(read) if pairs and warehouse.exists() else {pair: {} for pair in pairs}


def retried_answers(
    warehouse: Warehouse, pairs: Mapping[PairKey, IncompleteRule], firsts: Sequence[str]
) -> dict[PairKey, list[StoredExecution]]:
    """Return the valid answers to plans that were executed again because they did not pass: each of `firsts`, and
    those that count beside it. `pairs` have their rules of sessions that a limit ended."""

    def read(connection: Connection) -> dict[PairKey, list[StoredExecution]]:
        answers: dict[PairKey, list[StoredExecution]] = {pair: [] for pair in pairs}
        for pair, stored in _stored(connection, _OF_RETRIES, pairs, firsts=list(firsts)):
            answers[pair].append(stored)
        return answers

    return warehouse.read(read)


def _stored(
    connection: Connection, query: str, pairs: Mapping[PairKey, IncompleteRule], **more: Any
) -> Iterator[tuple[PairKey, StoredExecution]]:
    values = {
        "suites": [pair.suite for pair in pairs],
        "runners": [pair.runner for pair in pairs],
        "limits_count": [rule.counts for rule in pairs.values()],
        "excepted_suites": [pair.suite for pair, rule in pairs.items() for _ in rule.exceptions],
        "excepted_cases": [case_id for rule in pairs.values() for case_id in rule.exceptions],
        "limits": list(LIMITS),
        "normalization": NORMALIZATION.id,
        **more,
    }
    by_name = {(pair.suite, pair.runner): pair for pair in pairs}
    # Each column has values of its own: 1.0 and True are equal
    shared: tuple[dict[Any, Any], ...] = tuple({} for _ in StoredExecution._fields)
    cursor = connection.execute(query, values)
    while batch := cursor.fetchmany(BATCH):
        for suite, runner, key, execution_id, *rest in batch:
            fields = (key, execution_id, *map(dict.setdefault, shared, rest, rest))
            yield by_name[suite, runner], StoredExecution._make(fields)


def pending_executions(
    warehouse: Warehouse, pair: PairKey, rule: IncompleteRule = NONE_COUNTS
) -> dict[str, StoredExecution]:
    """Return the newest valid execution of each plan key that is only in a journal so far, else the newest.

    Nothing derived from it is stored: its report and its verdict are still to be made.
    """
    pending: dict[str, StoredExecution] = {}
    for row in journaled_executions(warehouse.storage, pair):
        key = row.get("key")
        known = pending.get(key) if isinstance(key, str) else None
        valid = row.get("completed") is True or rule.covers(row.get("case_id") or "", row.get("failure_class"))
        if isinstance(key, str) and (known is None or valid or not known.valid):
            pending[key] = _only_executed(key, row, valid=valid)
    return pending


def _only_executed(key: str, row: Row, *, valid: bool) -> StoredExecution:
    return StoredExecution(
        key=key,
        execution_id=row["execution_id"],
        valid=valid,
        format=row.get("format"),
        sweep_id=row.get("sweep_id") or "",
        answered_by=row.get("answered_by"),
        fallback_revision=(row.get("identity") or {}).get("fallback"),
        identified=row.get("identity") is not None,
        retry_of=row.get("retry_of"),
        report_normalizer=None,
        decision_key=None,
        normalizer=None,
        status=None,
        suite_revision=None,
        failure_class=None,
        cost_usd=None,
    )


def load_stored(
    warehouse: Warehouse, items: Sequence[Item], stored_of: Callable[[Item], StoredExecution], *, outputs: bool = True
) -> Iterator[tuple[Item, Execution, SessionReport | None, dict[str, Score]]]:
    """Yield each item with its stored execution, report (None without one) and scores by spec_key, batch by batch;
    `outputs` as in `load_executions`."""
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        stored = load_executions(warehouse, [stored_of(item).execution_id for item in batch], outputs=outputs)
        for item in batch:
            values = stored.get(stored_of(item).execution_id)
            if values is not None:
                yield item, *values


def load_executions(
    warehouse: Warehouse, ids: list[str], *, outputs: bool = True
) -> dict[str, tuple[Execution, SessionReport | None, dict[str, Score]]]:
    """Return stored executions with their reports (None without one) and scores by spec_key, by execution id. Without
    `outputs`, executions lack attempts, workspaces and raw outputs, of which only the format is read."""
    tables = warehouse.read(lambda connection: _of_executions(connection, ids, outputs))
    artifacts = warehouse.storage.artifacts
    reports = {row["execution_id"]: row for row in tables["session_reports"]}
    events, scores, members = (
        grouped(tables[name]) for name in ("session_events", "evaluator_scores", "member_scores")
    )
    return {
        row["execution_id"]: (
            rows.stored_execution(row, _raw(row, artifacts, warehouse.shared_files) if outputs else _format(row)),
            _report(reports.get(row["execution_id"]), events.get(row["execution_id"], ())),
            _scores(scores.get(row["execution_id"], ()), members.get(row["execution_id"], ())),
        )
        for row in tables["target_executions"]
    }


_IN_ORDER = "ORDER BY execution_id, position"
_OF_EXECUTIONS: Mapping[str, tuple[Table, str]] = {
    name: (replace(BY_NAME[name], columns=tuple(each for each in BY_NAME[name].columns if each.name in read)), order)
    for name, read, order in (
        ("target_executions", {*field_names(Execution, RawExecution), "artifacts", "raw"}, ""),
        ("session_reports", {*field_names(SessionReport, Usage), "turns", "reported_times", "answer_cost_usd"}, ""),
        ("session_events", {"execution_id", "event", "text"}, _IN_ORDER),
        ("evaluator_scores", {*field_names(Score)}, ""),
        ("member_scores", {*field_names(SubScore), "execution_id", "spec_key", "member"}, _IN_ORDER),
    )
}
"""What is read of stored executions: each table with the columns that their values are made from, and its order."""
_OUTPUTS = {"attempts", "workspace", "raw", "artifacts"}


def _of_executions(connection: Connection, ids: Sequence[str], outputs: bool) -> dict[str, list[Row]]:
    """Return the rows of executions by table."""
    _select_executions(connection, ids)
    tables: dict[str, list[Row]] = {}
    for name, (table, order) in _OF_EXECUTIONS.items():
        columns = [each for each in table.columns if outputs or each.name not in _OUTPUTS]
        chosen = ", ".join(map(_selected, columns))
        query = f'SELECT {chosen} FROM "{name}" t SEMI JOIN selected USING (execution_id) {order}'
        decode = decoder([each.name for each in columns], table)
        tables[name] = list(map(decode, connection.execute(query).fetchall()))
    return tables


def _selected(column: Column) -> str:
    """Return a column in a query: times without their zone, which is UTC, take the driver half the time."""
    return f't."{column.name}"' + ("::TIMESTAMP" if column.type == "TIMESTAMPTZ" else "")


def _scores(scores: Sequence[Row], members: Sequence[Row]) -> dict[str, Score]:
    return {
        row["spec_key"]: rows.stored_score(row, [each for each in members if each["spec_key"] == row["spec_key"]])
        for row in scores
    }


def _select_executions(connection: Connection, ids: Sequence[str]) -> None:
    """Fill the temporary table `selected(execution_id)` with these ids."""
    connection.execute("CREATE OR REPLACE TEMP TABLE selected (execution_id VARCHAR)")
    connection.execute("INSERT INTO selected SELECT unnest($ids::VARCHAR[])", {"ids": list(ids)})


def grouped(stored: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows grouped by execution id."""
    groups: dict[str, list[Row]] = {}
    for row in stored:
        groups.setdefault(row["execution_id"], []).append(row)
    return groups


def _report(row: Row | None, events: Sequence[Row]) -> SessionReport | None:
    return rows.stored_report(row, events) if row is not None else None


def _raw(row: Row, folder: Path, shared: SharedFiles | None) -> RawExecution | None:
    """Return the raw execution with file paths in the current data folder; a payload stored as a file is read back."""
    files = {
        entry["role"]: local_artifact(shared, folder / entry["path"], entry.get("sha256"))
        for entry in row["artifacts"] or ()
    }
    payload = (row["raw"] or {}).get("payload")
    file = files.pop("payload", None)
    if file is not None and file.is_file():
        payload = orjson.loads(file.read_bytes())
    elif file is not None:
        _LOG.warning("the raw output of %s is not here any more: %s", row["execution_id"], file)
    return rows.raw_of(row, payload, files)


def _format(row: Row) -> RawExecution | None:
    """Return a raw execution of which only the format is known."""
    return RawExecution(format=row["format"]) if row["format"] is not None else None


def case_results(warehouse: Warehouse, pair: PairKey) -> dict[str, int]:
    """Return the number of cases of a pair by status, each by the strategy of its repetitions."""
    query = "SELECT status, count(*) FROM case_results WHERE suite = $suite AND runner = $runner GROUP BY status"
    values = {"suite": pair.suite, "runner": pair.runner}
    return dict(warehouse.read(lambda connection: connection.execute(query, values).fetchall()))


@dataclass(frozen=True, slots=True)
class Rebind:
    """A reused execution whose newest verdict is stored again: for today's revisions of its suite and its runner, and
    with today's key and tags (None: as they are)."""

    execution_id: str
    suite_revision: str
    tags: str | None = None
    runner_revision: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Adoption:
    """A reused execution of an older version that gets today's key, runner revision and identity."""

    execution_id: str
    key: str
    runner_revision: str
    identity: Mapping[str, str]


def adopt(warehouse: Warehouse, adoptions: Sequence[Adoption]) -> None:
    """Identify executions that an older version stored as today's executions are identified."""
    values = {
        "ids": [each.execution_id for each in adoptions],
        "keys": [each.key for each in adoptions],
        "revisions": [each.runner_revision for each in adoptions],
        "identities": [orjson.dumps(dict(each.identity)).decode() for each in adoptions],
    }
    with warehouse.transaction() as connection:
        connection.execute(
            """UPDATE target_executions SET key = a.key, runner_revision = a.revision, identity = a.identity FROM (
                   SELECT unnest($ids::VARCHAR[]) AS id, unnest($keys::VARCHAR[]) AS key,
                          unnest($revisions::VARCHAR[]) AS revision, unnest($identities::VARCHAR[])::JSON AS identity) a
               WHERE execution_id = a.id""",
            values,
        )


_NEW_TAGS = "CASE WHEN b.tags IS NULL THEN v.tags WHEN b.tags = '' THEN [] ELSE string_split(b.tags, chr(31)) END"


def rebind(warehouse: Warehouse, rebinds: Sequence[Rebind], sweep_id: str, now: datetime) -> None:
    """Store the newest verdicts of executions again, for another revision of their suite and with its tags."""
    # A copy, not an update: boards of the earlier revision still read the earlier verdict.
    columns = BY_NAME["verdicts"].column_names
    new = {"suite_revision": "b.suite_revision", "tags": _NEW_TAGS, "key": "coalesce(b.key, v.key)",
           "runner_revision": "coalesce(b.runner_revision, v.runner_revision)",
           "sweep_id": "$sweep", "decided_at": "$now",
           "verdict_id": "v.execution_id || '-' || $suffix"}  # fmt: skip
    chosen = ", ".join(f"{new[name]} AS {name}" if name in new else f'v."{name}"' for name in columns)
    values = {"sweep": sweep_id, "now": now, "suffix": f"{int(now.timestamp() * 1_000_000):x}",
              "ids": [each.execution_id for each in rebinds],
              "revisions": [each.suite_revision for each in rebinds],
              "tags": [each.tags for each in rebinds], "keys": [each.key for each in rebinds],
              "runners": [each.runner_revision for each in rebinds]}  # fmt: skip
    with warehouse.transaction() as connection:
        connection.execute(
            f"""INSERT INTO verdicts SELECT {chosen} FROM (
                    SELECT unnest($ids::VARCHAR[]) AS execution_id, unnest($revisions::VARCHAR[]) AS suite_revision,
                           unnest($tags::VARCHAR[]) AS tags, unnest($keys::VARCHAR[]) AS key,
                           unnest($runners::VARCHAR[]) AS runner_revision) b
                JOIN verdicts v USING (execution_id)
                QUALIFY row_number() OVER (PARTITION BY v.execution_id ORDER BY v.decided_at DESC) = 1""",
            values,
        )


def displaced_by_later(warehouse: Warehouse, execution_ids: Sequence[str]) -> list[str]:
    """Return the executions whose plan has a newer verdict of another execution at the same revisions."""
    plan = "suite, suite_revision, runner, runner_revision, case_id, repetition"
    with warehouse.transaction() as connection:
        _select_executions(connection, execution_ids)
        connection.execute(
            f"""CREATE OR REPLACE TEMP TABLE selected_plans AS
                SELECT DISTINCT {plan}, execution_id FROM verdicts SEMI JOIN selected USING (execution_id)"""
        )
        displaced = connection.execute(
            f"""WITH newest AS (
                    SELECT {plan}, arg_max(execution_id, decided_at) AS execution_id
                    FROM verdicts SEMI JOIN selected_plans USING ({plan}) GROUP BY ALL)
                SELECT DISTINCT s.execution_id FROM selected_plans s JOIN newest n USING ({plan})
                WHERE n.execution_id <> s.execution_id"""
        ).fetchall()
    return [execution_id for (execution_id,) in displaced]


def select_again(warehouse: Warehouse, execution_ids: Sequence[str], now: datetime) -> None:
    """Make these executions the current ones of their plans."""
    with warehouse.transaction() as connection:
        connection.execute(
            "UPDATE target_executions SET selected_at = $now WHERE execution_id IN (SELECT unnest($ids::VARCHAR[]))",
            {"now": now, "ids": list(execution_ids)},
        )
