"""How a row ends: reproduced, a deliberate difference, or not possible with its reason. The summary counts them apart.

A row that ends without a word was reproduced. `NOT_POSSIBLE` are reasons that several families share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

Record = Callable[[str, object], None]

NOT_RECORDED = "the row does not hold"
NOT_OFFERED = "not offered"


def not_recorded(what: str) -> NoReturn:
    """Skip a row that leaves out what its number comes from: nobody can carry it out."""
    pytest.skip(f"{NOT_RECORDED} {what}")


def not_offered(what: str) -> NoReturn:
    """Skip a row about something that no command, suite field or table offers."""
    pytest.skip(f"{NOT_OFFERED}: {what}")
