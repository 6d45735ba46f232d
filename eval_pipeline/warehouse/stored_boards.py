"""What boards are made of: the pairs that are on them, their counts by case, and boards of suites that are stored.

The board of a suite is computed again only when something that it is made of changed: its `board_key` is the identity
of all of that. The newest board has its standings, `runner_differences` the sums that the overall board needs of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import polars as pl

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.leaderboards.board_columns import DIFFERENCE_COLUMNS, STANDING_COLUMNS
from eval_pipeline.warehouse.store import Connection, Warehouse

_CHOSEN = """
    WITH removed AS (
        SELECT r.suite, r.runner FROM retired_pairs r JOIN (
            SELECT suite, runner, max(finished_at) AS finished_at FROM sweep_pairs GROUP BY suite, runner) n
            ON n.suite = r.suite AND n.runner = r.runner
        WHERE r.retired_at >= n.finished_at),
    stored AS (
        SELECT c.suite, c.runner, c.statistics_id, c.sweep_id, c.finished_at, s.complete, s.missing, s.plans,
               s.case_count, s.suite_revision, s.texts_id, s.counts_id, s.clustered, s.totals IS NOT NULL AS summed,
               row_number() OVER (PARTITION BY c.suite, c.runner ORDER BY c.finished_at DESC, c.sweep_id DESC) AS age
        FROM sweep_pairs c JOIN pair_statistics s USING (statistics_id)
        ANTI JOIN removed r ON r.suite = c.suite AND r.runner = c.runner)
    SELECT * FROM stored
    WHERE age = 1 OR complete AND (suite, runner) IN (
        SELECT (suite, runner) FROM stored WHERE age = 1 AND NOT complete)"""
"""Of each pair of `current_pairs` (which takes longer) the newest counts, whose `age` is 1; where something is missing
in these, also all older counts in which nothing is."""
_PAIR = ("suite", "runner")
_TEXTS = ("cases", "clusters", "decision_keys")
_NUMBERS = {
    "planned": "INTEGER", "graded": "INTEGER", "answers": "INTEGER", "passed": "INTEGER",
    "score_sums": "DOUBLE", "weights": "DOUBLE",
}  # fmt: skip
_UNREAD = ("score_squares", "plans", "case_count", "counts_id")
_ALIKE = (pl.col("texts_id").n_unique() == 1) & (~pl.col("clustered")).fill_null(value=False).all()
"""Whether all pairs of a suite have the same cases, none of them clustered, and are decided by the same."""
_OUTCOMES = ("graded", "passed")
"""The lists that tests of pairs need where outcomes alone do not tell: what a board also needs of alike pairs."""
_NO_TEXTS = pl.DataFrame(schema={"statistics_id": pl.String, "": pl.List(pl.String)})
_OF_IDS = "WHERE list_contains($2::VARCHAR[], suite) AND statistics_id IN (SELECT unnest($1::VARCHAR[]))"
_COUNTS = f"SELECT * EXCLUDE ({', '.join((*_UNREAD, *_NUMBERS, *_TEXTS))}) FROM pair_statistics {_OF_IDS}"
_LIST = f"SELECT statistics_id, {{}} FROM pair_statistics {_OF_IDS}"
_ARRAYS = f"SELECT statistics_id, {{0}}::{{1}}[] AS numbers FROM pair_statistics {_OF_IDS} AND {{0}} IS NOT NULL"
_NONE: Mapping[str, Any] = {"statistics_id": (), "numbers": ()}
_CASES_AT_ONCE = 2_000_000
_KEYS = "(SELECT unnest($1::VARCHAR[]) AS suite, unnest($2::VARCHAR[]) AS board_key)"
_NEWEST = """
    SELECT * FROM leaderboards
    WHERE board_id = (SELECT max(board_id) FROM leaderboards) AND list_contains($1::VARCHAR[], board_key)"""
_DIFFERENCES = f"SELECT * FROM runner_differences SEMI JOIN {_KEYS} USING (suite, board_key)"
_SUMS = (
    f"SELECT suite, count(*) AS sums FROM runner_differences SEMI JOIN {_KEYS} USING (suite, board_key) GROUP BY suite"
)
_OF_NOW = ("statistics_id", "sweep_id")
"""What a stored standing gets from the newest sweep that left its numbers as they are."""


def chosen_pairs(warehouse: Warehouse) -> pl.DataFrame:
    """Return the pairs that boards are made of, sorted by suite and runner: each by its newest sweep that left nothing
    to carry out, else by its newest. `later_carried_out` of `later_plans` are what an unfinished later one reached."""
    stored = warehouse.frame(_CHOSEN).sort(*_PAIR, ~pl.col("complete"), "age")
    unfinished = stored.filter(pl.col("age") == 1, ~pl.col("complete")).select(
        *_PAIR, later_carried_out=pl.col("plans") - pl.col("missing"), later_plans="plans"
    )
    chosen = stored.unique(_PAIR, keep="first", maintain_order=True).drop("age", "missing", "plans")
    later = chosen.filter("complete").join(unfinished, on=_PAIR).select("statistics_id", *unfinished.columns[2:])
    return chosen.join(later, on="statistics_id", how="left", maintain_order="left")


def board_keys(chosen: pl.DataFrame, *rules: Any) -> dict[str, str]:
    """Return the identity of all that the board of each suite is computed from; `rules` are those by which it is."""
    rows = chosen.sort("suite", "runner").iter_rows(named=True)
    return {suite: _board_key(list(pairs), rules) for suite, pairs in groupby(rows, lambda row: str(row["suite"]))}


def _board_key(pairs: list[dict[str, Any]], rules: Collection[Any]) -> str:
    """The times of pairs only decide which of them sets the cases and the evaluators of the board, by their order."""
    complete = [pair for pair in pairs if pair["complete"]]
    alike = len({(pair["suite_revision"], pair["texts_id"]) for pair in complete}) < 2
    order = [] if alike else sorted(complete, key=lambda pair: (pair["finished_at"], pair["runner"]))
    names = ("runner", "counts_id", "texts_id", "later_carried_out", "later_plans")
    made_of = [[pair[name] for name in names] for pair in pairs]
    return fingerprint([list(rules), made_of, [pair["runner"] for pair in order]])[:32]


def counted_pairs(warehouse: Warehouse, chosen: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the counts of chosen pairs, some suites at a time: one row per pair, lists of numbers as NumPy arrays.

    Most pairs of a suite have the same cases, and sums over them: then a row has no lists but those that outcomes do
    not tell. Otherwise lists of texts are in one row of each `texts_id` of a suite, the others have null.
    """
    summed = (_ALIKE & pl.col("summed").all()).over("suite")
    for part in _some_suites(chosen.with_columns(summed=summed)):
        suites, ids = part["suite"].unique().to_list(), part["statistics_id"].to_list()
        first = pl.struct("suite", "texts_id").is_first_distinct()
        compared = part.filter(first, ~_ALIKE.over("suite"))["statistics_id"].to_list()
        counts = warehouse.frame(_COUNTS, [ids, suites])
        known = part.drop("counts_id", *(set(part.columns) & set(counts.columns) - {"statistics_id"}))
        rows = known.join(counts, on="statistics_id")
        for name in _TEXTS:  # one at a time: DuckDB reads a list of some thousand rows at once
            query = _LIST.format(name)
            lists = warehouse.frame(query, [compared, suites]) if compared else _NO_TEXTS.rename({"": name})
            rows = rows.join(lists, on="statistics_id", how="left")
        yield rows.with_columns(*_arrays(warehouse, rows, suites))


def _arrays(warehouse: Warehouse, rows: pl.DataFrame, suites: Sequence[str]) -> Iterator[pl.Series]:
    """Yield the lists of numbers of pairs that a board needs, as arrays. DuckDB makes them a tenth as fast by way of a
    file."""
    unclear = (~pl.col("summed") | pl.col("outcomes").is_null()).any().over("suite")
    ids = rows["statistics_id"].to_list()
    for name, type_ in _NUMBERS.items():
        needed = rows.filter(unclear if name in _OUTCOMES else ~pl.col("summed"))["statistics_id"].to_list()
        values = [needed, suites]
        read = warehouse.read(partial(_read, query=_ARRAYS.format(name, type_), values=values)) if needed else _NONE
        arrays = dict(zip(read["statistics_id"], read["numbers"], strict=True))
        yield pl.Series(name, [arrays.get(id_) for id_ in ids], dtype=pl.Object)


def _read(connection: Connection, query: str, values: Sequence[Any]) -> Mapping[str, Any]:
    return connection.execute(query, values).fetchnumpy()


def _some_suites(chosen: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the rows of as many suites as have few cases together."""
    lists = pl.when("summed").then(0).otherwise("case_count")
    sizes = chosen.group_by("suite", maintain_order=True).agg(lists.sum().alias("case_count"))
    group = (pl.col("case_count").cum_sum() // _CASES_AT_ONCE).alias("group")
    numbered = sizes.select("suite", group)
    for part in chosen.join(numbered, on="suite", how="left", maintain_order="left").partition_by("group"):
        yield part.drop("group")


def overall_key(keys: Mapping[str, str]) -> str:
    """Return the identity of all that the overall board is computed from: the boards of suites, by their keys."""
    return fingerprint(sorted(keys.items()))[:32]


@dataclass(frozen=True, slots=True)
class StoredBoard:
    """What the newest board has of a board with other keys: `standings` of suites that did not change, by suite, best
    first, and the `overall` ones, none where anything of it changed."""

    standings: pl.DataFrame
    overall: pl.DataFrame

    @property
    def suites(self) -> set[str]:
        """The suites that did not change."""
        return set(self.standings["suite"])


def stored_board(warehouse: Warehouse, chosen: pl.DataFrame, keys: Mapping[str, str]) -> StoredBoard:
    """Return what the newest board has of suites with these keys; a suite without all of its sums is left out."""
    newest = warehouse.frame(_NEWEST, [[*keys.values(), overall_key(keys)]])
    if newest.is_empty():
        return StoredBoard(pl.DataFrame(schema=STANDING_COLUMNS), pl.DataFrame(schema=STANDING_COLUMNS))
    sums = warehouse.frame(_SUMS, _lists(keys))
    key = pl.col("suite").replace_strict(keys, default=None, return_dtype=pl.String)
    standings = newest.filter(pl.col("scope") == "suite", pl.col("board_key") == key)
    ranked = standings.group_by("suite").agg(pl.col("rank").is_not_null().sum().cast(pl.Int64).alias("n"))
    counts = ranked.join(sums, on="suite", how="left")
    whole = counts.filter(pl.col("n") * (pl.col("n") - 1) // 2 == pl.col("sums").fill_null(0)).select("suite")
    of_now = standings.drop(_OF_NOW).join(chosen.select("suite", "runner", *_OF_NOW), on=["suite", "runner"])
    rows = of_now.join(whole, on="suite", how="semi").sort("suite", "rank", "runner", nulls_last=True)
    is_same = pl.col("board_key") == overall_key(keys)
    overall = newest.filter(pl.col("scope") == "overall", is_same).sort("rank", "runner", nulls_last=True)
    return StoredBoard(_typed(rows, STANDING_COLUMNS), _typed(overall, STANDING_COLUMNS))


def stored_differences(warehouse: Warehouse, keys: Mapping[str, str]) -> pl.DataFrame:
    """Return the sums of differences between runners on the boards of suites with these keys."""
    if not keys:
        return pl.DataFrame(schema=DIFFERENCE_COLUMNS)
    return _typed(warehouse.frame(_DIFFERENCES, _lists(keys)), DIFFERENCE_COLUMNS)


def _lists(keys: Mapping[str, str]) -> list[list[str]]:
    return [list(keys), list(keys.values())]


def _typed(frame: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(type_) for name, type_ in schema.items())


def store_differences(warehouse: Warehouse, fresh: pl.DataFrame, keys: Mapping[str, str]) -> None:
    """Store the sums of differences of boards that were computed anew; `keys` are those of all suites on the board."""
    with warehouse.transaction() as connection:
        connection.execute(
            f"""DELETE FROM runner_differences
                WHERE (suite, board_key) NOT IN {_KEYS} OR board_key IS NULL OR list_contains($3::VARCHAR[], suite)""",
            [*_lists(keys), fresh["suite"].unique().to_list()],
        )
        if not fresh.is_empty():
            rows = fresh.with_columns(board_key=pl.col("suite").replace_strict(keys, return_dtype=pl.String))
            warehouse.replace("runner_differences", rows, {"board_key": None})
