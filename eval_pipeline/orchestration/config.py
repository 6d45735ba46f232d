"""The run config of a sweep: the form of the launchpad, made from the options model."""

from enum import Enum
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import dagster as dg
from pydantic import Field, create_model

from eval_pipeline.sweeps.options import LaunchOptions, SweepOptions, launch_options
from eval_pipeline.sweeps.project import Project


def _form_type(name: str, annotation: Any) -> Any:
    """A field's type as Dagster's config has it: choices are an enum, which the launchpad checks."""
    if isinstance(annotation, UnionType):
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    if get_origin(annotation) is Literal:
        return Enum(name.capitalize(), {choice: choice for choice in get_args(annotation)}, type=str)
    return list[str] if get_origin(annotation) is tuple else annotation


def _form_fields() -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, field in LaunchOptions.model_fields.items():
        type_ = _form_type(name, field.annotation)
        default: Any = [] if get_origin(type_) is list else False if type_ is bool else None
        annotation = type_ | None if default is None else type_
        fields[name] = (annotation, Field(default=default, description=field.description))
    return fields


_Form: Any = create_model("SweepForm", __base__=dg.Config, **_form_fields())


class SweepConfig(_Form):  # type: ignore[misc]
    """What a sweep does; everything here can be set in the launchpad. What is left out comes from suite or project."""

    def options(self, project: Project, stages: tuple[str, ...]) -> SweepOptions:
        """Return the options over the project's defaults. Raises InputError for a value out of its bounds."""
        values = {name: getattr(self, name) for name in LaunchOptions.model_fields}
        given = {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}
        return launch_options(given).resolve(project.defaults, stages)
