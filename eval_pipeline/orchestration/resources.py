"""The published results of a project as a resource of Dagster, for assets and sensors of a team."""

from contextlib import AbstractContextManager

import dagster as dg

from eval_pipeline.orchestration.build import session_of
from eval_pipeline.warehouse.store import Connection


class EvalResults(dg.ConfigurableResource[None]):
    """Reads the newest published results of a project: `with results.open() as connection: …`.

    `project` is the project file or its folder; results of a shared warehouse are read where the project names one.
    """

    project: str

    def open(self) -> AbstractContextManager[Connection]:
        """Open the results, read-only. Raises InputError for a project that cannot be used, WarehouseError when
        nothing was published."""
        return session_of(self.project).warehouse.published()
