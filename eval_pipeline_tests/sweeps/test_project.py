"""The project file: how it is found, what it may say, and what an error in it says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from eval_pipeline.errors import EvalPipelineError, InputError
from eval_pipeline.parsing.diagnostics import problems_of
from eval_pipeline.sweeps.options import Defaults
from eval_pipeline.sweeps.project import DATA_VARIABLE, PROJECT_FILE, PROJECT_VARIABLE, load_project
from eval_pipeline.sweeps.retention import Age


def write(folder: Path, text: str = "", name: str = PROJECT_FILE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder


# Where it is


def test_the_project_file_is_found_upward_from_where_we_are(tmp_path: Path) -> None:
    write(tmp_path / "work")
    below = write(tmp_path / "work" / "suites" / "deep", name="notes.txt")

    assert load_project(below).root == tmp_path / "work"


def test_the_nearest_project_file_wins(tmp_path: Path) -> None:
    write(tmp_path)
    inner = write(tmp_path / "inner")

    assert load_project(inner).root == inner


@pytest.mark.parametrize("named", ["elsewhere", f"elsewhere/{PROJECT_FILE}"], ids=["folder", "file"])
def test_the_variable_names_a_file_or_a_folder_and_wins_over_what_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    write(tmp_path)
    write(tmp_path / "elsewhere")
    monkeypatch.setenv(PROJECT_VARIABLE, named)

    assert load_project(tmp_path).root == tmp_path / "elsewhere"


def test_a_project_named_outright_wins_over_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "one")
    write(tmp_path / "two")
    monkeypatch.setenv(PROJECT_VARIABLE, str(tmp_path / "one"))

    assert load_project(tmp_path, tmp_path / "two").root == tmp_path / "two"


@pytest.mark.parametrize("start", [".", "examples", "docs/deep"])
def test_an_env_file_names_the_project_from_anywhere_below_it(tmp_path: Path, start: str) -> None:
    write(tmp_path, f"{PROJECT_VARIABLE}=examples", name=".env")
    write(tmp_path / "examples")
    (tmp_path / start).mkdir(parents=True, exist_ok=True)

    assert load_project(tmp_path / start).root == tmp_path / "examples"


def test_a_project_that_is_named_and_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"no project file at .*absent.{PROJECT_FILE}"):
        load_project(tmp_path, tmp_path / "absent" / PROJECT_FILE)


# What it says


def test_an_empty_project_file_means_the_defaults(tmp_path: Path) -> None:
    project = load_project(write(tmp_path))

    assert project.suites == ("suites",)
    assert project.runners is None  # there is no file of a default name
    assert project.data == tmp_path / "data"
    assert project.defaults == Defaults()
    assert project.schedule == "0 2 * * *"


def test_what_the_project_file_says_is_taken_and_paths_begin_at_its_folder(tmp_path: Path) -> None:
    text = """
suites: evals/*.yaml
runners: ../common/runners.yaml
data: out
schedule: "30 4 * * 1"
defaults: {repeat: 3, refresh: failed, concurrency: 7, threshold: 0.5, min_pass_rate: 0.9, budget_usd: 2}
"""
    project = load_project(write(tmp_path / "work", text))

    assert project.suites == ("evals/*.yaml",)
    assert project.runners == tmp_path / "common" / "runners.yaml"
    assert project.data == tmp_path / "work" / "out"
    assert project.schedule == "30 4 * * 1"
    assert project.defaults == Defaults(
        repetitions=3, refresh="failed", concurrency=7, threshold=0.5, min_pass_rate=0.9, budget_usd=2
    )


def test_the_data_variable_wins_over_the_project_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "fast-disk"))

    assert load_project(write(tmp_path, "data: out")).data == tmp_path / "fast-disk"


@pytest.mark.parametrize("runners", ["runners.yaml", "targets.yaml", ".agentv/targets.yaml"])
def test_without_a_project_file_the_current_folder_is_the_project(tmp_path: Path, runners: str) -> None:
    write((tmp_path / runners).parent, "", name=Path(runners).name)

    project = load_project(tmp_path)

    assert (project.root, project.suites) == (tmp_path, ())
    assert project.runners == tmp_path / runners
    assert project.data == tmp_path / "data"


def test_without_any_file_there_are_no_runners(tmp_path: Path) -> None:
    assert load_project(tmp_path).runners is None


# The environment


def test_the_env_file_beside_the_project_file_is_read(tmp_path: Path) -> None:
    write(tmp_path, "SOME_MODEL=small", name=".env")
    write(tmp_path)

    assert load_project(tmp_path).environment["SOME_MODEL"] == "small"


def test_an_exported_value_wins_over_the_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "SOME_MODEL=small", name=".env")
    monkeypatch.setenv("SOME_MODEL", "large")

    assert load_project(write(tmp_path)).environment["SOME_MODEL"] == "large"


def test_the_environment_is_not_part_of_what_a_project_shows_of_itself(tmp_path: Path) -> None:
    write(tmp_path, "SOME_KEY=sk-secret", name=".env")

    assert "sk-secret" not in repr(load_project(write(tmp_path)))


# Errors


ERRORS = {
    "unknown-field": ("suites: [a]\nrunnners: r.yaml\n", ":2", "runnners", "did you mean 'runners'?"),
    "unknown-default": ("defaults:\n  repeat: 2\n  treshold: 1\n", ":3", "treshold", "did you mean 'threshold'?"),
    "no-such-refresh": ("defaults:\n  refresh: some\n", ":2", "defaults.refresh", "'missing', 'failed' or 'all'"),
    "share-above-one": ("defaults: {threshold: 80}\n", ":1", "defaults.threshold", "less than or equal to 1"),
    "count-below-one": ("data: d\ndefaults: {repeat: 0}\n", ":2", "defaults.repeat", "greater than or equal to 1"),
    "not-a-text": ("data: 3\n", ":1", "data", "a valid string"),
    "wrong-suite": ("suites: [a.yaml,\n  3]\n", ":2", "suites[1]", "a valid string"),
    "not-a-mapping": ("- suites\n", PROJECT_FILE, "", "mapping"),
    "broken-yaml": ("suites: [a\n", PROJECT_FILE, "", ""),
}


@pytest.mark.parametrize(("text", "place", "field", "cure"), ERRORS.values(), ids=ERRORS)
def test_an_error_names_file_line_field_and_cure(tmp_path: Path, text: str, place: str, field: str, cure: str) -> None:
    with pytest.raises(EvalPipelineError) as raised:
        load_project(write(tmp_path, text))

    message = str(raised.value)
    for part in (PROJECT_FILE, place, field, cure):
        assert part in message


def test_a_project_file_that_is_no_text_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / PROJECT_FILE).write_bytes(b"data: caf\xe9\n")

    with pytest.raises(InputError, match=PROJECT_FILE):
        load_project(tmp_path)


@pytest.mark.parametrize("schedule", ["every day", "0 2 * *", "0 2 * * * * *", ""])
def test_a_schedule_that_is_no_cron_expression_names_its_line(tmp_path: Path, schedule: str) -> None:
    with pytest.raises(InputError, match=r"eval-pipeline.yaml:2: schedule: expected a cron expression of five fields"):
        load_project(write(tmp_path, f"suites: a.yaml\nschedule: '{schedule}'"))


@pytest.mark.parametrize(
    ("retention", "message"),
    [
        ("{sweeps: {older_than: 90x}}", "sweeps.older_than: expected an age such as 90d, 12h or 2w, got '90x'"),
        ("{sweeps: {older_than: 90}}", "retention.sweeps.older_than: expected a valid string, got 90"),
        ("{sweeps: {}}", "retention.sweeps: expected older_than or keep_last, got {}"),
        ("{artifacts: {older_than: null}}", "retention.artifacts: expected older_than or keep_last"),
        ("{artifacts: {keep_last: -1}}", "retention.artifacts.keep_last: expected greater than or equal to 0, got -1"),
        ("{sweep: {keep_last: 1}}", "workspaces, grader_replies, conversations, dagster_runs; did"),
        ("{sweeps: {keep_lst: 1}}", "there are: older_than, keep_last; did you mean 'keep_last'"),
        ("{grader_replies: {keep_last: 1}}", "grader_replies.keep_last: unknown field; there are: older_than"),
        ("90d", "retention: expected a mapping, got '90d'"),
    ],
)  # fmt: skip
def test_a_retention_that_limits_nothing_or_is_misspelled_names_its_line(
    tmp_path: Path, retention: str, message: str
) -> None:
    with pytest.raises(InputError) as raised:
        load_project(write(tmp_path, f"suites: a.yaml\nretention: {retention}"))

    assert "eval-pipeline.yaml:2: " in str(raised.value)
    assert message in str(raised.value)


def test_retention_has_an_age_for_each_kind_that_it_limits(tmp_path: Path) -> None:
    text = "retention: {sweeps: {older_than: 2w, keep_last: 3}, grader_replies: {older_than: 12h}}"

    project = load_project(write(tmp_path, text))

    now = datetime(2026, 3, 15, 12, tzinfo=UTC)
    assert dict(project.retention.ages(now)) == {
        "sweeps": Age(before=datetime(2026, 3, 1, 12, tzinfo=UTC), keep_last=3),
        "grader-replies": Age(before=datetime(2026, 3, 15, tzinfo=UTC)),
    }


@pytest.mark.parametrize("schedule", ["@daily", "*/5 1-3 * JAN mon", "30 4 * * 1"])
def test_cron_expressions_are_accepted(tmp_path: Path, schedule: str) -> None:
    assert load_project(write(tmp_path, f"schedule: '{schedule}'")).schedule == schedule


def test_every_wrong_field_of_a_project_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "eval-pipeline.yaml").write_text("suites: 5\nfoo: 1\ndefaults: {threshold: 3, bar: 2}\n")

    with pytest.raises(InputError) as caught:
        load_project(tmp_path)

    fields = {problem.place.field for problem in problems_of(caught.value)}
    assert fields == {"suites", "foo", "defaults.threshold", "defaults.bar"}
