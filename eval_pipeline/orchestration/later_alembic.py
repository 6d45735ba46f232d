"""Dagster's storages without Alembic, until a database is migrated: importing it takes a twentieth of a command's time.

The one module of Dagster's that imports Alembic (`dagster._core.storage.sql`) gets stand-ins, which import what they
stand for when they are used.
"""

from __future__ import annotations

import importlib
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg

_SQL = "dagster._core.storage.sql"
_NAMES = {
    "alembic": (),
    "alembic.command": ("downgrade", "stamp", "upgrade"),
    "alembic.config": ("Config",),
    "alembic.runtime": (),
    "alembic.runtime.environment": ("EnvironmentContext",),
    "alembic.runtime.migration": ("MigrationContext",),
    "alembic.script": ("ScriptDirectory",),
}
_REVISION = re.compile(r'^revision = "(\w+)"', re.MULTILINE)
_BEFORE = re.compile(r'^down_revision = "(\w+)"', re.MULTILINE)


class _Later:
    """What a module has under a name, imported when it is called or asked for something."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *args: Any, **fields: Any) -> Any:
        return self._real(*args, **fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    @property
    def _real(self) -> Any:
        return getattr(importlib.import_module(self._module), self._name)


def _stand_in(module: str) -> ModuleType:
    made = ModuleType(module)
    made.__dict__.update({name: _Later(module, name) for name in _NAMES[module]})
    return made


def put_off_alembic() -> None:
    """Import the module without Alembic, unless one of them is imported already: call this before other threads and
    modules import storages of Dagster."""
    if "alembic" in sys.modules or _SQL in sys.modules:
        return
    sys.modules.update({module: _stand_in(module) for module in _NAMES})
    try:
        importlib.import_module(_SQL)
    finally:
        for module in _NAMES:
            del sys.modules[module]


@cache
def newest_migration() -> str:
    """Return the id of Dagster's newest migration: the one that no other follows."""
    folder = Path(dg.__file__).parent / "_core/storage/alembic/versions"
    scripts = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
    followed = {match[1] for script in scripts for match in _BEFORE.finditer(script)}
    newest = {match[1] for script in scripts for match in _REVISION.finditer(script)} - followed
    return newest.pop() if len(newest) == 1 else _head_of_alembic()


def _head_of_alembic() -> str:
    """Return what Alembic itself finds, for scripts that are written in another way."""
    from alembic.config import Config  # noqa: PLC0415 — see above
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "dagster:_core/storage/alembic")
    return str(ScriptDirectory.from_config(config).get_current_head())
