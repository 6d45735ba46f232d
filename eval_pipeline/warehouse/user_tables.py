"""Columns of cases, and tables of baselines and comparisons, as data for `tables.py`."""

from __future__ import annotations

from eval_pipeline.warehouse.columns import Column, Table

USER_COLUMNS = (
    ("difficulty", "VARCHAR", "How hard it is: normal or hard; NULL: not set"),
    ("status", "VARCHAR", "Where it is in its life: draft, active or archived; NULL: stored by an older version"),
    ("persona", "VARCHAR", "Label of its simulated user: the type, or the beginning of the text"),
    ("simulated_user", "JSON", "Its simulated user: persona, context, first words, script, limits"),
    ("mocks", "JSON", "Canned answers of tools"),
    ("created_at", "TIMESTAMPTZ", "When it was created, where its file has that"),
    ("updated_at", "TIMESTAMPTZ", "When it was changed last, where its file has that"),
)
"""Columns of `cases` on their users."""
CASE_COLUMNS = (
    ("repetitions", "INTEGER", "Repetitions that the case or its suite sets; NULL: neither, or not recorded"),
    ("input_key", "VARCHAR", "Hash of all that a target receives of the case; NULL: not recorded"),
)
"""The newest columns of `cases`."""
SEEN_PLANS = Table(
    "seen_plans",
    "What the files ask for that is not carried out: the plan of a pair when it was looked at last.",
    ("suite", "runner"),
    (
        Column("suite", "VARCHAR", "Name of the suite"),
        Column("runner", "VARCHAR", "Name of the runner"),
        Column("to_execute", "BIGINT", "Plans that need the target"),
        Column("to_score", "BIGINT", "Stored answers whose verdict would be decided anew"),
        Column("needs", "VARCHAR", "executions, graders, or nothing that costs"),
        Column("reasons", "VARCHAR[]", "Why, as eval-pipeline plan says it"),
        Column("seen_at", "TIMESTAMPTZ", "When the files were looked at; a later sweep of the pair knows more"),
    ),
)
RETIRED_CASES = Table(
    "retired_cases",
    "Cases that the file of their suite has no more: on no board, in no current view.",
    ("suite", "case_id"),
    (
        Column("suite", "VARCHAR", "Name of the suite"),
        Column("case_id", "VARCHAR", "Id of the case within its suite"),
        Column(
            "retired_at", "TIMESTAMPTZ", "When that was noticed; a later sweep of a pair has what its suite has then"
        ),
    ),
)
PROJECT_TABLES = (RETIRED_CASES, SEEN_PLANS)
BASELINES = Table(
    "baselines",
    "Sweeps that later ones are compared with: one for each suite and revision of a runner.",
    ("suite", "runner", "runner_revision"),
    (
        Column("suite", "VARCHAR", "Name of the suite"),
        Column("runner", "VARCHAR", "Name of the runner"),
        Column("runner_revision", "VARCHAR", "Hash of the runner's settings, without secrets, and of its program"),
        Column("sweep_id", "VARCHAR", "Sweep whose results are the baseline"),
        Column("set_at", "TIMESTAMPTZ", "When it became the baseline; the newest one of a runner counts"),
        Column("note", "VARCHAR", "Why; NULL: nothing was noted"),
    ),
)
COMPARISONS = Table(
    "comparisons",
    "Two runners or two sweeps, paired by case.",
    ("comparison_id",),
    (
        Column("comparison_id", "VARCHAR", "Id of the comparison"),
        Column("suite", "VARCHAR", "Name of the suite"),
        Column("baseline", "VARCHAR", "Side that is compared with"),
        Column("candidate", "VARCHAR", "Side that is compared"),
        Column("details", "JSON", "Numbers of the comparison"),
        Column("computed_at", "TIMESTAMPTZ", "When"),
    ),
)
