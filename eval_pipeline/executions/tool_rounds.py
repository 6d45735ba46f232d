"""The tools of a model within one turn: it calls, their results are sent to it, and it goes on until it speaks.

A call that fails, and one that no canned answer matches, has an error as its result, which the model sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.executions.canned_answers import CannedAnswers
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.executions.tool_sets import ToolSet
from eval_pipeline.executions.tools import ToolAnswer, ToolRequest
from eval_pipeline.failures import MAX_STEPS
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.model import Reply, ToolCall
from eval_pipeline.suites.simulation import ToolMock

MOST_ROUNDS = 16
Read = Callable[[Mapping[str, Any]], Reply]
"""Reads the reply in a stored response."""
MOCKS_USED = "mocks_used"
"""The entry of a payload with the places of the canned answers that a turn used up."""
STATE = "state"
"""The entry of a payload with the state that tools left behind, where they changed it."""


@dataclass(slots=True)
class ToolRounds:
    """The rounds of one turn. `messages` are those to send after the messages of the turn; `context` is what the user
    knows, `state` what tools have made of the state so far. `kept` holds the rounds as JSON while the turn is
    unfinished, and `save` makes it durable."""

    tools: ToolSet
    canned: CannedAnswers
    context: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    save: Callable[[], None] = lambda: None
    messages: list[dict[str, Any]] = field(default_factory=list)
    _rounds: list[dict[str, Any]] = field(default_factory=list)
    _changed: bool = False
    _ends: bool = False

    def take_up(self, read: Read) -> dict[str, Any] | None:
        """Take in the rounds of an attempt that ended before the turn did; return the response whose calls were not all
        carried out, None where there is no such response."""
        rounds = [*(self.kept.get("rounds") or ())]
        self.canned.used = [*(self.kept.get(MOCKS_USED) or ())]
        if STATE in self.kept:
            self.state, self._changed = self.kept[STATE], True
        pending = rounds.pop() if rounds and self.kept.get("pending") else None
        for each in rounds:
            reply = read(each)
            self._finish(reply, self._numbered(reply), each)
        return pending

    async def add(self, response: Mapping[str, Any], reply: Reply, timeout_s: float) -> bool:
        """Take a response in, and carry out its calls in order. Returns whether the turn is over: the model called no
        tool, or a terminating one.

        Raises TargetFailure when the model still calls tools after `MOST_ROUNDS`.
        """
        calls = self._numbered(reply)
        self._ends = any(call.name in self.tools.declared.terminating for call in calls)
        if not calls or self._ends:
            self._rounds.append({**response})
            return True
        results = [*(response.get("results") or ())]
        finished = {**response, "results": results}
        self._keep(finished, pending=True)
        for call in calls[len(results) :]:
            results.append(await self._result(call, timeout_s))
            self._keep(finished, pending=True)
        self._finish(reply, calls, finished)
        self._keep()
        if len(self._rounds) >= MOST_ROUNDS:
            problem = f"the model still calls tools after {MOST_ROUNDS} rounds"
            raise TargetFailure(MAX_STEPS, problem, raw=self.raw())
        return False

    def _numbered(self, reply: Reply) -> list[ToolCall]:
        numbered = enumerate(reply.tool_calls, start=len(self.messages) + 1)
        return [call if call.id else call._replace(id=f"call_{number}") for number, call in numbered]

    def _finish(self, reply: Reply, calls: Sequence[ToolCall], finished: dict[str, Any]) -> None:
        self._rounds.append(finished)
        self.messages += [_spoken(reply.text, calls), *map(_answered, finished["results"])]

    def _keep(self, *pending_round: dict[str, Any], pending: bool = False) -> None:
        self.kept.update({"rounds": [*self._rounds, *pending_round], MOCKS_USED: self.canned.used, "pending": pending})
        if self._changed:
            self.kept[STATE] = self.state
        self.save()

    def raw(self, error: str | None = None) -> RawExecution:
        """Return the turn as a raw execution; `error` is why it did not get further."""
        payload: dict[str, Any] = {"rounds": self._rounds}
        if self.canned.used:
            payload[MOCKS_USED] = self.canned.used
        if self._changed:
            payload[STATE] = self.state
        if self._ends:
            payload["metadata"] = {"end": True}
        if error is not None:
            payload["error"] = error
        return RawExecution(format="chat", payload=payload)

    async def _result(self, call: ToolCall, timeout_s: float) -> dict[str, Any]:
        request = ToolRequest(
            tool=call.name,
            arguments=call.arguments,
            context=self.context,
            state=self.state,
            timeout_s=timeout_s,
            canned=self.canned,
        )
        answer = await self.tools.answer(request)
        if answer.state is not None:
            self.state, self._changed = answer.state, True
        return {"id": call.id, "tool": call.name, **_stored(answer)}


def _stored(answer: ToolAnswer) -> dict[str, Any]:
    output = answer.output if isinstance(answer.output, str) else to_json(answer.output).decode()
    marks = {"is_error": answer.is_error, "unmatched": answer.unmatched}
    shown = {name: True for name, mark in marks.items() if mark}
    return {"output": output, **shown, **({STATE: answer.state} if answer.state is not None else {})}


def raw_of_kept(kept: Mapping[str, Any], error: str | None = None) -> RawExecution | None:
    """Return the rounds that are kept of a turn that has no end; None where there are none. `error` is why it has none:
    stored where the model was called again and did not answer."""
    rounds = kept.get("rounds")
    unanswered = {"error": error} if error is not None and not kept.get("pending") else {}
    return RawExecution(format="chat", payload={"rounds": rounds, **unanswered}) if rounds else None


def remaining(mocks: Sequence[ToolMock], raw: RawExecution) -> tuple[ToolMock, ...]:
    """Return the canned answers that a turn left for the next."""
    used = raw.payload.get(MOCKS_USED) or ()
    return tuple(mock for place, mock in enumerate(mocks) if place not in used)


def _spoken(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    wire = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _json_text(call.arguments)}}
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": wire}


def _answered(result: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": result["id"], "content": result["output"]}


def _json_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else to_json({} if arguments is None else arguments).decode()
