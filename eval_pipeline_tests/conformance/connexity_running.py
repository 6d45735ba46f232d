"""Connexity's recorded facts about what happens while a conversation is held: whole sweeps against a local server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.endpoint import Endpoint
from eval_pipeline.executions.simulated_user import NOTHING_KNOWN
from eval_pipeline.suites.load import load_suite
from eval_pipeline_tests.builders import a_runner
from eval_pipeline_tests.conformance.differences.connexity_row_model import is_unanswered
from eval_pipeline_tests.conformance.row_outcomes import Record
from eval_pipeline_tests.local_server import Answer, Received, Reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

SUITE = "talks"
_SHAPES: Mapping[str, Mapping[str, Any]] = {
    "g0": {"persona": {"type": "t", "description": "d", "instructions": "i"}},
    "g1": {"persona_context": "p"},
    "g2": {"persona_context": "p"},
}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
_POINTS = {"score": 5, "passed": True, "justification": "j", "failure_code": None, "turns": []}
PROGRAMS = '''
import json


def judge(messages):
    """Full points on whatever is asked for."""
    asked = messages[-1]["content"]
    key = asked.rsplit('"key": "', 1)[-1].split('"', 1)[0]
    return json.dumps({"key": key, "criteria": POINTS})


def user(messages):
    return {"output": "U", "usage": {"input_tokens": 3, "output_tokens": 1}, "cost_usd": 0.001}


def fails(messages):
    raise RuntimeError("the simulator is down")
'''
UNANSWERED = "every line of a script is answered; the conversation does not end on an unanswered one"
LATER_LOOP = "max_turns rounds end with the agent's answer, as in the later generations"
SCORED = "what fails is a failure class, never words of the agent or the user"
SIMULATED_TWICE = "a simulator that says the same again is at fault; its line is asked for anew"


@dataclass(frozen=True, slots=True)
class Held:
    """What came of a conversation: its rows, and what the agent was sent."""

    project: ProjectFolder
    requests: Sequence[Received]

    def said(self) -> list[list[Any]]:
        """Role and words of each message of the conversation, tool calls and results among them."""
        greeting = [["assistant", text] for text in self._greeting()]
        rows = self.project.ask("SELECT kind, event FROM session_events ORDER BY turn, position")
        return [*greeting, *(entry for kind, event in rows if (entry := _entry(kind, json.loads(event))) is not None)]

    def _greeting(self) -> list[str]:
        (case,) = self.project.session().load_suites()[0].suite.cases
        return [message.text for message in case.input]

    def calls(self) -> list[list[Any]]:
        """Number of messages, index of the turn and last role of each request."""
        bodies = [request.json for request in self.requests]
        return [
            [len(body["messages"]), body["metadata"]["turn_index"], (body["messages"] or [{"role": None}])[-1]["role"]]
            for body in bodies
        ]

    def one(self, query: str) -> Any:
        """The only value that the warehouse answers."""
        ((value,),) = self.project.ask(query)
        return value


def _entry(kind: str, event: Mapping[str, Any]) -> list[Any] | None:
    if kind == "message":
        return [event["role"], event["text"]]
    return {"tool_call": ["assistant", None], "tool_result": ["tool", event.get("output")]}.get(kind)


def hold(
    folder: Path,
    case: Mapping[str, Any],
    config: Mapping[str, Any],
    answer: Answer | Reply,
    *,
    count: int = 1,
    **options: Any,
) -> Held:
    """Carry out a test case of Connexity, `count` times under other names, against an agent behind an address."""
    project = make_project(folder / "project")
    (project.root / "suites" / "sums.yaml").unlink()
    cases = [{"name": f"talk {number}", **case} for number in range(count)]
    document = {"name": SUITE, "test_cases": cases, "config": dict(config)}
    (project.root / "suites" / "talks.json").write_text(json.dumps(document))
    programs = PROGRAMS.replace("POINTS", repr(_POINTS))
    (project.root / "programs.py").write_text(programs)
    runners = [
        {"name": name, "adapter": "python", "function": f"programs:{name}", "isolation": "in-process"}
        for name in ("judge", "user", "fails")
    ]
    with serve(answer) as server:
        agent = {"name": "agent", "adapter": "endpoint", "url": server.url, "retries": {"max_retries": 0}}
        project.write_runners(agent, *runners)
        project.sweep(SUITE, "agent", grader="judge", **options)
        return Held(project, server.requests)


def check_loop(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about who speaks when, and what ends the conversation."""
    given, expected = data["input"], data["expected"]
    generation = data["generations"][-1]
    if any((given.get(name) or 0) < 1 for name in ("max_turns", "timeout_per_test_case_ms") if _is_set(given, name)):
        record("difference", "a conversation without a turn or without time is an error: it has no answer to judge")
        assert re.search("max_turns|timeout_per_test_case_ms", _problem(*_case(given, generation), folder))
        return
    if "cancel_event" in given:
        record("difference", "a sweep that does not execute starts no conversation, and judges none")
        held = _held(given, generation, folder, stages=("normalize", "evaluate"))
        assert (list(held.requests), held.project.ask("SELECT * FROM evaluator_scores")) == ([], [])
        return
    held = _held(given, generation, folder)
    turns = _expected_turns(given, expected, record)
    assert held.said()[: len(turns)] == turns
    assert len(held.said()) - len(turns) == (1 if _ends_unanswered(given, expected) else 0)
    assert held.calls()[: len(expected["agent_calls"])] == expected["agent_calls"]
    _assert_measures(held, given, expected, record)


def _is_set(given: Mapping[str, Any], name: str) -> bool:
    return given.get(name) is not None


def _held(given: Mapping[str, Any], generation: str, folder: Path, **options: Any) -> Held:
    case, config = _case(given, generation)
    simulator = {"llm raising RuntimeError": "fails", "llm": "user"}.get(given.get("simulator", ""))
    return hold(folder, case, config, _agent(given), simulator=simulator, **options)


def _case(given: Mapping[str, Any], generation: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The test case and the run configuration of a row, in the form of its generation."""
    names = {"g0": "initial_message"}.get(generation, "first_message")
    opener = given.get("opening", given.get("first_message"))
    case = {**_SHAPES[generation], names: opener, "evaluation_criteria_override": "It is fine."}
    config: dict[str, Any] = {}
    if "simulator" not in given:
        script = given.get("scripted") or ["s1", "s2", "s3", "s4", "s5"]
        config["user_simulator"] = {"mode": "scripted", "scripted_messages": script}
    if "first_turn" in given:
        case["first_turn"] = given["first_turn"]
    if "timeout_per_test_case_ms" in given:
        config["timeout_per_test_case_ms"] = given["timeout_per_test_case_ms"]
    (case if generation == "g0" else config)["max_turns"] = given.get("max_turns")
    return case, config


def _problem(case: Mapping[str, Any], config: Mapping[str, Any], folder: Path) -> str:
    """Why a test case cannot be loaded with a run configuration."""
    path = folder / "talks.json"
    path.write_text(json.dumps({"name": SUITE, "test_cases": [{"name": "talk", **case}], "config": dict(config)}))
    with pytest.raises(InputError) as raised:
        suite = load_suite(path)
        raise suite.errors[0]
    return str(raised.value)


def _agent(given: Mapping[str, Any]) -> Answer | Reply:
    if given.get("agent") == "HTTP 500":
        return Reply(status=500, body=b"boom")
    numbers = iter(range(1, 1_000))
    usage = None if given.get("agent_usage", 1) is None else _USAGE

    def answer(request: Received) -> Reply:
        return json_reply({"messages": list(_messages(given, next(numbers))), "usage": usage})

    return answer


def _messages(given: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    if "agent_messages" not in given:
        yield {"role": "assistant", "content": f"A{number}"}
        return
    if not given["agent_messages"] or "empty" in given["agent_messages"]:
        return
    call = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    yield {"role": "assistant", "content": None, "tool_calls": [call]}
    yield {"role": "tool", "tool_call_id": "c1", "content": "{}"}
    yield {"role": "assistant", "content": "done"}


def _expected_turns(given: Mapping[str, Any], expected: Mapping[str, Any], record: Record) -> list[list[Any]]:
    """The messages that a row has and we have, too."""
    turns = [list(turn) for turn in zip(expected["roles"], expected["contents"], strict=True)]
    if given.get("agent") == "HTTP 500":
        record("difference", SCORED)
        return [turn for turn in turns if not str(turn[1]).startswith("[agent_error]")]
    if _ends_unanswered(given, expected):
        record("difference", UNANSWERED)
    elif turns and turns[-1][0] == "user" and is_unanswered(expected):
        record("difference", LATER_LOOP)
        return turns[:-1]
    return turns


def _ends_unanswered(given: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether a row's conversation ends on a line of a script that no limit kept the agent from answering."""
    most, rounds = given.get("max_turns"), len(expected["agent_calls"])
    ends = bool(expected["roles"]) and expected["roles"][-1] == "user" and is_unanswered(expected)
    return ends and (most is None or rounds < most)


def _assert_measures(held: Held, given: Mapping[str, Any], expected: Mapping[str, Any], record: Record) -> None:
    """Check tokens and times of the agent's turns, and what the simulator used."""
    rows = held.project.ask(
        "SELECT input_tokens + output_tokens, duration_ms FROM conversation_turns WHERE speaker = 'agent' ORDER BY turn"
    )
    if given.get("agent") != "HTTP 500":
        tokens = [count for count in expected["token_counts"] if count == _USAGE["total_tokens"]]
        assert [count for count, _ in rows if count is not None][: len(tokens)] == tokens
        assert all(duration is not None for _, duration in rows)
    if expected["agent_tokens_estimated"]:
        record("difference", "tokens that nobody counted are unknown; they are not estimated")
        assert all(count is None for count, _ in rows)
    if given.get("simulator") == "llm raising RuntimeError":
        record("difference", SCORED)
        assert held.one("SELECT failure_class FROM current_verdicts") == "simulator-fault"
    if expected["platform_tokens"]:
        lines = sum(role == "user" for role, _ in held.said()) - bool((given.get("opening") or "").strip())
        spent = held.project.ask(
            "SELECT input_tokens, output_tokens, cost_usd FROM conversation_spending WHERE role = 'simulator'"
        )
        assert spent == [(3 * lines, lines, 0.001 * lines)]


def check_user(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about what the simulated user says, and what its simulator is sent."""
    USERS[data["op"]](data, folder, record)


def _check_opener(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    given = {"opening": data["input"]["initial_message"], "scripted": ["s1"], "max_turns": 1}
    held = _held(given, "g0", folder)
    assert held.requests[0].json["messages"][0]["content"] == data["expected"]["value"]


def _check_words(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    given, expected = data["input"], data["expected"]
    if given.get("mode") == "scripted":
        _check_script(given, expected, folder, record)
        return
    said = json.dumps(given.get("llm_content", "U"))
    usage = {"input_tokens": 10, "output_tokens": given.get("usage", {}).get("total_tokens", 15) - 10}
    held, sent = _simulated(folder, {}, said, usage)
    if "content" in expected:
        assert held.requests[0].json["messages"][-1]["content"] == expected["content"]
        columns = "input_tokens + output_tokens, duration_ms IS NOT NULL"
        rows = held.project.ask(f"SELECT {columns} FROM conversation_turns WHERE simulator IS NOT NULL")
        assert rows == [(expected["token_usage.total_tokens"], True)] * expected["llm_calls"]
    if given.get("conversation") == []:
        record(
            "difference", "a first message of the user goes with the instructions: providers refuse a request without"
        )
        assert [message["role"] for message in sent[0]] == [expected["first_role"], "user"]


def _check_script(given: Mapping[str, Any], expected: Mapping[str, Any], folder: Path, record: Record) -> None:
    opener, script = given.get("initial_message", "hi"), given["scripted_messages"]
    if not script:
        record("difference", "a script without lines is an error before anything runs")
        case, config = _case({"opening": opener}, "g0")
        config["user_simulator"]["scripted_messages"] = []
        assert "at least one message" in _problem(case, config, folder)
        return
    held = _held({"opening": opener, "scripted": script}, "g0", folder)
    lines = [text for role, text in held.said() if role == "user"]
    assert lines == [opener, *expected.get("contents", script)]
    assert held.one("SELECT ended_by FROM session_reports") == "script"


def _check_prompt(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    given = data["input"]
    outcomes = given.get("expected_outcomes")
    case = {"user_context": given["user_context"], "expected_outcomes": outcomes and dict.fromkeys(outcomes, True)}
    _, sent = _simulated(folder, case, '"U"', None)
    prompt = sent[0][0]["content"]
    if not given["user_context"]:
        record("difference", "the words of prompts are ours")
        assert NOTHING_KNOWN in prompt or given["user_context"] is not None
    if outcomes:
        record("difference", "the simulator never sees what the conversation is to achieve")
        assert not any(str(outcome) in prompt for outcome in outcomes)
    for value in (given["user_context"] or {}).values():
        assert isinstance(value, Mapping | list) or json.dumps(value, ensure_ascii=False) in prompt
    if given["user_context"] and not outcomes:
        assert all(words in prompt for words in data["expected"]["prompt_contains"])


def _simulated(
    folder: Path, case: Mapping[str, Any], said: str, usage: Mapping[str, int] | None
) -> tuple[Held, list[list[Mapping[str, Any]]]]:
    """A conversation of one round whose simulator says this, and what the simulator was sent."""
    source = (
        "import json, pathlib\n\n\ndef user(messages):\n"
        "    with pathlib.Path(__file__).with_name('sent.jsonl').open('a') as sent:\n"
        "        sent.write(json.dumps(messages) + '\\n')\n"
        f"    return {{'output': json.loads({said!r}), 'usage': {usage!r}}}\n"
    )
    project = make_project(folder / "project")
    (project.root / "simulators.py").write_text(source)
    document = {
        "name": SUITE,
        "test_cases": [{"name": "talk", **_SHAPES["g0"], "max_turns": 1, **case}],
        "members": None,
    }
    (project.root / "suites" / "talks.json").write_text(json.dumps(document))
    with serve(json_reply({"messages": [{"role": "assistant", "content": "A"}]})) as server:
        agent = {"name": "agent", "adapter": "endpoint", "url": server.url}
        user = {"name": "user", "adapter": "python", "function": "simulators:user", "isolation": "in-process"}
        project.write_runners(agent, user)
        project.sweep(SUITE, "agent", simulator="user", grader="user")
        sent = (project.root / "sent.jsonl").read_text().splitlines()
        return Held(project, server.requests), [json.loads(line) for line in sent]


USERS: Mapping[str, Callable[[Mapping[str, Any], Path, Record], None]] = {
    "get_initial_message": _check_opener,
    "generate_message": _check_words,
    "system_prompt": _check_prompt,
    "is_exhausted": _check_words,
}


def check_contract(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about which answers of an agent keep the contract."""
    given, expected = data["input"], data["expected"]
    case, config = _case({"opening": "hi", "max_turns": 1}, data["generations"][-1])
    held = hold(folder, case, config, json_reply(given))
    failure, error = held.project.ask("SELECT failure_class, error FROM target_executions")[0]
    if not expected["valid"]:
        assert failure == "malformed-reply"
        assert "breaks the contract" in error
        return
    assert failure is None
    for name, column in (("model", "model"), ("usage", "input_tokens")):
        assert name not in expected or held.one(f"SELECT {column} FROM session_reports") == expected[name]


def check_address(data: Mapping[str, Any], folder: Path) -> None:
    """Check a row about an agent's address: one that is none is refused, and one that answers wrongly is told."""
    given, expected = data["input"], data["expected"]
    if "$raises" in expected:
        with pytest.raises(InputError, match=expected["message_contains"]):
            Endpoint(a_runner(adapter="endpoint", settings=given))
        return
    if "http" not in given:
        Endpoint(a_runner(adapter="endpoint", settings=given))
        return
    reply = json_reply(given.get("body", {}), given["http"])
    held = hold(folder, *_case({"opening": "hi", "max_turns": 1}, data["generations"][-1]), reply)
    ((error,),) = held.project.ask("SELECT error FROM target_executions")
    assert (error is None) is expected["ok"]
    assert expected.get("message", {}).get("$contains", "") in (error or "")


def check_run(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about what becomes of a run; states of stored runs belong to the reference's server."""
    given, generation = data["input"], data["generations"][-1]
    talk = {"opening": "hi", "scripted": ["s1"], "max_turns": 1}
    if "cancel_event_already_set" in given:
        record("difference", "a sweep that does not execute starts no conversation, and judges none")
        held = _held(talk, generation, folder, stages=("normalize", "evaluate"))
        assert (list(held.requests), held.project.ask("SELECT * FROM evaluator_scores")) == ([], [])
    elif "runtime_raises" in given:
        record("difference", SCORED)
        held = _held({**talk, "agent": "HTTP 500"}, generation, folder)
        assert held.project.ask("SELECT status, failure_class FROM current_verdicts") == [("error", "server-error")]
        assert held.project.ask("SELECT * FROM evaluator_scores") == []
    elif given.get("all") == "ok":
        held = _held(talk, generation, folder, count=given["cases"])
        assert held.project.ask("SELECT status FROM current_verdicts") == [("passed",)] * given["cases"]
        assert held.one("SELECT executed FROM current_pairs") == given["cases"]
    else:
        pytest.skip("without counterpart: the HTTP server and its command")
