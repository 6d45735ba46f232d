"""The life of a workspace: in which order what happens, who sees what, and what is left."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval_pipeline.executions.model import TargetFailure
from eval_pipeline.executions.workspaces.folders import SweepFolder
from eval_pipeline.executions.workspaces.manager import Workspaces
from eval_pipeline.failures import WORKSPACE, WORKSPACE_BOOTSTRAP
from eval_pipeline.suites.model import Message
from eval_pipeline.suites.workspace import HOOKS, Hook, Requirements, Reset, WorkspaceFile
from eval_pipeline_tests.builders import a_runner
from eval_pipeline_tests.executions.sample_workspaces import (
    SWEEP,
    SampleWorkspaces,
    a_repository,
    a_shell,
    failure_of,
    files_in,
    in_sweep,
    one_case,
    plan_for,
    run_git,
    worked,
)
from eval_pipeline_tests.forks import run_python


@pytest.fixture
def samples(tmp_path: Path) -> SampleWorkspaces:
    return SampleWorkspaces(tmp_path)


def left_in(root: Path) -> list[str]:
    """What a sweep left, but for the lock that is always there."""
    return sorted(path.name for path in root.iterdir() if path.name != ".lock")


def test_a_shared_workspace_is_prepared_once_and_tidied_once(samples: SampleWorkspaces) -> None:
    spec = samples.spec(hooks=samples.recorders(*HOOKS))

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(spec, "c1")),
        lambda workspaces: worked(workspaces, plan_for(spec, "c2")),
    )

    assert samples.order == [
        "before_all before_all",
        "before_each c1",
        "after_each c1",
        "before_each c2",
        "after_each c2",
        "after_all after_all",
    ]


def test_a_workspace_for_each_case_has_every_hook_for_each_case(samples: SampleWorkspaces) -> None:
    spec = samples.spec(isolation="per_case", hooks=samples.recorders(*HOOKS))

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(spec, "c1")),
        lambda workspaces: worked(workspaces, plan_for(spec, "c2")),
    )

    item = ["before_all before_all", "before_each {}", "after_each {}", "after_all after_all"]
    assert samples.order == [name.format(case) for case in ("c1", "c2") for name in item]
    assert len({entry["stdin"]["workspace_path"] for entry in samples.logged}) == 2


def test_hooks_are_told_what_they_work_on(samples: SampleWorkspaces) -> None:
    arguments = (
        "{{workspace_path}}",
        "{{test_id}}",
        "{{eval_run_id}}",
        "{{case_input}}",
        "{{case_metadata}}",
        "{{other}}",
    )
    spec = samples.spec(hooks={name: samples.recorder(name, *arguments) for name in ("before_all", "before_each")})
    message = (
        Message(role="system", content="Be brief"),
        Message(role="user", content=" one "),
        Message(role="user", content="two"),
    )

    trace = one_case(samples.workspaces(), plan_for(spec, "t1", input=message, metadata={"k": "v", "n": 3}))

    of_all, of_case = samples.logged
    folder = str(trace.path)
    assert of_all["stdin"] == {
        "workspace_path": folder, "test_id": "__before_all__", "eval_run_id": SWEEP, "case_input": None,
        "case_metadata": None,
    }  # fmt: skip
    assert of_case["stdin"] == {
        "workspace_path": folder, "test_id": "t1", "eval_run_id": SWEEP, "case_input": "one two",
        "case_metadata": {"k": "v", "n": 3},
    }  # fmt: skip
    assert list(of_case["stdin"]) == ["workspace_path", "test_id", "eval_run_id", "case_input", "case_metadata"]
    assert samples.arguments == [folder, "t1", SWEEP, "one two", '{"k":"v","n":3}', "{{other}}"]
    assert {entry["cwd"] for entry in samples.logged} == {str(samples.folder)}


def test_a_case_without_metadata_tells_its_hooks_null(samples: SampleWorkspaces) -> None:
    one_case(samples.workspaces(), plan_for(samples.spec(hooks=samples.recorders("before_each"))))

    assert samples.logged[0]["stdin"]["case_metadata"] is None


def test_a_before_all_of_a_case_is_told_the_metadata_of_the_case(samples: SampleWorkspaces) -> None:
    spec = samples.spec(own_setup=True, hooks=samples.recorders("before_all"))

    one_case(samples.workspaces(), plan_for(spec, "sympy", metadata={"base_commit": "abc123"}))

    assert samples.logged[0]["stdin"]["case_metadata"] == {"base_commit": "abc123"}
    assert samples.logged[0]["stdin"]["test_id"] == "__before_all__"


def test_cases_that_are_prepared_otherwise_do_not_share_a_workspace(samples: SampleWorkspaces) -> None:
    plain = samples.spec(hooks={"before_all": a_shell("echo plain > $AGENTV_WORKSPACE_PATH/kind")})
    other = samples.spec(own_setup=True, hooks={"before_all": a_shell("echo other > $AGENTV_WORKSPACE_PATH/kind")})
    seen: list[str] = []

    def look(folder: Path) -> None:
        seen.append((folder / "kind").read_text().strip())

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(plain, "c1"), look),
        lambda workspaces: worked(workspaces, plan_for(other, "c2"), look),
        lambda workspaces: worked(workspaces, plan_for(plain, "c3"), look),
    )

    assert seen == ["plain", "other", "plain"]


def test_runners_do_not_share_a_workspace(samples: SampleWorkspaces) -> None:
    spec = samples.spec()

    traces = in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(spec, runner=a_runner("a"))),
        lambda workspaces: worked(workspaces, plan_for(spec, runner=a_runner("b"))),
    )

    assert traces[0].path != traces[1].path


def test_a_hook_may_run_in_the_workspace(samples: SampleWorkspaces) -> None:
    hook = samples.recorder("before_each", cwd=Path("{{workspace_path}}"))

    trace = one_case(samples.workspaces(), plan_for(samples.spec(hooks={"before_each": hook})))

    assert samples.logged[0]["cwd"] == str(trace.path)


def test_the_variable_pwd_is_the_folder_in_which_a_hook_runs(
    samples: SampleWorkspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", "/elsewhere")
    hook = Hook(command=("printenv", "PWD"), cwd=Path("{{workspace_path}}"))

    trace = one_case(samples.workspaces(), plan_for(samples.spec(hooks={"before_each": hook})))

    assert trace.hooks == {"before_each": f"{trace.path}\n"}


def test_what_a_hook_printed_is_in_the_trace(samples: SampleWorkspaces) -> None:
    hooks = {"before_all": a_shell("echo prepared"), "before_each": a_shell("echo for this one")}

    trace = one_case(samples.workspaces(), plan_for(samples.spec(hooks=hooks)))

    assert trace.hooks == {"before_all": "prepared\n", "before_each": "for this one\n"}


def test_only_what_the_target_did_is_a_change(samples: SampleWorkspaces) -> None:
    hooks = {
        "before_all": a_shell("echo 1 > $AGENTV_WORKSPACE_PATH/all"),
        "before_each": a_shell("echo 1 > $AGENTV_WORKSPACE_PATH/each"),
    }
    spec = samples.spec(template=samples.template(given="given\n"), hooks=hooks)

    trace = one_case(samples.workspaces(), plan_for(spec), lambda folder: (folder / "own").write_text("mine\n"))

    assert trace.changes is not None
    assert [line for line in trace.changes.splitlines() if line.startswith(("diff", "+"))] == [
        "diff --git a/own b/own",
        "+++ b/own",
        "+mine",
    ]


def test_the_changes_of_one_case_are_not_those_of_the_next(samples: SampleWorkspaces) -> None:
    spec = samples.spec(template=samples.template(a__txt="a\n"))

    first, second, third = in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(
            workspaces, plan_for(spec, "c1"), lambda folder: (folder / "a.txt").write_text("b\n")
        ),
        lambda workspaces: worked(
            workspaces, plan_for(spec, "c2"), lambda folder: (folder / "a.txt").write_text("c\n")
        ),
        lambda workspaces: worked(workspaces, plan_for(spec, "c3")),
    )

    assert "-a\n+b\n" in (first.changes or "")
    assert "-b\n+c\n" in (second.changes or "")
    assert third.changes == ""


def test_a_workspace_for_each_case_begins_as_the_template(samples: SampleWorkspaces) -> None:
    spec = samples.spec(isolation="per_case", template=samples.template(a__txt="a\n"))
    seen: list[list[str]] = []

    def work(folder: Path) -> None:
        seen.append(files_in(folder))
        (folder / "new").touch()

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(spec, "c1"), work),
        lambda workspaces: worked(workspaces, plan_for(spec, "c2"), work),
    )

    assert seen == [["a.txt"], ["a.txt"]]


def test_a_template_is_copied_with_its_links_and_programs_and_nothing_that_leads_out_of_it(
    samples: SampleWorkspaces,
) -> None:
    template = samples.template(a="a", run="#!/bin/sh\n", __git="gitdir: ../../.git/modules/x\n")
    (template / "run").chmod(0o755)
    (template / "link").symlink_to("a")
    (template / "broken").symlink_to("gone")
    os.mkfifo(template / "pipe")
    seen: list[tuple[str, bool, bool]] = []

    def look(folder: Path) -> None:
        seen.extend(sorted((path.name, path.is_symlink(), os.access(path, os.X_OK)) for path in folder.iterdir()))

    one_case(samples.workspaces(), plan_for(samples.spec(template=template)), look)

    assert seen == [("a", False, False), ("broken", True, False), ("link", True, False), ("run", False, True)]


def test_single_files_come_on_top_of_the_template(samples: SampleWorkspaces) -> None:
    origin = samples.folder / "sales.csv"
    origin.write_text("1\n")
    files = (WorkspaceFile(path="data/sales.csv", origin=origin, sha256="0" * 64),)
    seen: list[str] = []

    spec = samples.spec(template=samples.template(a="a"), files=files)
    one_case(samples.workspaces(), plan_for(spec), lambda folder: seen.extend(files_in(folder)))

    assert seen == ["a", "data/sales.csv"]


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        pytest.param(None, ["a.txt", "cache.log", "new"], id="none: everything stays"),
        pytest.param("none", ["a.txt", "cache.log", "new"], id="'none' written out"),
        pytest.param("fast", ["a.txt", "cache.log"], id="fast: ignored files stay"),
        pytest.param("strict", ["a.txt"], id="strict: ignored files go"),
    ],
)
def test_resets_without_repositories(samples: SampleWorkspaces, kind: Reset | None, left: list[str]) -> None:
    spec = samples.spec(
        template=samples.template(a__txt="a\n", __gitignore="*.log\n"), hooks={"after_each": Hook(reset=kind)}
    )
    seen: list[list[str]] = []

    def work(folder: Path) -> None:
        seen.append([name for name in files_in(folder) if name != ".gitignore"])
        for name in ("a.txt", "new", "cache.log"):
            (folder / name).write_text("changed\n")

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(spec, "c1"), work),
        lambda workspaces: worked(workspaces, plan_for(spec, "c2"), work),
    )

    assert seen == [["a.txt"], left]


def test_a_case_may_reset_a_workspace_whose_other_cases_do_not(samples: SampleWorkspaces) -> None:
    plain, resetting = samples.spec(), samples.spec(hooks={"before_each": Hook(reset="fast")})
    seen: list[list[str]] = []

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(plain, "c1"), lambda folder: (folder / "new").touch()),
        lambda workspaces: worked(workspaces, plan_for(resetting, "c2"), lambda folder: seen.append(files_in(folder))),
    )

    assert seen == [[]]


def test_graders_see_the_workspace_before_it_is_reset_and_tidied(samples: SampleWorkspaces) -> None:
    hooks = {"after_each": Hook(command=("sh", "-c", "rm $AGENTV_WORKSPACE_PATH/answer"), reset="strict")}

    async def step(workspaces: Workspaces) -> tuple[bool, bool]:
        workspace = await workspaces.open(plan_for(samples.spec(hooks=hooks)))
        answer = workspace.folder / "answer"
        answer.touch()
        trace = await workspace.trace()
        while_graded = trace.path is not None and (trace.path / "answer").exists()
        await workspace.close(failed=False)
        return while_graded, answer.exists()

    assert in_sweep(samples.workspaces(), step) == [(True, False)]


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        pytest.param(
            a_shell("echo no disk >&2; exit 3"), "before_each hook failed: exit code 3: no disk", id="exit code"
        ),
        pytest.param(a_shell("echo no disk; exit 3"), "before_each hook failed: exit code 3: no disk", id="said aloud"),
        pytest.param(a_shell("kill -9 $$"), "before_each hook failed: signal 9", id="signal"),
        pytest.param(Hook(command=("no-such-program",)), "before_each hook cannot be started in", id="missing program"),
        pytest.param(
            Hook(command=("true",), cwd=Path("/no/such")),
            "before_each hook cannot be started in /no/such",
            id="missing folder",
        ),
        pytest.param(
            Hook(command=("sh", "-c", "echo working >&2; sleep 60"), timeout_s=0.3),
            "before_each hook did not end within 0.3 s: working",
            id="time limit",
        ),
    ],
)
def test_a_before_hook_that_fails_is_a_failed_bootstrap(samples: SampleWorkspaces, hook: Hook, message: str) -> None:
    failure = failure_of(samples.workspaces(), plan_for(samples.spec(hooks={"before_each": hook})))

    assert failure.failure is WORKSPACE_BOOTSTRAP
    assert str(failure).startswith(message)


def test_a_before_all_that_fails_fails_every_case_and_runs_once(samples: SampleWorkspaces) -> None:
    spec = samples.spec(hooks={"before_all": samples.recorder("before_all", then="exit 1")})

    async def step(workspaces: Workspaces) -> str:
        with pytest.raises(TargetFailure) as raised:
            await workspaces.open(plan_for(spec))
        return str(raised.value)

    message = in_sweep(samples.workspaces(), step, step)

    assert message == ["before_all hook failed: exit code 1"] * 2
    assert samples.order == ["before_all before_all"]


def test_an_after_hook_that_fails_is_a_warning(samples: SampleWorkspaces, caplog: pytest.LogCaptureFixture) -> None:
    spec = samples.spec(hooks={"after_each": a_shell("exit 4"), "after_all": a_shell("exit 5")})

    async def step(workspaces: Workspaces) -> list[str]:
        workspace = await workspaces.open(plan_for(spec))
        await workspace.close(failed=False)
        return workspace.warnings

    with caplog.at_level(logging.WARNING):
        assert in_sweep(samples.workspaces(), step) == [["after_each hook failed: exit code 4"]]
    assert "after_all hook failed: exit code 5" in caplog.text


def test_without_git_the_target_works_and_its_changes_are_not_known(
    samples: SampleWorkspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(samples.folder))

    trace = one_case(samples.workspaces(), plan_for(samples.spec(template=samples.template(a="a"))))

    assert trace.changes is None


def test_cases_wait_for_their_turn_in_a_shared_workspace(samples: SampleWorkspaces) -> None:
    spec = samples.spec()
    inside: list[str] = []

    async def one(workspaces: Workspaces, id_: str) -> None:
        workspace = await workspaces.open(plan_for(spec, id_))
        inside.append(id_)
        assert len(inside) == 1
        await asyncio.sleep(0)
        await workspace.trace()
        inside.remove(id_)
        await workspace.close(failed=False)

    async def sweep() -> None:
        async with samples.workspaces() as workspaces:
            await asyncio.gather(*(one(workspaces, f"c{number}") for number in range(4)))

    asyncio.run(sweep())


def test_cases_with_workspaces_of_their_own_work_at_once(samples: SampleWorkspaces) -> None:
    spec = samples.spec(isolation="per_case", template=samples.template(a="a\n"))
    all_inside = asyncio.Barrier(4)

    async def one(workspaces: Workspaces, id_: str) -> str | None:
        workspace = await workspaces.open(plan_for(spec, id_))
        await all_inside.wait()
        (workspace.folder / "a").write_text(f"{id_}\n")
        changes = (await workspace.trace()).changes
        await workspace.close(failed=False)
        return changes

    async def sweep() -> list[str | None]:
        async with samples.workspaces() as workspaces:
            return await asyncio.gather(*(one(workspaces, f"c{number}") for number in range(4)))

    changes = asyncio.run(sweep())

    assert [f"+c{number}\n" in (text or "") for number, text in enumerate(changes)] == [True] * 4


@pytest.mark.parametrize("isolation", ["shared", "per_case"])
@pytest.mark.parametrize(
    ("keep", "failed", "kept"),
    [
        pytest.param("failures", False, False, id="passed"),
        pytest.param("failures", True, True, id="failed"),
        pytest.param("always", False, True, id="always"),
        pytest.param("never", True, False, id="never"),
    ],
)
def test_which_workspaces_are_kept(
    samples: SampleWorkspaces, isolation: str, keep: str, failed: bool, kept: bool
) -> None:
    spec = samples.spec(isolation=isolation, template=samples.template(a="a"))

    trace = one_case(samples.workspaces(keep=keep), plan_for(spec), failed=failed)

    assert trace.path is not None
    assert trace.place is not None
    assert not trace.path.exists()
    assert trace.place.exists() is kept
    assert trace.kept is (keep == "always")
    if not kept:
        assert left_in(samples.root) == []


def test_a_workspace_whose_preparation_failed_is_kept_to_be_looked_at(samples: SampleWorkspaces) -> None:
    spec = samples.spec(
        isolation="per_case", hooks={"before_each": a_shell("echo > $AGENTV_WORKSPACE_PATH/half; exit 1")}
    )

    failure_of(samples.workspaces(), plan_for(spec))

    assert [path.name for path in samples.root.rglob("half")] == ["half"]


def test_kept_workspaces_outlive_later_sweeps(samples: SampleWorkspaces) -> None:
    plan = plan_for(samples.spec(template=samples.template(a="a")))
    trace = one_case(samples.workspaces(), plan, failed=True)

    one_case(samples.workspaces(sweep_id="sweep-2"), plan)
    one_case(samples.workspaces(), plan)

    assert trace.place is not None
    assert files_in(trace.place) == ["a"]


def test_write_protected_folders_are_removed_as_well(samples: SampleWorkspaces) -> None:
    def protect(folder: Path) -> None:
        (folder / "cache" / "inner").mkdir(parents=True)
        (folder / "cache" / "inner" / "file").touch()
        (folder / "cache" / "inner").chmod(0o500)
        (folder / "cache").chmod(0o500)

    trace = one_case(samples.workspaces(), plan_for(samples.spec()), protect)

    assert trace.path is not None
    assert not trace.path.exists()


def test_an_attempt_that_is_repeated_begins_where_the_first_began(samples: SampleWorkspaces) -> None:
    spec = samples.spec(
        template=samples.template(a="a\n", __gitignore="*.log\n"),
        hooks={"before_each": a_shell("date > $AGENTV_WORKSPACE_PATH/x.log")},
    )

    async def step(workspaces: Workspaces) -> list[str]:
        first = await workspaces.open(plan_for(spec))
        (first.folder / "a").unlink()
        (first.folder / "b").mkdir()
        (first.folder / "b" / "half").touch()
        await first.close(failed=False, restore=True)
        second = await workspaces.open(plan_for(spec))
        return files_in(second.folder)

    assert in_sweep(samples.workspaces(), step) == [[".gitignore", "a", "x.log"]]


def test_a_static_workspace_is_filled_when_it_is_missing_and_stays(samples: SampleWorkspaces) -> None:
    folder = samples.folder / "mine"
    spec = samples.spec(mode="static", path=folder, template=samples.template(a="template\n"))

    trace = one_case(samples.workspaces(keep="never"), plan_for(spec), lambda place: (place / "b").write_text("b\n"))

    assert trace.path == folder
    assert trace.kept
    assert files_in(folder) == ["a", "b"]


def test_a_static_workspace_with_something_in_it_is_taken_as_it_is(samples: SampleWorkspaces) -> None:
    folder = samples.folder / "mine"
    folder.mkdir()
    (folder / "own").write_text("own\n")
    spec = samples.spec(mode="static", path=folder, template=samples.template(a="template\n"))

    one_case(samples.workspaces(), plan_for(spec))

    assert files_in(folder) == ["own"]


def test_runners_take_turns_in_a_static_workspace(samples: SampleWorkspaces) -> None:
    spec = samples.spec(mode="static", path=samples.folder / "mine")
    inside: list[str] = []

    async def one(workspaces: Workspaces, runner: str) -> None:
        workspace = await workspaces.open(plan_for(spec, runner=a_runner(runner)))
        inside.append(runner)
        assert len(inside) == 1
        await asyncio.sleep(0)
        inside.remove(runner)
        await workspace.close(failed=False)

    async def sweep() -> None:
        async with samples.workspaces() as workspaces:
            await asyncio.gather(*(one(workspaces, runner) for runner in ("a", "b", "a")))

    asyncio.run(sweep())


def test_a_sweep_waits_for_the_one_that_works_in_its_static_workspace(
    samples: SampleWorkspaces, caplog: pytest.LogCaptureFixture
) -> None:
    spec = samples.spec(mode="static", path=samples.folder / "mine")

    async def sweeps() -> tuple[bool, Path]:
        first = samples.workspaces()
        async with samples.workspaces(sweep_id="sweep-2") as second:
            await worked(first, plan_for(spec))
            waiting = asyncio.create_task(second.open(plan_for(spec)))
            while "another sweep works in" not in caplog.text:
                await asyncio.sleep(0.01)
            too_early = waiting.done()
            await first.close()
            return too_early, (await waiting).folder

    assert asyncio.run(sweeps()) == (False, samples.folder / "mine")


def test_a_sweep_without_workspaces_makes_no_folder(samples: SampleWorkspaces) -> None:
    in_sweep(samples.workspaces())

    assert not samples.root.exists()


def test_a_cancelled_sweep_runs_no_hook_any_more_and_leaves_nothing(samples: SampleWorkspaces) -> None:
    spec = samples.spec(hooks=samples.recorders(*HOOKS))

    async def sweep() -> None:
        async with samples.workspaces() as workspaces:
            await workspaces.open(plan_for(spec))
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(sweep())
    assert samples.order == ["before_all before_all", "before_each c1"]
    assert left_in(samples.root) == []


def test_a_sweep_that_ends_by_an_error_of_ours_is_tidied_as_any_other(samples: SampleWorkspaces) -> None:
    spec = samples.spec(hooks=samples.recorders("after_all"))

    async def sweep() -> None:
        async with samples.workspaces() as workspaces:
            await worked(workspaces, plan_for(spec))
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        asyncio.run(sweep())
    assert samples.order == ["after_all after_all"]
    assert left_in(samples.root) == []


def test_a_hook_under_way_ends_when_the_sweep_is_cancelled(samples: SampleWorkspaces) -> None:
    started = samples.folder / "begun"
    spec = samples.spec(hooks={"before_each": a_shell(f"echo $$ > {started}; sleep 60")})

    async def sweep() -> None:
        async with samples.workspaces() as workspaces:
            opening = asyncio.create_task(workspaces.open(plan_for(spec)))
            while not started.exists() or not started.read_text():
                await asyncio.sleep(0.01)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)

    asyncio.run(sweep())

    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert left_in(samples.root) == []


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from eval_pipeline.executions.workspaces.manager import Workspaces
from eval_pipeline_tests.executions.sample_workspaces import SampleWorkspaces, plan_for

async def sweep(shop):
    async with shop.workspaces() as workspaces:
        workspace = await workspaces.open(plan_for(shop.spec(template=shop.template(a="a"))))
        print(workspace.folder, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(sweep(SampleWorkspaces(Path(sys.argv[1]))))
"""


def test_what_a_killed_sweep_left_is_removed_by_the_next(samples: SampleWorkspaces) -> None:
    folder = Path(run_python(KILLED, str(samples.folder)).stdout.strip())
    left = files_in(folder)

    one_case(samples.workspaces(sweep_id="sweep-2"), plan_for(samples.spec()))

    assert left == ["a"]
    assert not folder.parent.exists()
    assert left_in(samples.root) == []


def test_the_workspaces_of_a_sweep_that_runs_are_not_removed_by_another(samples: SampleWorkspaces) -> None:
    spec = samples.spec(template=samples.template(a="a"))

    async def sweeps() -> list[str]:
        async with samples.workspaces() as first, samples.workspaces() as second:
            workspace = await first.open(plan_for(spec))
            await second.open(plan_for(spec))
            return files_in(workspace.folder)

    assert asyncio.run(sweeps()) == ["a"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="written bytes are counted by /proc")
def test_keeping_a_workspace_does_not_write_of_those_kept_before(tmp_path: Path) -> None:
    def written() -> int:
        return int(re.findall(r"wchar: (\d+)", Path("/proc/self/io").read_text())[0])

    sweep = SweepFolder(tmp_path, SWEEP)
    folders = [sweep.new(f"case-{number:04}") for number in range(1_001)]
    places = [sweep.place_of(folder) for folder in folders]
    started = written()
    for folder in folders[:-1]:
        sweep.keep(folder)
    spent = written() - started
    sweep.close()

    assert spent < 100_000
    assert [place.is_dir() for place in places] == [True] * 1_000 + [False]


def test_cases_with_odd_names_have_folders_of_their_own(samples: SampleWorkspaces) -> None:
    spec = samples.spec(isolation="per_case")

    async def step(workspaces: Workspaces) -> list[Path | None]:
        ids = ("a/b", "a b", "../../x", "…", "A" * 300)
        return [(await worked(workspaces, plan_for(spec, id_), failed=True)).place for id_ in ids]

    (places,) = in_sweep(samples.workspaces(), step)

    folders = {place for place in places if place is not None and place.is_dir()}
    assert len(folders) == 5
    assert all(folder.is_relative_to(samples.root) and ".." not in folder.parts for folder in folders)


def test_a_target_finds_no_repository_above_its_workspace(samples: SampleWorkspaces) -> None:
    project = a_repository(samples.folder / "project", {"a": "a"})

    async def step(workspaces: Workspaces) -> list[subprocess.CompletedProcess[str]]:
        workspace = await workspaces.open(plan_for(samples.spec()))
        commands = (["git", "add", "-A"], ["git", "rev-parse", "--show-toplevel"])
        return [subprocess.run(each, cwd=workspace.folder, capture_output=True, text=True) for each in commands]

    (tried,) = in_sweep(Workspaces(project / "data", SWEEP), step)

    assert [(each.returncode, "not a git repository" in each.stderr) for each in tried] == [(128, True)] * 2
    assert run_git(project, "status", "--short", "--untracked-files=no") == ""


def test_a_cancelled_case_runs_no_hook_any_more_and_frees_its_workspace(samples: SampleWorkspaces) -> None:
    spec = samples.spec(hooks=samples.recorders("before_each", "after_each"))

    async def one(workspaces: Workspaces, started: asyncio.Event) -> None:
        workspace = await workspaces.open(plan_for(spec, "c1"))
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await workspace.close(failed=True)

    async def sweep() -> None:
        async with samples.workspaces() as workspaces:
            started = asyncio.Event()
            case = asyncio.create_task(one(workspaces, started))
            await started.wait()
            case.cancel()
            await asyncio.gather(case, return_exceptions=True)
            await worked(workspaces, plan_for(spec, "c2"))

    asyncio.run(sweep())

    assert samples.order == ["before_each c1", "before_each c2", "after_each c2"]


def test_a_root_that_cannot_be_made_is_a_workspace_failure(samples: SampleWorkspaces) -> None:
    samples.root.write_text("a file")

    failure = failure_of(samples.workspaces(), plan_for(samples.spec()))

    assert failure.failure is WORKSPACE
    assert str(failure).startswith(f"no workspaces below {samples.root}: ")


def test_a_case_without_a_workspace_is_not_given_one(samples: SampleWorkspaces) -> None:
    async def step(workspaces: Workspaces) -> None:
        with pytest.raises(ValueError, match="case 'c1' has no workspace"):
            await workspaces.open(plan_for(None))  # type: ignore[arg-type]

    in_sweep(samples.workspaces(), step)


def test_what_a_machine_lacks_fails_every_case_before_any_hook(samples: SampleWorkspaces) -> None:
    needed = Requirements(commands=("sh", "no-such-command"), python_modules=("json", "no_such_module"))
    spec = samples.spec(hooks=samples.recorders(*HOOKS), requirements=needed)

    failure = failure_of(samples.workspaces(), plan_for(spec))

    assert failure.failure is WORKSPACE
    assert str(failure) == "this machine lacks command 'no-such-command', Python module 'no_such_module'"
    assert not samples.log.exists()


@pytest.mark.parametrize(("keep", "left"), [("failures", ["half"]), ("never", [])])
def test_the_folder_of_a_failed_attempt_outlives_the_attempt_that_succeeds(
    samples: SampleWorkspaces, keep: str, left: list[str]
) -> None:
    plan = plan_for(samples.spec(isolation="per_case", template=samples.template(given="given")))

    async def twice() -> None:
        async with samples.workspaces(keep=keep) as workspaces:
            first = await workspaces.open(plan)
            (first.folder / "half").write_text("half a change", encoding="utf-8")
            await first.close(failed=False, restore=True)
            second = await workspaces.open(plan)
            (second.folder / "whole").write_text("a change", encoding="utf-8")
            await second.close(failed=False)

    asyncio.run(twice())

    assert [path.name for path in samples.root.rglob("*") if path.name in ("half", "whole")] == left
