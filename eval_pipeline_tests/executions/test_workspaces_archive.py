"""Workspaces as files: what comes back, what does not, and that nothing is written elsewhere."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.executions.workspaces.archive import TooLarge, restore, save
from eval_pipeline.executions.workspaces.template_copy import Base, fill_from_template
from eval_pipeline_tests.executions.sample_workspaces import a_repository, files_in, run_git


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "empty").mkdir(parents=True)
    (folder / "deep").mkdir()
    (folder / "deep" / "text").write_text("größe\n", encoding="utf-8")
    (folder / "bytes").write_bytes(bytes(range(256)) * 10)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("deep/text")
    return folder


def test_what_is_saved_comes_back(folder: Path, tmp_path: Path) -> None:
    total = save(folder, tmp_path / "archives" / "a.tar.gz")

    restore(tmp_path / "archives" / "a.tar.gz", tmp_path / "back")

    back = tmp_path / "back"
    assert total == 2560 + len("größe\n".encode()) + len("#!/bin/sh\n")
    assert files_in(back) == ["bytes", "deep/text", "link", "run.sh"]
    assert (back / "bytes").read_bytes() == bytes(range(256)) * 10
    assert (back / "link").readlink() == Path("deep/text")
    assert os.access(back / "run.sh", os.X_OK)
    assert (back / "empty").is_dir()


def test_equal_folders_give_equal_archives(folder: Path, tmp_path: Path) -> None:
    save(folder, tmp_path / "one.tar.gz")
    os.utime(folder / "bytes", (1, 1))
    save(folder, tmp_path / "two.tar.gz")

    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


def test_a_repository_comes_back_with_its_history(tmp_path: Path) -> None:
    save(a_repository(tmp_path / "repo", {"a": "1"}, {"a": "2"}), tmp_path / "a.tar.gz")

    restore(tmp_path / "a.tar.gz", tmp_path / "back")

    assert run_git(tmp_path / "back", "log", "--format=%s").split("\n")[:2] == ["commit 2", "commit 1"]


def test_a_folder_that_is_too_large_leaves_no_archive(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="more than 1,000 bytes"):
        save(folder, tmp_path / "a.tar.gz", most_bytes=1_000)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_pipes_and_links_to_elsewhere_are_left_out(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "absolute").symlink_to("/etc/passwd")
    (folder / "above").symlink_to("../../elsewhere")
    save(folder, tmp_path / "a.tar.gz")

    restore(tmp_path / "a.tar.gz", tmp_path / "back")

    names = {path.name for path in (tmp_path / "back").iterdir()}
    assert names == {"bytes", "deep", "empty", "link", "run.sh"}


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "deep/../../escaped"])
def test_an_archive_that_was_tampered_with_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))

    restore(tmp_path / "a.tar.gz", tmp_path / "inner" / "back")

    assert not Path("/escaped").exists()
    assert [path.name for path in tmp_path.rglob("escaped") if not path.is_relative_to(tmp_path / "inner/back")] == []


SECRET = "sk-0123456789"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        pytest.param(f"token={SECRET}\n", "token=***\n", id="a key in a file"),
        pytest.param(f"{SECRET}{SECRET}-longer {SECRET}", "****** ***", id="of two that begin alike the longer"),
        pytest.param("none or short", "none or short", id="words too short to be looked for"),
        pytest.param("sk-01234", "sk-01234", id="a piece of one"),
        pytest.param("", "", id="an empty file"),
    ],
)
def test_a_secret_that_a_target_wrote_is_not_in_the_archive(tmp_path: Path, written: str, kept: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text(written)
    save(tmp_path / "folder", tmp_path / "a.tar.gz", secrets=("none", SECRET, f"{SECRET}-longer"))

    restore(tmp_path / "a.tar.gz", tmp_path / "back")

    assert (tmp_path / "back" / "file").read_text() == kept
    assert (tmp_path / "folder" / "file").read_text() == written


@pytest.mark.parametrize("before", [*range(999_985, 1_000_002), 1_999_995, 21_000_000])
def test_a_secret_is_found_wherever_in_a_large_file_it_lies(tmp_path: Path, before: int) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("." * before + SECRET + "after")
    save(tmp_path / "folder", tmp_path / "a.tar.gz", secrets=(SECRET,))

    restore(tmp_path / "a.tar.gz", tmp_path / "back")

    assert (tmp_path / "back" / "file").read_text() == "." * before + "***after"


def test_names_of_files_and_links_tell_no_secret_either(tmp_path: Path) -> None:
    folder = tmp_path / "folder" / f"of {SECRET}"
    folder.mkdir(parents=True)
    (folder / "file").write_text("x")
    (tmp_path / "folder" / "link").symlink_to(f"of {SECRET}/file")
    save(tmp_path / "folder", tmp_path / "a.tar.gz", secrets=(SECRET,))

    restore(tmp_path / "a.tar.gz", tmp_path / "back")

    assert files_in(tmp_path / "back") == ["link", "of ***/file"]
    assert (tmp_path / "back" / "link").read_text() == "x"


def test_what_holds_no_secret_is_saved_as_ever(folder: Path, tmp_path: Path) -> None:
    save(folder, tmp_path / "plain.tar.gz")
    save(folder, tmp_path / "searched.tar.gz", secrets=(SECRET,))

    assert (tmp_path / "plain.tar.gz").read_bytes() == (tmp_path / "searched.tar.gz").read_bytes()


def a_template(folder: Path) -> Path:
    """A template of more entries than are copied one by one, some of which a session changes."""
    for number in range(150):
        path = folder / f"{number % 5}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {number}\n")
    (folder / "link").symlink_to("0/0.txt")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def a_copy(template: Path, folder: Path) -> Base:
    """Copy a template; nothing that comes after happens at the same moment."""
    folder.mkdir()
    fill_from_template(template, folder)
    content = dict.fromkeys(files_in(template), "sha")
    base = Base(template, content, time.time_ns())
    time.sleep(0.02)
    return base


def work_in(folder: Path) -> None:
    (folder / "new").mkdir()
    (folder / "new" / "made.txt").write_text("made\n")
    (folder / "0" / "5.txt").write_text("changed\n")
    (folder / "0" / "10.txt").unlink()
    times = (folder / "1" / "1.txt").stat()
    (folder / "1" / "1.txt").write_text("FILE 1\n")
    os.utime(folder / "1" / "1.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    (folder / "run.sh").chmod(0o644)
    shutil.rmtree(folder / "2")
    (folder / "2").symlink_to("3")
    (folder / "link").unlink()
    (folder / "link").write_text("no link\n")


def contents(folder: Path) -> dict[str, tuple[int, object]]:
    return {
        path.relative_to(folder).as_posix(): (
            path.lstat().st_mode,
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("program", ["cp", "no cp"])
def test_an_archive_holds_what_is_not_as_the_template_has_it(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "no cp":
        monkeypatch.setenv("PATH", str(tmp_path))
    base = a_copy(a_template(tmp_path / "template"), tmp_path / "folder")
    work_in(tmp_path / "folder")

    save(tmp_path / "folder", tmp_path / "a.tar.gz", base=base)
    restore(tmp_path / "a.tar.gz", tmp_path / "back", base)

    assert contents(tmp_path / "back") == contents(tmp_path / "folder")
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        names = {member.name for member in tar.getmembers()}
    assert names == {".", "new", "new/made.txt", "0/5.txt", "1/1.txt", "run.sh", "2", "link"}


def test_a_workspace_in_which_nothing_changed_is_its_template(tmp_path: Path) -> None:
    base = a_copy(a_template(tmp_path / "template"), tmp_path / "folder")

    assert save(tmp_path / "folder", tmp_path / "a.tar.gz", base=base) == 0
    restore(tmp_path / "a.tar.gz", tmp_path / "back", base)

    assert contents(tmp_path / "back") == contents(tmp_path / "template")


def test_an_archive_is_not_laid_over_another_template(tmp_path: Path) -> None:
    base = a_copy(a_template(tmp_path / "template"), tmp_path / "folder")
    save(tmp_path / "folder", tmp_path / "a.tar.gz", base=base)

    with pytest.raises(OSError, match="has changed since"):
        restore(tmp_path / "a.tar.gz", tmp_path / "back", replace(base, content={"other": "sha"}))
    with pytest.raises(OSError, match="has changed since"):
        restore(tmp_path / "a.tar.gz", tmp_path / "back")


def test_a_folder_of_which_nobody_knows_when_it_was_filled_is_saved_as_a_whole(tmp_path: Path) -> None:
    base = replace(a_copy(a_template(tmp_path / "template"), tmp_path / "folder"), copied_ns=None)

    save(tmp_path / "folder", tmp_path / "a.tar.gz", base=base)
    restore(tmp_path / "a.tar.gz", tmp_path / "back")

    assert contents(tmp_path / "back") == contents(tmp_path / "folder")


def test_a_large_template_with_pipes_and_references_to_repositories_is_copied_without_them(tmp_path: Path) -> None:
    template = a_template(tmp_path / "template")
    (template / ".git").write_text("gitdir: /elsewhere\n")
    os.mkfifo(template / "pipe")

    a_copy(template, tmp_path / "folder")

    assert not {".git", "pipe"} & {path.name for path in (tmp_path / "folder").iterdir()}
    assert len(files_in(tmp_path / "folder")) == 152
