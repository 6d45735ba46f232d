"""The commit of the Git repository that a project's folder is in."""

from __future__ import annotations

import subprocess
from pathlib import Path

PATIENCE_S = 5.0


def commit_of(folder: Path) -> str | None:
    """Return the id of the commit that is checked out; None without a repository, a commit or Git."""
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
