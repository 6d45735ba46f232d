"""The cases of a suite: a tuple, or packed where they are many.

As objects a case takes about 1.2 kB, packed about 100 bytes. Packed cases are made anew, a block at a time, while they
are read, so that memory hardly grows with the number of cases.
"""

from __future__ import annotations

import marshal
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import cached_property
from itertools import chain, islice, repeat
from operator import attrgetter, call
from typing import Any, TypeVar, overload

from eval_pipeline.suites.model import Case, EvaluatorSpec, Message

Value = TypeVar("Value")
PACKED_FROM = 2_000
_BLOCK = 250
_FAST = 1


@dataclass(frozen=True, slots=True)
class CaseTraits:
    """What is known of the cases of a suite as a whole.

    `evaluator_types` are the types of all evaluators, `runners` the names of runners that cases restrict themselves to.
    `has_dependencies`: a case depends on another. `sets_repetitions`: a case has a number of repetitions of its own.
    `ends_repetitions`: a case may need fewer repetitions than planned. `has_budgets`: a case has a budget of its own.
    `has_users`: a case has a simulated user. `has_inactive`: a case is a draft, or archived. `sets_incomplete`: a case
    sets what becomes of a session that a limit ended. `lacks_workspace`: a case has no workspace.
    `has_tools`: a case has canned answers of tools, or settings of a model.
    """

    evaluator_types: frozenset[str] = frozenset()
    runners: frozenset[str] = frozenset()
    has_dependencies: bool = False
    sets_repetitions: bool = False
    ends_repetitions: bool = False
    has_budgets: bool = False
    has_users: bool = False
    has_inactive: bool = False
    sets_incomplete: bool = False
    lacks_workspace: bool = False
    has_tools: bool = False

    def joined(self, cases: Sequence[Case]) -> CaseTraits:
        """Return the traits of these cases and of those that this value describes."""
        return CaseTraits(
            self.evaluator_types.union(spec.type for case in cases for spec in case.evaluators),
            self.runners.union(name for case in cases for name in case.runners or ()),
            self.has_dependencies or any(case.depends_on for case in cases),
            self.sets_repetitions or any(case.repetitions is not None for case in cases),
            self.ends_repetitions or any(map(_may_end_early, cases)),
            self.has_budgets or any(case.budget_usd is not None for case in cases),
            self.has_users or any(case.user is not None for case in cases),
            self.has_inactive or any(case.status != "active" for case in cases),
            self.sets_incomplete or any(case.incomplete is not None for case in cases),
            self.lacks_workspace or any(case.workspace is None for case in cases),
            self.has_tools or any(case.mocks or case.model_settings for case in cases),
        )


def _may_end_early(case: Case) -> bool:
    return (
        bool(case.on_failure)
        or case.early_exit is True
        or case.repeat_budget_usd is not None
        or case.budget_usd is not None
    )


def traits_of(cases: Sequence[Case]) -> CaseTraits:
    """Return the traits of the cases of a suite; those of a `case_list` are computed once, for all pairs."""
    return cases.traits if isinstance(cases, (PackedCases, CaseTuple)) else CaseTraits().joined(cases)


def evaluators_of(cases: Sequence[Case]) -> Iterator[tuple[str, tuple[EvaluatorSpec, ...]]]:
    """Yield the id and the evaluators of each case."""
    return cases.evaluators() if isinstance(cases, PackedCases) else ((case.id, case.evaluators) for case in cases)


def case_list(cases: Iterable[Case]) -> Sequence[Case]:
    """Return cases as a sequence: a tuple, or packed where they are many. `cases` is read once."""
    source = iter(cases)
    first = tuple(islice(source, PACKED_FROM))
    following = next(source, None)
    return CaseTuple(first) if following is None else PackedCases(chain(first, (following,), source))


class CaseTuple(tuple[Case, ...]):
    """Cases that know their traits."""

    @cached_property
    def traits(self) -> CaseTraits:
        """The traits of these cases."""
        return CaseTraits().joined(self)


class PackedCases(Sequence[Case]):
    """Cases in compressed blocks.

    An evaluator that several cases share remains one object, and so does whatever cannot be packed (workspaces,
    conversations, attached files). Everything else is made anew whenever it is read: compare cases by value.
    """

    def __init__(self, cases: Iterable[Case]) -> None:
        self.traits = CaseTraits()
        self._length = 0
        self._blocks: list[bytes] = []
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        source = iter(cases)
        while block := tuple(islice(source, _BLOCK)):
            self.traits = self.traits.joined(block)
            self._length += len(block)
            self._blocks.append(self._packed(block))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Case]:
        for block in self._blocks:
            yield from self._unpacked(block)

    def evaluators(self) -> Iterator[tuple[str, tuple[EvaluatorSpec, ...]]]:
        """Yield each case's id and evaluators; this takes half the time of reading the cases."""
        for block in self._blocks:
            for row in self._rows(block):
                if isinstance(row, int):
                    yield self._objects[row].id, self._objects[row].evaluators
                else:
                    yield row[0], self._specs(row[1])

    @overload
    def __getitem__(self, index: int) -> Case: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Case]: ...

    def __getitem__(self, index: int | slice) -> Case | Sequence[Case]:
        if isinstance(index, slice):
            return tuple(self)[index]
        block, offset = divmod(range(self._length)[index], _BLOCK)
        return list(self._unpacked(self._blocks[block]))[offset]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(case == counterpart for case, counterpart in zip(self, other))  # noqa: B905

    __hash__ = None  # type: ignore[assignment]

    def _packed(self, cases: Sequence[Case]) -> bytes:
        counts = Counter(id(spec) for case in cases for spec in case.evaluators)
        shared = {id_ for id_, count in counts.items() if count > 1 or id_ in self._numbers}
        rows = [self._row(case, shared) for case in cases]
        try:
            data = marshal.dumps(rows)
        except ValueError:
            data = marshal.dumps([self._row_or_number(row, case) for row, case in zip(rows, cases, strict=True)])
        return zlib.compress(data, _FAST)

    def _row(self, case: Case, shared: set[int]) -> tuple[Any, ...]:
        """Return the values of a case that `marshal` can write; a number is the place of an object."""
        specs = tuple([self._number(spec) if id(spec) in shared else _spec_row(spec) for spec in case.evaluators])
        messages = self._messages(case.input)
        values = _settings_of(case)
        if values == _USUAL:
            return case.id, specs, messages, case.line, (), _NOTHING, _NOTHING
        expected = self._messages(case.expected_output)
        others = {number: value for number, value in enumerate(values) if value != _USUAL[number]}
        kept = {number: self._number(others.pop(number)) for number in _KEPT & others.keys()}
        return case.id, specs, messages, case.line, expected, others, kept

    def _row_or_number(self, row: tuple[Any, ...], case: Case) -> tuple[Any, ...] | int:
        try:
            marshal.dumps(row)
        except ValueError:  # a value of a class of ours
            return self._number(case)
        return row

    def _messages(self, messages: Sequence[Message]) -> tuple[Any, ...]:
        return tuple([_message_row(each) if isinstance(each.content, str) else self._number(each) for each in messages])

    def _number(self, value: object) -> int:
        """Return the place of an object that is kept as it is."""
        number = self._numbers.setdefault(id(value), len(self._objects))
        if number == len(self._objects):
            self._objects.append(value)  # and so its id is not used again
        return number

    def _rows(self, block: bytes) -> list[Any]:
        rows: list[Any] = marshal.loads(zlib.decompress(block))
        return rows

    def _unpacked(self, block: bytes) -> Iterator[Case]:
        for row in self._rows(block):
            yield self._objects[row] if isinstance(row, int) else self._case(*row)

    def _case(
        self, id_: str, specs: Any, messages: Any, line: int | None, expected: Any, others: Any, kept: Any
    ) -> Case:
        values = list(_USUAL)
        for number, value in others.items():
            values[number] = value
        for number, place in kept.items():
            values[number] = self._objects[place]
        if expected:
            values[_EXPECTED] = self._unpacked_messages(expected)
        return _new_case((id_, self._specs(specs), self._unpacked_messages(messages), line, *values))

    def _specs(self, rows: Any) -> tuple[EvaluatorSpec, ...]:
        return tuple([self._objects[row] if isinstance(row, int) else _new_spec(row) for row in rows])

    def _unpacked_messages(self, rows: Any) -> tuple[Message, ...]:
        return tuple([self._objects[row] if isinstance(row, int) else _new_message(row) for row in rows])


def _maker(class_: type[Value], names: Sequence[str]) -> Callable[[Iterable[Any]], Value]:
    """Return a function from the values of all fields, in this order, to an object.

    It sets the slots directly and without a loop in Python, which takes a sixth of the time of the constructor of a
    frozen dataclass.
    """
    if set(names) != {field.name for field in fields(class_)}:  # type: ignore[arg-type]
        raise TypeError(f"{class_.__name__}: expected all its fields, got {', '.join(names)}")
    setters = [class_.__dict__[name].__set__ for name in names]
    new = object.__new__

    def make(values: Iterable[Any]) -> Value:
        made = new(class_)
        any(map(call, setters, repeat(made), values))  # setters return None: all are called
        return made

    return make


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


_MAIN = ("id", "evaluators", "input", "line")
_SETTINGS = {field.name: _default(field) for field in fields(Case) if field.name not in _MAIN}
_USUAL = tuple(_SETTINGS.values())
_PLACES = {name: number for number, name in enumerate(_SETTINGS)}
_EXPECTED = _PLACES["expected_output"]
_KEPT = {_PLACES[name] for name in ("conversation", "workspace", "origin", "user", "mocks", "state", "solution")}
_OF_MESSAGE = [field.name for field in fields(Message)]
_OF_SPEC = [field.name for field in fields(EvaluatorSpec)]
_NOTHING: dict[int, Any] = {}
_settings_of = attrgetter(*_SETTINGS)
_message_row = attrgetter(*_OF_MESSAGE)
_spec_row = attrgetter(*_OF_SPEC)
_new_case = _maker(Case, (*_MAIN, *_SETTINGS))
_new_message = _maker(Message, _OF_MESSAGE)
_new_spec = _maker(EvaluatorSpec, _OF_SPEC)
