"""`skills`, `commands`, `file-reads`, `tool-calls`, `output` and `file-changes` in YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline import Case, EvaluatorSpec, InputError, SessionReport
from eval_pipeline.reports.model import CommandEvent, MessageEvent
from eval_pipeline.scores.evaluate import bind, build, evaluate
from eval_pipeline.scores.evaluators import session_checks
from eval_pipeline.scores.model import Score, Subject

REPORT = SessionReport(execution_id="e", final_output="a" * 40 + "!", events=(CommandEvent(command="npm test"),))
DIFF = """diff --git a/src/deep/app.py b/src/deep/app.py
--- a/src/deep/app.py
+++ b/src/deep/app.py
@@ -1,2 +1,2 @@
 import os
-x = 1
+x = 2
diff --git a/README.md b/README.md
--- /dev/null
+++ b/README.md
@@ -0,0 +1 @@
+hello
"""


def score(type_: str, report: SessionReport = REPORT, **config: Any) -> Score:
    case = Case(id="c", input=())
    spec = EvaluatorSpec(type=type_, name=type_, config=config)
    (scored,) = evaluate(Subject(case, report), [bind(spec, case, Path())])
    return scored


def test_all_given_checks_have_to_hold_and_failures_ask_a_question() -> None:
    scored = score("commands", includes=["npm", "pnpm"], size=1, message="uses npm")

    assert scored.value == 0.0
    assert scored.reason.startswith('uses npm. Expected the agent to run a command matching "pnpm".')
    assert [finding.passed for finding in scored.findings] == [True, False, True]
    assert scored.details["questions"][0]["question"].startswith("You were expected to run")


def test_camel_case_arguments_are_the_same() -> None:
    assert score("commands", notIncludes="pnpm", atLeast={"match": "npm", "number": 1}).value == 1.0


def test_a_report_that_shows_no_session_is_unknown() -> None:
    answer = SessionReport(execution_id="e", final_output="ok", events=(
        MessageEvent(role="assistant", text="ok", phase="final"),))  # fmt: skip

    assert score("commands", answer, not_includes="rm").value is None
    assert score("commands", answer, not_includes="rm", on_missing="fail").value == 0.0
    assert score("output", answer, not_empty=True).value == 1.0


def test_a_pattern_that_backtracks_ends_without_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_checks, "TIME_LIMIT_S", 0.1)

    scored = score("output", includes={"regex": "^(a|a)*$"})

    assert scored.value is None and "took longer than 0.1 s" in scored.reason


@pytest.mark.parametrize(
    ("type_", "config", "problem"),
    [
        ("commands", {}, "needs at least one check: "),
        ("commands", {"include": "x"}, "unknown argument; there are: .* (did you mean|meant)? ?.*includes"),
        ("commands", {"includes": {"executabel": "npm"}}, "includes: unknown field 'executabel' of a command; did you"),
        ("commands", {"count": 3}, "count: expected a mapping with match and number, got 3"),
        ("commands", {"includes": {"regex": "("}}, "includes: not a valid pattern"),
        ("tool-calls", {"includes": "Edit"}, "unknown argument; there are: .*, has, sequence; did you mean 'has'\\?"),
        ("output", {"matches": "x"}, "there are: .*includes, not_empty; did you mean 'includes'\\?"),
        ("tool-calls", {"has": "Edit", "wieght": 2}, "has, sequence, weight; did you mean 'weight'\\?"),
        ("tool-calls", {"has": {"name": "x"}}, "has: unknown field 'name' of a tool call; there are: tool, args"),
        ("skills", {"has": [""]}, "has: expected the name of a skill"),
        ("file-changes", {}, "needs at least one of must_change"),
    ],
)
def test_a_wrong_argument_is_refused_with_its_name(type_: str, config: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        build(EvaluatorSpec(type=type_, name="x", config=config))


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ({"must_change": ["src/**/*.py", "README.md"]}, 1.0),
        ({"must_change": ["src/*.py"]}, 0.0),
        ({"must_not_change": ["*.md"]}, 0.0),
        ({"must_not_change": ["tests/**"], "max_lines": 3, "max_files": 2}, 1.0),
        ({"max_lines": 2}, 0.0),
        ({"only": ["src/**"]}, 0.0),
        ({"only": ["src/**", "*.md"]}, 1.0),
    ],
)
def test_changed_files_are_matched_by_patterns_and_bounded(config: dict[str, Any], value: float) -> None:
    changed = SessionReport(execution_id="e", file_changes=DIFF)

    assert score("file-changes", changed, **config).value == value


def test_without_a_workspace_changes_are_unknown() -> None:
    assert score("file-changes", max_lines=1).value is None
