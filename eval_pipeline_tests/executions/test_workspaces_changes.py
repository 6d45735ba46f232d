"""What a target changed in its workspace: every kind of change is in the diff, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline.executions.workspaces.snapshots import SnapshotStore
from eval_pipeline_tests.executions.sample_workspaces import a_repository, files_in, run_git

Work = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a text, a program, bytes, a folder, and files that `.gitignore` names."""
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "text").write_text("one\ntwo\n")
    (folder / "bytes").write_bytes(bytes(range(256)))
    (folder / "deep" / "file").write_text("deep\n")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "old.log").write_text("old\n")
    return folder


def changes(folder: Path, *work: Work, most_bytes: int = 1_000_000) -> str:
    """The diff of what was done to a folder."""

    async def watched() -> str:
        watch = SnapshotStore(folder.parent / "store", most_bytes=most_bytes).track(folder)
        before = await watch.snapshot()
        for step in work:
            step(folder)
        return await watch.diff(before, await watch.snapshot())

    return asyncio.run(watched())


def changed_files(diff: str) -> list[str]:
    return [line.rpartition(" b/")[2] for line in diff.splitlines() if line.startswith("diff --git")]


def test_a_diff_as_git_prints_it(folder: Path) -> None:
    assert changes(folder, lambda at: (at / "text").write_text("one\n2\n")) == (
        "diff --git a/text b/text\n"
        "index 814f4a4..99b356d 100644\n"
        "--- a/text\n"
        "+++ b/text\n"
        "@@ -1,2 +1,2 @@\n"
        " one\n"
        "-two\n"
        "+2\n"
    )


@pytest.mark.parametrize(
    ("work", "message"),
    [
        pytest.param(lambda at: (at / "new").write_text("new\n"), "new file mode 100644\n", id="new file"),
        pytest.param(lambda at: (at / "text").unlink(), "deleted file mode 100644\n", id="deleted file"),
        pytest.param(
            lambda at: (at / "text").rename(at / "moved"), "rename from text\nrename to moved\n", id="renamed"
        ),
        pytest.param(lambda at: (at / "text").chmod(0o755), "old mode 100644\nnew mode 100755\n", id="made a program"),
        pytest.param(
            lambda at: (at / "bytes").write_bytes(bytes(256)),
            "Binary files a/bytes and b/bytes differ\n",
            id="binary file",
        ),
        pytest.param(lambda at: (at / "link").symlink_to("text"), "new file mode 120000\n", id="symbolic link"),
        pytest.param(lambda at: (at / "größe").write_text("x\n"), "+++ b/größe\n", id="a name beyond ASCII"),
        pytest.param(lambda at: (at / "text").write_bytes(b"one\r\ntwo\r\n"), "+one\r\n", id="line ends"),
        pytest.param(lambda at: (at / "text").write_bytes(b"\xe9\n"), "+\N{REPLACEMENT CHARACTER}\n", id="not UTF-8"),
    ],
)
def test_every_kind_of_change_is_in_the_diff(folder: Path, work: Work, message: str) -> None:
    assert message in changes(folder, work)


def test_nothing_done_is_no_change(folder: Path) -> None:
    assert changes(folder) == ""


def test_ignored_files_are_no_changes(folder: Path) -> None:
    assert changes(folder, lambda at: (at / "new.log").write_text("x"), lambda at: (at / "old.log").unlink()) == ""


def test_a_file_that_was_there_cannot_be_hidden_by_ignoring_it(folder: Path) -> None:
    diff = changes(
        folder, lambda at: (at / ".gitignore").write_text("*\n"), lambda at: (at / "text").write_text("changed\n")
    )

    assert changed_files(diff) == [".gitignore", "text"]


def test_git_attributes_hide_nothing(folder: Path) -> None:
    diff = changes(
        folder, lambda at: (at / ".gitattributes").write_text("* -diff\n"), lambda at: (at / "text").write_text("x\n")
    )

    assert "+x\n" in diff


@pytest.mark.skipif(sys.platform == "darwin", reason="names are UTF-8 there")
def test_a_name_that_is_not_utf_8_is_a_change_as_well(folder: Path) -> None:
    diff = changes(folder, lambda at: (at / os.fsdecode(b"caf\xe9")).write_text("x\n"))

    assert "+++ b/caf\N{REPLACEMENT CHARACTER}" in diff


def a_file_for_a_folder(folder: Path) -> None:
    (folder / "deep" / "file").unlink()
    (folder / "deep").rmdir()
    (folder / "deep").write_text("now a file\n")


def a_folder_for_a_file(folder: Path) -> None:
    (folder / "text").unlink()
    (folder / "text").mkdir()
    (folder / "text" / "inside").write_text("now inside\n")


def a_link_for_a_folder(folder: Path) -> None:
    (folder / "deep").rename(folder / "elsewhere")
    (folder / "deep").symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("work", "names"),
    [
        pytest.param(a_file_for_a_folder, ["deep", "deep/file"], id="a folder becomes a file"),
        pytest.param(a_folder_for_a_file, ["text", "text/inside"], id="a file becomes a folder"),
        pytest.param(a_link_for_a_folder, ["deep", "elsewhere/file"], id="a folder becomes a link"),
    ],
)
def test_what_becomes_something_else(folder: Path, work: Work, names: list[str]) -> None:
    assert changed_files(changes(folder, work)) == names


def test_pipes_are_passed_over(folder: Path) -> None:
    assert (
        changes(folder, lambda at: os.mkfifo(at / "pipe"), lambda at: (at / "new").write_text("x\n")).count("diff") == 1
    )


def test_changes_inside_a_repository_of_the_folder_are_seen_file_by_file(folder: Path) -> None:
    inner = a_repository(folder / "vendor" / "inner", {"main.py": "1\n", ".gitignore": "*.pyc\n"})

    def commit(_: Path) -> None:
        (inner / "main.py").write_text("2\n")
        (inner / "main.pyc").write_text("x")
        run_git(inner, "add", "-A")
        run_git(inner, "commit", "-q", "-m", "by the target")
        (inner / "extra.py").write_text("3\n")

    assert changed_files(changes(folder, commit)) == ["vendor/inner/extra.py", "vendor/inner/main.py"]


def test_a_repository_that_the_target_makes_is_seen_file_by_file(folder: Path) -> None:
    assert changed_files(changes(folder, lambda at: a_repository(at / "made", {"main.py": "1\n"}))) == ["made/main.py"]


def test_a_repository_of_the_users_own_is_not_disturbed(tmp_path: Path) -> None:
    folder = a_repository(tmp_path / "repository", {"a": "1\n"})
    (folder / "b").write_text("untracked\n")
    before = run_git(folder, "status", "--porcelain=v2", "--branch")

    diff = changes(folder, lambda at: (at / "a").write_text("2\n"), lambda at: (at / "a").write_text("1\n"))

    assert diff == ""
    assert run_git(folder, "status", "--porcelain=v2", "--branch") == before


def test_a_diff_that_is_too_long_is_cut_at_a_line_and_says_so(folder: Path) -> None:
    diff = changes(folder, lambda at: (at / "long").write_text("line\n" * 10_000), most_bytes=2_000)

    assert len(diff) < 2_100
    assert diff.endswith("\n+line\n\\ The diff goes on; it is longer than 2,000 bytes.\n")


def test_the_git_settings_of_the_user_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = folder.parent / "gitconfig"
    config.write_text(
        "[diff]\nnoprefix = true\n[core]\nexcludesFile = /dev/stdin\nautocrlf = true\n[color]\nui = always\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", "/no/such/repository")

    assert changes(folder, lambda at: (at / "text").write_text("x\n")).startswith("diff --git a/text b/text\n")


def test_putting_back_undoes_everything_but_ignored_files(folder: Path) -> None:
    async def put_back() -> str:
        watch = SnapshotStore(folder.parent / "store").track(folder)
        before = await watch.snapshot()
        (folder / "text").write_text("changed\n")
        (folder / "bytes").unlink()
        (folder / "deep" / "file").unlink()
        (folder / "deep").rmdir()
        (folder / "deep").symlink_to("/etc")
        (folder / "new" / "below").mkdir(parents=True)
        (folder / "new" / "below" / "file").touch()
        (folder / "new.log").touch()
        a_repository(folder / "made", {"a": "1"})
        run_git(folder, "init", "-q")
        await watch.restore(before)
        return await watch.diff(before, await watch.snapshot())

    assert asyncio.run(put_back()) == ""
    assert files_in(folder) == [".gitignore", "bytes", "deep/file", "new.log", "old.log", "text"]
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["deep"]


def test_many_folders_share_one_store(folder: Path) -> None:
    async def pictures() -> list[str]:
        store = SnapshotStore(folder.parent / "store")
        watches = [store.track(folder) for _ in range(5)]
        return await asyncio.gather(*(watch.snapshot() for watch in watches))

    assert len(set(asyncio.run(pictures()))) == 1
