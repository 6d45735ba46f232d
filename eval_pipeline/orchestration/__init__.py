import eval_pipeline.orchestration.later_alembic  # noqa: F401 — before any storage of Dagster
