"""What holds the house together: imports point left; Dagster, DuckDB, SQL and foreign names stay in their rooms; no
module is too long, unused or part of a cycle; nothing has the name that it had before a rename."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import eval_pipeline
from eval_pipeline.cli.main import COMMANDS
from eval_pipeline.cli.main import MODULES as MODULES_OF_COMMANDS
from eval_pipeline.plugins import _REGISTRATION

HOUSE = Path(eval_pipeline.__file__).parent
GROUND_FLOOR = ("errors", "failures", "fingerprints", "plugins", "processes")
ROOMS = (
    "parsing", "llm", "suites", "executions", "reports", "agents", "scores", "statistics", "leaderboards", "warehouse",
    "exports", "sweeps", "formats", "orchestration", "cli",
)  # fmt: skip
MAY_NAME_AGENTV = {"formats/agent_skills/suites.py": "AgentV's import of evals.json defines how an eval becomes a test"}
LEVELS = {**dict.fromkeys(GROUND_FLOOR, 0), **{room: level for level, room in enumerate(ROOMS, start=1)}}
OUTSIDERS = {"dagster": {"orchestration"}, "duckdb": {"warehouse"}}
MAY_IMPORT = {"cli/dev_services.py": {"dagster"}}
MOST_LINES = 450
MOST_LINES_OF_A_FUNCTION = 50
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
    allowed = MAY_IMPORT.get(file.relative_to(HOUSE).as_posix(), set())
    trespassed = trespasses(room, file.read_text(encoding="utf-8")) if room != "__init__" else []

    assert [name for name in trespassed if name.partition(".")[0] not in allowed] == []


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
    ("source", "trespassed"),
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
def test_the_rule_sees_names_and_leaves_prose(source: str, trespassed: set[str]) -> None:
    assert named_in(source, re.compile("agentv")) == trespassed


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
    trespassed = {file.relative_to(HOUSE).with_suffix("").parts[0] for file in MODULES} - {"__init__"}

    assert trespassed == set(LEVELS)


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
        ("cli", "import dagster", ["dagster"]),
        ("scores", "import dagsterly", []),
    ],
)
def test_the_rule_tells_left_from_right(room: str, source: str, expected: list[str]) -> None:
    trespassed = trespasses(room, source)

    assert [name for name in expected if name not in trespassed] == []
    assert bool(trespassed) == bool(expected)


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(HOUSE)))
def test_a_module_and_its_functions_are_short(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}

    assert len(source.splitlines()) <= MOST_LINES
    assert {name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_FUNCTION} == {}


def module_name(file: Path) -> str:
    parts = file.relative_to(HOUSE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(file): file for file in MODULES}


def without_typing(tree: ast.Module) -> ast.Module:
    """The tree without what is imported for type checkers only."""

    class Remover(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" else node

    cleaned = Remover().visit(tree)
    assert isinstance(cleaned, ast.Module)
    return cleaned


def imports_of(source: str) -> set[str]:
    """The modules of ours that a source imports when it runs, in functions as well."""
    return {name for name in imported(ast.unparse(without_typing(ast.parse(source)))) if name in NAMES}


GRAPH = {name: imports_of(file.read_text(encoding="utf-8")) for name, file in NAMES.items()}


def reached(starts: Iterable[str], graph: Mapping[str, set[str]]) -> set[str]:
    """The modules that these lead to, themselves among them."""
    seen: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def entry_modules() -> set[str]:
    """Where code of ours is entered: commands, entry points, the code location, the public face, parts in folders."""
    project = tomllib.loads((HOUSE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = [*project["scripts"].values(), *(value for group in project["entry-points"].values()
               for value in group.values())]  # fmt: skip
    commands = {f"eval_pipeline.cli.{MODULES_OF_COMMANDS.get(command, command)}" for command in COMMANDS}
    face = {home.partition(":")[0] for home in eval_pipeline._HOMES.values()}
    location = {"eval_pipeline.orchestration.definitions"}
    parts = {name for name, file in NAMES.items() if _REGISTRATION.search(file.read_text(encoding="utf-8"))}
    return {entry.partition(":")[0] for entry in entries} | commands | face | location | parts


def test_nothing_is_there_for_tests_alone() -> None:
    used = reached(entry_modules(), GRAPH)
    packages = {name for name in NAMES if any(other.startswith(f"{name}.") for other in used)}

    assert sorted(NAMES.keys() - used - packages) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    circles = {name for name, others in GRAPH.items() if name in reached(others, GRAPH)}

    assert circles == set()


OLD_NAMES = {
    "Asked", "Bench", "Cell", "CellName", "CellRun", "Desk", "Filled", "Filling", "Finished", "Foreseen",
    "Forwarding", "Form", "Fresh", "GradingDesk", "Group", "Job", "Known", "Listener", "Lost", "Material",
    "Member", "Notice", "Notices", "Opinion", "Panel", "Piece", "PictureStore", "Place", "Purse", "Ran",
    "Reading", "ReadySuite", "ScriptedDesk", "Settled", "Shared", "Spot", "Supply", "Surroundings", "Taken",
    "Tally", "Ticket", "Told", "Watch", "Workbench", "WrittenSuite", "answered", "begun", "blotted", "cleaned",
    "desk_for", "fold", "fold_folder", "foresee", "give_place", "goes_on", "let_go", "make_ready", "needs_desk",
    "take_back", "take_place", "told_of_case", "undo", "visible",
}  # fmt: skip
"""Classes and functions as they were called before the renames of the house."""
TESTS = sorted(Path(__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("file", [*MODULES, *TESTS], ids=lambda file: str(file.relative_to(HOUSE.parent)))
def test_nothing_has_its_old_name(file: Path) -> None:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    names = {node.name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, kinds)}

    assert names & OLD_NAMES == set()


@pytest.mark.parametrize(
    ("graph", "circles"),
    [({"a": {"b"}, "b": {"c"}, "c": set()}, set()), ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, {"b", "c"})],
)
def test_the_rule_finds_circles(graph: dict[str, set[str]], circles: set[str]) -> None:
    assert {name for name, others in graph.items() if name in reached(others, graph)} == circles


def test_the_rule_leaves_imports_for_type_checkers() -> None:
    source = "if TYPE_CHECKING:\n    from eval_pipeline.cli import main\nimport eval_pipeline.errors"

    assert imports_of(source) == {"eval_pipeline.errors"}
