"""A step of Dagster without secrets: what it prints, which Dagster captures, its log, and the error that ends it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from eval_pipeline.parsing.redacted_output import redacted_descriptors, redacted_printing
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.stopping import Stopped


@contextmanager
def redacted_step() -> Iterator[None]:
    """Replace secrets in what is printed, logged and raised inside. Dagster stores an error with its whole trace."""
    with redacted_descriptors(), redacted_printing():
        try:
            yield
        except (dg.Failure, Stopped):
            raise
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            if redact_text(trace) == trace:
                raise
            message = redact_text(f"{type(error).__name__}: {error}", cut=True)
        else:
            return
    raise dg.Failure(message, metadata={"trace": redact_text(trace)}, allow_retries=False)
