"""Functions that users name as `module:callable`, called in a worker process or, where trusted, in this one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions.function_calls import FunctionError, WorkerDied
from eval_pipeline.executions.function_facts import FunctionFacts, describe
from eval_pipeline.executions.model import Isolation
from eval_pipeline.executions.workers import IMPORT_LIMIT_S, WorkerPool, pool_for
from eval_pipeline.parsing.user_modules import FunctionReference, function_reference, import_function


class UserFunction:
    """A function of a user. Its module is imported where it is called.

    A function that only this process has (of a notebook, or of a module that was made at run time) is called here.
    """

    def __init__(self, name: str, folder: Path, field: str, isolation: Isolation) -> None:
        self.name = name
        self._folder = folder
        self._field = field
        self.reference = function_reference(name, folder, field)
        self.isolated = self.reference is not None and isolation == "process"

    @cached_property
    def here(self) -> Callable[..., Any]:
        """The function itself, in this process. Raises InputError."""
        return import_function(self.name, self._folder, self._field)

    def pool(self, *, shared: bool, anew: bool = False) -> WorkerPool:
        """Return the workers of an isolated function."""
        assert self.reference is not None  # only such a function is isolated
        return pool_for(self.reference, shared=shared, anew=anew)

    def facts(self, pool: WorkerPool | None = None) -> FunctionFacts:
        """Return what is known of the function, from a worker of `pool`, or from this process. Raises InputError."""
        if pool is None or self.reference is None:
            return describe(self.here)
        try:
            return pool.describe(self.reference)
        except FunctionError as error:
            problem = f"cannot import '{self.name}': {error.text}"
            if error.kind == "not-callable":
                problem = f"'{self.name}' is not callable"
        except WorkerDied as error:
            problem = f"cannot import '{self.name}': {error}"
        except (TypeError, ValueError):
            problem = f"cannot import '{self.name}': its process sent what cannot be read"
        except TimeoutError:
            problem = f"cannot import '{self.name}': it took longer than {IMPORT_LIMIT_S:g} s"
        raise InputError(problem, SourceLocation(field=self._field))


def installed(name: str) -> FunctionReference:
    """Return the reference of a function of ours, or of an installed package."""
    module, _, attribute = name.partition(":")
    return FunctionReference(module, attribute, "")
