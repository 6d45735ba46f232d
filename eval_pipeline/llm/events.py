"""Bytes → the data of server-sent events, independent of chunk borders (WHATWG HTML, §9.2).

An event ends with an empty line; its data lines are joined to one text. Comments (keep-alives) and event names are
skipped, because the data identifies the event. Trailing data without an empty line counts as an event.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator


class EventData:
    """Incremental parser of one stream."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in this chunk."""
        first, *more = chunk.split(b"\n")
        self._line.append(first)
        for following in more:
            yield from self._take(b"".join(self._line))
            self._line = [following]

    def end(self) -> Iterator[bytes]:
        """Yield the data that is still open at the end of the stream."""
        yield from self._take(b"".join(self._line))
        yield from self._take(b"")

    def _take(self, line: bytes) -> Iterator[bytes]:
        line = line.rstrip(b"\r")
        if line.startswith(b"data:"):
            self._data.append(line[5:].strip())
        elif not line and self._data:
            data, self._data = b"\n".join(self._data), []
            yield data


async def event_data(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each event of a stream."""
    events = EventData()
    async for chunk in chunks:
        for data in events.feed(chunk):
            yield data
    for data in events.end():
        yield data
