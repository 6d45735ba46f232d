"""Messages from the pipeline to a worker process: pickled values with their length in front. Any value of ours may go;
what comes back is never unpickled (`replies.py`).
"""

from __future__ import annotations

import io
import pickle
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from copyreg import dispatch_table
from functools import cache
from itertools import repeat
from operator import attrgetter
from types import MappingProxyType, MemberDescriptorType
from typing import Any, NamedTuple

HEADER = struct.Struct("<Q")
_LONG = 8
"""Tuples from this length on are packed field by field."""
_MOST_KEPT_BYTES = 1_000_000
_OURS = f"{__name__.partition('.')[0]}."


def view_of(content: dict[Any, Any]) -> Mapping[Any, Any]:
    """Return a mapping that cannot be changed, which pickle does not know."""
    return MappingProxyType(content)


def _reduce_view(view: Mapping[Any, Any]) -> tuple[Any, ...]:
    return view_of, (dict(view),)


def rebuilt(class_: type, values: Sequence[Any]) -> Any:
    """Return a value of one of our dataclasses with slots; four times as fast as pickle's own way."""
    value: Any = object.__new__(class_)
    for put, item in zip(_setters(class_), values, strict=True):
        put(value, item)
    return value


def rebuilt_tuple(length: int, groups: Sequence[tuple[type, Sequence[int], Sequence[Sequence[Any]]]]) -> Any:
    """Return a tuple of values of our dataclasses, from the positions and the fields of each class. Fields are set
    column by column, which takes half of the time."""
    items: list[Any] = [None] * length
    for class_, positions, columns in groups:
        values: list[Any] = list(map(object.__new__, repeat(class_, len(positions))))
        for put, column in zip(_setters(class_), columns, strict=True):
            deque(map(put, values, column), maxlen=0)
        for position, value in zip(positions, values, strict=True):
            items[position] = value
    return tuple(items)


class _Column(NamedTuple):
    """A long tuple of values of our dataclasses, such as the events of a report."""

    items: tuple[Any, ...]


def _reduce_column(column: _Column) -> tuple[Any, ...]:
    positions = defaultdict[type, list[int]](list)
    for position, item in enumerate(column.items):
        positions[type(item)].append(position)
    groups = [(class_, places, _columns(class_, [column.items[at] for at in places]))
              for class_, places in positions.items()]  # fmt: skip
    return rebuilt_tuple, (len(column.items), groups)


def _columns(class_: type, items: Sequence[Any]) -> list[list[Any]]:
    return [list(map(attrgetter(descriptor.__name__), items)) for descriptor in _descriptors(class_)]


def _packed(value: Any) -> Any:
    """Return a field of a dataclass as it is pickled."""
    if type(value) is not tuple or len(value) < _LONG or not all(map(_is_ours, set(map(type, value)))):
        return value
    return _Column(value)


@cache
def _is_ours(class_: type) -> bool:
    return len(_descriptors(class_)) > 1 and class_.__module__.startswith(_OURS)


@cache
def _setters(class_: type) -> tuple[Callable[[Any, Any], None], ...]:
    return tuple(descriptor.__set__ for descriptor in _descriptors(class_))


@cache
def _descriptors(class_: type) -> tuple[MemberDescriptorType, ...]:
    """Return the fields of a dataclass with slots."""
    fields = (getattr(class_, name, None) for name in getattr(class_, "__dataclass_fields__", ()))
    return tuple(field for field in fields if isinstance(field, MemberDescriptorType))


class _Kept:
    """The long value that was packed last: several evaluators take the same report."""

    def __init__(self) -> None:
        self._last: tuple[Any, bytes] = None, b""

    def packed(self, value: Any, fields: Sequence[Any]) -> bytes:
        """Return the class and the fields of a value, pickled."""
        last, content = self._last
        if last is not value:
            content = _dumped((type(value), fields))
            self._last = (value, content) if len(content) <= _MOST_KEPT_BYTES else (None, b"")
        return content


_KEPT = _Kept()


def rebuilt_from(content: bytes) -> Any:
    """Return a value from its pickled class and fields."""
    return rebuilt(*pickle.loads(content))


class _Reducers(dict[type, Callable[[Any], Any]]):
    """How values are pickled, by their class."""

    def __missing__(self, class_: type) -> Callable[[Any], Any]:
        names = [descriptor.__name__ for descriptor in _descriptors(class_)]
        if not _is_ours(class_):
            raise KeyError(class_)  # pickle's own way
        values = attrgetter(*names)

        def reducer(value: Any) -> tuple[Any, ...]:
            fields = [*map(_packed, values(value))]
            if any(type(field) is _Column for field in fields):
                return rebuilt_from, (_KEPT.packed(value, fields),)
            return rebuilt, (class_, fields)

        self[class_] = reducer
        return reducer


_REDUCERS = _Reducers({**dispatch_table, MappingProxyType: _reduce_view, _Column: _reduce_column})


def pack(message: object) -> bytes:
    """Return a message as a frame. Raises what cannot be pickled raises."""
    content = _dumped(message)
    return HEADER.pack(len(content)) + content


def _dumped(value: object) -> bytes:
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, 5)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(value)
    return buffer.getvalue()
