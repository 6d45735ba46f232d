"""Connexity's recorded facts about what a run keeps of its agent: view `execution_snapshots` after a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.tool_sets import declared_tools, in_mode
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.conformance.row_outcomes import Record
from eval_pipeline_tests.local_server import chat_reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import contains, make_project


def check_snapshot(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about the agent as a run used it."""
    given, expected = data["input"], data["expected"]
    if "$raises" in expected:
        with pytest.raises(InputError, match=expected["message_contains"]):
            in_mode(declared_tools(given["tools"]), given["tool_mode"])
        return
    agent = given["agent"]
    if expected.get("agent_provider") is not None:
        record("difference", "the wire of the runner is its provider; a run configuration sets none")
    kept = snapshot_of(agent, folder)
    assert kept["revision"] is not None
    assert kept["adapter"] == {"endpoint": "endpoint", "platform": "chat"}[agent["mode"]]
    assert kept["prompt"] == expected.get("agent_system_prompt")
    if agent["mode"] == "platform":
        assert kept["model"] == expected["agent_model"]


def snapshot_of(agent: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What is stored of an agent that carried out one case."""
    project = make_project(folder / "project")
    project.write_suite({"id": "c1", "input": "hi", "assertions": [contains("hi")]})
    said = json_reply({"messages": [{"role": "assistant", "content": "hi"}]})
    reply = said if agent["mode"] == "endpoint" else chat_reply("hi", model=None)
    with serve(reply) as server:
        chat = {"adapter": "chat", "base_url": server.url, "model": agent.get("agent_model")}
        prompt = {"system": agent["system_prompt"]} if agent.get("system_prompt") else {}
        endpoint = {"adapter": "endpoint", "url": server.url}
        project.write_runners({"name": "agent", **({**chat, **prompt} if agent["mode"] == "platform" else endpoint)})
        project.begin_sweep(PairKey("sums", "agent"))
        project.sweep(runner="agent")
        columns = "s.runner_revision, r.adapter, s.settings ->> '$.model', s.prompt, s.settings ->> '$.url'"
        (row,) = project.ask(f"SELECT {columns} FROM execution_snapshots s JOIN runners r USING (runner)")
    revision, adapter, model, prompt_text, url = row
    assert url == (server.url if agent["mode"] == "endpoint" else None)
    return {"revision": revision, "adapter": adapter, "model": model, "prompt": prompt_text}
