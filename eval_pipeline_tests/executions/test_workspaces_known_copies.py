"""Changes in the second copy of a template: found without reading what is as in the first copy."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline.executions.workspaces import snapshots, template_copy
from eval_pipeline.executions.workspaces.git import git
from eval_pipeline.executions.workspaces.known_copies import Origin, moment_after_copy
from eval_pipeline.executions.workspaces.snapshots import SnapshotStore, SnapshotTracker
from eval_pipeline.executions.workspaces.template_copy import fill_from_template
from eval_pipeline_tests.executions.sample_workspaces import a_repository

Work = Callable[[Path], object]


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A template with two folders of equal files, a file that `.gitignore` names, a program and a link."""
    monkeypatch.setattr(template_copy, "MANY", 1)  # only a copy of a large one keeps the times of files
    template = tmp_path / "template"
    for folder, text in (("a", "first\n"), ("b", "other\n")):
        (template / folder).mkdir(parents=True)
        (template / folder / "same").write_text(text)
        os.utime(template / folder / "same", ns=(1, 1))
    (template / ".gitignore").write_text("*.log\n")
    (template / "old.log").write_text("old\n")
    (template / "program").write_text("#!/bin/sh\n")
    (template / "link").symlink_to("program")
    return template


def diffs(template: Path, work: Work, hook: Work = lambda at: None, *, known: bool = True) -> str:
    """Return the diff of work in the third copy of a template; with `known` False each copy is read as a whole."""

    async def diff() -> str:
        store = SnapshotStore(template.parent / f"store-{known}")
        for number in range(3):
            folder, tracker = _copy(template, store, f"{known}-{number}", known=known)
            if number == 2:
                hook(folder)
            before = await tracker.snapshot()
            if number:
                work(folder)
            text = await tracker.diff(before, await tracker.snapshot())
        return text

    return asyncio.run(diff())


def _copy(template: Path, store: SnapshotStore, name: str, *, known: bool = True) -> tuple[Path, SnapshotTracker]:
    folder = template.parent / name
    folder.mkdir()
    fill_from_template(template, folder)
    origin = Origin("template", moment_after_copy()) if known else None
    return folder, store.track(folder, origin)


def _swap_folders(at: Path) -> None:
    (at / "a").rename(at / "c")
    (at / "b").rename(at / "a")
    (at / "c").rename(at / "b")


def _same_size_and_time(at: Path) -> None:
    status = (at / "a" / "same").stat()
    (at / "a" / "same").write_text("FIRST\n")
    os.utime(at / "a" / "same", ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "work",
    [
        lambda at: None,
        lambda at: (at / "new").write_text("new\n"),
        lambda at: (at / "new.log").write_text("ignored\n"),
        lambda at: (at / "old.log").write_text("ignored\n"),
        lambda at: (at / ".gitignore").unlink(),
        lambda at: (at / "a" / "same").unlink(),
        lambda at: (at / "program").chmod(0o755),
        lambda at: ((at / "link").unlink(), (at / "link").symlink_to("a")),
        lambda at: (at / "a").rename(at / "moved"),
        lambda at: a_repository(at / "made", {"file": "1"}),
        lambda at: ((at / "program").unlink(), (at / "program").mkdir(), (at / "program" / "x").write_text("x")),
        _swap_folders,
    ],
    ids=["nothing", "new", "ignored", "ignored edit", "gitignore", "removed", "mode", "link", "renamed folder",
         "repository", "folder for file", "swapped folders"],
)  # fmt: skip
def test_a_further_copy_has_the_diff_that_reading_all_of_it_gives(template: Path, work: Work) -> None:
    assert diffs(template, work) == diffs(template, work, known=False)


def test_an_edit_of_the_same_size_that_sets_the_time_back_is_a_change(template: Path) -> None:
    assert "+FIRST" in diffs(template, _same_size_and_time)


def test_what_a_hook_prepared_is_no_change(template: Path) -> None:
    def prepared(at: Path) -> None:
        (at / "a" / "same").write_text("second\n")
        (at / "of-hook").write_text("1\n")

    diff = diffs(template, lambda at: (at / "of-hook").write_text("2\n"), prepared)

    assert [line for line in diff.splitlines() if line.startswith(("diff", "-1", "+2"))] == [
        "diff --git a/of-hook b/of-hook", "-1", "+2"
    ]  # fmt: skip


def test_an_untouched_further_copy_needs_no_git(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def used() -> list[object]:
        store = SnapshotStore(template.parent / "store")
        _, first = _copy(template, store, "first")
        tree = await first.snapshot()
        calls: list[object] = []

        async def counted(*arguments: object, **options: object) -> bytes:
            calls.append(arguments)
            return await git(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(snapshots, "git", counted)
        _, second = _copy(template, store, "second")
        assert await second.snapshot() == tree
        return calls

    assert asyncio.run(used()) == []


def test_a_folder_is_put_back_to_its_copy_of_a_template(template: Path) -> None:
    async def put_back() -> tuple[str, str]:
        store = SnapshotStore(template.parent / "store")
        await _copy(template, store, "first")[1].snapshot()
        folder, tracker = _copy(template, store, "second")
        before = await tracker.snapshot()
        (folder / "a" / "same").write_text("other\n")
        (folder / "a").rename(folder / "gone")
        await tracker.restore(before)
        restored = await tracker.diff(before, await tracker.snapshot())
        (folder / "b" / "same").write_text("again\n")
        return restored, await tracker.diff(before, await tracker.snapshot())

    restored, again = asyncio.run(put_back())

    assert restored == ""
    assert [line for line in again.splitlines() if line.startswith("diff")] == ["diff --git a/b/same b/b/same"]
