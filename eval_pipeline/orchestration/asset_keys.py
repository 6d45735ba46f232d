"""The keys of a project's assets: their names, below the prefix that the project file gives them in a larger Dagster.

Whatever names an asset to Dagster takes its key from here; everything else knows it by its name.
"""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from eval_pipeline.sweeps.project import Project


@dataclass(frozen=True, slots=True)
class AssetKeys:
    """The keys of assets below a prefix; without one a key is just the name."""

    prefix: tuple[str, ...] = ()

    def key(self, name: str) -> dg.AssetKey:
        """Return the key of an asset."""
        return dg.AssetKey([*self.prefix, name])

    def selection(self, *names: str) -> dg.AssetSelection:
        """Return what selects just these assets."""
        return dg.AssetSelection.assets(*map(self.key, names))


def keys_of(project: Project) -> AssetKeys:
    """Return the keys of a project's assets."""
    return AssetKeys(project.dagster.key_prefix)


def name_of(key: dg.AssetKey) -> str:
    """Return the name of an asset of ours, whatever its prefix."""
    return key.path[-1]
