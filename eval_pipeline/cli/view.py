"""`eval-pipeline view`: the results as pages in a browser, on this machine only."""

from __future__ import annotations

import socket
import sys
import webbrowser
from pathlib import Path

import click

from eval_pipeline.cli.dev import host_names
from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.cli.terminal import echo
from eval_pipeline.errors import InputError
from eval_pipeline.pages.links import PORT

WAIT_S = 10.0
"""How long a person who grades waits while another process writes."""


@click.command(name="view")
@project_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0: any free one.")
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, metavar="NAME[:PORT]",
    callback=lambda context, option, names: host_names(names),
    help="Host of a proxy through which browsers reach the page; repeatable. Requests for other hosts are refused.",
)  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
def view_command(
    project: Path | None, data: Path | None, host: str, port: int, allowed_hosts: tuple[str, ...], opens: bool
) -> None:
    """Show the published results as pages: board, suites, cases, sweeps. Ctrl-C ends it.

    Nothing is changed but grades that a person enters. `export --format html` writes the same page as a file.
    """
    import uvicorn  # noqa: PLC0415 — takes a third of a second, which other commands do not need

    from eval_pipeline.pages.server import Documents, make_app  # noqa: PLC0415 — imports Starlette

    opened = open_project(project, data)
    warehouse = opened.open_warehouse()
    warehouse.lock_timeout_s = WAIT_S
    with open_published(opened, warehouse, is_own=data is None):
        pass  # a user without results gets the message of every other command
    listening = _listen(host, port)
    app = make_app(Documents(warehouse, opened.defaults.cluster_by), host, allowed_hosts)
    address = _address(listening)
    echo(f"{address} (Ctrl-C ends it)", err=True)
    if opens:
        webbrowser.open(address)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
    server = uvicorn.Server(config)
    server.run(sockets=[listening])
    sys.exit(0)


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises InputError when another program does."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # who reads the address may ask at once
    except OSError as error:
        listening.close()
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror}; name another with --port") from None
    return listening


def _address(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
