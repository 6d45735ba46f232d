"""The run configuration of a set of test cases is carried out, and what an agent ran with is stored."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.agent_setup import agent_setup
from eval_pipeline.fingerprints import canonical_json
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.preflight import preflight
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.builders import a_runner
from eval_pipeline_tests.executions.test_canned_tools import calls, tool
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, contains, make_project

POINTS = {"score": 5, "justification": "j", "failure_code": None, "turns": [1]}
ROUTING = {"judge": {"metrics": [{"metric": "tool_routing"}]}}
SYNTHETIC = tool("find", implementation={"type": "synthetic"})


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def answer(request: Received) -> Reply:
    messages = request.json["messages"]
    if request.path.startswith("/user"):
        return chat_reply('{"message": "Thanks.", "end": true}')
    if request.path.startswith("/judge"):
        return chat_reply(json.dumps({"tool_routing": POINTS}))
    return chat_reply(messages[-1]["content"]) if messages[-1]["role"] == "tool" else calls(("find", {"id": 1}))


def project_with(folder: Path, config: dict[str, Any], url: str, **agent: Any) -> ProjectFolder:
    """A project with a set of one case, whose agent, user and judge are models at an address."""
    project = make_project(folder / "project")
    (project.root / "suites" / "sums.yaml").unlink()
    mock = {"tool": "find", "expected_params": None, "mock_response": {"found": "canned"}}
    case = {"name": "talk", "persona_context": "p", "first_message": "hi", "expected_tool_calls": [mock]}
    document = {"name": "talks", "test_cases": [case], "config": config}
    (project.root / "suites" / "talks.json").write_text(json.dumps(document))
    chat = {"adapter": "chat", "model": "m", "retries": {"max_retries": 0}}
    names = ("agent", "user", "judge")
    runners = [{"name": name, **chat, "base_url": f"{url}/{name}"} for name in names]
    project.write_runners({**runners[0], "tools": [SYNTHETIC], **agent}, *runners[1:])
    return project


def bodies(project: ProjectFolder, requests: list[Received]) -> dict[str, Any]:
    project.begin_sweep(PairKey("talks", "agent"), simulator="user", grader="judge")
    project.sweep("talks", "agent", simulator="user", grader="judge")
    return {request.path.split("/")[1]: request.json for request in requests}


def test_models_and_settings_of_agent_user_and_judge_are_those_of_the_configuration(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "agent_simulator": {"model": "a2", "temperature": 0.3, "max_tokens": 50},
        "user_simulator": {"model": "u2", "temperature": 0.9},
        "judge": {"model": "j2", "metrics": [{"metric": "tool_routing"}]},
    }
    with serve(answer) as server:
        project = project_with(tmp_path, config, server.url)
        sent = bodies(project, server.requests)

    assert {name: body["model"] for name, body in sent.items()} == {"agent": "a2", "user": "u2", "judge": "j2"}
    assert (sent["agent"]["temperature"], sent["agent"]["max_tokens"], sent["user"]["temperature"]) == (0.3, 50, 0.9)
    ((settings, digest),) = project.ask("SELECT settings::VARCHAR, settings_sha256 FROM execution_snapshots")
    assert json.loads(settings).items() >= config["agent_simulator"].items()
    assert digest == sha256(settings.encode())


@pytest.mark.parametrize(("mode", "result"), [("mock", "canned"), ("live", "simulated"), ("synthetic", "simulated")])
def test_the_tool_mode_chooses_what_answers_calls(mode: str, result: str, tmp_path: Path) -> None:
    with serve(answer) as server:
        project = project_with(tmp_path, {"tool_mode": mode}, server.url)
        bodies(project, server.requests)

    results = project.ask("SELECT DISTINCT event ->> '$.output' FROM session_events WHERE kind = 'tool_result'")
    assert all(result in output for (output,) in results)


def test_a_live_tool_without_an_implementation_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    project = project_with(tmp_path, {"tool_mode": "live"}, "http://127.0.0.1:9", tools=[tool("find")])
    session = project.session()

    key = PairKey("talks", "agent")
    session.load_suites()
    found = preflight(session, session.pairs([key]), SweepOptions(simulator="user", grader="judge"))

    assert "Live tool mode: no implementation of find" in str(found.errors[key])


def test_a_temperature_that_the_simulator_has_not_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    project = project_with(tmp_path, {"user_simulator": {"temperature": 0.9}}, "http://127.0.0.1:9")
    program = {"name": "user", "adapter": "command", "command": ["true"]}
    chat = {"adapter": "chat", "model": "m", "base_url": "http://127.0.0.1:9"}
    project.write_runners({"name": "agent", **chat, "tools": [SYNTHETIC]}, {"name": "judge", **chat}, program)
    (project.root / "eval-pipeline.yaml").write_text("suites: [suites]\ndefaults: {simulator: user, grader: judge}\n")
    session, key = project.session(), PairKey("talks", "agent")
    session.load_suites()

    found = preflight(session, session.pairs([key]), SweepOptions(defaults=session.project.defaults))

    assert "simulator 'user' (adapter 'command') has no temperature" in str(found.errors[key])


def test_another_tool_mode_executes_anew(tmp_path: Path) -> None:
    with serve(answer) as server:
        project = project_with(tmp_path, {"tool_mode": "mock"}, server.url)
        bodies(project, server.requests)
        suite = project.root / "suites" / "talks.json"
        suite.write_text(suite.read_text().replace('"mock"}', '"live"}'))

        assert project.sweep("talks", "agent", simulator="user", grader="judge").executed == 1


def test_prompt_and_tools_that_an_agent_returns_are_stored_with_their_hashes(tmp_path: Path) -> None:
    returned = {"system_prompt": "Be brief.", "tools": [{"name": "find"}]}
    replies = {True: {"metadata": returned}, False: {}}
    project = make_project(tmp_path / "project")
    project.write_suite({"id": "c1", "input": "hi", "assertions": [contains("hi")]})

    def said(request: Received) -> Reply:
        message = {"role": "assistant", "content": "hi"}
        return json_reply({"messages": [message], "model": "m2", **replies[request.path == "/returns"]})

    declared = {"adapter": "endpoint", "system_prompt": "Declared.", "tools": [{"b": 1, "a": 2}]}
    with serve(said) as server:
        paths = ("returns", "declares")
        project.write_runners(*({"name": name, **declared, "url": f"{server.url}/{name}"} for name in paths))
        for name in paths:
            project.begin_sweep(PairKey("sums", name))
            project.sweep(runner=name)

    columns = "model, prompt, prompt_sha256, tools_sha256"
    rows = project.ask(f"SELECT {columns} FROM execution_snapshots ORDER BY runner")
    assert rows == [
        ("m2", "Declared.", sha256(b"Declared."), sha256(canonical_json(declared["tools"]))),
        ("m2", "Be brief.", sha256(b"Be brief."), sha256(canonical_json(returned["tools"]))),
    ]
    assert all("Declared." not in request.body.decode() for request in server.requests)


def test_the_judge_sees_prompt_and_tools_of_the_agent_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "tok-4711-very-secret")
    with serve(answer) as server:
        project = project_with(tmp_path, ROUTING, server.url, system="Never promise money. ${{ SHOP_TOKEN }}")
        question = bodies(project, server.requests)["judge"]["messages"][-1]["content"]

    assert "Never promise money. ***" in question
    assert json.dumps(SYNTHETIC["function"], separators=(",", ":")) in question
    assert "synthetic" not in question


def test_the_judge_sees_prompt_and_tools_that_an_agent_returns_also_when_it_scores_again(tmp_path: Path) -> None:
    metadata = {"system_prompt": "Be brief.", "tools": [{"name": "refund"}], "end": True}

    def said(request: Received) -> Reply:
        if request.path.startswith("/judge"):
            return chat_reply(json.dumps({"tool_routing": POINTS, "response_delivery": POINTS}))
        return json_reply({"messages": [{"role": "assistant", "content": "hi"}], "metadata": metadata})

    project = make_project(tmp_path / "project")
    with serve(said) as server:
        judge = {"name": "judge", "adapter": "chat", "base_url": f"{server.url}/judge", "model": "m"}
        project.write_runners({"name": "agent", "adapter": "endpoint", "url": f"{server.url}/agent"}, judge)
        for metric in ("tool_routing", "response_delivery"):
            judged = {"type": "judge", "metrics": [metric]}
            project.write_suite({"id": "c1", "user": {"script": ["hi", "bye"]}, "assertions": [judged]})
            project.sweep(runner="agent", grader="judge")
        asked = [request.json["messages"][-1]["content"] for request in server.requests if request.path != "/agent"]

    assert len(asked) == 2
    assert all("Be brief." in question and '{"name":"refund"}' in question for question in asked)


def test_the_judge_is_told_which_of_prompt_and_tools_are_not_known(tmp_path: Path) -> None:
    with serve(answer) as server:
        project = project_with(tmp_path, ROUTING, server.url)
        question = bodies(project, server.requests)["judge"]["messages"][-1]["content"]

    assert "The agent's own instructions are not known." in question
    assert "The agent's own tools:" in question


@pytest.mark.parametrize(
    ("adapter", "settings", "tools"),
    [
        ("chat", {"tools": [{"name": "a"}]}, [{"name": "a"}]),
        ("chat", {}, []),
        ("chat", {"body": {"tools": [{"name": "a"}]}}, None),
        ("endpoint", {}, None),
        ("chat", {"base_url": "https://agent.example/v1"}, None),
        ("chat", {"base_url": "https://agent.example/v1", "tools": []}, []),
        ("chat", {"base_url": "https://api.openai.com/v1/", "wire": "openai-responses"}, []),
        ("chat", {"base_url": "https://mine.openai.azure.com", "wire": "azure"}, []),
    ],
    ids=[
        "declared",
        "none",
        "in the body",
        "behind an address",
        "an agent behind the address of a model",
        "declared to be none",
        "the provider's own address",
        "the customer's address",
    ],
)
def test_the_tools_of_a_model_are_those_of_its_runner(adapter: str, settings: dict[str, Any], tools: Any) -> None:
    assert agent_setup(None, a_runner(adapter=adapter, settings=settings), ()).tools == tools
