"""What a board needs of a pair, computed when it is stored: sums over its cases, and two bits of each. A board of such
pairs reads no lists.

Only of cases that all count the same and are each their own cluster: of others a board reads the lists.
"""

from __future__ import annotations

_KAHAN = "coalesce(fsum({} ORDER BY position) FILTER ({}), 0)"
_GRADED, _PLANNED = "graded > 0", "planned > 0"
_OF_CASES = {
    "cases": ("BIGINT", "count(*)"),
    "graded_cases": ("BIGINT", f"count(*) FILTER ({_GRADED})"),
    "planned": ("BIGINT", "sum(planned)"),
    "graded": ("BIGINT", "sum(graded)"),
    "answers": ("BIGINT", "sum(answers)"),
    "passed": ("BIGINT", "sum(passed)"),
    "rates": ("DOUBLE", _KAHAN.format("passed / graded", _GRADED)),
    "rate_squares": ("DOUBLE", _KAHAN.format("(passed / graded) * (passed / graded)", _GRADED)),
    "scores": ("DOUBLE", _KAHAN.format("score_sum / graded", _GRADED)),
    "score_squares": ("DOUBLE", _KAHAN.format("(score_sum / graded) * (score_sum / graded)", _GRADED)),
    "inverse_counts": ("DOUBLE", _KAHAN.format("1 / graded", _GRADED)),
    "passed_shares": ("DOUBLE", _KAHAN.format("passed / planned", _PLANNED)),
    "open_shares": ("DOUBLE", _KAHAN.format("1 - graded / planned", _PLANNED)),
}
"""By name: type, and the expression over the rows of cases of a pair (see `CaseTotals`)."""
_PLAIN = "count(weight) = 0 AND bool_and(cluster = case_id)"
_IN_PART = "bool_or(passed > 0 AND passed < graded)"
_BITS = "string_agg(if({}, '1', '0'), '' ORDER BY position)"

TOTALS_TYPE = f"STRUCT({', '.join(f'{name} {type_}' for name, (type_, _) in _OF_CASES.items())})"
TOTALS = f"""CASE WHEN {_PLAIN} THEN struct_pack({
    ", ".join(f"{name} := ({expression})::{type_}" for name, (type_, expression) in _OF_CASES.items())
}) END"""
OUTCOMES = f"""CASE WHEN {_PLAIN} AND NOT {_IN_PART}
    THEN ({_BITS.format("graded > 0")} || {_BITS.format("passed > 0")})::BIT::BLOB END"""
