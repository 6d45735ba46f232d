"""The files that a program imports, found without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

import eval_pipeline
from eval_pipeline.parsing.imports import import_fingerprints, imported_files

# The program is `graders/check.py` (or what its name is); each case: files, and those of them that it imports.
CASES: dict[str, tuple[dict[str, str], list[str]]] = {
    "beside-it": ({"graders/check.py": "import helper", "graders/helper.py": ""}, ["graders/helper.py"]),
    "through-another": (
        {"graders/check.py": "import a", "graders/a.py": "from b import x", "graders/b.py": ""},
        ["graders/a.py", "graders/b.py"],
    ),
    "in-a-circle": (
        {"graders/check.py": "import a", "graders/a.py": "import check, b", "graders/b.py": "import a"},
        ["graders/a.py", "graders/b.py"],
    ),
    "a-package": (
        {"graders/check.py": "import p.sub.m", "graders/p/__init__.py": "", "graders/p/sub/__init__.py": "",
         "graders/p/sub/m.py": "", "graders/p/other.py": ""},
        ["graders/p/__init__.py", "graders/p/sub/__init__.py", "graders/p/sub/m.py"],
    ),
    "a-module-from-a-package": (
        {"graders/check.py": "from p import (m,\n  n)", "graders/p/__init__.py": "", "graders/p/m.py": "",
         "graders/p/n.py": ""},
        ["graders/p/__init__.py", "graders/p/m.py", "graders/p/n.py"],
    ),
    "a-package-without-init": ({"graders/check.py": "from p.m import x", "graders/p/m.py": ""}, ["graders/p/m.py"]),
    "relative": (
        {"graders/check.py": "import p.m", "graders/p/__init__.py": "",
         "graders/p/m.py": "from . import n\nfrom ..q import r", "graders/p/n.py": "", "graders/q.py": ""},
        ["graders/p/__init__.py", "graders/p/m.py", "graders/p/n.py", "graders/q.py"],
    ),
    "inside-a-function": (
        {"graders/check.py": "def f():\n    import helper", "graders/helper.py": ""}, ["graders/helper.py"],
    ),
    "by-importlib": (
        {"graders/check.py": "import importlib\nimportlib.import_module('helper')", "graders/helper.py": ""},
        ["graders/helper.py"],
    ),
    "from-a-folder-above": ({"graders/check.py": "from common import x", "common.py": ""}, ["common.py"]),
    "the-nearest-first": (
        {"graders/check.py": "import common", "graders/common.py": "", "common.py": ""}, ["graders/common.py"],
    ),
    "no-library": ({"graders/check.py": "import json, yaml", "json.py": ""}, []),
    "not-python": ({"graders/check.py": "this is (no Python", "graders/helper.py": ""}, []),
    "javascript": (
        {"graders/check.ts": "import { a } from './a.js'\nexport * from './b'\nrequire('./c')\nimport 'left-pad'",
         "graders/a.ts": "", "graders/b/index.ts": "", "graders/c.js": "await import('./d.mjs')", "graders/d.mjs": ""},
        ["graders/a.ts", "graders/b/index.ts", "graders/c.js", "graders/d.mjs"],
    ),
    "shell": (
        {"graders/check.sh": '. ./lib.sh\nsource "$HERE/more.sh"', "graders/lib.sh": "", "graders/more.sh": ""},
        ["graders/lib.sh", "graders/more.sh"],
    ),
}  # fmt: skip


def written(root: Path, files: dict[str, str]) -> Path:
    """Files below a folder; returns the first."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root / next(iter(files))


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_the_files_that_a_program_imports(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    program = written(tmp_path, files)

    imported = imported_files(program, [tmp_path / "graders", tmp_path])

    assert [path.relative_to(tmp_path).as_posix() for path in imported] == expected


def test_nothing_outside_of_the_roots_is_imported(tmp_path: Path) -> None:
    program = written(tmp_path, {"graders/check.py": "import common", "common.py": ""})

    assert imported_files(program, [tmp_path / "graders"]) == []


def test_an_edit_of_an_imported_file_is_seen_in_the_same_process(tmp_path: Path) -> None:
    program = written(tmp_path, {"check.py": "import helper", "helper.py": "x = 1", "other.py": "y = 22"})
    before = import_fingerprints([program], [tmp_path])

    (tmp_path / "helper.py").write_text("import other")
    after = import_fingerprints([program], [tmp_path])

    assert (list(before), list(after)) == (["helper.py"], ["helper.py", "other.py"])
    assert before["helper.py"] != after["helper.py"]


def test_a_checkout_of_this_package_is_no_program_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("from eval_pipeline.scores.model import Outcome\nimport eval_pipeline\n")
    checkout = Path(eval_pipeline.__file__).parents[1]

    assert imported_files(tmp_path / "checks.py", [tmp_path, checkout]) == []
