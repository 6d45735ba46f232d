"""A before_all hook: prepares the workspace that is its first argument, once."""

import sys
from pathlib import Path

folder, *packages = sys.argv[1:]
Path(folder, "installed.txt").write_text(" ".join(packages))
