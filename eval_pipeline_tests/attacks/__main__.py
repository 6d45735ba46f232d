"""`python -m eval_pipeline_tests.attacks [SECTION…] [--seconds N] [--seed S]`: exit code 1 with findings."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from eval_pipeline_tests.attacks.findings import Findings, Section

SECTIONS = ("kills", "surroundings", "answers", "suites", "secrets", "strangers")


def sections() -> list[str]:
    """Return the sections that there are."""
    return [name for name in SECTIONS if importlib.util.find_spec(_module(name)) is not None]


def section(name: str) -> Section:
    """Return a section by its name."""
    return cast(Section, importlib.import_module(_module(name)))


def _module(name: str) -> str:
    return f"eval_pipeline_tests.attacks.{name}"


def main(arguments: Sequence[str]) -> int:
    """Carry out sections, print each finding, then a table; return 1 if anything is found."""
    parser = argparse.ArgumentParser(prog="python -m eval_pipeline_tests.attacks", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of: {', '.join(sections())} (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, each section")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="what is random (default: another one each time)")
    given = parser.parse_args(arguments)
    if unknown := set(given.sections) - set(sections()):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are: {', '.join(sections())}")
    print(f"seed {given.seed}", flush=True)
    results = {name: _carried_out(name, given.seconds, given.seed) for name in given.sections or sections()}
    print_table({name: findings for name, (findings, _) in results.items()})
    for name, (findings, taken) in results.items():
        found = f"{len(findings.findings)} findings" if findings.findings else "nothing found"
        print(f"{name}: {findings.figures.total()} attacks of {len(findings.figures)} kinds in {taken:.0f} s, {found}")
    return 1 if any(findings.findings for findings, _ in results.values()) else 0


def _carried_out(name: str, seconds: float, seed: str) -> tuple[Findings, float]:
    print(f"— {name}", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"eval-pipeline-{name}-") as folder:
        findings = section(name).attack(seconds, seed, Path(folder))
    for text in findings.findings:
        print(f"FOUND {text} (seed {seed})", flush=True)
    return findings, time.monotonic() - begun


def print_table(results: dict[str, Findings]) -> None:
    """Print what was tried how often, and what was measured."""
    rows = [("section", "what", "times, or a figure")]
    for name, findings in results.items():
        rows += [(name, attack, str(times)) for attack, times in sorted(findings.figures.items())]
        rows += [(name, *figure) for figure in findings.measured.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    print()
    for name, what, figure in rows:
        print(f"{name.ljust(widths[0])}  {what.ljust(widths[1])}  {figure}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
