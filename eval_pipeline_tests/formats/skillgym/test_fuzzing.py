"""Random Python suites and session reports: an error with its place, or an outcome; never a stack trace, nothing lost.

The side of the worker runs in this process: an example takes milliseconds. What it answers goes through the same bytes.
"""

from __future__ import annotations

from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.errors import InputError
from eval_pipeline.executions.function_calls import FunctionCall, FunctionError, resolve
from eval_pipeline.executions.replies import value_body
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.skillgym import suites
from eval_pipeline.parsing.user_modules import function_reference
from eval_pipeline.reports.model import CommandEvent, SessionReport
from eval_pipeline.scores.evaluate import bind, evaluate
from eval_pipeline.scores.model import Subject
from eval_pipeline.scores.programs import suite_module
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.snapshots import read_settings
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.formats.skillgym.conftest import HEAD
from eval_pipeline_tests.warehouse.test_rows import JSON, REPORTS

MANY = settings(derandomize=True, deadline=None, max_examples=150)
FIELDS = (
    "id", "prompt", "tags", "timeout_ms", "max_steps", "expected_fail", "classify_failure", "check", "metadata",
    "runners", "repetitions", "on_failure", "criteria", "should_trigger", "evaluators", "threshold", "incomplete",
    "line", "no_such_field",
)  # fmt: skip
ODD = (
    "None", "3", "-1", "0", "10**400", "1e400", "float('nan')", "''", "' '", "'\\ud800'", "'a\\0b'", "'x' * 100_000",
    "b'x'", "[]", "[None]", "['a', 3]", "{}", "{1: 2}", "{'a': {'b': object()}}", "set()", "object()", "print",
    "lambda: 1", "True", "...", "type", "range(3)", "Case", "output", "{'mode': 'isolated', 'bootstrap': 3}",
    "{'mode': 'shared', 'cwd': 'no such folder'}", "{'metric': 'total_tokens', 'tolerance': {'absolute': -1}}",
)  # fmt: skip
ODD_FIELDS = st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ODD), max_size=3)
OPTIONS = st.dictionaries(st.sampled_from(["workspace", "snapshots", "suite"]), st.sampled_from(ODD), max_size=1)
CUTS = st.none() | st.tuples(st.integers(0, 400), st.integers(1, 40))
_NUMBERS = count()


class _InThisProcess:
    """Calls functions of workers here; what they return passes through the bytes of a reply."""

    versions: ClassVar[dict[str, frozenset[Any]]] = {}

    def call_and_wait(self, call: FunctionCall, timeout_s: float) -> Any:
        assert call.reference is not None
        try:
            value = getattr(suite_module, call.reference.attribute)(*call.positional)
            kind, body = value_body(value, call.most_bytes, call.as_score)
        except Exception as error:  # noqa: BLE001 — as the worker does
            raise FunctionError("exception", f"{type(error).__name__}: {error}") from None
        future: Future[Any] = Future()
        resolve(future, kind, [], bytearray(body))
        return future.result()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(file: Path, data: Any = None) -> Any:
        return _InThisProcess(), function_reference(f"{file.stem}:suite", file.parent, "file")

    monkeypatch.setattr(suites, "module_pool", pool)


def _module(fields: dict[str, str], options: dict[str, str], cut: tuple[int, int] | None) -> str:
    arguments = {"id": "'a'", "prompt": "'p'", "check": "print", **fields}
    values = ", ".join(f"{name}={value}" for name, value in arguments.items())
    lines = [f"suite = [Case({values}), Case(id='good', prompt='p', check=print)]"]
    text = HEAD + "\n".join([*lines, *(f"{name} = {value}" for name, value in options.items())]) + "\n"
    return text if cut is None else text[: cut[0]] + text[cut[0] + cut[1] :]


@MANY
@given(fields=ODD_FIELDS, options=OPTIONS, cut=CUTS)
def test_a_changed_module_is_a_suite_or_an_error_with_its_file(
    here: None, tmp_path: Path, fields: dict[str, str], options: dict[str, str], cut: tuple[int, int] | None
) -> None:
    file = tmp_path / f"cases{next(_NUMBERS)}.py"
    file.write_text(_module(fields, options, cut), encoding="utf-8")

    try:
        suite: Suite = suites.PythonSuites().load(file, file.read_text("utf-8"), LoadOptions())
        read_settings(suite.metadata.get("snapshots"), suite)
    except InputError as error:
        assert file.name in str(error)
        return

    assert cut is not None or "suite" in options or "good" in [case.id for case in suite.cases]
    assert all(file.name in str(error) for error in suite.errors)
    assert all(type(case.repetitions) in (int, type(None)) and to_json(dict(case.metadata)) for case in suite.cases)


WRONG = {
    "tags": "['a', 3]", "timeout_ms": "float('nan')", "max_steps": "True", "metadata": "{'a': object()}",
    "runners": "'echo'", "repetitions": "0", "on_failure": "-1", "criteria": "3", "threshold": "3", "evaluators": "3",
    "incomplete": "'x' * 100_000", "expected_fail": "None", "should_trigger": "[3]", "depends_on": "('good',)",
}  # fmt: skip


@pytest.mark.parametrize(("field", "value"), WRONG.items(), ids=WRONG)
def test_a_wrong_field_costs_its_case_and_is_named(here: None, tmp_path: Path, field: str, value: str) -> None:
    file = tmp_path / "cases.py"
    file.write_text(_module({field: value}, {}, None), encoding="utf-8")

    suite = load_suite(file)

    (error,) = suite.errors
    assert f"cases.py:2: suite[0].{field}: " in str(error)
    assert [case.id for case in suite.cases] == ["good"]


CHECKS = """
import re
MATCHERS = ["", "npm test", re.compile("a|b"), command("npm").arg("test"), lambda text: "x" in text, {"regex": "a"}]
CALLS = [(getattr(group, name), arguments) for group, names in (
    (commands, ("includes", "not_includes", "first", "last", "exactly_one", "count", "at_least", "before", "only")),
    (output, ("includes", "not_empty")), (skills, ("has", "not_has", "includes", "only")),
) for name in names for arguments in ([], *([matcher] for matcher in MATCHERS), [MATCHERS[1], 1], [MATCHERS[2:4]])]

def calling(helper, arguments):
    def check(report, ctx):
        ctx.commands(), ctx.tool_calls(), ctx.file_reads(), ctx.detected_skills(), ctx.final_output()
        with soft:
            pass
        helper(report, *arguments)
    return check

suite = [Case(id=str(number), prompt="p", check=calling(*call)) for number, call in enumerate(CALLS)]
"""


@settings(MANY, max_examples=30)
@given(report=REPORTS)
def test_every_check_of_any_report_has_an_outcome(tmp_path: Path, report: Any) -> None:
    file = tmp_path / "checks.py"
    if not file.exists():
        file.write_text(f"{HEAD}{CHECKS}")
    module = ("fuzzed_checks", str(file), str(tmp_path))
    described = suite_module.describe_suite(*module)
    assert len(described["cases"]) > 100 and described["problems"] == []

    for case in described["cases"]:
        answer = suite_module.check_case(*module, case["id"], report, {})

        assert answer["status"] in ("passed", "failed", "crashed")
        assert answer["status"] == "passed" or answer["message"]
        assert value_body(answer, 10_000_000, False)[0] == "value"


SESSION = SessionReport(execution_id="e", final_output="done", events=(CommandEvent(command="npm test"),))
ARGUMENTS = ("has", "includes", "value", "skill", "count", "before", "sequence", "at_least", "on_missing")
TYPES: dict[str, dict[str, Any]] = {
    "skills": {"has": "finder"},
    "commands": {"includes": {"executable": "npm", "positionals": ["test"]}},
    "file-reads": {"includes": {"regex": "a"}},
    "tool-calls": {"has": "read"},
    "output": {"includes": "a"},
    "skill-used": {"value": "finder"},
    "skill-trigger": {"skill": "finder"},
    "trajectory:tool-used": {"value": "read"},
    "trajectory:step-count": {"value": {"max": 3}},
}


@MANY
@given(report=REPORTS)
def test_every_type_over_sessions_scores_any_report_or_says_why_not(report: Any) -> None:
    case = a_case()
    bound = [bind(an_evaluator(type_, **config), case, Path()) for type_, config in TYPES.items()]

    scores = evaluate(Subject(case, report), bound)

    assert [score.type for score in scores] == list(TYPES)
    assert all(score.value in (None, 0.0, 1.0) and score.reason for score in scores)


@settings(MANY, max_examples=60)
@given(type_=st.sampled_from(list(TYPES)), config=st.dictionaries(st.sampled_from(ARGUMENTS), JSON, max_size=3))
def test_any_arguments_of_a_type_are_an_evaluator_or_an_error(type_: str, config: dict[str, Any]) -> None:
    case = a_case()
    try:
        bound = bind(an_evaluator(type_, **config), case, Path())
    except InputError as error:
        assert str(error)
        return

    (score,) = evaluate(Subject(case, SESSION), [bound])

    assert score.reason
