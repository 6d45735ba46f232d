"""`python -m eval_pipeline_tests.fuzzing [--seconds N] [--seed S] [--examples N]`."""

from __future__ import annotations

import argparse
import secrets
import tempfile
from pathlib import Path

from eval_pipeline_tests.fuzzing.check import fuzz


def main() -> int:
    """Fuzz, print what is found, and return 1 if anything is."""
    parser = argparse.ArgumentParser(description="Random suites, runners files and project files.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="the first input (default: another one each time)")
    parser.add_argument("--examples", type=int, help="at most this many inputs; 1 makes that of the seed again")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    count, kinds = 0, dict[str, int]()
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-fuzz-") as folder:
        for found in fuzz(Path(folder) / "p", arguments.seed, arguments.seconds, arguments.examples):
            count += 1
            if found is None:
                continue
            kind = " ".join(found.problem.strip().splitlines()[-3:])
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] == 1:
                print(f"\n{found}", flush=True)
    print(f"{count} inputs, {len(kinds)} kinds of problems")
    for kind, times in kinds.items():
        print(f"{times:5} × {kind}")
    return 1 if kinds else 0


if __name__ == "__main__":
    raise SystemExit(main())
