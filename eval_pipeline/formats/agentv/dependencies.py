"""`depends_on`: cases that depend on a missing case, on themselves, or on one another in a cycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from eval_pipeline.errors import InputError, did_you_mean

_MOST_SUGGESTIONS = 20
DependsOn = Mapping[str, tuple[str, ...]]
ErrorOf = Callable[[str, str], InputError]
"""Returns the error of a case (by id) with this problem."""


def broken_dependencies(
    ids: Collection[str], depends_on: DependsOn, refused: Iterable[str], error_of: ErrorOf
) -> dict[str, InputError]:
    """Return the problem of each case's dependencies, by case id.

    `ids` are all cases, `depends_on` has those with dependencies. A case that depends on an unusable case is unusable,
    too; `refused` are the cases that were not loaded.
    """
    lost = set(refused)
    circles = _in_circles(depends_on)
    errors = {id_: error_of(id_, f"depends on itself: {' → '.join(way)}") for id_, way in circles.items()}
    unknown = [(id_, name) for id_, names in depends_on.items() for name in names if name not in ids]
    for number, (id_, name) in enumerate(unknown):
        if id_ not in circles:
            # A suggestion compares a name with all ids: one for each of many unknown names would take too long.
            suggested = ids if number < _MOST_SUGGESTIONS else ()
            errors[id_] = error_of(id_, _unknown(name, id_, suggested, lost))
    return errors | _dragged_along(depends_on, errors, error_of)


def _unknown(name: str, case_id: str, ids: Collection[str], lost: set[str]) -> str:
    if name in lost:
        return f"depends on '{name}', which cannot be used"
    others = [id_ for id_ in ids if id_ != case_id]
    return f"depends on '{name}', which is no case of this suite{did_you_mean(name, others)}"


def _dragged_along(depends_on: DependsOn, errors: Mapping[str, InputError], error_of: ErrorOf) -> dict[str, InputError]:
    followers: dict[str, list[str]] = {}
    for id_, names in depends_on.items():
        for name in names:
            followers.setdefault(name, []).append(id_)
    dragged: dict[str, InputError] = {}
    waiting = list(errors)
    while waiting:
        cause = waiting.pop()
        for id_ in followers.get(cause, ()):
            if id_ not in errors and id_ not in dragged:
                dragged[id_] = error_of(id_, f"depends on '{cause}', which cannot be used")
                waiting.append(id_)
    return dragged


def _in_circles(graph: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Return every case on a cycle, with one such cycle; depth first, without recursion."""
    circles: dict[str, list[str]] = {}
    done: set[str] = set()
    for start in graph:
        way: list[str] = []
        standing: dict[str, int] = {}
        open_: list[Iterator[str]] = [iter([start])]
        while open_:
            name = next(open_[-1], None)
            if name is None:
                open_.pop()
                if way:
                    last = way.pop()
                    del standing[last]
                    done.add(last)
            elif name in standing:
                circle = way[standing[name] :]
                for index, member in enumerate(circle):
                    circles.setdefault(member, [*circle[index:], *circle[: index + 1]])
            elif name in graph and name not in done:
                standing[name] = len(way)
                way.append(name)
                open_.append(iter(graph[name]))
    return circles
