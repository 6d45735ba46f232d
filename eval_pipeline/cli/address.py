"""Prints the address of a web server once it answers. Run as a program of its own; imports nothing but Python's own."""

from __future__ import annotations

import http.client
import os
import sys
import time

PATIENCE_S = 300.0
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def answers(host: str, port: int) -> bool:
    """Return whether a Dagster webserver answers at an address."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/server_info")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def alive(process: int) -> bool:
    """Return whether a process is running."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def announce(host: str, port: int, server: int) -> None:
    """Print the address when it answers; end when the process of the server does."""
    reachable = _ANYWHERE.get(host, host)
    deadline = time.monotonic() + PATIENCE_S
    while alive(server) and time.monotonic() < deadline:
        if answers(reachable, port):
            shown = f"[{reachable}]" if ":" in reachable else reachable
            print(f"\nDagster UI: http://{shown}:{port} (Ctrl-C ends it)\n", file=sys.stderr, flush=True)
            return
        time.sleep(0.3)


if __name__ == "__main__":
    announce(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
