"""SQL expressions with Python's arithmetic operators, so that a formula of `statistics/` is written once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL expression; arithmetic with numbers and other expressions returns longer ones."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} + {other})")

    def __radd__(self, other: float) -> Sql:
        return Sql(f"({other} + {self})")

    def __mul__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} * {other})")

    def __rmul__(self, other: float) -> Sql:
        return Sql(f"({other} * {self})")

    def __pow__(self, power: float) -> Sql:
        return Sql(f"pow({self}, {power})")

    def __rtruediv__(self, other: float) -> Sql:
        return Sql(f"({other} / {self})")

    def __sub__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} - {other})")

    def __rsub__(self, other: float) -> Sql:
        return Sql(f"({other} - {self})")

    def __truediv__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} / {other})")
