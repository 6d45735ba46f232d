"""Bytes → the data of server-sent events, however the network cut them (WHATWG HTML, §9.2).

Events end with an empty line; the lines of data of one event are one text. Comments (keep-alives) and names of events
are passed over: what an event is stands in its data. Data that no empty line follows any more counts as an event.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator


class EventData:
    """A stream while it comes in."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of the events that end in this chunk."""
        first, *more = chunk.split(b"\n")
        self._line.append(first)
        for following in more:
            yield from self._take(b"".join(self._line))
            self._line = [following]

    def end(self) -> Iterator[bytes]:
        """What was still open when the stream ended."""
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
    """The data of each event of a stream."""
    events = EventData()
    async for chunk in chunks:
        for data in events.feed(chunk):
            yield data
    for data in events.end():
        yield data
