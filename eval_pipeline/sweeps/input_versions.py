"""The versions of what a pair's executions and scores are made from: the identities that a sweep decides by, so that
whoever compares versions finds exactly what a sweep would carry out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from eval_pipeline.errors import InputError
from eval_pipeline.executions.planning import plan_pair
from eval_pipeline.fingerprints import canonical_json, fingerprint
from eval_pipeline.scores.evaluate import EVALUATORS, is_decided_by_spec
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.suites.model import Case
from eval_pipeline.sweeps.decisions import pair_rules
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair, repetitions_of_case, simulator_identity, threshold_of


@dataclass(frozen=True)
class InputVersions:
    """The versions of a pair's inputs under these options."""

    pair: Pair
    options: SweepOptions
    graders: Graders

    @property
    def plans(self) -> str:
        """The version of what the runner is and is given: it changes when any plan of the pair does."""
        return self._both[0]

    @property
    def evaluators(self) -> str:
        """The version of what answers are scored with: it changes when any verdict would be decided otherwise."""
        return self._both[1]

    @cached_property
    def _both(self) -> tuple[str, str]:
        """The versions of plans and of evaluators, from one walk through the cases: reading packed ones takes time."""
        pair = self.pair
        keys, scored = hashlib.sha256(), _ScoringDigest(pair, self.options, self.graders)
        planned = plan_pair(
            pair.ready.suite,
            pair.runner,
            pair.runner_identity,
            repetitions=lambda case: repetitions_of_case(pair, case, self.options),
            any_runner=True,
            content_of=pair.content_of,
            played_by=partial(simulator_identity, pair, self.options),
        )
        for plan in planned:
            keys.update(plan.key.encode())
            if plan.repetition == 1:
                scored.add(plan.case)
        return f"{pair.revision[:16]}-{keys.hexdigest()[:16]}", scored.version

    @cached_property
    def token(self) -> str:
        """A hash that changes whenever a version may: cheap where evaluators need neither files nor graders."""
        settings: list[object] = [
            self.options.repetitions,
            self.options.defaults.repetitions,
            threshold_of(self.pair, self.options),
        ]
        more = pair_rules(self.pair, self.options, self.graders).prices if self._is_cheap else self.evaluators
        if traits_of(self.pair.ready.suite.cases).has_users:
            settings.append(self.plans)  # they depend on the runners that play the users
        revisions = [self.pair.ready.suite.revision, self.pair.revision]
        return fingerprint([*revisions, *settings, more])[:32]

    @property
    def _is_cheap(self) -> bool:
        classes = map(EVALUATORS.find, traits_of(self.pair.ready.suite.cases).evaluator_types)
        return all(class_ is not None and is_decided_by_spec(class_) for class_ in classes)

    def by_asset(self) -> Mapping[str, str]:
        """Return the versions by the name of the input."""
        return {"plans": self.plans, "evaluators": self.evaluators}


class _ScoringDigest:
    """What the verdicts of cases are decided by."""

    def __init__(self, pair: Pair, options: SweepOptions, graders: Graders) -> None:
        self._pair = pair
        self._rules = pair_rules(pair, options, graders)
        self._digest = hashlib.sha256(canonical_json(self._rules.prices))
        self._is_usable = True

    def add(self, case: Case) -> None:
        """Add a case."""
        if not self._is_usable:
            return
        try:
            self._digest.update(canonical_json([case.id, self._rules.decision_key_of(case), case.tags]))
        except InputError:  # an evaluator without a usable grader: the run reports it
            self._is_usable = False

    @property
    def version(self) -> str:
        """The version of the cases so far; that of the suite where an evaluator is not usable."""
        return self._digest.hexdigest()[:32] if self._is_usable else self._pair.ready.data_version
