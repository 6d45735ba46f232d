"""Cases are chosen by all of some tags, by name, and by a sample with a mix and a seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.executions.sampling import quotas
from eval_pipeline_tests.cli.sample_project import CliProject

RUNNERS = 'runners:\n  - {name: parrot, adapter: python, function: "parrot:say", isolation: in-process}\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project with 30 normal and 10 hard cases."""
    root = tmp_path_factory.mktemp("sampled")
    cases = [
        {"id": f"c{at}", "input": f"say {at}", "difficulty": "normal" if at < 30 else "hard", "criteria": "x",
         "tags": ["even" if at % 2 == 0 else "odd", *(["five"] if at % 5 == 0 else [])],
         "assertions": [{"type": "contains", "value": str(at)}]}
        for at in range(40)
    ]  # fmt: skip
    (root / "eval-pipeline.yaml").write_text("suites: [suites]\n")
    (root / "runners.yaml").write_text(RUNNERS)
    (root / "parrot.py").write_text("def say(prompt):\n    return prompt\n")
    (root / "suites").mkdir()
    (root / "suites/numbers.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    return CliProject(root)


def planned(project: CliProject, *options: str) -> int:
    answer = project("plan", *options, "--json")
    assert answer.code == 0, answer.err
    return sum(pair["reused"] + pair["to_execute"] for pair in answer.document)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--tag", "even,five"), 24),
        (("--all-tags", "even,five"), 4),
        (("--all-tags", "odd", "--difficulty", "hard"), 5),
        (("--name", "C3"), 11),
        (("--sample", "7"), 7),
        (("--sample", "100"), 40),
        (("--sample", "10", "--mix", "normal=0.7,hard=0.3", "--seed", "7"), 10),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_selection_plans_as_many_cases(project: CliProject, options: tuple[str, ...], count: int) -> None:
    assert planned(project, *options) == count


def test_a_sample_has_its_mix_and_the_same_seed_draws_the_same_cases(project: CliProject) -> None:
    options = ("--sample", "10", "--mix", "normal=0.7,hard=0.3", "--seed", "7")

    first = project("run", *options, "--json")
    again = project("run", *options, "--json")

    numbers = drawn(project)
    assert sum(number >= 30 for number in numbers) == 3
    assert (first.counts["executed"], again.counts["executed"], again.counts["reused"]) == (10, 0, 10)
    assert project("run", *options[:-1], "8", "--json").counts["executed"] > 0


def drawn(project: CliProject) -> list[int]:
    lines = project("sql", "SELECT case_id FROM target_executions", "--json").out.splitlines()
    return [int(json.loads(line)["case_id"][1:]) for line in lines]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--sample", "10", "--mix", "normal=0.7,hard=0.2"), "add up to 1, got 0.9"),
        (("--sample", "10", "--mix", "normal=0.7,hrad=0.3"), "did you mean 'hard'"),
        (("--sample", "10", "--mix", "normal"), "expected names with numbers"),
        (("--sample", "40", "--mix", "hard=1"), "has 10 hard cases of the selection, the mix needs 40 of 40"),
        (("--mix", "hard=1"), "needs the size of the sample: --sample N"),
        (("--seed", "1"), "needs the size of the sample: --sample N"),
        (("--sample", "0"), "x>=1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_sample_that_cannot_be_drawn_is_an_error_with_its_cure(
    project: CliProject, options: tuple[str, ...], problem: str
) -> None:
    answer = project("plan", *options)

    assert answer.code == 2
    assert problem in answer.err


@pytest.mark.parametrize(
    ("size", "shares", "expected"),
    [
        (10, {"normal": 0.7, "hard": 0.3}, {"normal": 7, "hard": 3}),
        (5, {"normal": 0.5, "hard": 0.5}, {"normal": 3, "hard": 2}),
        (1, {"normal": 0.9, "hard": 0.1}, {"normal": 1, "hard": 0}),
        (3, {"normal": 1.0}, {"normal": 3}),
    ],
)
def test_quotas_are_whole_and_add_up(size: int, shares: dict[str, float], expected: dict[str, int]) -> None:
    assert quotas(size, shares) == expected


def test_the_launchpad_has_the_sample(tmp_path: Path) -> None:
    from eval_pipeline.orchestration.config import SweepConfig
    from eval_pipeline.sweeps.project import load_project

    (tmp_path / "eval-pipeline.yaml").write_text("suites: [suites]\n")
    config = SweepConfig(sample=4, mix={"normal": 0.5, "hard": 0.5}, seed=3, all_tags=["a"])

    cases = config.options(load_project(tmp_path), ("target_executions",)).cases

    assert cases.sample is not None
    assert (cases.sample.size, cases.sample.seed, cases.all_tags) == (4, 3, frozenset({"a"}))
