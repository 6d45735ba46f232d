"""The option --warehouse, and how a message names it again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from eval_pipeline.sweeps.project import WAREHOUSE_VARIABLE

Command = TypeVar("Command", bound=Callable[..., Any])
_NAME = "warehouse"


def warehouse_option(command: Command) -> Command:
    """Add the option --warehouse: this command and the processes that it starts use the warehouse of a URL."""
    return click.option(
        f"--{_NAME}",
        metavar="URL",
        expose_value=False,
        callback=_name_warehouse,
        help="URL of the warehouse, for tables that are not in the data folder.",
    )(command)


def given_warehouse() -> str:
    """Return --warehouse as it was given, for a command that a message suggests; nothing where it was not."""
    context = click.get_current_context(silent=True)
    if context is None or context.get_parameter_source(_NAME) is not ParameterSource.COMMANDLINE:
        return ""
    return f" --{_NAME} {shlex.quote(os.environ[WAREHOUSE_VARIABLE])}"


def _name_warehouse(ctx: click.Context, parameter: click.Parameter, url: str | None) -> None:
    if url is None:
        return
    ctx.call_on_close(partial(_restore_variable, WAREHOUSE_VARIABLE, os.environ.get(WAREHOUSE_VARIABLE)))
    os.environ[WAREHOUSE_VARIABLE] = url


def _restore_variable(name: str, value: str | None) -> None:
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value
