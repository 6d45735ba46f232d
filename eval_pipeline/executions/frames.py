"""Messages between the pipeline and a worker process: pickled values with their length in front.

To a worker any value of ours may go. What comes back is only read if it holds plain values and the values of
`PLAIN_CLASSES`: reading it runs no code of the user.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterator, Mapping
from copyreg import dispatch_table
from types import MappingProxyType
from typing import Any

HEADER = struct.Struct("<Q")
_VALUES = "eval_pipeline.scores.model"
PLAIN_CLASSES = {(_VALUES, "Outcome"), (_VALUES, "Finding"), (_VALUES, "SubScore")}


def view_of(content: dict[Any, Any]) -> Mapping[Any, Any]:
    """Return a mapping that cannot be changed, which pickle does not know."""
    return MappingProxyType(content)


def _reduce_view(view: Mapping[Any, Any]) -> tuple[Any, ...]:
    return view_of, (dict(view),)


_DISPATCH = {**dispatch_table, MappingProxyType: _reduce_view}


def pack(message: object) -> bytes:
    """Return a message as a frame. Raises what cannot be pickled raises."""
    buffer = io.BytesIO(HEADER.pack(0))
    buffer.seek(HEADER.size)
    pickler = pickle.Pickler(buffer, 5)
    pickler.dispatch_table = _DISPATCH
    pickler.dump(message)
    frame = buffer.getbuffer()
    HEADER.pack_into(frame, 0, len(frame) - HEADER.size)
    return frame.tobytes()


class FrameBuffer:
    """Bytes as they arrive → whole messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the messages that these bytes complete. Raises pickle.UnpicklingError for one that is not plain."""
        self._bytes += data
        while len(self._bytes) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._bytes)
            end = HEADER.size + length
            if len(self._bytes) < end:
                return
            message = bytes(self._bytes[HEADER.size : end])
            del self._bytes[:end]
            yield _PlainUnpickler(io.BytesIO(message)).load()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PLAIN_CLASSES:
            raise pickle.UnpicklingError(f"a worker returned {module}.{name}")
        return super().find_class(module, name)
