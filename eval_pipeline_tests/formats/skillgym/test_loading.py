"""Python suites: what is recognized without being run, what is loaded, and what is reported of a wrong module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eval_pipeline import InputError, load_suite
from eval_pipeline.cli.main import main
from eval_pipeline.formats.skillgym import suites
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.evaluators.python_check import PythonCheck
from eval_pipeline.scores.programs import suite_module
from eval_pipeline.suites.load import find_suite_files, read_suites
from eval_pipeline_tests.formats.skillgym.conftest import HEAD, Write


def test_a_module_gives_the_same_suite_and_cases_as_a_file(write: Write) -> None:
    path = write(
        """
        def check(report, ctx):
            output.not_empty(report)

        suite = {
            "one": Case(id="a", prompt="Say hi", tags=["smoke", "fast", "smoke"], timeout_ms=1500, max_steps=3,
                        expected_fail=True, check=check),
            "two": Case(id="b", prompt="Say ho", check=lambda report, ctx: None),
        }
        """
    )

    suite = load_suite(path)

    first, second = suite.cases
    assert (suite.name, suite.format, first.id, first.question) == ("cases", "skillgym", "a", "Say hi")
    assert (first.tags, first.timeout_s, first.max_steps, first.expected_fail) == (("smoke", "fast"), 1.5, 3, True)
    assert (first.line, second.line) == (7, 9)
    assert [spec.type for spec in first.evaluators] == ["python-check"]
    assert first.evaluators[0] is second.evaluators[0]


@pytest.mark.parametrize(
    ("source", "recognized"),
    [
        (HEAD + "suite = []\n", True),
        (HEAD + "suite: list[Case] = []\n", True),
        (HEAD + "if True:\n    suite = []\n", True),
        (HEAD + "from other import suite\n", True),
        (HEAD + "try:\n    import other\nexcept ImportError:\n    suite = []\n", True),
        (HEAD + "match HEAD:\n    case _:\n        suite = []\n", True),
        (HEAD + "def make():\n    suite = []\n", False),
        ("import unittest\nsuite = unittest.TestSuite()\n", False),
        (HEAD + "cases = []\n", False),
        (HEAD + "suites = [Case(id='a', prompt='b')]\n", True),
        ("import eval_pipeline as ours\ndef make():\n    return [ours.Case(id='a')]\n", True),
        ("from eval_pipeline import Case as C\nsuites = [C(id='a')]\n", True),
        (HEAD + "def check(case: Case):\n    assert case\n", False),
        ("from eval_pipeline import output\nfrom cases import Case\nall = [Case()]\n", False),
        (HEAD + "suite = [\n", True),
        ("from eval_pipeline import output\ndef helper(:\n", False),
        ("# import eval_pipeline\nsuite = [\n", False),
        (HEAD + "cases = []\n" + "# filler [\n" * 8_000, False),
        (HEAD + "suite = []\n" + "#" * 70_000 + "\n", True),
    ],
)
def test_a_module_is_recognized_by_its_syntax_and_never_run(tmp_path: Path, source: str, recognized: bool) -> None:
    (tmp_path / "module.py").write_text(source + "\nraise SystemExit(3)\n" * recognized)
    (tmp_path / "other.yaml").write_text("tests: [{id: a, input: b}]")

    found = find_suite_files(["."], tmp_path)

    assert (tmp_path / "module.py" in found) == recognized


def test_a_broken_suite_of_a_folder_is_an_error_and_what_a_suite_imports_is_none(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = "Case(id='a', prompt='b', check=lambda report: None)"
    write("def made():\n    return [Case(id='a', prompt='b', check=lambda report: None)]\n", "making.py")
    write("from making import made\nsuite = made()\n", "imports.py")
    write(f"suites = [{case}]\n", "misspelt.py")
    write(f"suite = [{case}\n", "unclosed.py")

    with pytest.raises(SystemExit) as ended:
        main(["validate", str(tmp_path)])

    shown = " ".join("".join(capsys.readouterr()).split())
    assert ended.value.code == 2
    assert "misspelt.py: suite: defines no 'suite'" in shown and "did you mean 'suites'" in shown
    assert "unclosed.py:2: is no Python: '[' was never closed" in shown
    assert "2 errors" in shown and "making.py" not in shown
    assert [suite.name for suite in read_suites(["."], tmp_path)[0]] == ["imports"]


WRONG = {
    "no suite": ("cases = []", "cases.py: suite: defines no 'suite': expected a list or a mapping of Case"),
    "syntax": ("suite = [", "cases.py:2: is no Python: '\\[' was never closed"),
    "import": ("import no_such_module\nsuite = []", "cases.py:2: cannot be loaded: ModuleNotFoundError: No module"),
    "raises": ("suite = []\nraise ValueError('broken')", "cases.py:3: cannot be loaded: ValueError: broken"),
    "exits": ("suite = []\nraise SystemExit(4)", "cases.py:3: exits while it is loaded \\(exit 4\\)"),
    "crashes": ("import os\nsuite = []\nos._exit(5)", "cases.py: cannot be loaded: the process of the function ended"),
    "empty": ("suite = []", "cases.py: suite: has no cases"),
    "another type": ("suite = 3", "cases.py: suite: expected a list or a mapping of Case, got int"),
    "unknown field": (
        "suite = [Case(id='a', prompt='b', timeoutMs=3)]",
        "cases.py:2: unknown field 'timeoutMs' of a Case.*did you mean 'timeout_ms'",
    ),
    "no case": ("suite = [3]", r"cases.py: suite\[0\]: expected a Case, got int"),
    "no check": ("suite = [Case(id='a', prompt='b')]", r"cases.py:2: suite\[0\]\.check: required"),
    "no prompt": ("suite = [Case(id='a', check=print)]", r"cases.py:2: suite\[0\]\.prompt: required"),
    "a blank tag": (
        "suite = [Case(id='a', prompt='b', tags=[''], check=print)]", r"suite\[0\]\.tags: expected a list of texts",
    ),
    "max_steps": (
        "suite = [Case(id='a', prompt='b', max_steps=0, check=print)]", "max_steps: expected a whole number",
    ),
    "an unknown word": ("from eval_pipeline import skils\nsuite = []", "has no 'skils'; did you mean 'skills'"),
    "workspace mode": (
        "workspace = {'mode': 'own'}\nsuite = [Case(id='a', prompt='b', check=print)]",
        "cases.py: workspace.mode: expected one of none, shared, isolated, got 'own'",
    ),
    "workspace key": (
        "workspace = {'mode': 'isolated', 'cwd': '.'}\nsuite = [Case(id='a', prompt='b', check=print)]",
        "cases.py: workspace.cwd: is no field of mode 'isolated'; there are: mode, template_dir, bootstrap",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "problem"), WRONG.values(), ids=WRONG)
def test_a_wrong_module_is_an_error_with_its_place(
    write: Write, source: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(source)
    monkeypatch.chdir(path.parent)

    with pytest.raises(InputError) as raised:
        load_suite(path)

    assert re.search(problem, str(raised.value)), raised.value


def test_two_cases_of_one_id_are_an_error_with_both_lines_and_the_others_are_kept(write: Write) -> None:
    suite = load_suite(
        write(
            """
            suite = [
                Case(id="a", prompt="x", check=print),
                Case(id="b", prompt="x", check=print),
                Case(id="a", prompt="y", check=print),
            ]
            """
        )
    )

    (error,) = suite.errors
    assert "cases.py:6: suite[2].id: 'a' is the id of the case in line 4, too" in str(error)
    assert [case.id for case in suite.cases] == ["a", "b"]


MANY_PROBLEMS = """
suite = [
    Case(id="a", prompt="x", tags="smoke", timeout_ms="soon", check=print),
    Case(id="b", promt="", expected_fail="yes", chek=print),
    Case(id="good", prompt="x", check=print),
]
"""
PROBLEMS_OF_MANY = (
    "cases.py:4: suite[0].timeout_ms: expected a number above 0, got 'soon'",
    "cases.py:4: suite[0].tags: expected a list of texts that are not empty, got 'smoke'",
    "cases.py:5: unknown field 'promt' of a Case; did you mean 'prompt'?",
    "cases.py:5: unknown field 'chek' of a Case; did you mean 'check'?",
    "cases.py:5: suite[1].expected_fail: expected true or false, got 'yes'",
)


@pytest.mark.parametrize("good", ["", "good"], ids=["no case can be used", "one can"])
def test_validate_and_run_show_every_problem_of_a_module_in_the_same_lines(
    write: Write, good: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(MANY_PROBLEMS if good else MANY_PROBLEMS.replace('    Case(id="good"', '    # Case(id="good"'))
    monkeypatch.chdir(path.parent)
    (path.parent / "runners.yaml").write_text("runners: [{name: echo, adapter: replay, recording: s.jsonl}]")
    (path.parent / "s.jsonl").write_text('{"id": "good", "output": "done"}')

    for command in (["validate", "cases.py"], ["run", "cases.py"]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        shown = " ".join("".join(capsys.readouterr()).split())
        assert ended.value.code == 2
        assert [problem for problem in PROBLEMS_OF_MANY if problem not in shown] == []
        assert "required" not in shown


def test_a_module_that_hangs_is_named_while_it_is_waited_for_and_ended(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suites, "NOTICE_S", 0.1)
    path = write("suite = []\nwhile True: pass")
    (path.parent / "eval-pipeline.yaml").write_text("suites: [cases.py]\ndefaults: {load_limit_s: 0.3}\n")
    monkeypatch.chdir(path.parent)

    with pytest.raises(SystemExit):
        main(["validate"])

    captured = capsys.readouterr()
    setting = "(defaults.load_limit_s of the project file)"
    assert f"cases.py is still being loaded; it is ended after 0.3 s {setting}" in captured.err
    assert f"cases.py: took longer than 0.3 s to load and was ended {setting}" in " ".join(captured.out.split())


def test_what_a_module_prints_is_a_warning_and_not_printed(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    suite = load_suite(write("print('hello there')\nsuite = [Case(id='a', prompt='b', check=print)]"))

    assert any("prints while it is loaded ('hello there')" in warning for warning in suite.warnings)
    assert "hello there" not in "".join(capfd.readouterr())


def test_a_module_is_loaded_once_and_again_after_an_edit_of_what_it_imports(write: Write) -> None:
    write("PROMPT = 'one'\nopen(__file__ + '.log', 'a').write('x')\n", "helper.py", head="")
    path = write("from helper import PROMPT\nsuite = [Case(id='a', prompt=PROMPT, check=print)]")

    suites_ = [load_suite(path) for _ in range(3)]
    imports = len((path.parent / "helper.py.log").read_text())
    write("PROMPT = 'another'\n", "helper.py", head="")
    edited = load_suite(path)

    assert imports == 1
    assert [suite.cases[0].question for suite in (*suites_, edited)] == ["one", "one", "one", "another"]
    assert edited.revision != suites_[0].revision


READS_FILES = """
import json
from pathlib import Path

HERE = Path(__file__).parent
PROMPTS = json.loads((HERE / "prompts.json").read_text())

def check(report, ctx):
    assert report.final_output == (HERE / "expected" / f"{ctx.case_id}.txt").read_text()

suite = [Case(id=id, prompt=prompt, check=check) for id, prompt in PROMPTS.items()]
"""


@pytest.mark.parametrize(
    ("file", "text", "counts"),
    [
        ("prompts.json", '{"a": "another"}', True),
        ("expected/a.txt", "another", True),
        ("expected/deep/b.txt", "new", True),
        ("expected/.hidden", "new", False),
        ("other.json", "{}", False),
        ("data/run.json", "{}", False),
    ],
)
def test_data_files_that_a_module_names_are_part_of_its_suite_and_of_its_check(
    write: Write, tmp_path: Path, file: str, text: str, counts: bool
) -> None:
    (tmp_path / "expected").mkdir()
    (tmp_path / "expected" / "a.txt").write_text("done")
    (tmp_path / "prompts.json").write_text('{"a": "one"}')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "warehouse.duckdb").write_text("")
    path = write(READS_FILES + 'STORED = HERE / "data"\n')

    def identity() -> tuple[str, object]:
        suite = load_suite(path)
        return suite.revision, PythonCheck(file=path.name).content(tmp_path)

    before = identity()
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    after = identity()

    assert [one != other for one, other in zip(before, after, strict=True)] == [counts, counts]
    assert load_suite(path).cases[0].question == ("another" if file == "prompts.json" else "one")


def test_a_workspace_of_the_suite_is_that_of_its_cases(write: Write, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / ".hidden").write_text("x")
    path = write(
        """
        workspace = {"mode": "isolated", "templateDir": "./base",
                     "bootstrap": {"command": "sh", "args": ["./prepare.sh", "--seed"], "env": {"A": "1"}}}
        suite = [Case(id="a", prompt="b", check=print)]
        """
    )

    spec = load_suite(path).cases[0].workspace

    assert spec is not None and spec.isolation == "per_case" and list(spec.content) == [".hidden"]
    hook = spec.hooks["before_each"]
    assert hook.command == ("sh", str(tmp_path / "prepare.sh"), "--seed")
    assert (hook.env["A"], hook.bootstrap) == ("1", True)


def test_an_unknown_helper_names_the_nearest_one_once(write: Write) -> None:
    path = write(
        "from eval_pipeline import commands\nsuite = [Case(id='a', prompt='b', check=lambda r: commands.include(r))]"
    )
    module = ("unknown_helper_module", str(path), str(path.parent))

    outcome = suite_module.check_case(*module, "a", SessionReport(execution_id="e"), {})

    assert outcome["status"] == "crashed"
    assert outcome["message"].count("did you mean 'includes'?") == 1
