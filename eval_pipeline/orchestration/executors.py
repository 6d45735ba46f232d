"""The executor that a project names, with its settings."""

from __future__ import annotations

from importlib import import_module

import dagster as dg
from dagster._config import validate_config

from eval_pipeline.errors import InputError
from eval_pipeline.sweeps.dagster_settings import DagsterSettings

_INSTALLED = {
    "celery": ("dagster_celery", "celery_executor", "celery"),
    "k8s": ("dagster_k8s", "k8s_job_executor", "kubernetes"),
}
"""Module, name and extra of the executors that Dagster has in packages of their own."""


def executor_of(settings: DagsterSettings) -> dg.ExecutorDefinition:
    """Return the executor of the jobs of pairs. Raises InputError where its package is missing, or for settings that it
    does not have."""
    definition = _named(settings.executor)
    if not settings.executor_config:
        return definition
    checked = validate_config(definition.config_schema.config_type, settings.executor_config)
    if not checked.success:
        reasons = "; ".join(" ".join(each.message.split()) for each in checked.errors or ())
        raise InputError(f"dagster: executor_config: {reasons}")
    return definition.configured(settings.executor_config)


def _named(name: str) -> dg.ExecutorDefinition:
    own: dict[str, dg.ExecutorDefinition] = {
        "in_process": dg.in_process_executor,
        "multiprocess": dg.multiprocess_executor,
    }
    if name in own:
        return own[name]
    module, executor, extra = _INSTALLED[name]
    try:
        found: dg.ExecutorDefinition = getattr(import_module(module), executor)
    except ModuleNotFoundError:
        raise InputError(f"dagster: executor: {name} needs: pip install 'eval-pipeline[{extra}]'") from None
    return found
