"""A network between machines and PostgreSQL that can break: a TCP proxy that drops its connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Forwards connections to a port of 127.0.0.1, until they are dropped."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._turn = threading.Lock()
        self._open: list[socket.socket] = []
        self.dropped = 0
        self._broken = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def drop(self, seconds: float) -> None:
        """Drop all connections, and those that are made for a while."""
        self._broken.set()
        self._close_all()
        threading.Event().wait(seconds)
        self._broken.clear()

    def end(self) -> None:
        self._broken.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._close_all()

    def _close_all(self) -> None:
        with self._turn:
            sockets, self._open = self._open, []
        self.dropped += len(sockets) // 2
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):  # the end
            while True:
                client, _ = self._listener.accept()
                if self._broken.is_set():
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                with self._turn:
                    self._open += [client, server]
                both = threading.Barrier(2)
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=_forward, args=(source, sink, both), daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket, both: threading.Barrier) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
    both.wait()
    source.close()


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """Yield a proxy of a port."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.end()
