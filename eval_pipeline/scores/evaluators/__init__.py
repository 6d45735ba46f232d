"""Evaluators: one file per kind. An evaluator is a dataclass whose fields are its arguments in a suite.

Shared types of their arguments: unknown arguments are refused, and no type is converted into another.
"""

from typing import Annotated

from pydantic import AliasGenerator, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

ARGUMENTS = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
SNAKE_OR_CAMEL = ConfigDict(
    **ARGUMENTS,
    alias_generator=AliasGenerator(validation_alias=to_camel),
    validate_by_name=True,
    loc_by_alias=False,
)
Text = Annotated[str, Field(strict=True, min_length=1)]
AnyText = Annotated[str, Field(strict=True)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1), Strict(False)]
Limit = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
