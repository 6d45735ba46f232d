"""Workspaces that outlive a sweep: what the next sweep finds in them, and that nobody shares one."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline.executions.session_folders import lasting_folder
from eval_pipeline.executions.workspaces.manager import Workspaces
from eval_pipeline.suites.workspace import Hook, WorkspaceSpec
from eval_pipeline_tests.cli.sample_project import make_cli_project
from eval_pipeline_tests.executions.sample_workspaces import (
    SampleWorkspaces,
    a_repository,
    cloned,
    files_in,
    in_sweep,
    one_case,
    plan_for,
    run_git,
    worked,
)


@pytest.fixture
def samples(tmp_path: Path) -> SampleWorkspaces:
    return SampleWorkspaces(tmp_path)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    return a_repository(tmp_path / "origin", {"number": "1\n", ".gitignore": "cache\n"})


def pooled(samples: SampleWorkspaces, origin: Path, **fields: object) -> WorkspaceSpec:
    return samples.spec(mode="pooled", repositories=(cloned(origin),), **fields)


def test_the_next_sweep_finds_the_repository_put_back_with_what_git_ignores(
    samples: SampleWorkspaces, origin: Path
) -> None:
    spec = pooled(samples, origin, template=samples.template(top="t"))

    def work(folder: Path) -> None:
        (folder / "repo" / "number").write_text("changed\n")
        (folder / "repo" / "untracked").touch()
        (folder / "repo" / "cache").write_text("costly\n")
        (folder / "beside").touch()
        (folder / "top").unlink()

    first = one_case(samples.workspaces(), plan_for(spec), work)
    second = one_case(samples.workspaces(sweep_id="sweep-2"), plan_for(spec))

    assert second.path == first.path
    assert second.path is not None
    assert files_in(second.path) == ["repo/.gitignore", "repo/cache", "repo/number", "top"]
    assert (second.path / "repo" / "number").read_text() == "1\n"


def test_a_branch_that_moved_is_brought_up_to_date(samples: SampleWorkspaces, origin: Path) -> None:
    spec = pooled(samples, origin)
    one_case(samples.workspaces(), plan_for(spec))
    (origin / "number").write_text("2\n")
    run_git(origin, "commit", "-q", "-a", "-m", "2")

    trace = one_case(samples.workspaces(), plan_for(spec))

    assert trace.path is not None
    assert (trace.path / "repo" / "number").read_text() == "2\n"


def test_a_slot_that_was_spoiled_is_made_anew(samples: SampleWorkspaces, origin: Path) -> None:
    spec = pooled(samples, origin)
    one_case(samples.workspaces(), plan_for(spec), lambda folder: shutil.rmtree(folder / "repo" / ".git" / "objects"))

    trace = one_case(samples.workspaces(), plan_for(spec))

    assert trace.path is not None
    assert files_in(trace.path) == ["repo/.gitignore", "repo/number"]


def test_cases_at_once_have_a_slot_each_and_before_all_runs_once_in_each(
    samples: SampleWorkspaces, origin: Path
) -> None:
    spec = pooled(
        samples,
        origin,
        hooks={"before_all": samples.recorder("before_all"), "after_all": samples.recorder("after_all")},
    )
    both_inside = asyncio.Barrier(2)

    async def one(workspaces: Workspaces, id_: str) -> Path:
        workspace = await workspaces.open(plan_for(spec, id_))
        await both_inside.wait()
        await workspace.close(failed=False)
        return workspace.folder

    async def sweep() -> set[Path]:
        async with samples.workspaces() as workspaces:
            rounds = [await asyncio.gather(*(one(workspaces, id_) for id_ in ("c1", "c2"))) for _ in range(2)]
            return {folder for folders in rounds for folder in folders}

    assert len(asyncio.run(sweep())) == 2
    assert sorted(samples.order) == ["after_all after_all"] * 2 + ["before_all before_all"] * 2


def test_cases_wait_when_the_pool_has_no_more_slots(samples: SampleWorkspaces, origin: Path) -> None:
    spec = pooled(samples, origin)

    async def sweep() -> set[Path | None]:
        async with samples.workspaces(pool_slots=2) as workspaces:
            traces = await asyncio.gather(*(worked(workspaces, plan_for(spec, f"c{number}")) for number in range(5)))
            return {trace.path for trace in traces}

    assert {path.name for path in asyncio.run(sweep()) if path is not None} <= {"1", "2"}


def test_two_sweeps_at_once_never_share_a_slot(samples: SampleWorkspaces, origin: Path) -> None:
    spec = pooled(samples, origin)

    async def sweeps() -> tuple[Path, Path]:
        async with samples.workspaces() as one, samples.workspaces(sweep_id="sweep-2") as other:
            first, second = await asyncio.gather(one.open(plan_for(spec)), other.open(plan_for(spec)))
            return first.folder, second.folder

    assert {path.name for path in asyncio.run(sweeps())} == {"1", "2"}


def test_a_sweep_that_finds_the_pool_taken_works_in_a_temporary_folder(
    samples: SampleWorkspaces, origin: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = pooled(samples, origin)

    async def sweeps() -> Path:
        async with (
            samples.workspaces(pool_slots=1) as one,
            samples.workspaces(sweep_id="sweep-2", pool_slots=1) as other,
        ):
            await one.open(plan_for(spec))
            return (await other.open(plan_for(spec))).folder

    with caplog.at_level(logging.WARNING):
        folder = asyncio.run(sweeps())

    assert not folder.is_relative_to(lasting_folder(samples.root))
    assert "all slots of the workspace pool are in use" in caplog.text


def test_other_repositories_have_other_slots(samples: SampleWorkspaces, origin: Path) -> None:
    run_git(origin, "tag", "v1")

    at_tag = samples.spec(mode="pooled", repositories=(cloned(origin, ref="v1"),))
    first, second = in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(pooled(samples, origin))),
        lambda workspaces: worked(workspaces, plan_for(at_tag)),
    )

    assert first.path is not None
    assert second.path is not None
    assert first.path.parent != second.path.parent


def test_a_failed_case_stays_as_a_copy_and_its_slot_is_used_again(samples: SampleWorkspaces, origin: Path) -> None:
    spec = pooled(samples, origin, hooks={"after_each": Hook(reset="fast")})

    def wrote(text: str) -> Callable[[Path], object]:
        return lambda folder: (folder / "repo" / "number").write_text(text)

    first, second, passed = in_sweep(
        samples.workspaces(),
        lambda opened: worked(opened, plan_for(spec, "c1"), wrote("first\n"), failed=True),
        lambda opened: worked(opened, plan_for(spec, "c2"), wrote("second\n"), failed=True),
        lambda opened: worked(opened, plan_for(spec, "c3"), wrote("third\n")),
    )
    again = one_case(samples.workspaces(), plan_for(spec))

    assert first.path == second.path == passed.path == again.path, "one slot for all of them"
    places = [trace.place for trace in (first, second, passed)]
    assert all(place is not None and place.is_relative_to(samples.root) for place in places)
    texts = [(place / "repo" / "number").read_text() if place.exists() else None for place in places if place]
    assert texts == ["first\n", "second\n", None], "as each was left, before the reset of after_each"


def test_a_retry_keeps_what_the_failed_attempt_left_in_a_slot(samples: SampleWorkspaces, origin: Path) -> None:
    spec = pooled(samples, origin)

    async def attempt(workspaces: Workspaces, text: str, *, restore: bool) -> Path | None:
        workspace = await workspaces.open(plan_for(spec))
        (workspace.folder / "repo" / "number").write_text(text)
        trace = await workspace.trace()
        await workspace.close(failed=not restore, restore=restore)
        return trace.place

    places = in_sweep(
        samples.workspaces(),
        lambda opened: attempt(opened, "first\n", restore=True),
        lambda opened: attempt(opened, "second\n", restore=False),
    )

    texts = [(place / "repo" / "number").read_text() for place in places if place is not None]
    assert texts == ["first\n", "second\n"]


def test_no_copy_of_a_slot_stays_when_nothing_is_to_be_kept(samples: SampleWorkspaces, origin: Path) -> None:
    failed = one_case(samples.workspaces(keep="never"), plan_for(pooled(samples, origin)), failed=True)

    assert not failed.kept
    assert failed.place is not None
    assert not failed.place.exists()


def test_a_cancelled_sweep_lets_its_slots_go(samples: SampleWorkspaces, origin: Path) -> None:
    spec = pooled(samples, origin)
    cancelled = samples.workspaces()

    async def sweep() -> None:
        async with cancelled as workspaces:
            await workspaces.open(plan_for(spec))
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(sweep())
    trace = one_case(samples.workspaces(sweep_id="sweep-2"), plan_for(spec))

    assert trace.path is not None
    assert trace.path.name == "1"


def test_show_names_the_folder_of_its_own_case_after_another_runner_worked_in_the_clone(
    tmp_path: Path, origin: Path
) -> None:
    project = make_cli_project(tmp_path / "project")
    writes = [f"  - {{name: {name}, adapter: command, command: [sh, -c, 'echo {name} > n']}}\n" for name in ("a", "b")]
    project.write("writers.yaml", f"runners:\n{''.join(writes)}")
    project.write(
        "suites/clone.yaml",
        f"workspace: {{repos: [{{path: ., repo: {origin}}}]}}\nassertions: [{{type: equals, value: never}}]\n"
        "tests: [{id: c1, input: x}, {id: c2, input: x}]\n",
    )
    for name in ("a", "b"):
        assert project("run", "suites/clone.yaml", "--runners", "writers.yaml", "--runner", name, "--quiet").code == 1

    shown = [
        project("show", f"clone/{case}", "--runner", name, "--json").document[0]["workspace"]["path"]
        for name in ("a", "b")
        for case in ("c1", "c2")
    ]

    assert len(set(shown)) == 4
    assert [(Path(path) / "n").read_text() for path in shown] == ["a\n", "a\n", "b\n", "b\n"]
