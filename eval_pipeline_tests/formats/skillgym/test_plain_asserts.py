"""Plain asserts of Python suites: what a failure shows, and that nothing is evaluated twice."""

from __future__ import annotations

import types
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eval_pipeline import load_suite
from eval_pipeline.executions.workers import end_workers
from eval_pipeline.reports.model import CommandEvent, SessionReport
from eval_pipeline.scores.programs import suite_module
from eval_pipeline.scores.programs.plain_asserts import RewritingLoader
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
class Unfit:
    @property
    def __class__(self): raise ValueError
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

LONG = f"'{'x' * 299}… (102 more characters)"
DECIDED = {
    "not of an or, the first decides": (
        "a, b = [1], []\n    assert not (a or b[0])",
        "assertion failed: not (a or b[0]). Observed: a = [1]",
    ),
    "not of an or, the last decides": (
        "a, b = [], [2]\n    assert not (a or b[0])",
        "assertion failed: not (a or b[0]). Observed: a = [], b[0] = 2",
    ),
    "not of an or in an or": (
        "a, b = 0, [1]\n    assert a or not (b[0] or b[1])",
        "assertion failed: a or not (b[0] or b[1]). Observed: a = 0, b[0] = 1",
    ),
    "an and in an or": (
        "a, b = 0, []\n    assert a == 1 or (b and b[0] == 2)",
        "assertion failed: a == 1 or (b and b[0] == 2). Observed: a = 0, b = []",
    ),
    "not of an and": (
        "a, b = 1, 2\n    assert not (a and b)",
        "assertion failed: not (a and b). Observed: a = 1, b = 2",
    ),
    "a chain, the first decides": (
        "a, b = 3, 2\n    assert a < b < counted(1)",
        "assertion failed: a < b < counted(1). Observed: a = 3, b = 2",
    ),
    "a chain, the last decides": (
        "a, b = 'x' * 400, 'x' * 400\n    assert a == b == counted(3)",
        f"assertion failed: a == b == counted(3). Observed: a = {LONG}, b = {LONG}, counted(3) = 1",
    ),
    "a chain in a not": ("a = 1\n    assert not 0 < a < 2", "assertion failed: not 0 < a < 2. Observed: a = 1"),
    "a ternary": (
        "a, b = [], 5\n    assert a[0] if a else b == 4",
        "assertion failed: a[0] if a else b == 4. Observed: a = [], b = 5",
    ),
    "a ternary in a not": (
        "a = [7]\n    assert not (a[0] if a else a[1])",
        "assertion failed: not (a[0] if a else a[1]). Observed: a = [7], a[0] = 7",
    ),
    "a name that the condition gives": (
        "assert (n := counted(1)) == 2 or not (m := counted(2))",
        "assertion failed: (n := counted(1)) == 2 or not (m := counted(2)). Observed: n = 1, m = 2",
    ),
    "not in": ("a = [1]\n    assert 1 not in a", "assertion failed: 1 not in a. Observed: a = [1]"),
    "a loop, whose values before are of no interest": (
        "for a, b in ((0, 5), (6, 7)): assert not (a or b == 4)",
        "assertion failed: not (a or b == 4). Observed: a = 6",
    ),
    "a value that cannot be looked at": ("x = Unfit()\n    assert x == 1", "assertion failed: x == 1"),
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


@pytest.mark.parametrize(("statement", "message"), DECIDED.values(), ids=DECIDED)
def test_a_failed_assert_shows_the_values_that_were_evaluated(
    write: Write, statement: str, message: str, request: pytest.FixtureRequest
) -> None:
    answer = _answer(write, request.node.name, statement)

    assert (answer["status"], answer["message"]) == ("failed", message)


class _Held(RewritingLoader):
    """Loads a module from a text."""

    def __init__(self, source: str) -> None:
        super().__init__("held", "held.py")
        self.source = source

    def get_data(self, path: str) -> bytes:
        return self.source.encode()


ASYNC_CHECK = """
def held(value):
    seen.append(value)
    return value
async def awaited(value):
    return held(value)
async def check(a, b, c):
    for a, b, c in ((a, b, c), (c, a, b), (0, 1, 2)):
        assert {condition}
"""
LEAVES = st.sampled_from(
    ["a", "b", "c", "missing", "b[0]", "0", "1", "''", "held(a)", "held(held(b))", "held([c])[0]", "await awaited(a)",
     "(w := held(b))", "[x for x in [a, b] if x and held(x)]", "(lambda: held(c))()", "any(held(x) for x in (a, b))",
     "a in (b, held(c))", "held(c) not in [a, b]", "a.real", "-held(b)", "(await awaited(b)).real"]
)  # fmt: skip
OPERATORS = st.sampled_from(["<", "<=", "==", "!=", "in", "is not"])


def _larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        smaller.map("(not {})".format),
        smaller.map("held({})".format),
        st.builds("({} or {})".format, smaller, smaller),
        st.builds("({} and {})".format, smaller, smaller),
        st.builds("({} or {} or {})".format, smaller, smaller, smaller),
        st.builds("({} {} {} {} {})".format, smaller, OPERATORS, smaller, OPERATORS, smaller),
        st.builds("({} if {} else {})".format, smaller, smaller, smaller),
        st.builds("(w := {})".format, smaller),
    )


def _outcome(module: dict[str, Any], values: tuple[Any, ...]) -> tuple[type[BaseException], list[Any], BaseException]:
    """What a check raises (StopIteration: nothing), what it evaluated, and the error itself."""
    module["seen"] = seen = list[Any]()
    try:
        module["check"](*values).send(None)
    except Exception as error:  # noqa: BLE001 — whatever the condition raises
        return type(error), seen, error
    raise AssertionError("the check waits for something")


@settings(max_examples=150, deadline=None)
@given(
    condition=st.recursive(LEAVES, _larger, max_leaves=8),
    values=st.tuples(*[st.sampled_from([0, 1, 2, [], [0], [3], None, ""])] * 3),
)
@example(condition="not (a or b)", values=(0, 1, 0))
@example(condition="not (a or b)", values=(1, 0, 0))
def test_an_assert_fails_exactly_where_it_would_as_it_is_written(condition: str, values: tuple[Any, ...]) -> None:
    source = ASYNC_CHECK.format(condition=condition)
    module, plain = types.ModuleType("held"), dict[str, Any]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `0 is not a`
        _Held(source).exec_module(module)
        exec(compile(source, "plain.py", "exec", dont_inherit=True), plain)

    kind, seen, error = _outcome(vars(module), values)

    assert (kind, seen) == _outcome(plain, values)[:2]
    assert kind is not AssertionError or str(error).startswith("assertion failed: ")


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


def test_what_checks_print_has_the_names_of_module_and_case(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(
        """
        import sys
        print("while it is loaded", file=sys.stderr)

        def check(report, ctx):
            print("one\\ntwo", end="")
            print("three", file=sys.stderr)
            assert False

        suite = [Case(id="a", prompt="b", check=check)]
        """
    )
    module = ("printing_module", str(path), str(path.parent))

    suite_module.check_case(*module, "a", SessionReport(execution_id="e"), {})

    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "cases.py: while it is loaded", "cases.py (a): one", "cases.py (a): twothree",
    ]  # fmt: skip
