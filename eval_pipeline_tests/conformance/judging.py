"""A row, judged: reproduced, a deliberate difference, or skipped with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eval_pipeline_tests.conformance import (
    agentv_comparisons,
    agentv_entries,
    agentv_evaluations,
    agentv_loading,
    agentv_protocols,
    agentv_results,
    agentv_stops,
    connexity_cases,
    connexity_judging,
    peers_commands,
    peers_judges,
    peers_repetitions,
    skillgym_checks,
    skillgym_runs,
    skillgym_settings,
    skillgym_watching,
    skillgym_words,
)
from eval_pipeline_tests.conformance.agentv_tests import is_stop
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.differences.table import difference_of
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.row_outcomes import Record, not_offered


@dataclass(frozen=True, slots=True)
class Method:
    """How rows are carried out: what is observed through public verbs, and what must hold of it."""

    observe: Callable[[Row], Observations]
    check: Callable[[Row, Observation], None]


AGENTV = (
    (agentv_comparisons.KINDS, Method(agentv_comparisons.observe, agentv_comparisons.check)),
    (agentv_entries.KINDS, Method(agentv_entries.observe, agentv_entries.check)),
    (agentv_loading.KINDS, Method(agentv_loading.observe, agentv_loading.check)),
    (agentv_results.KINDS, Method(agentv_results.observe, agentv_results.check)),
)
PROTOCOLS = Method(agentv_protocols.observe, agentv_protocols.check)
STOPPED = Method(agentv_stops.observe, agentv_stops.check)
EVALUATIONS = Method(agentv_evaluations.observe, agentv_evaluations.check)
COMMANDS = Method(peers_commands.observe, peers_commands.check)
CONNEXITY = Method(connexity_cases.observe, connexity_cases.check)
VERDICTS = Method(connexity_judging.observe, connexity_judging.check)
REPETITIONS = Method(peers_repetitions.observe, peers_repetitions.check)
JUDGES = Method(peers_judges.observe, peers_judges.check)
SKILLGYM = (
    (skillgym_checks.is_check, Method(skillgym_checks.observe, skillgym_checks.check)),
    (skillgym_settings.is_setting, Method(skillgym_settings.observe, skillgym_settings.check)),
    (skillgym_watching.is_watched, Method(skillgym_watching.observe, skillgym_watching.check)),
    (skillgym_runs.is_run, Method(skillgym_runs.observe, skillgym_runs.check)),
    (skillgym_words.is_word, Method(skillgym_words.observe, skillgym_words.check)),
)


def method_of(row: Row) -> Method | None:
    """Return how rows of this family and kind are carried out; None for those that nothing offers."""
    if row.family == "skillgym":
        return next((method for is_one, method in SKILLGYM if is_one(row)), None)
    if row.family == "connexity":
        if connexity_judging.is_verdict(row):
            return VERDICTS
        return CONNEXITY if row.kind in connexity_cases.KINDS else None
    if row.family == "peers" and row.file != "stats_cases":
        return JUDGES if (row.file, row.kind) in peers_judges.KINDS else None
    if row.family == "peers" and row.kind in peers_repetitions.KINDS:
        return REPETITIONS
    if row.family == "peers":
        return COMMANDS if row.kind in peers_commands.OBSERVERS else None
    if row.file in (agentv_protocols.HOOK_ROWS, agentv_protocols.GRADER_ROWS):
        return PROTOCOLS
    if is_stop(row):
        return STOPPED
    if agentv_evaluations.is_evaluation(row):
        return EVALUATIONS
    return next((method for kinds, method in AGENTV if row.kind in kinds), None)


def judge(row: Row, record: Record) -> None:
    """Carry a row out and assert what we answer."""
    method = method_of(row)
    if method is None:
        not_offered(f"rows about {row.file}: {row.kind}")
    observations = method.observe(row)
    difference = difference_of(row)
    if difference is None:
        method.check(row, observations[AS_WRITTEN])
        return
    record("difference", difference.name)
    difference.check(row, observations)
