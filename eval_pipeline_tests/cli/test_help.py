"""`eval-pipeline help` and `-h`: the same as `--help`."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.public_verbs import command


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (("help",), ("--help",)),
        (("-h",), ("--help",)),
        (("help", "explain"), ("explain", "--help")),
        (("explain", "-h"), ("explain", "--help")),
    ],
)
def test_help_is_a_word_too(words: tuple[str, ...], same: tuple[str, ...]) -> None:
    shown, expected = command(*words), command(*same)

    assert (shown.code, shown.out) == (0, expected.out)
    assert shown.out.startswith("Usage: eval-pipeline")


def test_help_about_an_unknown_command_is_a_usage_error() -> None:
    ended = command("help", "nothing")

    assert ended.code == 2
    assert "No such command 'nothing'" in ended.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["eval", "run", "evals"], "No such command 'eval'. In place of AgentV's 'eval': run FILES."),
        (["runs", "rerun", "x"], "In place of AgentV's 'runs': run --refresh failed, or run --case ID --refresh all."),
        (["run", "--target", "x"], "No such option '--target'. In place of AgentV's '--target': --runner NAME.\n"),
    ],
)
def test_a_command_or_option_of_another_system_is_told_its_own(words: list[str], hint: str) -> None:
    ended = command(*words)

    assert ended.code == 2
    assert hint in ended.err
