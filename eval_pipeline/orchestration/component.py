"""A project as a component of Dagster: a few lines of `defs.yaml` in a code location that `dg` made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import dagster as dg
from dagster.components import Resolver, ScaffoldRequest
from pydantic import BaseModel, Field

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.orchestration.build import build_definitions, session_of
from eval_pipeline.orchestration.schedules import run_request
from eval_pipeline.sweeps.named_sweeps import named_sweep
from eval_pipeline.sweeps.project_session import ProjectSession

DEFAULT_GROUP = "evaluation"


class EvalProjectScaffolder(dg.Scaffolder[BaseModel]):
    """Writes the `defs.yaml` of a new component; it names a project beside it."""

    def scaffold(self, request: ScaffoldRequest[BaseModel]) -> None:
        dg.scaffold_component(request, {"project": "."})


@dg.scaffold_with(EvalProjectScaffolder)
class EvalProject(dg.Component, dg.Model, dg.Resolvable):
    """The suites, runners and boards of an eval_pipeline project: its assets, checks, jobs, schedules and sensors.

    With `after`, a sweep begins whenever one of these assets (a trained model, a new index) was made.
    """

    project: Annotated[
        str, Resolver.default(description="The project file or its folder, from the folder of this file")
    ]
    group: Annotated[str, Resolver.default(description="The group of the assets in the UI")] = DEFAULT_GROUP
    key_prefix: Annotated[
        str | list[str] | None,
        Resolver.default(description="What the keys of its assets begin with; default: as the project file says"),
    ] = None
    after: Annotated[
        list[str], Resolver.default(description="Keys of assets (`team/model`); a sweep begins when one was made")
    ] = Field(default_factory=list)
    sweep: Annotated[
        str | None, Resolver.default(description="The sweep of the project file that begins; default: everything anew")
    ] = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        folder = context.path if context.path.is_dir() else context.path.parent
        try:
            session = session_of(Path(folder, self.project).resolve())
            definitions = build_definitions(session, group=self.group, key_prefix=self.key_prefix)
            if self.sweep is not None:
                named_sweep(session.project, self.sweep)
        except EvalPipelineError as error:
            raise dg.DagsterInvalidDefinitionError(str(error)) from None
        return dg.Definitions.merge(definitions, dg.Definitions(sensors=sweep_sensors(session, self.after, self.sweep)))


def sweep_sensors(session: ProjectSession, after: Sequence[str], sweep: str | None) -> list[dg.SensorDefinition]:
    """Return a sensor for each asset, which requests a sweep once for each time that it was made."""
    return [_sensor(session, dg.AssetKey.from_user_string(name), sweep) for name in after]


def _sensor(session: ProjectSession, key: dg.AssetKey, sweep: str | None) -> dg.SensorDefinition:
    config = {"refresh": "all"} if sweep is None else {"sweep": sweep}

    @dg.asset_sensor(
        asset_key=key,
        name=f"sweep_after_{key.to_python_identifier()}",
        job_name="sweep",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Begins a sweep when {key.to_user_string()} was made.",
    )
    def request(context: dg.SensorEvaluationContext, asset_event: dg.EventLogEntry) -> dg.RunRequest | dg.SkipReason:
        run_key = f"{key.to_user_string()} {asset_event.run_id} {asset_event.timestamp}"
        return run_request(context.instance, session, config, run_key, sweep)

    return request
