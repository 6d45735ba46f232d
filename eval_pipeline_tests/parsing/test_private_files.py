"""What is written below a data folder is for its owner only; programs write as they would without us."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from eval_pipeline.parsing.private_files import private_files, umask_of_programs


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_folders_are_private_inside_and_usual_after(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with private_files(), private_files():
            (tmp_path / "folder").mkdir()
            (tmp_path / "folder" / "file").write_text("x")
            subprocess.run(["touch", tmp_path / "theirs"], umask=umask_of_programs(), check=True)
        (tmp_path / "after").write_text("x")
    finally:
        os.umask(before)

    assert rights(tmp_path / "folder") == 0o700
    assert rights(tmp_path / "folder" / "file") == 0o600
    assert rights(tmp_path / "theirs") == rights(tmp_path / "after") == 0o644
    assert umask_of_programs() == -1
