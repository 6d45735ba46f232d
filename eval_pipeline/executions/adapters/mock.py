"""`mock`: fixed answers from the runners file, for tests without a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, Call
from eval_pipeline.executions.answers import is_answer
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.failures import RECORDING_MISSING
from eval_pipeline.parsing.tables import ANY, MAPPING, Field, FieldTable

DEFAULT_RESPONSE = '{"answer":"canned"}'


@ADAPTERS.register("mock")
class Mock:
    """Return the same answer for every case, or one per case.

    Settings: `response` (the answer) and `responses` (answers by case id, which take precedence). An answer is a text;
    a value of another type is encoded as JSON, except that a mapping with `output`, `text` or `messages` is read like a
    function's return value, with `tool_calls` in `messages`, `usage`, `cost_usd` and `duration_ms`. A case without an
    answer fails.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable(
        "mock",
        (
            Field("response", ANY, "The answer to every case: a text, or a mapping as a function returns it."),
            Field("responses", MAPPING, "Answers by case id; they take precedence over `response`."),
            MODEL,
        ),
        "Returns answers that the runners file contains.",
    )
    default_timeout_s: ClassVar[float] = 60.0
    retries_timeouts: ClassVar[bool] = False
    reports_cost: ClassVar[bool] = True

    def __init__(self, runner: Runner) -> None:
        config = runner.settings
        self._by_case = {str(case): answer for case, answer in settings.mapping(config, "responses").items()}
        self._for_all = config.get("response")
        if self._for_all is None and not self._by_case:
            raise InputError("expected an answer, or 'responses' by case id", SourceLocation(field="response"))

    def content(self) -> Mapping[str, str]:
        return {}

    async def execute(self, call: Call) -> RawExecution:
        case = call.plan.case.id
        answer = self._by_case.get(case, self._for_all)
        if answer is None:
            raise TargetFailure(RECORDING_MISSING, f"no response for case '{case}', and none for all cases")
        return RawExecution(format="mock", payload={**_payload(answer), "elapsed_ms": None})

    async def close(self) -> None:
        return None


def _payload(answer: Any) -> dict[str, Any]:
    return dict(answer) if is_answer(answer) else {"output": answer}
