"""A schedule that cannot be used: found by `validate`, and never a reason for the code location not to load."""

from __future__ import annotations

import json
import logging
import random
from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._utils.schedules import is_valid_cron_schedule

from eval_pipeline.cli.main import main
from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.sweeps.cron import cron_problem
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder

PROBLEMS = {
    "99 99 * * *": "eval-pipeline.yaml:3: schedule: expected a minute of 0–59 where the cron expression has '99'",
    "0 0 30 2 *": "eval-pipeline.yaml:3: schedule: expected a day that one of the months",
    5: "eval-pipeline.yaml:3: schedule: expected a valid string, got 5",
}


@pytest.fixture(params=list(PROBLEMS), ids=str)
def schedule(request: pytest.FixtureRequest, folder: ProjectFolder) -> str | int:
    value: str | int = request.param
    (folder.root / "eval-pipeline.yaml").write_text(f"suites:\n  - suites\nschedule: {json.dumps(value)}\n")
    return value


def test_validate_names_file_line_field_and_what_was_expected(
    folder: ProjectFolder, schedule: str | int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["validate", "--project", str(folder.root), "--json"])

    assert left.value.code == 2
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["line"] == 3
    assert PROBLEMS[schedule].partition("expected ")[2] in finding["message"]


def test_the_code_location_loads_and_says_why_nothing_is_scheduled(
    folder: ProjectFolder, schedule: str | int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dagster"):
        definitions = build_definitions(folder.root)

    dg.Definitions.validate_loadable(definitions)
    nightly = definitions.resolve_schedule_def("nightly_sweep")
    assert PROBLEMS[schedule] in (nightly.description or "")
    assert PROBLEMS[schedule] in caplog.text
    with dg.DagsterInstance.local_temp() as instance:
        now = datetime(2026, 11, 22, 2, tzinfo=UTC)
        answer = nightly(dg.build_schedule_context(instance=instance, scheduled_execution_time=now))
    assert isinstance(answer, dg.SkipReason)
    assert PROBLEMS[schedule] in (answer.skip_message or "")


ATOMS = ("*", "?", "0", "1", "7", "8", "12", "13", "23", "24", "31", "32", "59", "60", "L", "mon", "JAN", "xyz")


def random_field(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return "*"
    span = f"-{chance.choice(ATOMS)}" if chance.random() < 0.2 else ""
    step = f"/{chance.choice(['0', '2', '15', 'x'])}" if chance.random() < 0.2 else ""
    nth = f"#{chance.randint(0, 6)}" if chance.random() < 0.05 else ""
    more = f",{chance.choice(ATOMS)}" if chance.random() < 0.2 else ""
    return f"{chance.choice(ATOMS)}{span}{step}{nth}{more}"


def test_dagster_takes_every_expression_that_the_project_file_takes() -> None:
    chance = random.Random(7)
    expressions = [" ".join(random_field(chance) for _ in range(5)) for _ in range(3000)]

    taken = [text for text in expressions if cron_problem(text) is None]

    assert len(taken) > 100
    assert [text for text in taken if not is_valid_cron_schedule(text)] == []
