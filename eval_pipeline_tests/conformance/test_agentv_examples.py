"""AgentV's own example suites end here as in AgentV itself, test by test, with targets and graders without a network.

They run where checkouts of v4.9.1 and v4.42.4 are named by `AGENTV_CHECKOUT_4_9` and `AGENTV_CHECKOUT_4_42`, with their
packages installed and built (`bun install`, then `bun run build` in the packages). `agentv_examples.json` lists each
test that ends otherwise, by reason.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from eval_pipeline_tests.conformance.agentv_examples import compare, false_alarms, offline_examples

LISTED = json.loads((Path(__file__).parent / "agentv_examples.json").read_text())
CHECKOUTS = {"4.9.1": "AGENTV_CHECKOUT_4_9", "4.42": "AGENTV_CHECKOUT_4_42"}
LEAST_AGREEMENT = 0.95

pytestmark = pytest.mark.slow


def a_checkout(version: str) -> Path:
    """The checkout of a version; skips the test without one that can run."""
    variable = CHECKOUTS[version]
    named = os.environ.get(variable)
    if named is None:
        pytest.skip(f"{variable} names no checkout of AgentV {version}")
    checkout = Path(named)
    if shutil.which("bun") is None:
        pytest.skip("bun is not installed: it runs AgentV")
    if not (checkout / "packages" / "core" / "dist").is_dir():
        pytest.skip(f"{variable}: its packages are not built")
    return checkout


@pytest.mark.parametrize("version", CHECKOUTS)
def test_the_examples_of_agentv_end_as_with_agentv(version: str, tmp_path: Path) -> None:
    reasons = {name: reason for reason, names in LISTED[version]["tests"].items() for name in names}
    with offline_examples(a_checkout(version), tmp_path) as examples:
        comparisons = list(compare(examples, examples.eval_files, tmp_path))

    otherwise = {comparison.name for comparison in comparisons if not comparison.agrees}
    assert sorted(otherwise - reasons.keys()) == []
    assert sorted(reasons.keys() - otherwise) == []
    assert len(otherwise) <= (1 - LEAST_AGREEMENT) * len(comparisons)


@pytest.mark.parametrize("version", CHECKOUTS)
def test_validate_accepts_the_examples_of_agentv(version: str, tmp_path: Path) -> None:
    with offline_examples(a_checkout(version), tmp_path) as examples:
        alarms = false_alarms(examples)

    assert sorted(alarms) == sorted(name for names in LISTED[version]["alarms"].values() for name in names)
