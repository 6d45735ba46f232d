"""The normalizer `loud-text`: reads what the adapter `shout` returns."""

from __future__ import annotations

from eval_pipeline import RawSession, SessionReport


class LoudText:
    """The payload's `loud` is the final output."""

    version = "1"

    def normalize(self, material: RawSession) -> SessionReport:
        """Return the report of one execution."""
        return SessionReport(execution_id=material.execution_id, final_output=material.raw.payload["loud"])
