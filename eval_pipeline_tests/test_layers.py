"""The layer rule of design.md: data flows right, imports point left; dagster and duckdb stay in their rooms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import eval_pipeline

HOUSE = Path(eval_pipeline.__file__).parent
GROUND_FLOOR = ("errors", "failures", "fingerprints", "plugins")
ROOMS = (
    "parsing", "llm", "suites", "executions", "reports", "agents", "scores", "statistics", "leaderboards", "warehouse",
    "exports", "sweeps", "formats", "orchestration", "cli",
)  # fmt: skip
MAY_NAME_AGENTV = {"formats/agent_skills/suites.py": "AgentV's import of evals.json defines how an eval becomes a test"}
LEVELS = {**dict.fromkeys(GROUND_FLOOR, 0), **{room: level for level, room in enumerate(ROOMS, start=1)}}
OUTSIDERS = {"dagster": {"orchestration", "cli"}, "duckdb": {"warehouse"}}
MODULES = sorted(HOUSE.rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    """The absolute names of the modules that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports name whole things"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    """`eval_pipeline.suites.model` stands in `suites`; what is not ours stands in no room."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "eval_pipeline" and rest else None


def trespasses(room: str, source: str) -> list[str]:
    """What a module of this room imports and must not."""
    names = sorted(set(imported(source)))
    rightward = [name for name in names if (other := room_of(name)) and LEVELS[other] > LEVELS[room]]
    foreign = [name for name in names if room not in OUTSIDERS.get(name.partition(".")[0], {room})]
    return rightward + foreign


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(HOUSE)))
def test_a_module_imports_only_from_its_own_room_and_rooms_to_its_left(file: Path) -> None:
    room = file.relative_to(HOUSE).with_suffix("").parts[0]
    found = trespasses(room, file.read_text(encoding="utf-8")) if room != "__init__" else []

    assert found == []


def named_in(source: str, word: re.Pattern[str]) -> set[str]:
    """The identifiers, imports and strings of a source that contain a word; docstrings and comments are prose."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    names = {getattr(node, key, None) for node in ast.walk(tree) for key in ("id", "attr", "name", "arg", "module")}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose}
    return {name for name in (*names, *texts) if isinstance(name, str) and word.search(name)}


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(HOUSE)))
def test_agentv_is_named_in_its_own_folder_only(file: Path) -> None:
    place = file.relative_to(HOUSE).as_posix()
    if place.startswith("formats/agentv/") or place in MAY_NAME_AGENTV:
        return

    assert named_in(file.read_text(encoding="utf-8"), re.compile("agentv|AGENTV|Agentv")) == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from eval_pipeline.formats.agentv.targets import TARGETS", {"eval_pipeline.formats.agentv.targets"}),
        ("import agentv as other", {"agentv"}),
        ("x = agentv_name", {"agentv_name"}),
        ("x = y.agentv", {"agentv"}),
        ("x = '.agentv/targets.yaml'", {".agentv/targets.yaml"}),
        ("x = f'{y}-agentv'", {"-agentv"}),
        ("'About agentv.'\nx = 1\n'As agentv does.'", set()),
        ("x = 'read as AgentV reads it'", set()),
    ],
)
def test_the_rule_sees_names_and_leaves_prose(source: str, found: set[str]) -> None:
    assert named_in(source, re.compile("agentv")) == found


SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|VIEW|TEMP TABLE))\b", re.DOTALL
)


def sql_of(source: str) -> list[str]:
    """The SQL statements among the text constants of a source; docstrings are prose."""
    nodes = list(ast.walk(ast.parse(source)))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
             and id(node) not in prose]  # fmt: skip
    texts += ["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
              for node in nodes if isinstance(node, ast.JoinedStr)]  # fmt: skip
    return [text for text in texts if SQL.search(text)]


@pytest.mark.parametrize(
    "file",
    [file for file in MODULES if "warehouse" not in file.relative_to(HOUSE).parts],
    ids=lambda file: str(file.relative_to(HOUSE)),
)
def test_only_the_warehouse_contains_sql(file: Path) -> None:
    assert sql_of(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("x = 'SELECT a, b FROM t'", 1),
        ("x = f'SELECT {a} FROM t WHERE {b}'", 1),
        ("x = 'UPDATE sweeps SET a = 1'", 1),
        ("x = 'DELETE FROM t'", 1),
        ("def f():\n    'Docstrings may SELECT words FROM prose.'", 0),
        ("x = 'choose from these'", 0),
    ],
)
def test_the_rule_finds_sql(source: str, count: int) -> None:
    assert len(sql_of(source)) == count


def test_every_room_of_the_house_has_its_place_in_the_order() -> None:
    found = {file.relative_to(HOUSE).with_suffix("").parts[0] for file in MODULES} - {"__init__"}

    assert found == set(LEVELS)


@pytest.mark.parametrize(
    ("room", "source", "expected"),
    [
        ("suites", "from eval_pipeline.errors import InputError", []),
        ("suites", "from eval_pipeline.suites.model import Case", []),
        ("suites", "from eval_pipeline.scores.model import Score", ["eval_pipeline.scores.model"]),
        ("suites", "import eval_pipeline.cli.main", ["eval_pipeline.cli.main"]),
        ("suites", "from eval_pipeline import reports", ["eval_pipeline.reports"]),
        ("suites", "def f():\n    from eval_pipeline.cli import main", ["eval_pipeline.cli"]),
        ("errors", "from eval_pipeline.llm.client import ChatClient", ["eval_pipeline.llm.client"]),
        ("scores", "import dagster as dg", ["dagster"]),
        ("orchestration", "import dagster as dg", []),
        ("leaderboards", "from duckdb import Error", ["duckdb", "duckdb.Error"]),
        ("cli", "import duckdb", ["duckdb"]),
        ("scores", "import dagsterly", []),
    ],
)
def test_the_rule_tells_left_from_right(room: str, source: str, expected: list[str]) -> None:
    found = trespasses(room, source)

    assert [name for name in expected if name not in found] == []
    assert bool(found) == bool(expected)
