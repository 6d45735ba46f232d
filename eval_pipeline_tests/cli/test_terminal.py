"""No command sends a control character of an answer, a suite, a name or an error to the terminal."""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import eval_pipeline.cli
from eval_pipeline.cli.main import COMMANDS, main
from eval_pipeline.parsing.visible import escape_controls, visible_cell, visible_json
from eval_pipeline_tests.cli.sample_project import Answer, CliProject

HOSTILE = "\x1b[31m\x1b]52;c;ZXZpbA==\x07\x9b5m\x85\x08\x7f\u202ex\u2066y\u200f\U000e0041"
NAME = "\x1b[31m\x9b5m\u202ex\u2066"
RAW = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
"""What nothing printed may hold; CSV has `\\r`."""
OUR_STYLES = re.compile(r"\x1b\[[0-9;]*[mKABG]|\x1b\[\?25[hl]")
SUITE = "evil-31m-5m-x"
FILES = {
    "eval-pipeline.yaml": "suites: [suites]\n",
    "odd/eval-pipeline.yaml": yaml.safe_dump({"suites": ["suites"], f"odd{HOSTILE}": 1}),
    "runners.yaml": yaml.safe_dump(
        {
            "runners": [
                {"name": "mock", "adapter": "mock", "response": f"answer {HOSTILE}", "model": f"m{HOSTILE}"},
                {"name": "broken", "adapter": "command", "command": ["sh", "-c", f"echo '{HOSTILE}' >&2; exit 3"]},
            ]
        }
    ),
    "odd/runners.yaml": yaml.safe_dump({"runners": [{"name": f"x{HOSTILE}", "adapter": "mock", "response": "x"}]}),
    "suites/evil.json": json.dumps(
        {
            "name": f"evil{NAME}",
            f"unknown{HOSTILE}": 1,
            "tests": [
                {
                    "id": f"case{NAME}{number}",
                    "input": f"input {HOSTILE}",
                    "criteria": f"criteria {HOSTILE}",
                    "tags": [f"tag{HOSTILE}"],
                    "assertions": [{"type": "contains", "name": f"check{HOSTILE}", "value": f"missing {HOSTILE}"}],
                }
                for number in range(2)
            ],
        }
    ),
    f"suites/file{NAME}.json": json.dumps(
        {"tests": [{"id": f"bad{HOSTILE}", "input": "x", "assertions": [{"type": f"contian{HOSTILE}"}]}]}
    ),
}
FORMULA = "SELECT '=cmd|calc' AS a, '-5' AS b, -5 AS c, '\t+x' AS d, 'x=1' AS e, [1, 2] AS f, NULL AS g"
SESSION = '{"type":"user","uuid":"u","sessionId":"s","cwd":"/x","timestamp":"2026-01-01T00:00:00Z","message":%s}\n'


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project of hostile names that was run once."""
    project = CliProject(tmp_path_factory.mktemp("evil"))
    for name, text in FILES.items():
        project.write(name, text)
    message = json.dumps({"role": "user", "content": f"prompt {HOSTILE}"})
    project.write(f"sessions/s{NAME}.jsonl", SESSION % message)
    ran = project("run", "suites/evil.json")
    assert ran.code == 1, ran.text
    check(ran)
    return project


CALLS: dict[str, list[list[str]]] = {
    "init": [["--kind", "program", f"new{NAME}"], ["--kind", f"none{HOSTILE}"], ["--from", f"x{HOSTILE}", "y"]],
    "run": [["suites/evil.json", "--json"], ["suites/evil.json", "--runner", f"x{HOSTILE}"], ["suites"]],
    "plan": [["suites/evil.json"], ["suites/evil.json", "--json"], ["--case", f"x{HOSTILE}"], ["suites"],
             ["--project", "odd"]],
    "validate": [[], ["--json"], ["suites/evil.json"], [f"suites/none{HOSTILE}.json"], ["--runners", f"x{HOSTILE}"],
                 ["--runners", "odd/runners.yaml"]],
    "show": [["--failed"], ["--json"], [SUITE], [f"{SUITE}/case{NAME}0"], [f"{SUITE}/case{NAME}0", "--full"],
             [f"{SUITE}/case{NAME}0", "--json"], [f"none{HOSTILE}"], [f"{SUITE}/none{HOSTILE}"]],
    "leaderboard": [[], ["--json"], ["--boards"], ["--suite", f"x{HOSTILE}"], ["--repetitions"],
                    ["--plot", f"b{NAME}.svg"]],
    "compare": [["mock", "broken"], ["mock", "broken", "--json"], [f"x{HOSTILE}", "broken"],
                [f"none{HOSTILE}.json", "broken"]],
    "trend": [[], ["--json"], ["--suite", f"x{HOSTILE}"], ["--plot", f"t{NAME}.png"]],
    "gate": [[f"x{HOSTILE}"], ["--json", f"x{HOSTILE}"]],
    "baseline": [["show"], ["set", f"x{HOSTILE}"], ["clear", f"x{HOSTILE}"]],
    "cases": [["list"], ["show", f"x{HOSTILE}"], ["export", f"x{HOSTILE}"], ["archive", f"x{HOSTILE}"]],
    "prepare": [["suites/evil.json", "--case", f"x{HOSTILE}"], [f"x{HOSTILE}"]],
    "grade": [[f"x{HOSTILE}"]],
    "export": [["-f", "json"], ["-f", "jsonl"], ["-f", "html"], ["-f", "junit"], ["-f", "otel"],
               ["-f", "agentv", "-o", f"out{NAME}"], ["-f", f"x{HOSTILE}"], ["-f", "json", "--suite", f"x{HOSTILE}"]],
    "sql": [[], ["SELECT * FROM current_verdicts"], ["SELECT * FROM current_verdicts", "--csv"],
            ["SELECT * FROM current_verdicts", "--json"], ["SELECT * FROM session_reports", "--lines"],
            ["SELECT * FROM cases", "--table"], [f"SELECT nothing{HOSTILE}"], [f"SELECT 1 AS \"{NAME}\"", "--csv"]],
    "import": [["claude-code", f"sessions/s{NAME}.jsonl", "-o", "-"], ["claude-code", f"x{HOSTILE}"],
               ["claude-code", f"sessions/s{NAME}.jsonl", "--suite", f"x{HOSTILE}"]],
    "convert": [["suites/evil.json", "--to", "yaml", "-o", "-"], ["suites/evil.json", "--to", f"x{HOSTILE}"],
                [f"suites/none{HOSTILE}.json"], [f"suites/file{NAME}.json", "--to", "json"]],
    "delete": [[], ["--json"], ["suite", SUITE], ["suite", f"x{HOSTILE}"], ["sweep", f"x{HOSTILE}"],
               ["runner", "mock", "--json"]],
    "warehouse": [["compact"], ["copy", f"x{HOSTILE}", f"y{NAME}"], ["copy", f"x{HOSTILE}:y", "data"]],
    "schema": [["suite"], [f"x{HOSTILE}"], ["--write", f"schemas{NAME}"]],
    "arms": [[], ["--json"], [f"x{HOSTILE}"]],
    "explain": [[f"{SUITE}/case{NAME}0"], [f"x{HOSTILE}"]],
    "agreement": [[], ["--json"], ["--suite", f"x{HOSTILE}"]],
    "drift": [[], ["--json"], [f"x{HOSTILE}"], ["--judge"]],
    "view": [["--project", f"x{HOSTILE}"], ["--port", f"x{HOSTILE}"]],
    "dev": [["--allowed-host", f"x{HOSTILE}/"], ["--project", f"x{HOSTILE}"], ["--port", f"x{HOSTILE}"]],
}  # fmt: skip


def check(answer: Answer) -> None:
    """A command printed something, and nothing that a terminal obeys."""
    assert answer.text
    for name, text in {"stdout": answer.out, "stderr": answer.err}.items():
        found = RAW.search(text)
        assert found is None, f"{name} has {found[0]!r} in {text[max(0, found.start() - 60) : found.end() + 60]!r}"


def test_every_command_is_called() -> None:
    assert set(CALLS) == set(COMMANDS)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [(command, arguments) for command, calls in CALLS.items() for arguments in calls],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(escape_controls, value)) or "plain",
)
def test_nothing_that_a_command_prints_is_obeyed_by_a_terminal(
    evil: CliProject, command: str, arguments: list[str]
) -> None:
    answer = evil(command, *arguments)

    check(answer)
    if "--json" in arguments and answer.code in (0, 1):
        json.loads(answer.out.splitlines()[0])


def test_an_unknown_command_is_repeated_without_its_escapes(evil: CliProject) -> None:
    check(evil(f"x{HOSTILE}"))
    check(evil(f"--x{HOSTILE}"))


@dataclass
class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Terminal()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        yield terminal


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "suites/evil.json", "--refresh", "failed"], ["plan", "suites"], ["validate"], ["show", "--failed"],
        ["show", f"{SUITE}/case{NAME}0", "--full"], ["leaderboard"], ["compare", "mock", "broken"], ["trend"],
        ["sql", "SELECT * FROM session_reports"], ["delete"], ["export", "-f", "json"], ["export", "-f", "junit"],
        ["convert", "suites/evil.json", "--to", "yaml", "-o", "-"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_on_a_terminal_there_are_only_our_own_styles(
    evil: CliProject, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(evil.root)
    with a_terminal(monkeypatch) as terminal, contextlib.suppress(SystemExit):
        main(arguments)

    check(Answer(0, OUR_STYLES.sub("", terminal.getvalue().replace("\r", "")), ""))
    assert "\x1b[31m\\x" not in terminal.getvalue()


def test_json_keeps_the_value(evil: CliProject) -> None:
    answer = evil("show", f"{SUITE}/case{NAME}0", "--json")

    (mock, *_) = [each for each in answer.document if each["runner"].startswith("mock")]
    assert mock["output"] == f"answer {HOSTILE}"


def test_a_spreadsheet_takes_no_text_for_a_formula(evil: CliProject) -> None:
    ((names), (row)) = csv.reader(io.StringIO(evil("sql", FORMULA, "--csv").out))

    assert names == list("abcdefg")
    assert row == ["'=cmd|calc", "-5", "-5", "'\t+x", "x=1", "[1, 2]", ""]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcödé, 日本語, 👩‍🚀, اردو\n\ttext", "plain, ünïcödé, 日本語, 👩‍🚀, اردو\n\ttext"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\r\nb\rc", "a\nb\\x0dc"),
        ("\u202egpj.exe\u2066", "\\u202egpj.exe\\u2066"),
        ("\ud800\U000e0041", "\\ud800\\U000e0041"),
    ],
)
def test_control_characters_become_visible_and_nothing_else_changes(text: str, shown: str) -> None:
    assert escape_controls(text) == shown
    assert escape_controls(shown) == shown


@pytest.mark.parametrize("value", [HOSTILE, {"a" + HOSTILE: [HOSTILE, 1, None]}, "a\r\nb", "\U000e0041"])
def test_visible_json_has_the_same_value(value: Any) -> None:
    text = visible_json(json.dumps(value, ensure_ascii=False))

    assert json.loads(text) == value
    assert RAW.search(text) is None


@pytest.mark.parametrize("value", [5, -5, 1.5, True, None, "x", "-5", "+1e3", "-.5", "5 = 5"])
def test_a_value_that_is_no_formula_stays(value: Any) -> None:
    assert visible_cell(value) == value


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "+cmd", "-cmd", " =1", "\n=1", "＝1", "-1+cmd|' /C calc'!A0"])
def test_a_formula_is_quoted(text: str) -> None:
    assert visible_cell(text) == f"'{text}"


PRINTING = {"print", "secho", "echo", "Console"}
ALLOWED = {"terminal.py": PRINTING, "tables.py": {"print"}, "address.py": {"print"}, "dev_supervisor.py": {"print"}}
"""`address.py` and `dev_supervisor.py` run as programs of their own and print texts of their own."""


def test_commands_print_through_the_functions_of_the_terminal_only() -> None:
    folder = Path(str(eval_pipeline.cli.__file__)).parent
    offenders = [
        f"{path.name}:{node.lineno} {name}"
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and (name := _printing(node.func)) not in (None, *ALLOWED.get(path.name, ()))
    ]

    assert offenders == []


def _printing(function: ast.expr) -> str | None:
    """The name of a function that writes to the terminal by itself: `print`, `click.echo`, `rich.Console`."""
    if isinstance(function, ast.Name) and function.id in {"print", "Console"}:
        return function.id
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        is_click = function.value.id == "click" and function.attr in PRINTING
        return function.attr if is_click or ast.unparse(function.value) in {"sys.stdout", "sys.stderr"} else None
    return None
