"""`depends_on`: cases that depend on a missing case, on themselves, or on one another in a cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.suites.model import Case

ErrorOf = Callable[[Case, str], InputError]


def broken_dependencies(cases: Mapping[str, Case], refused: Iterable[str], error_of: ErrorOf) -> dict[str, InputError]:
    """Return the problem of each case's dependencies, by case id.

    A case that depends on an unusable case is unusable, too; `refused` are the cases that were not loaded.
    """
    if not any(case.depends_on for case in cases.values()):
        return {}
    lost = set(refused)
    circles = _in_circles({id_: case.depends_on for id_, case in cases.items()})
    errors = {id_: error_of(cases[id_], f"depends on itself: {' → '.join(way)}") for id_, way in circles.items()}
    errors |= {
        case.id: error_of(case, _unknown(name, case, cases, lost))
        for case in cases.values()
        for name in case.depends_on
        if name not in cases and case.id not in errors
    }
    return errors | _dragged_along(cases, errors, error_of)


def _unknown(name: str, case: Case, cases: Mapping[str, Case], lost: set[str]) -> str:
    if name in lost:
        return f"depends on '{name}', which cannot be used"
    others = [id_ for id_ in cases if id_ != case.id]
    return f"depends on '{name}', which is no case of this suite{did_you_mean(name, others)}"


def _dragged_along(
    cases: Mapping[str, Case], errors: Mapping[str, InputError], error_of: ErrorOf
) -> dict[str, InputError]:
    followers: dict[str, list[str]] = {}
    for case in cases.values():
        for name in case.depends_on:
            followers.setdefault(name, []).append(case.id)
    dragged: dict[str, InputError] = {}
    waiting = list(errors)
    while waiting:
        cause = waiting.pop()
        for id_ in followers.get(cause, ()):
            if id_ not in errors and id_ not in dragged:
                dragged[id_] = error_of(cases[id_], f"depends on '{cause}', which cannot be used")
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
