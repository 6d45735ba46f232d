"""The command of attacks, and a short form of every section that there is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from eval_pipeline_tests.attacks import __main__ as command
from eval_pipeline_tests.attacks import suites
from eval_pipeline_tests.attacks.findings import Findings, carry_out
from eval_pipeline_tests.attacks.patience import patience
from eval_pipeline_tests.builders import make_repository
from eval_pipeline_tests.thoroughness import part_or_all

SECONDS = part_or_all(0.3, 1.0)


def holds(folder: Path, rng: random.Random) -> str | None:
    return None


def breaks(folder: Path, rng: random.Random) -> str | None:
    return f"broken by {rng.random()}"


def raises(folder: Path, rng: random.Random) -> str | None:
    raise KeyError("an attack raised this")


def hangs(folder: Path, rng: random.Random) -> str | None:
    with patience(0.01):
        while True:
            pass


def test_what_an_attack_returns_or_raises_is_a_finding(tmp_path: Path) -> None:
    attacks = {"holds": holds, "breaks": breaks, "raises": raises, "hangs": hangs}

    findings = carry_out(attacks, 0.1, "seed", tmp_path)

    kinds = {text.split(":")[0] for text in findings.findings}
    assert kinds == {"breaks", "raises", "hangs"}
    assert any("an attack raised this" in text for text in findings.findings)
    assert any("took longer than 0.01 s" in text for text in findings.findings)


def test_a_seed_makes_the_same_attacks_again(tmp_path: Path) -> None:
    runs = [carry_out({"breaks": breaks}, 0, "seed", tmp_path / name) for name in "ab"]
    (tmp_path / "c").mkdir()
    other = carry_out({"breaks": breaks}, 0, "another seed", tmp_path / "c")

    assert runs[0] == runs[1] != other


def test_the_command_prints_its_seed_and_a_table_and_fails_with_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Hostile:
        def attack(self, seconds: float, seed: str, folder: Path) -> Findings:
            findings = Findings(measured={"peak": "1 MB"})
            findings.tried("kill", 3)
            if seed == "bad":
                findings.found("kill", "a row is lost")
            return findings

    monkeypatch.setattr(command, "section", lambda name: Hostile())

    codes = [command.main(["suites", "--seconds", "0", "--seed", seed]) for seed in ("good", "bad")]

    printed = capsys.readouterr().out
    assert codes == [0, 1]
    assert "seed good\n" in printed
    assert "FOUND kill: a row is lost (seed bad)" in printed
    assert "suites   kill  3\n" in printed
    assert "suites   peak  1 MB\n" in printed


def test_an_unknown_section_is_an_error_with_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(["suits"])

    assert left.value.code == 2
    assert "no section suits; there are: " in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", command.sections())
def test_a_few_seconds_of_each_section_find_nothing(name: str, tmp_path: Path) -> None:
    findings = command.section(name).attack(SECONDS, "short", tmp_path)

    assert findings.figures.total() >= 1
    assert not findings.findings, "\n\n".join(findings.findings)


def test_the_attacks_on_suites_see_what_does_not_hold(tmp_path: Path) -> None:
    """A way out that is open is a finding: the folder outside is made a part of the project's repository."""
    make_repository(tmp_path)

    problem = suites.ATTACKS["out by ..: a test"](tmp_path, random.Random(1))

    assert problem is not None
    assert "exit code 0" in problem
