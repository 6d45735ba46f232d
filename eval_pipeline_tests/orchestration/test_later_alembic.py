"""Alembic is imported when a database is migrated, and not before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from eval_pipeline.orchestration.later_alembic import _head_of_alembic, newest_migration

FIRST_USE = """
import sys
from eval_pipeline.orchestration.later_alembic import put_off_alembic
put_off_alembic()
import eval_pipeline.orchestration.run
import dagster as dg

print(any(name.partition(".")[0] == "alembic" for name in sys.modules))
with dg.DagsterInstance.local_temp(sys.argv[1]) as instance:  # storages of Dagster's own
    print(instance.run_storage.alembic_version()[0] == instance.run_storage.alembic_version()[1] != None)
print("alembic.script" in sys.modules)
"""


def test_a_sweep_imports_no_alembic_and_a_storage_of_dagsters_own_does(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FIRST_USE, str(tmp_path)]

    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert printed.split() == ["False", "True", "True"]


def test_the_newest_migration_is_the_one_that_alembic_finds() -> None:
    assert newest_migration() == _head_of_alembic()
