"""Workspaces as files: what comes back, what does not, and that nothing is written elsewhere."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from eval_pipeline.executions.workspaces.archive import TooLarge, restore, save
from eval_pipeline_tests.executions.workshop import a_repository, files_in, run_git


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
