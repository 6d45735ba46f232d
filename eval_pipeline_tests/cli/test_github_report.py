"""`run --report github`: what GitHub reads is escaped, and its paths are those of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eval_pipeline.cli.github_report import CasePosition, annotation_lines, markdown, repository_root, summary
from eval_pipeline.cli.main import main
from eval_pipeline.sweeps.failed_cases import FailedCase, FailedCases

CASES = """\
from eval_pipeline import Case, output


def check(report, ctx):
    output.includes(report, "b")

suite = [
    Case(id="fails", prompt="x", check=check),
    Case(id="passes", prompt="x", check=lambda report: None, expected_fail=True),
]
"""


def failed_case(**fields: str) -> FailedCase:
    values = {"suite": "s", "case_id": "a,b", "runner": "r:1", "status": "failed", "failure_class": "wrong-alias"}
    return FailedCase(**{**values, "reason": "50 %\n::error::x", "failed": 1, "repetitions": 3, **fields})  # type: ignore[arg-type]


def test_an_annotation_is_one_line_with_file_line_class_and_repetitions() -> None:
    failed = FailedCases(cases=(failed_case(failure_label="Wrong alias"),), total=1)

    (line,) = annotation_lines(failed, {("s", "a,b"): CasePosition("suites/cases.py", 7)}, Path())

    assert line == (
        "::error title=a%2Cb > r%3A1,file=suites/cases.py,line=7::"
        "Wrong alias [wrong-alias]%0A1 of 3 repetitions%0A50 %25%0A::error::x"
    )


def test_nothing_that_a_target_writes_is_markdown_in_the_summary() -> None:
    failed = FailedCases(cases=(failed_case(reason="<b>*x*</b> | [a](http://x)\n# y"),), total=14)

    text = summary([], failed)

    assert "\\<b\\>\\*x\\*\\</b\\> \\| \\[a\\]\\(http://x\\) \\# y" in text
    assert text.endswith("- …and 13 more\n")
    assert markdown("a\nb") == "a b"


def test_paths_begin_at_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()

    assert repository_root(tmp_path / "evals") == tmp_path


def test_an_annotation_is_at_the_check_that_failed_or_at_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "cases.py").write_text(CASES)
    (tmp_path / "sessions.jsonl").write_text('{"id": "fails", "output": "a"}\n{"id": "passes", "output": "a"}\n')
    (tmp_path / "runners.yaml").write_text("runners: [{name: echo, adapter: replay, recording: sessions.jsonl}]\n")

    with pytest.raises(SystemExit):
        main(["run", "--report", "github"])

    places = re.findall(r"title=(\S+) > echo,file=([^,]+),line=(\d+)", capsys.readouterr().out)
    assert places == [("fails", "suites/cases.py", "5"), ("passes", "suites/cases.py", "9")]
