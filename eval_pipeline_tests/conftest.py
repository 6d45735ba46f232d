"""Fixtures of all rooms, and the markers that a file or folder gives its tests (explained in pyproject.toml)."""

from __future__ import annotations

import atexit
import compileall
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

import eval_pipeline
from eval_pipeline.executions.session_folders import SESSIONS_VARIABLE
from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline_tests.fuzzing.limits import SECONDS, SEED
from eval_pipeline_tests.slow_tests import SLOW_FILES, slow_tests
from eval_pipeline_tests.thoroughness import part_or_all

TESTS = Path(__file__).parent
WRITES_NONE = pytest.StashKey[bool]()
"""Whether the user wants no compiled modules (PYTHONDONTWRITEBYTECODE)."""
SESSIONS = pytest.StashKey[str]()
"""The folder for the folders of sessions."""
IN_MEMORY = pytest.StashKey[Path]()
"""The folder in memory for the files of tests; after failures it stays until the next run."""
MEMORY = Path("/dev/shm")
OURS = "eval-pipeline-tests-"
"""What such a folder is called, before the id of the process."""
LEAST_MEMORY = 8 * 2**30
MAKE_DATABASES = {"eval_pipeline.warehouse.duckdb_file", "eval_pipeline.cli.main"}
"""Modules that tests import to make warehouses, or from which the modules that make them are imported."""
_ROWS = "conformance/test_agentv.py"
_EXAMPLES = "test_examples.py"
TOGETHER = {
    "conformance/test_agentv_outputs.py": _ROWS,
    "conformance/test_differences.py": _ROWS,
    "conformance/test_peers.py": _ROWS,
    "docs/test_tutorial.py": _EXAMPLES,
    "orchestration/test_request_guard.py": "orchestration/test_ui.py",
    "pages/test_server.py": "pages/test_documents.py",
    "pages/test_in_chromium.py": "pages/test_documents.py",
    "pages/test_html_export.py": "pages/test_documents.py",
}
"""Files that one worker takes with another file: both look at what was carried out once for a process."""

BUSY = hypothesis_settings(
    deadline=None,
    max_examples=part_or_all(40, 100),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
"""Times decide about no test with random input: other work on the machine makes them long."""
hypothesis_settings.register_profile("busy", BUSY)
hypothesis_settings.load_profile("busy")


def pytest_configure(config: pytest.Config) -> None:
    """Compile our modules once for all processes that tests start, also where PYTHONDONTWRITEBYTECODE is set.

    Modules that tests write stay uncompiled: one that is replaced within a second by another of its size would be
    taken for the same. A script that starts the tests in its background has SIGINT ignored, and the processes that
    tests start would ignore it, too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # by nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    gc.disable()  # until the tests are collected: they stay, and looking at them again and again takes a third of that
    if not hasattr(config, "workerinput"):  # in the process that starts the workers, before them
        _keep_files_in_memory(config)
        compileall.compile_dir(Path(eval_pipeline.__file__).parent, quiet=2)
        config.stash[SESSIONS] = tempfile.mkdtemp()
        os.environ[SESSIONS_VARIABLE] = config.stash[SESSIONS]
    config.stash[WRITES_NONE] = sys.dont_write_bytecode
    sys.dont_write_bytecode = False  # until the tests are collected: rewriting their asserts takes half of that time
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # xdist would start files with few tests last, the longest among them


def _keep_files_in_memory(config: pytest.Config) -> None:
    """Let the files of tests be on a file system in memory, where there is a large one: databases wait for no disk.

    `--basetemp`, `PYTEST_DEBUG_TEMPROOT` and `TMPDIR` name another place.
    """
    named = config.option.basetemp or os.environ.keys() & {"PYTEST_DEBUG_TEMPROOT", "TMPDIR"}
    if not named and _is_large_and_runs_programs(MEMORY):
        for left in MEMORY.glob(f"{OURS}*"):
            if not Path("/proc", left.name.removeprefix(OURS)).exists():  # of a run with failures, or that was killed
                shutil.rmtree(left, ignore_errors=True)
        folder = MEMORY / f"{OURS}{os.getpid()}"
        folder.mkdir(mode=0o700)
        config.stash[IN_MEMORY] = folder
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None


def _is_large_and_runs_programs(folder: Path) -> bool:
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize > LEAST_MEMORY and not there.f_flag & os.ST_NOEXEC


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler of `--dist loadfile`, which takes some files together."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # this hook is not called where it is not installed

    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = _scope
    return scheduler


def _scope(nodeid: str) -> str:
    """Return what a test is distributed with: its file, or the one that its file goes with."""
    file = nodeid.partition("::")[0].removeprefix(f"{TESTS.name}/")
    return TOGETHER.get(file, file)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests are all slow where none of these is wanted, unless they are named: each worker would
    import them, and make the rows of conformance into tests, for nothing."""
    if config.option.markexpr.strip() != "not slow" or not collection_path.is_relative_to(TESTS):
        return None
    if collection_path.name in {Path(argument.partition("::")[0]).name for argument in config.args}:
        return None
    place = collection_path.relative_to(TESTS)
    return True if place.as_posix() in {*SLOW_FILES, *slow_tests()} or place.parts[:1] == ("conformance",) else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what is there for good out of garbage collections: ten thousand tests take half a second each time."""
    sys.dont_write_bytecode = session.config.stash[WRITES_NONE]
    if sys.modules.keys() & MAKE_DATABASES:
        from eval_pipeline_tests.new_data import copy_new_databases  # imports Dagster, which few rooms need

        copy_new_databases()
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # only there: pytest would look through everything five times as it ends


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus != pytest.ExitCode.OK and IN_MEMORY in session.config.stash:
        del session.config.stash[IN_MEMORY]  # for whoever looks why


def pytest_unconfigure(config: pytest.Config) -> None:
    for folder in (config.stash.get(SESSIONS, None), config.stash.get(IN_MEMORY, None)):
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """A process learns the secrets of every project that it loads; a test knows its own only."""
    KNOWN.clear()
    yield
    KNOWN.clear()


def pytest_report_header() -> str:
    return f"random input: FUZZ_SEED={SEED} FUZZ_SECONDS={SECONDS:g}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = slow_tests() | {*SLOW_FILES}
    files = [*SLOW_FILES, *sorted({name.partition("::")[0] for name in slow} - {*SLOW_FILES})]
    order = {file: position for position, file in enumerate(files)}
    places = {path: path.relative_to(TESTS) for path in {item.path for item in items}}
    items.sort(key=lambda item: order.get(places[item.path].as_posix(), len(order)))
    for item in items:
        place = places[item.path]
        if place.parts[0] == "conformance":
            item.add_marker(pytest.mark.conformance)
            item.add_marker(pytest.mark.slow)  # thousands of recorded rows; the rooms' own tests cover the behaviour
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
        if slow & {place.as_posix(), f"{place.as_posix()}::{getattr(item, 'originalname', '')}"}:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def new_databases() -> Iterator[None]:
    """The databases of this test's projects are made, not copied: it is about their making."""
    from eval_pipeline_tests.new_data import databases_made_anew

    with databases_made_anew():
        yield


@pytest.fixture(scope="session")
def swept_examples(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A copy of the examples where `eval-pipeline run --quiet` ended, and its answer."""
    from eval_pipeline_tests.console_blocks import sweep_examples

    return sweep_examples(tmp_path_factory.mktemp("examples"))


@pytest.fixture
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an empty folder the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
