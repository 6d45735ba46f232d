"""How long tests with random input take (`FUZZ_SECONDS`, each), and their seed (`FUZZ_SEED`), another one each time,
but in CI, where a change is judged by itself.

pytest prints the seed first; a run with the same `FUZZ_SEED` makes the same input again.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from hypothesis import HealthCheck, seed, settings

from eval_pipeline_tests.thoroughness import part_or_all

Arguments = ParamSpec("Arguments")
PER_SECOND = 100
_SAME = "ci" if os.environ.get("CI") else None  # a change is judged by itself there, not by the day's luck
SEED = os.environ.setdefault("FUZZ_SEED", _SAME or secrets.token_hex(4))  # in the environment for the workers of xdist
SECONDS = float(os.environ.get("FUZZ_SECONDS", part_or_all("1", "2")))


def fuzzed(test: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Run a hypothesis test (`@given`) with this seed for this long; later inputs are left out."""
    limits = settings(
        deadline=None, database=None, max_examples=max(20, int(SECONDS * PER_SECOND)), print_blob=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )  # fmt: skip
    return limits(seed(SEED)(test))


def timed(check: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Return a check that does nothing any more once its time is over."""
    end: list[float] = []

    @wraps(check)
    def until_the_end(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        if not end:
            end.append(time.monotonic() + SECONDS)
        if time.monotonic() < end[0]:
            check(*args, **kwargs)

    return until_the_end
