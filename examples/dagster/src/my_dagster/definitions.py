"""Everything below `defs/`: modules with assets, and components."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions of this code location."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
