"""Which tests are slow: whole files, and those of the list `slow_tests.txt`, which has whole files, too.

The list is written from the times of a whole run on a quiet machine with two cores:

    .venv/bin/python -m pytest -q -n 2 --dist loadfile --junitxml=times.xml
    .venv/bin/python -m eval_pipeline_tests.slow_tests times.xml
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")
SLOW_FILES = (
    "orchestration/test_ways_to_start.py",
    "sweeps/test_sweep.py",
    "conformance/test_skillgym_suites.py",
    "conformance/test_agentv.py",
    "conformance/test_connexity.py",
    "conformance/test_breakage.py",
    "orchestration/test_ui.py",
    "cli/test_killed_between_steps.py",
    "cli/test_delete.py",
    "orchestration/test_dagster_runs.py",
    "conformance/test_skillgym_variants.py",
    "orchestration/test_queue_after_a_kill.py",
    "sweeps/test_identity.py",
    "orchestration/test_chunks.py",
    "attacks/test_attacks.py",
    "orchestration/test_dev_ends.py",
    "sweeps/test_boards.py",
    "sweeps/test_verdict_history.py",
    "formats/agentv/test_target_hooks.py",
    "orchestration/test_homes.py",
    "formats/agentv/test_grader_versions.py",
    "sweeps/test_output_limits.py",
    "cli/test_kept_sweeps.py",
    "sweeps/test_current_answers.py",
    "pages/test_in_chromium.py",
    "sweeps/test_plan.py",
    "cli/test_ending.py",
    "cli/test_compare_and_trend.py",
    "orchestration/test_named_schedules.py",
    "cli/test_interrupted_run.py",
    "cli/test_run.py",
    "cli/test_vanishing_suites.py",
    "cli/test_init.py",
    "docs/test_tutorial.py",
    "formats/agentv/test_fuzzing.py",
    "cli/test_money.py",
    "agents/test_agent_plugin.py",
    "cli/test_bad_input.py",
    "cli/test_show.py",
    "docs/test_site.py",
    "formats/agentv/test_agentv_projects.py",
    "orchestration/test_sqlite_storage.py",
    "orchestration/test_instance.py",
    "orchestration/test_run_page.py",
    "scores/test_code_in_suites.py",
    "sweeps/test_budgets.py",
    "sweeps/test_order_and_limits.py",
    "sweeps/test_workspaces_in_sweeps.py",
    "orchestration/test_request_guard.py",
    "cli/test_export.py",
    "cli/test_validate_grows_linearly.py",
    "test_examples.py",
    "test_examples_agents.py",
    "test_examples_agentv.py",
    "test_plugin_package.py",
    "test_readme.py",
    "warehouse/test_store.py",
)
"""Files that start many processes or carry out whole projects, below the folder of the tests; the longest first.

They also run first, in this order: a worker that began one of the longest at the end would leave the others idle. Those
that mostly wait for servers and browsers are apart from each other: while one worker waits, the others compute.
"""
LONGEST_S = 0.15
LONGEST_OF_ALL_CASES_S = 1.0
MOST_OF_A_FILE = 0.5
"""What share of a file's tests may be slow before the whole file is: what is left of it is not worth its set-up."""
PACKAGE = __package__ or ""


@lru_cache
def slow_tests() -> frozenset[str]:
    """Return the names of slow tests (file below the folder of the tests, `::`, function), and of slow files."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def slow_among(times: Iterable[tuple[str, float]]) -> list[str]:
    """Return the names of tests that are slow by the seconds of their cases, one of them or all together, and of files
    most of whose tests are."""
    by_test: defaultdict[str, list[float]] = defaultdict(list)
    for name, seconds in times:
        by_test[name].append(seconds)
    by_file: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for name, cases in by_test.items():
        by_file[name.partition("::")[0]][name] = _is_slow(cases)
    files = {file: tests for file, tests in by_file.items() if not _is_slow_anyway(file)}
    whole = {file for file, tests in files.items() if sum(tests.values()) > MOST_OF_A_FILE * len(tests)}
    return sorted(whole.union(*([name for name in files[file] if files[file][name]] for file in files.keys() - whole)))


def _is_slow(cases: Sequence[float]) -> bool:
    return max(cases) >= LONGEST_S or sum(cases) >= LONGEST_OF_ALL_CASES_S


def _is_slow_anyway(file: str) -> bool:
    return file.startswith("conformance/") or file in SLOW_FILES


def _times(report: Path) -> Iterable[tuple[str, float]]:
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").removeprefix(f"{PACKAGE}.")
        yield f"{module.replace('.', '/')}.py::{case.get('name', '').partition('[')[0]}", float(case.get("time", "0"))


def main(reports: list[str]) -> None:
    """Write the list from a report of pytest in the format of JUnit."""
    names = slow_among(pair for report in reports for pair in _times(Path(report)))
    LIST.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
