"""What holds the house together: imports point left; Dagster, DuckDB, SQL and foreign names stay in their rooms; no
module is too long, unused or part of a cycle; nothing has the name that it had before a rename."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import eval_pipeline
from eval_pipeline.cli.main import COMMANDS
from eval_pipeline.cli.main import MODULES as MODULES_OF_COMMANDS
from eval_pipeline.plugins import _REGISTRATION

HOUSE = Path(eval_pipeline.__file__).parent
GROUND_FLOOR = ("errors", "failures", "fingerprints", "exhaustion", "plugins", "processes", "stopping")
ROOMS = (
    "parsing", "llm", "suites", "executions", "reports", "agents", "scores", "statistics", "leaderboards", "warehouse",
    "exports", "pages", "sweeps", "formats", "orchestration", "cli",
)  # fmt: skip
LEVELS = {**dict.fromkeys(GROUND_FLOOR, 0), **{room: level for level, room in enumerate(ROOMS, start=1)}}
OUTSIDERS = {"dagster": {"orchestration"}, "duckdb": {"warehouse"}}
MAY_IMPORT = {"cli/dev_services.py": {"dagster"}}
MOST_LINES = 450
MOST_LINES_OF_A_FUNCTION = 50
MODULES = sorted(HOUSE.rglob("*.py"))


@cache
def parsed(file: Path) -> ast.Module:
    """The tree of a module, parsed once for all rules; none of them changes it."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a tree, which five rules go through."""
    return list(ast.walk(tree))


def imported(tree: ast.AST) -> Iterator[str]:
    """The absolute names of the modules that a tree imports, wherever in it."""
    for node in nodes(tree):
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


def forbidden_imports(room: str, tree: ast.AST) -> list[str]:
    """What a module of this room imports and must not."""
    names = sorted(set(imported(tree)))
    rightward = [name for name in names if (other := room_of(name)) and LEVELS[other] > LEVELS[room]]
    foreign = [name for name in names if room not in OUTSIDERS.get(name.partition(".")[0], {room})]
    return rightward + foreign


def offenders(files: Iterable[Path], rule: Callable[[Path], Collection[object]]) -> dict[str, Collection[object]]:
    """What a rule has against each of these files; files that keep it are left out."""
    return {file.relative_to(HOUSE.parent).as_posix(): broken for file in files if (broken := rule(file))}


def test_a_module_imports_only_from_its_own_room_and_rooms_to_its_left() -> None:
    def forbidden(file: Path) -> list[str]:
        room = file.relative_to(HOUSE).with_suffix("").parts[0]
        allowed = MAY_IMPORT.get(file.relative_to(HOUSE).as_posix(), set())
        names = forbidden_imports(room, parsed(file)) if room != "__init__" else []
        return [name for name in names if name.partition(".")[0] not in allowed]

    assert offenders(MODULES, forbidden) == {}


@cache
def names_and_texts(tree: ast.Module) -> frozenset[str]:
    """The identifiers, imports and strings of a tree; docstrings and comments are prose."""
    prose = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    names = {getattr(node, key, None) for node in nodes(tree) for key in ("id", "attr", "name", "arg", "module")}
    texts = {node.value for node in nodes(tree) if isinstance(node, ast.Constant) and id(node) not in prose}
    return frozenset(name for name in (*names, *texts) if isinstance(name, str))


def named_in(tree: ast.Module, word: re.Pattern[str]) -> set[str]:
    """The identifiers, imports and strings of a tree that contain a word."""
    return {name for name in names_and_texts(tree) if word.search(name)}


SYSTEMS = sorted(folder.name for folder in (HOUSE / "formats").iterdir() if (folder / "__init__.py").is_file())


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_foreign_system_is_named_in_its_own_folder_only(system: str) -> None:
    word = re.compile("[-_]?".join(system.split("_")), re.IGNORECASE)
    in_prose = re.compile("AgentV")  # help texts name it, as users write it
    others = [file for file in MODULES if HOUSE / "formats" / system not in file.parents]

    def names(file: Path) -> set[str]:
        return {name for name in named_in(parsed(file), word) if word.search(in_prose.sub("", name))}

    assert offenders(others, names) == {}


@pytest.mark.parametrize(
    ("source", "names"),
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
def test_the_rule_sees_names_and_leaves_prose(source: str, names: set[str]) -> None:
    assert named_in(ast.parse(source), re.compile("agentv")) == names


SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|VIEW|TEMP TABLE))\b", re.DOTALL
)


def sql_of(tree: ast.Module) -> list[str]:
    """The SQL statements among the text constants of a tree; docstrings are prose."""
    every = nodes(tree)
    prose = {id(node.value) for node in every if isinstance(node, ast.Expr)}
    texts = [node.value for node in every if isinstance(node, ast.Constant) and isinstance(node.value, str)
             and id(node) not in prose]  # fmt: skip
    texts += ["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
              for node in every if isinstance(node, ast.JoinedStr)]  # fmt: skip
    return [text for text in texts if SQL.search(text)]


def test_only_the_warehouse_contains_sql() -> None:
    others = [file for file in MODULES if "warehouse" not in file.relative_to(HOUSE).parts]

    assert offenders(others, lambda file: sql_of(parsed(file))) == {}


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
    assert len(sql_of(ast.parse(source))) == count


def test_every_room_of_the_house_has_its_place_in_the_order() -> None:
    rooms = {file.relative_to(HOUSE).with_suffix("").parts[0] for file in MODULES} - {"__init__"}

    assert rooms == set(LEVELS)


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
    forbidden = forbidden_imports(room, ast.parse(source))

    assert [name for name in expected if name not in forbidden] == []
    assert bool(forbidden) == bool(expected)


def long_parts(file: Path) -> dict[str, int]:
    """The lines of a module and of its functions, where they are too many."""
    functions = [node for node in nodes(parsed(file)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    lines = len(file.read_text(encoding="utf-8").splitlines())
    of_module = {"the module": lines} if lines > MOST_LINES else {}
    return of_module | {name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_FUNCTION}


def test_modules_and_their_functions_are_short() -> None:
    assert offenders(MODULES, long_parts) == {}


def module_name(file: Path) -> str:
    parts = file.relative_to(HOUSE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(file): file for file in MODULES}


def imports_of(tree: ast.AST) -> set[str]:
    """The modules of ours that a tree imports when it runs, in functions as well; not those for type checkers only."""
    typing = {
        id(inner)
        for node in nodes(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    run = (node for node in nodes(tree) if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in typing)
    return {name for node in run for name in imported(node) if name in NAMES}


@cache
def import_graph() -> dict[str, set[str]]:
    """What each module of ours imports of ours."""
    return {name: imports_of(parsed(file)) for name, file in NAMES.items()}


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
    """Where code of ours is entered: commands, entry points, the code location, the public face, parts in folders, and
    what Dagster's configuration in `deploy/` names."""
    project = tomllib.loads((HOUSE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = [*project["scripts"].values(), *(value for group in project["entry-points"].values()
               for value in group.values())]  # fmt: skip
    commands = {f"eval_pipeline.cli.{MODULES_OF_COMMANDS.get(command, command)}" for command in COMMANDS}
    face = {home.partition(":")[0] for home in eval_pipeline._HOMES.values()}
    location = {"eval_pipeline.orchestration.definitions"}
    parts = {name for name, file in NAMES.items() if _REGISTRATION.search(file.read_text(encoding="utf-8"))}
    deployed = (HOUSE.parent / "deploy" / "home" / "dagster.yaml").read_text(encoding="utf-8")
    configured = NAMES.keys() & set(re.findall(r"^\s*module: (\S+)", deployed, re.MULTILINE))
    return {entry.partition(":")[0] for entry in entries} | commands | face | location | parts | configured


def test_nothing_is_there_for_tests_alone() -> None:
    used = reached(entry_modules(), import_graph())
    packages = {name for name in NAMES if any(other.startswith(f"{name}.") for other in used)}

    assert sorted(NAMES.keys() - used - packages) == []


def test_commands_import_numpy_only_when_they_make_a_board() -> None:
    """Its import takes 90 to 300 ms and 11 MB."""
    at_once = {
        name: {each for node in parsed(file).body if isinstance(node, ast.Import | ast.ImportFrom)
               for each in imported(node)}
        for name, file in NAMES.items()
    }  # fmt: skip
    graph = {name: imports & NAMES.keys() for name, imports in at_once.items()}
    loaded = reached([f"eval_pipeline.cli.{command}" for command in ("run", "plan", "validate", "export")], graph)

    assert {name for name in loaded if "numpy" in at_once[name]} == set()


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = import_graph()
    circles = {name for name, others in graph.items() if name in reached(others, graph)}

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


DEFINED = re.compile(r"^\s*(?:class|def|async def) (\w+)", re.MULTILINE)
"""What a text defines; parsing a thousand modules of tests for it takes seconds."""


def old_names(file: Path) -> set[str]:
    return {*DEFINED.findall(file.read_text(encoding="utf-8"))} & OLD_NAMES


def test_nothing_has_its_old_name() -> None:
    assert offenders([*MODULES, *TESTS], old_names) == {}


@pytest.mark.parametrize(
    ("graph", "circles"),
    [({"a": {"b"}, "b": {"c"}, "c": set()}, set()), ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, {"b", "c"})],
)
def test_the_rule_finds_circles(graph: dict[str, set[str]], circles: set[str]) -> None:
    assert {name for name, others in graph.items() if name in reached(others, graph)} == circles


def test_the_rule_leaves_imports_for_type_checkers() -> None:
    source = "if TYPE_CHECKING:\n    from eval_pipeline.cli import main\nimport eval_pipeline.errors"

    assert imports_of(ast.parse(source)) == {"eval_pipeline.errors"}
