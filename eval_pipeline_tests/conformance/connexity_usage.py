"""Connexity's recorded facts about tokens, money and models, through reports and requests of a `chat` runner."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.executions.adapters.chat import Chat
from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalize
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_execution
from eval_pipeline_tests.conformance.connexity_judging import assert_value
from eval_pipeline_tests.conformance.row_outcomes import Record
from eval_pipeline_tests.local_server import chat_reply, serve

NOT_ESTIMATED = "tokens that nobody counted are unknown; they are not estimated"
UNKNOWN_IS_NOT_ZERO = "a count that one turn lacks makes the sum unknown, never smaller"
AS_CONFIGURED = "settings and names of models are sent as they are configured; the wire of the runner is its provider"


def _turn(usage: Any, **more: Any) -> dict[str, Any]:
    answer = {"messages": [{"role": "assistant", "content": "a"}], **({"usage": usage} if usage is not None else {})}
    return {"messages": [{"role": "user", "text": "hi"}], "format": "endpoint", "payload": {**answer, **more}}


def _report(turns: Sequence[Mapping[str, Any]], **runner: Any) -> SessionReport:
    raw = RawExecution(format="conversation", payload={"turns": list(turns)})
    return normalize(an_execution(raw=raw), a_case(), a_runner(adapter="endpoint", **runner))


def check_tokens(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about tokens that an agent did not count."""
    record("difference", NOT_ESTIMATED)
    usage = _report([_turn(None)]).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (None, None, None)


def check_sum(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about the sum of what several turns used."""
    given, expected = data["input"]["dicts"], data["expected"]["sum"]
    usage = _report([_turn(each) for each in given]).usage
    found = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    lacking = {name for name in found if name in expected and any(name not in (each or {}) for each in given)}
    if lacking:
        record("difference", UNKNOWN_IS_NOT_ZERO)
    if "estimated" in expected:
        record("difference", NOT_ESTIMATED)
    for name, count in found.items():
        assert count == (None if name in lacking else expected.get(name))


def check_money(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about what agent and simulator cost together."""
    given, expected = data["input"], data["expected"]
    runner = a_runner(adapter="python")
    costs, platform = given.get("agent_costs", []), given.get("platform_costs", [])
    turns = [{**_turn(None), "format": "python", "payload": _payload(cost)} for cost in costs]
    for turn, cost in zip(turns, platform, strict=False):
        turn["speech"] = {"simulator": "s", "usage": {"cost_usd": cost}}
    raw = RawExecution(format="conversation", payload={"turns": turns})
    report = normalize(an_execution(raw=raw), a_case(), runner)
    simulated = [start.speech["usage"]["cost_usd"] for start in report.turn_starts if start.speech]
    assert simulated == list(platform)[: len(turns)]
    if None in [*costs, *platform]:
        record("difference", "money that nobody counted is unknown, never 0")
    if None in costs:
        assert report.usage.cost_usd is None
    elif "agent_cost_usd" in expected:
        assert_value(report.usage.cost_usd or 0.0, expected["agent_cost_usd"])
    if None not in platform and "platform_cost_usd" in expected:
        assert_value(sum(simulated), expected["platform_cost_usd"])


def _payload(cost: float | None) -> dict[str, Any]:
    return {"output": "a", **({"cost_usd": cost} if cost is not None else {})}


def check_price(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about the price of what an agent used."""
    given = data["input"]
    usage = given.get("usage") or {"prompt_tokens": 100, "completion_tokens": 50}
    prices = {"input_per_million": 10_000.0, "output_per_million": 10_000.0}
    if "pricing_lookup" in given:
        assert _report([_turn(usage)]).usage.cost_usd is None
        return
    if "usage" in given:
        record("difference", "counts of a cache are read in the fields of the provider's own wire")
        read = _of_chat({"input_tokens": 0, "output_tokens": 50, **_anthropic(given["usage"])}, "anthropic")
        written, read_ = (given["usage"].get(f"cache_{name}_input_tokens") for name in ("creation", "read"))
        assert (read.cache_write_tokens or None, read.cached_input_tokens or None) == (written, read_)
        return
    record("difference", "prices are those of the runner; nothing is looked up by a model's name")
    assert _report([_turn(usage, model=given.get("model"))], prices=prices).usage.cost_usd == 1.5
    assert _report([_turn(usage, model=given.get("model"))]).usage.cost_usd is None


def _anthropic(usage: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in usage.items() if name.startswith("cache_")}


def _of_chat(usage: Mapping[str, Any], wire: str) -> Any:
    content = {"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}
    choice = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]}
    response = {**(content if wire == "anthropic" else choice), "model": "m", "usage": dict(usage)}
    raw = RawExecution(format="chat", payload={"response": response, "wire": wire})
    return normalize(an_execution(raw=raw), a_case(), a_runner(adapter="chat")).usage


def check_usage(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about how a model's usage is read."""
    usage, expected = _of_chat(data["input"]["usage"] or {}, "openai"), data["expected"] or {}
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == (
        expected.get("prompt_tokens"), expected.get("completion_tokens"), expected.get("cached_prompt_tokens"),
    )  # fmt: skip
    assert usage.total_tokens == expected.get("total_tokens", usage.total_tokens)


def check_model(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about what a provider is sent beside the messages."""
    given, expected = data["input"], data["expected"]
    extra = {name: value for name, value in given.get("extra", {}).items() if name != "thinking"}
    settings = {"model": given.get("model", "m"), **extra}
    with serve(chat_reply()) as server:
        adapter = Chat(a_runner(adapter="chat", settings={**settings, "base_url": server.url + "/v1"}))

        async def main() -> None:
            await adapter.execute(a_call(folder, a_plan()))
            await adapter.close()

        asyncio.run(main())
    (sent,) = [request.json for request in server.requests]
    assert {name: sent[name] for name in settings} == settings
    removed = any(name in given.get("extra", {}) for name in expected.get("sent_lacks", ()))
    added = any(name not in extra for name in expected.get("sent_has", {}))
    if sent["model"] != expected.get("resolved", sent["model"]) or removed or added:
        record("difference", AS_CONFIGURED)
    assert "reasoning_effort" in settings or "reasoning_effort" not in sent
    known = {name: value for name, value in expected.get("sent_has", {}).items() if name in extra}
    assert {name: sent[name] for name in known} == known


CHECKS = {
    "tokens.heuristic": check_tokens,
    "tokens.estimate": check_tokens,
    "tokens.sum": check_sum,
    "tokens.accumulate": check_money,
    "cost.estimate": check_price,
    "llm.usage": check_usage,
    "llm.model_id": check_model,
    "llm.params": check_model,
}
