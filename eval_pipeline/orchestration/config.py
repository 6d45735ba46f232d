"""The run config of a sweep: the form of the launchpad, made from the options model."""

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from types import UnionType
from typing import Any, Literal, cast, get_args, get_origin

import dagster as dg
from pydantic import Field, create_model

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.sweeps.named_sweeps import with_named
from eval_pipeline.sweeps.options import LaunchOptions, SweepOptions, launch_options
from eval_pipeline.sweeps.project import Project
from eval_pipeline.sweeps.project_session import ProjectSession

NAMED = 30
"""How many choices a message about another value names."""


def choice_of(names: Sequence[str]) -> type[Enum]:
    """Return a type of just these names. It is called by them: that is what Dagster's message about others has."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    title = f"one of {', '.join(names[:NAMED])}{more}"
    make_enum: Any = Enum
    return cast(type[Enum], make_enum(title, {name: name for name in names}, type=str))


def _form_type(name: str, annotation: Any) -> Any:
    """A field's type as Dagster's config has it: choices are an enum, which the launchpad checks."""
    if isinstance(annotation, UnionType):
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    if get_origin(annotation) is Literal:
        return choice_of(get_args(annotation))
    return {tuple: list[str], dict: dict[str, float]}.get(get_origin(annotation), annotation)


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
        return with_named(project, launch_options(given)).resolve(project.defaults, stages)


def form_of(session: ProjectSession) -> type[SweepConfig]:
    """Return the run config with the project's runners as the choices of a grader, where they can be read."""
    with suppress(
        EvalPipelineError, ValueError
    ):  # a name that an enum cannot have; other errors are reported elsewhere
        runners = choice_of([runner.name for runner in session.load_runners()])
        described = LaunchOptions.model_fields["grader"].description
        fields: Any = {"grader": (runners | None, Field(default=None, description=described))}
        return create_model(SweepConfig.__name__, __base__=SweepConfig, __doc__=SweepConfig.__doc__, **fields)
    return SweepConfig
