"""Plain asserts of Python suites: what a failure shows, and that nothing is evaluated twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline import load_suite
from eval_pipeline.executions.workers import end_workers
from eval_pipeline.reports.model import CommandEvent, SessionReport
from eval_pipeline.scores.programs import suite_module
from eval_pipeline_tests.formats.skillgym.conftest import Write

REPORT = SessionReport(execution_id="e", final_output="2 apples", events=(CommandEvent(command="npm tests"),))
CHECK = """
import re
from plain_words import word_is
N = []
def counted(value):
    N.append(value)
    return len(N)
class Odd:
    def __repr__(self): raise ValueError
class Unreadable(AssertionError):
    def __str__(self): raise ValueError
def check(report, ctx):
    {statement}
suite = [Case(id="a", prompt="b", check=check)]
"""
WORDS = """
def word_is(text, word):
    assert text == word
"""
FAILURES = {
    "a comparison": (
        "assert ctx.final_output() == '2 pears'",
        "assertion failed: ctx.final_output() == '2 pears'. Observed: ctx.final_output() = '2 apples'",
    ),
    "arguments of a call": (
        "assert len(ctx.commands()) > 3",
        "assertion failed: len(ctx.commands()) > 3. "
        "Observed: len(ctx.commands()) = 1, ctx.commands() = ['npm tests']",
    ),
    "the nearest text": (
        "assert 'npm test' in ctx.commands()",
        "assertion failed: 'npm test' in ctx.commands(). Observed: ctx.commands() = ['npm tests']. "
        "Nearest: 'npm tests'",
    ),
    "a call that returns false": (
        "assert ctx.final_output().startswith('no')",
        "assertion failed: ctx.final_output().startswith('no'). Observed: ctx.final_output() = '2 apples'",
    ),
    "not": (
        "assert not re.search('appl', report.final_output)",
        "Observed: re.search('appl', report.final_output) = <re.Match object; span=(2, 6), match='appl'>, "
        "report.final_output = '2 apples'",
    ),
    "the operand of an and": (
        "assert report.final_output and counted(1) == counted(2)",
        "assertion failed: counted(1) == counted(2). Observed: counted(1) = 1, counted(2) = 2",
    ),
    "an or": (
        "assert counted(1) == 3 or counted(2) == 4",
        "assertion failed: counted(1) == 3 or counted(2) == 4. Observed: counted(1) = 1, counted(2) = 2",
    ),
    "several lines": ("assert (len(\n        'ab') ==\n  3)", "failed: len( 'ab') == 3. Observed: len( 'ab') = 2"),
    "a module of the folder": ("word_is(ctx.final_output(), 'x')", "Observed: text = '2 apples', word = 'x'"),
    "soft": ("with soft: assert ctx.final_output() == 'x'", "1. assertion failed: ctx.final_output() == 'x'. Observed"),
    "a message of its own": ("assert ctx.final_output() == 'x', 'mine'", "mine"),
    "words of soft": (
        "soft.equal(1, 2); soft.not_equal(3, 3); soft.deep_equal([1], [2]); soft.match('a', 'b'); "
        "soft.does_not_match('ab', re.compile('b')); soft.fail('mine')",
        "6 assertion failures collected during case execution:\n1. Expected 2, got 1\n2. Expected anything but 3\n"
        "3. Expected [2], got [1]\n4. Expected a text matching 'b', got 'a'\n"
        "5. Expected no text matching 'b', got 'ab'\n6. mine",
    ),
    "a long text": ("text = 'a' * 1_000\n    assert text == 3", f"text = '{'a' * 299}… (702 more characters)"),
    "two long texts": (
        "text, other = 'a' * 900 + 'b', 'a' * 900 + 'c'\n    assert text == other",
        f"They differ at character 901: '{'a' * 40}b' and '{'a' * 40}c'",
    ),
    "a value without a repr": ("x = Odd()\n    assert x == 1", "x = <Odd whose repr raises ValueError>"),
    "a long message": ("assert 0, 'm' * 200_000", "m" * 4_000 + "… (196,000 more characters)"),
    "a message that raises": ("raise Unreadable", "Unreadable, whose message cannot be read (ValueError)"),
}  # fmt: skip


def _answer(write: Write, name: str, statement: str) -> dict[str, Any]:
    write(WORDS, "plain_words.py", head="")
    path = write(CHECK.format(statement=statement))
    return suite_module.check_case(f"plain_asserts_{name}", str(path), str(path.parent), "a", REPORT, {})


@pytest.mark.parametrize(("statement", "message"), FAILURES.values(), ids=FAILURES)
def test_a_failed_assert_shows_its_condition_and_what_was_observed(
    write: Write, statement: str, message: str, request: pytest.FixtureRequest
) -> None:
    answer = _answer(write, request.node.name, statement)

    assert answer["status"] == "failed"
    assert message in answer["message"]


def test_an_assert_that_holds_evaluates_everything_once(write: Write) -> None:
    answer = _answer(write, "once", "assert counted(1) < counted(2) and N == [1, 2]")

    assert answer == {"status": "passed"}


def test_failures_in_a_hundred_have_a_limit_together_and_each(write: Write) -> None:
    answer = _answer(write, "many", "for _ in range(150): soft(False, 'm' * 5_000)")

    assert answer["message"].startswith("150 assertion failures collected during case execution:\n1. mmm")
    assert len(answer["message"]) < 10_100 and answer["message"].endswith("more characters)")
    assert [len(answer["failures"]), len(answer["failures"][0])] == [100, 4_000 + len("… (1,000 more characters)")]


def test_what_a_module_and_its_programs_write_leaves_standard_output_alone(
    write: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = """
    import os, subprocess
    os.write(1, b"written\\n")
    subprocess.run(["echo", "of a program"])
    suite = [Case(id="a", prompt="b", check=print)]
    """

    load_suite(write(source))
    end_workers()

    out, err = capfd.readouterr()
    assert (out, sorted(err.splitlines())) == ("", ["of a program", "written"])
