"""The partitions that a project has: its suites, and the pairs that they request. A partition that someone added by
hand, or of a suite that is gone, is removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import dagster as dg

from eval_pipeline.errors import InputError
from eval_pipeline.executions.identity import runner_revision
from eval_pipeline.executions.model import Runner
from eval_pipeline.orchestration.partitions import PAIRS, SUITES, partition_key
from eval_pipeline.suites.load import read_suites
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite, requested_pairs
from eval_pipeline.sweeps.project_session import ProjectSession

PartitionRequest = dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest


@dataclass(frozen=True, slots=True)
class ProjectContents:
    """The suites and runners of a project as they are on disk, and the files that cannot be used."""

    suites: dict[str, ValidatedSuite]
    runners: dict[str, Runner]
    problems: list[str]

    def keys(self) -> dict[str, list[str]]:
        """Return the partitions by the name of their dimension."""
        runners = list(self.runners.values())
        pairs = [pair for ready in self.suites.values() for pair in requested_pairs(ready, runners)]
        return {SUITES: list(self.suites), PAIRS: [partition_key(pair) for pair in pairs]}

    def usable_pairs(self) -> Iterator[Pair]:
        """Yield the pairs whose runner can be used."""
        revisions: dict[str, str] = {}
        for runner in self.runners.values():
            with suppress(InputError):  # reported by the run of the pair
                revisions[runner.name] = runner_revision(runner)
        for ready in self.suites.values():
            for name in requested_pairs(ready, [self.runners[name] for name in revisions]):
                yield Pair(ready=ready, runner=self.runners[name.runner], revision=revisions[name.runner])


def read_project(session: ProjectSession) -> ProjectContents:
    """Return the contents of a project; the session has them from now on. Raises InputError without any suites."""
    if session.project.runners:
        session.load_runners()
    suites, broken = read_suites(session.project.suites, session.project.root, session.load_options)
    session.suites = {suite.name: session.validate_suite(suite) for suite in suites}
    return ProjectContents(dict(session.suites), dict(session.runners), [str(error) for error in broken])


def partition_requests(instance: dg.DagsterInstance, contents: ProjectContents) -> list[PartitionRequest]:
    """Return what makes an instance's partitions those of the project; nothing is removed while a file is broken."""
    requests: list[PartitionRequest] = []
    for name, keys in contents.keys().items():
        known = instance.get_dynamic_partitions(name)
        new, gone = _without(keys, known), _without(known, keys)
        if new:
            requests.append(dg.AddDynamicPartitionsRequest(name, new))
        if gone and not contents.problems:
            requests.append(dg.DeleteDynamicPartitionsRequest(name, gone))
    return requests


def apply_requests(instance: dg.DagsterInstance, requests: Sequence[PartitionRequest]) -> None:
    """Do what a sensor's requests do."""
    for request in requests:
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            continue
        for key in request.partition_keys:
            instance.delete_dynamic_partition(request.partitions_def_name, key)


def _without(keys: Sequence[str], others: Sequence[str]) -> list[str]:
    excluded = set(others)
    return [key for key in keys if key not in excluded]
