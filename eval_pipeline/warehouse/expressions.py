"""SQL expressions with Python's arithmetic operators, so that a formula of `statistics/` is written once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL expression; arithmetic with numbers and other expressions returns longer ones."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __sub__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} - {other})")

    def __rsub__(self, other: float) -> Sql:
        return Sql(f"({other} - {self})")

    def __truediv__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} / {other})")
