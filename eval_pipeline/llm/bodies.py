"""The body of a response, decoded while it is read, up to a limit of bytes.

Each network chunk is decoded in pieces, so that a small compressed body never becomes a large one in memory. Encodings
that a request does not accept are refused: some expand a chunk a million times.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator

import httpx

from eval_pipeline.failures import OUTPUT_LIMIT
from eval_pipeline.llm.errors import ModelError, malformed

ACCEPTED = "gzip, deflate"
_PIECE = 1_000_000
_PLAIN = frozenset({"", "identity"})
_GZIP = (16 + zlib.MAX_WBITS,)
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS)}


class Body:
    """One response's body. More than `max_bytes`, decoded, raise a ModelError of class `output-limit`."""

    def __init__(self, response: httpx.Response, max_bytes: int) -> None:
        self._response = response
        self._max_bytes = max_bytes
        self._chunks: list[bytes] = []
        self._size = 0

    async def read(self) -> bytes:
        """Return the whole body."""
        async for _ in self.chunks():
            pass
        return b"".join(self._chunks)

    async def start(self) -> bytes:
        """Return the body, or its beginning if it is too large."""
        try:
            return await self.read()
        except ModelError as error:
            if error.partial is None:
                raise
            return error.partial

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the decoded body as it arrives."""
        decode = _decoder(self._response.headers.get("content-encoding", ""))
        stream = self._response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        async for raw in stream:
            for piece in decode(raw):
                yield self._kept(piece)

    def _kept(self, piece: bytes) -> bytes:
        self._chunks.append(piece)
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise too_large(b"".join(self._chunks)[: self._max_bytes], self._max_bytes)
        return piece


def too_large(partial: bytes, max_bytes: int) -> ModelError:
    """Return the error for a response above the limit. It is not retryable."""
    message = f"the response exceeds the limit of {max_bytes / 1e6:g} MB (max_output_mb); the rest was not read"
    return ModelError(OUTPUT_LIMIT, message, partial=partial)


def _decoder(encoding: str) -> Callable[[bytes], Iterator[bytes]]:
    name = encoding.strip().lower()
    if name in _PLAIN:
        return lambda raw: iter((raw,))
    if name not in _WINDOWS:
        raise malformed(f"reply has the content encoding '{name[:50]}'; accepted are: {ACCEPTED}")
    return _Inflater(_WINDOWS[name]).pieces


class _Inflater:
    """Decodes gzip, or deflate with or without the zlib header, in pieces of a bounded size."""

    def __init__(self, windows: tuple[int, ...]) -> None:
        self._decoder = zlib.decompressobj(windows[0])
        self._others = windows[1:]

    def pieces(self, raw: bytes) -> Iterator[bytes]:
        while raw:
            yield self._inflated(raw)
            raw = self._decoder.unconsumed_tail

    def _inflated(self, raw: bytes) -> bytes:
        others, self._others = self._others, ()  # only the first bytes tell whether there is a header
        try:
            return self._decoder.decompress(raw, _PIECE)
        except zlib.error as error:
            if not others:
                raise malformed(f"reply cannot be decoded: {error}") from error
            self._decoder = zlib.decompressobj(others[0])
            return self._inflated(raw)
