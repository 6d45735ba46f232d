"""Evaluators: one file per kind. An evaluator is a dataclass whose fields are its arguments in a suite.

What their arguments have in common stands here: nothing unknown is taken, and no type is converted into another.
"""

from typing import Annotated

from pydantic import ConfigDict, Field, Strict

ARGUMENTS = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
Text = Annotated[str, Field(strict=True, min_length=1)]
AnyText = Annotated[str, Field(strict=True)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1), Strict(False)]
Limit = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
