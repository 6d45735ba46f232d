"""How parts are found and named, and how functions that users name are loaded."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError, SourceLocation, UnknownName
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.exports import EXPORTS
from eval_pipeline.llm.wires import WIRES
from eval_pipeline.parsing.user_modules import import_function
from eval_pipeline.plugins import PluginError, Registry
from eval_pipeline.reports.normalize import NORMALIZERS
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.suites.load import FORMATS

GROUP = "eval_pipeline_tests.parts"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An importable package `shelf` with a registry of parts and no part yet."""
    known = set(sys.modules)
    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from eval_pipeline.plugins import Registry\n"
        f"PARTS = Registry('part', folder='shelf', entry_point_group='{GROUP}')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in ("shelf", "other_people"):
            del sys.modules[name]


def parts() -> Registry[object]:
    import shelf  # type: ignore[import-not-found]

    registry: Registry[object] = shelf.PARTS
    return registry


def install(folder: Path, source: str, **entries: str) -> None:
    """Installs a package `other_people` with these entry points beside the shelf."""
    (folder.parent / "other_people.py").write_text(source)
    info = folder.parent / "other_people-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-people\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))


def write_part(folder: Path, name: str, value: str = "object()") -> None:
    (folder / f"{name}.py").write_text(f"from shelf import PARTS\nPART = PARTS.register('{name}')({value})\n")


def test_a_file_in_the_folder_is_a_part(shelf: Path) -> None:
    write_part(shelf, "hammer", "'a hammer'")

    assert parts().get("hammer") == "a hammer"


def test_parts_are_listed_by_name(shelf: Path) -> None:
    write_part(shelf, "saw", "'a saw'")
    write_part(shelf, "hammer", "'a hammer'")

    assert parts().names() == ["hammer", "saw"]
    assert list(parts()) == [("hammer", "a hammer"), ("saw", "a saw")]


@pytest.mark.parametrize("name", ["claw-hammer", "claw_hammer", " claw-hammer "])
def test_underscores_and_hyphens_are_one(shelf: Path, name: str) -> None:
    write_part(shelf, "claw_hammer", "'a hammer'")

    assert parts().get(name) == "a hammer"


def test_a_part_can_have_several_names(shelf: Path) -> None:
    (shelf / "hammer.py").write_text("from shelf import PARTS\nPARTS.register('hammer', 'mallet')('a hammer')\n")

    assert parts().get("mallet") == parts().get("hammer") == "a hammer"


def test_an_unknown_name_says_what_there_is(shelf: Path) -> None:
    write_part(shelf, "hammer")

    with pytest.raises(UnknownName) as raised:
        parts().get("hamer", SourceLocation("a.yaml", 3))

    assert str(raised.value) == "a.yaml:3: no part 'hamer'; there are: hammer; did you mean 'hammer'?"
    assert parts().find("hamer") is None


def test_a_name_claimed_twice_is_an_error(shelf: Path) -> None:
    write_part(shelf, "hammer", "'mine'")
    (shelf / "other.py").write_text("from shelf import PARTS\nPARTS.register('hammer')('yours')\n")

    with pytest.raises(PluginError, match="two parts claim the part 'hammer'"):
        parts().names()


def test_the_same_part_may_be_filed_twice(shelf: Path) -> None:
    write_part(shelf, "hammer", "'mine'")
    parts().register("hammer")(parts().get("hammer"))

    assert parts().get("hammer") == "mine"


def test_an_installed_package_adds_parts(shelf: Path) -> None:
    write_part(shelf, "hammer")
    install(shelf, "drill = 'a drill'", drill="other_people:drill")

    assert parts().names() == ["drill", "hammer"]
    assert parts().get("drill") == "a drill"


def test_an_installed_package_cannot_take_a_name(shelf: Path) -> None:
    write_part(shelf, "hammer", "'mine'")
    install(shelf, "hammer = 'theirs'", hammer="other_people:hammer")

    with pytest.raises(PluginError, match="two parts claim"):
        parts().get("hammer")


def test_a_broken_installed_part_is_named_every_time_and_stops_no_other(shelf: Path) -> None:
    write_part(shelf, "hammer", "'a hammer'")
    install(shelf, "raise RuntimeError('no battery')", drill="other_people:drill")
    problem = (
        r"installed part 'drill' \(other_people:drill of the package other-people\) cannot be loaded: .*no battery"
    )

    for _ in range(2):
        with pytest.raises(PluginError, match=problem):
            parts().get("drill")
    assert parts().get("hammer") == "a hammer"


def test_a_part_without_what_its_kind_requires_is_named(shelf: Path) -> None:
    install(shelf, "class Drill:\n    speed = 3\n", drill="other_people:Drill")
    registry: Registry[type] = Registry("part", folder=None, entry_point_group=GROUP, requires=("speed", "turn"))

    with pytest.raises(PluginError, match=r"the part 'drill' \(<class 'other_people.Drill'>\) has no turn"):
        registry.get("drill")


def test_only_the_part_that_is_requested_is_imported(shelf: Path) -> None:
    write_part(shelf, "hammer", "'a hammer'")
    write_part(shelf, "saw", "1 / 0")
    install(shelf, "1 / 0", drill="other_people:drill")

    assert "saw" in parts()
    assert "drill" in parts()
    assert parts().get("hammer") == "a hammer"


def test_a_module_whose_names_are_computed_is_imported_to_know_them(shelf: Path) -> None:
    (shelf / "many.py").write_text("from shelf import PARTS\nfor n in 'ab':\n    PARTS.register(f'size-{n}')(n)\n")

    assert parts().names() == ["size-a", "size-b"]
    assert parts().get("size-b") == "b"


def test_an_installed_part_that_names_itself_otherwise_is_found(shelf: Path) -> None:
    install(shelf, "from shelf import PARTS\ndrill = PARTS.register('borer')('a drill')\n", drill="other_people:drill")

    assert parts().get("borer") == "a drill"


def test_an_installed_part_cannot_take_a_name_from_inside(shelf: Path) -> None:
    write_part(shelf, "hammer", "'mine'")
    source = "from shelf import PARTS\n@PARTS.register('hammer')\nclass Drill: ...\n"
    install(shelf, source, drill="other_people:Drill")

    with pytest.raises(PluginError, match=r"two parts claim the part 'hammer': shelf.hammer and <class 'other_people"):
        parts().get("drill")


def test_an_installed_part_may_have_other_names(shelf: Path) -> None:
    install(shelf, "class Drill:\n    aliases = ('borer',)\n", drill="other_people:Drill")

    assert parts().names() == ["borer", "drill"]


def test_a_part_may_be_a_value_of_a_class_from_elsewhere(shelf: Path) -> None:
    install(shelf, "from pathlib import PurePosixPath\ndrill = PurePosixPath('drill')\n", drill="other_people:drill")

    assert str(parts().get("drill")) == "drill"


def test_a_part_of_another_kind_brings_parts_of_this_one(shelf: Path) -> None:
    install(shelf, "class Box:\n    tools = {'hammer': 'a hammer', 'saw': 'a saw'}\n", box="other_people:Box")

    registry: Registry[str] = Registry("tool", folder=None, entry_point_group="none", bundles={GROUP: "tools"})

    assert dict(registry) == {"hammer": "a hammer", "saw": "a saw"}


def test_a_part_may_ask_the_registry_while_it_is_imported(shelf: Path) -> None:
    (shelf / "hammer.py").write_text("from shelf import PARTS\nPARTS.find('saw')\nPARTS.register('hammer')('mine')\n")

    assert parts().names() == ["hammer"]


def test_a_thread_that_comes_while_parts_are_imported_waits_for_all_of_them(shelf: Path) -> None:
    (shelf / "hammer.py").write_text("import time\nfrom shelf import PARTS\ntime.sleep(0.05)\n")
    write_part(shelf, "saw")
    install(shelf, "import time\ntime.sleep(0.05)\ndrill = 'a drill'", drill="other_people:drill")
    registry, seen = parts(), list[list[str]]()
    threads = [threading.Thread(target=lambda: seen.append(registry.names())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [["drill", "saw"]] * 3


def test_one_evaluator_is_looked_up_without_importing_the_others() -> None:
    room = "eval_pipeline.scores.evaluators."
    source = f"""
import sys
from eval_pipeline.scores.evaluate import EVALUATORS
EVALUATORS.get("contains"), "not-skill-used" in EVALUATORS
print(*[name for name in sys.modules if name.startswith({room!r})])"""

    imported = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout

    assert imported.split() == [f"{room}contains"]


REGISTRIES: list[Registry[Any]] = [ADAPTERS, EVALUATORS, EXPORTS, FORMATS, NORMALIZERS, WIRES]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_the_names_a_registry_declares_are_those_its_parts_register(registry: Registry[Any]) -> None:
    declared = registry.names()

    assert [name for name, _ in registry] == declared == registry.names()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], None]:
    """Writes a module beside the user's file."""

    def write(name: str, source: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)

    return write


Write = Callable[[str, str], None]


def test_a_function_beside_the_users_file_is_found(tmp_path: Path, write: Write) -> None:
    write("solver.py", "def answer():\n    return 4\n")

    assert import_function("solver:answer", tmp_path, "function")() == 4


@pytest.mark.parametrize("name", ["tools.solver:answer", "tools.solver:Box.answer"], ids=["in a folder", "in a class"])
def test_dots_lead_into_folders_and_classes(tmp_path: Path, write: Write, name: str) -> None:
    source = "def answer():\n    return 4\n\nclass Box:\n    @staticmethod\n    def answer():\n        return 4\n"
    write("tools/solver.py", source)

    assert import_function(name, tmp_path, "function")() == 4


def test_an_installed_module_is_found_when_there_is_no_file(tmp_path: Path) -> None:
    assert import_function("os.path:basename", tmp_path, "function") is os.path.basename


def test_modules_of_one_name_in_two_folders_are_two(tmp_path: Path, write: Write) -> None:
    write("one/solver.py", "def answer():\n    return 1\n")
    write("two/solver.py", "def answer():\n    return 2\n")

    assert import_function("solver:answer", tmp_path / "one", "function")() == 1
    assert import_function("solver:answer", tmp_path / "two", "function")() == 2


def test_a_module_is_loaded_once(tmp_path: Path, write: Write) -> None:
    write("solver.py", "def answer():\n    return 4\n")

    first = import_function("solver:answer", tmp_path, "function")

    assert import_function("solver:answer", tmp_path, "function") is first


def test_a_module_that_changed_is_loaded_anew(tmp_path: Path, write: Write) -> None:
    write("solver.py", "def answer():\n    return 4\n")
    import_function("solver:answer", tmp_path, "function")
    write("solver.py", "def answer():\n    return 'four'\n")

    assert import_function("solver:answer", tmp_path, "function")() == "four"


def test_a_module_of_the_users_takes_no_name_of_an_installed_one(tmp_path: Path, write: Write) -> None:
    write("json.py", "def loads(text):\n    return 'mine'\n")

    assert import_function("json:loads", tmp_path, "function")("{}") == "mine"
    assert sys.modules["json"].loads("{}") == {}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("solver", "expected module:callable, got 'solver'", id="no colon"),
        pytest.param(":answer", "expected module:callable, got ':answer'", id="no module"),
        pytest.param("solver:", "expected module:callable, got 'solver:'", id="no function"),
        pytest.param("nowhere:f", "cannot import 'nowhere:f': ModuleNotFoundError: No module named 'nowhere'", id="?"),
        pytest.param("solver:anwser", "has no attribute 'anwser'", id="no such function"),
        pytest.param("solver:VALUE", "'solver:VALUE' is not callable", id="not callable"),
        pytest.param("broken:f", "cannot import 'broken:f': ZeroDivisionError: division by zero", id="module raises"),
        pytest.param("leaving:f", "cannot import 'leaving:f': SystemExit: 3", id="module exits"),
        pytest.param("typo:f", "cannot import 'typo:f': SyntaxError", id="module is no Python"),
    ],
)
def test_a_function_that_cannot_be_had_is_an_input_error(tmp_path: Path, write: Write, name: str, problem: str) -> None:
    write("solver.py", "VALUE = 4\ndef answer():\n    return VALUE\n")
    write("broken.py", "1 / 0\n")
    write("leaving.py", "import sys\nsys.exit(3)\n")
    write("typo.py", "def f(:\n")

    with pytest.raises(InputError) as raised:
        import_function(name, tmp_path, "function")

    assert problem in raised.value.problem
    assert raised.value.place.field == "function"
