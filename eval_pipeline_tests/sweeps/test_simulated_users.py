"""Simulated users through a whole sweep: any runner plays them, and who played is part of what a plan is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.leaderboards.totals import totals
from eval_pipeline.sweeps.input_versions import InputVersions
from eval_pipeline.sweeps.month_budgets import month_budget
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import make_graders, run_recorded
from eval_pipeline.warehouse.expectations import mean_executions
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.published import open_results
from eval_pipeline.warehouse.result_measures import read_measured
from eval_pipeline.warehouse.selections import Selection
from eval_pipeline_tests.executions.test_canned_tools import calls, tool
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, contains, make_project

FUNCTIONS = """
import json
import pathlib
import time


def _note(name, messages):
    with pathlib.Path(__file__).with_name(name).open("a") as log:
        log.write(json.dumps([f"{message['role']}: {message['content']}" for message in messages]) + "\\n")


def answer(messages):
    _note("agent.log", messages)
    return "parcel answer"


def play(messages):
    _note("user.log", messages)
    lines = sum(message["role"] == "assistant" for message in messages)
    said = json.dumps({"message": f"line {lines}", "end": lines == 2})
    return {"output": said, "usage": {"input_tokens": 7, "output_tokens": 1}, "cost_usd": 0.5}


def mumble(messages):
    return ""


_stuttered = []


def stutter(messages):
    _stuttered.append(1)
    said = {"message": "Oh! Seen." if len(_stuttered) > 1 else "Agent: hello", "end": True}
    return {"output": json.dumps(said), "usage": {"input_tokens": 7, "output_tokens": 1}, "cost_usd": 0.5}


def think(messages):
    return {"output": "<think>what now</think>", "usage": {"input_tokens": 7, "output_tokens": 1}, "cost_usd": 0.5}


def fall(messages):
    raise RuntimeError("Oh no")


def strict(messages):
    said = {"fault": "invented-fact", "why": "No parcel was named."}
    return {"output": json.dumps(said), "usage": {"input_tokens": 9, "output_tokens": 2}, "cost_usd": 0.25}


def kind(messages):
    return {"output": '{"fault": null}', "usage": {"input_tokens": 9, "output_tokens": 2}, "cost_usd": 0.25}


def note(by, state):
    notes = [*state["notes"], by]
    return {"result": notes, "state": {"notes": notes}}


def dawdle(messages):
    time.sleep(0.3)
    return "slow"
"""


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    made = make_project(tmp_path / "project")
    (made.root / "talkers.py").write_text(FUNCTIONS)
    names = ("answer", "play", "mumble", "stutter", "think", "fall", "dawdle", "strict")
    runners = [{"name": name, "adapter": "python", "function": f"talkers:{name}"} for name in names]
    made.write_runners(*runners)
    return made


def talk(**user: Any) -> dict[str, Any]:
    secret = {"metadata": {"goal": "the expected outcome"}}
    return {"id": "talk", "user": {"opener": "hello", **user}, "assertions": [contains("parcel")], **secret}


def sweep(folder: ProjectFolder, **options: Any) -> Any:
    return folder.sweep(runner="answer", **options)


def recorded(folder: ProjectFolder, **options: Any) -> ProjectSession:
    """A run of the sweep `talks`, with its row."""
    session = folder.session()
    session.load_suites()
    pairs = session.pairs([PairKey("sums", "answer")])
    run_recorded(session, pairs, SweepOptions(sweep="talks", **options), None, SweepObserver())
    return session


def lines(folder: ProjectFolder, name: str) -> list[str]:
    path = folder.root / name
    return path.read_text().splitlines() if path.exists() else []


def test_a_runner_plays_the_user_until_it_ends_the_conversation(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=5))

    sweep(folder, simulator="play")

    assert len(lines(folder, "agent.log")) == 3
    assert folder.ask("SELECT status FROM current_verdicts") == [("passed",)]


def test_neither_side_sees_what_is_expected_and_the_agent_sees_no_instructions(folder: ProjectFolder) -> None:
    folder.write_suite(talk(persona="A commuter.", max_turns=2))

    sweep(folder, simulator="play")

    seen = "\n".join([*lines(folder, "agent.log"), *lines(folder, "user.log")])
    assert "parcel answer" in seen
    assert "the expected outcome" not in seen
    assert "A commuter." not in "\n".join(lines(folder, "agent.log"))


def test_another_simulator_executes_anew_and_the_same_one_is_reused(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2))

    assert sweep(folder, simulator="play").executed == 1
    assert sweep(folder, simulator="play").executed == 0
    assert sweep(folder, simulator="answer").executed == 1


def test_a_case_names_its_simulator(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2, simulator="play"))

    assert sweep(folder).executed == 1
    assert len(lines(folder, "user.log")) == 1


def test_a_runner_names_who_plays_the_users_of_its_conversations(folder: ProjectFolder) -> None:
    entries = [{"name": name, "adapter": "python", "function": f"talkers:{name}"} for name in ("answer", "play")]
    folder.write_runners(entries[0] | {"simulator": "play"}, entries[1])
    folder.write_suite(talk(max_turns=2))

    assert sweep(folder).executed == 1
    assert len(lines(folder, "user.log")) == 1


def test_a_simulator_without_words_is_an_error_of_its_own_in_no_rate(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2))

    sweep(folder, simulator="mumble")

    assert folder.ask("SELECT status, failure_class FROM current_verdicts") == [("error", "simulator-fault")]
    assert folder.ask("SELECT DISTINCT origin FROM failure_classes") == [("simulator",)]


def test_a_scripted_user_needs_no_simulator(folder: ProjectFolder) -> None:
    folder.write_suite(talk(script=["where is it?", "bye"]))

    assert sweep(folder).executed == 1
    assert [len(line.split("user:")) - 1 for line in lines(folder, "agent.log")] == [1, 2, 3]


def test_what_ended_a_conversation_and_who_said_how_much_is_stored(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2))

    sweep(folder, simulator="play")

    assert folder.ask("SELECT ended_by FROM session_reports") == [("max-turns",)]
    columns = "turn, speaker, simulator, words, input_tokens, cost_usd"
    assert folder.ask(f"SELECT {columns} FROM conversation_turns") == [
        (1, "user", None, 1, None, None),
        (1, "agent", None, 2, None, None),
        (2, "user", "play", 2, 7, 0.5),
        (2, "agent", None, 2, None, None),
    ]
    assert folder.ask("SELECT role, lines, input_tokens, cost_usd, unknown_costs FROM conversation_spending") == [
        ("agent", 2, None, None, 2),
        ("simulator", 1, 7, 0.5, 0),
    ]


def test_another_simulator_is_another_version_of_what_is_executed(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2))

    versions = [_versions(folder, simulator) for simulator in ("play", "mumble", "play")]

    assert versions[0] == versions[2]
    assert all(first != second for first, second in zip(versions[0], versions[1], strict=True))


def _versions(folder: ProjectFolder, simulator: str) -> tuple[str, str]:
    session = folder.session()
    (pair,) = session.pairs([PairKey("sums", "answer")])
    options = SweepOptions(simulator=simulator)
    inputs = InputVersions(pair, options, make_graders(options, session.warehouse, session.runner))
    return inputs.plans, inputs.token


def test_replies_that_cannot_be_used_are_in_the_rows_with_what_they_used(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2))

    sweep(folder, simulator="stutter")

    assert folder.ask("SELECT words, input_tokens, cost_usd FROM conversation_turns WHERE simulator IS NOT NULL") == [
        (2, 14, 1.0)
    ]
    columns = "simulator, lines, discarded_lines, fault_rate, conversations, discarded_conversations"
    assert folder.ask(f"SELECT {columns} FROM simulator_faults") == [("stutter", 1, 1, 0.5, 1, 0)]


def test_a_discarded_conversation_is_kept_with_what_its_simulator_used(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2))

    sweep(folder, simulator="think")

    assert folder.ask("SELECT status, failure_class FROM current_verdicts") == [("error", "simulator-fault")]
    assert folder.ask("SELECT turn, speaker, words, cost_usd FROM conversation_turns") == [
        (1, "user", 1, None),
        (1, "agent", 2, None),
        (2, "user", 0, 1.5),
    ]
    columns = "lines, discarded_lines, fault_rate, conversations, discarded_conversations"
    assert folder.ask(f"SELECT {columns} FROM simulator_faults") == [(0, 3, 1.0, 1, 1)]


def test_a_simulator_that_fails_without_a_reply_is_named(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2))

    sweep(folder, simulator="fall")

    columns = "simulator, lines, discarded_lines, fault_rate, discarded_conversations"
    assert folder.ask(f"SELECT {columns} FROM simulator_faults") == [("fall", 0, 0, None, 1)]


def test_what_judge_and_other_graders_spent_is_told_apart_and_unknown_costs_are_counted(folder: ProjectFolder) -> None:
    rubric = {"type": "rubrics", "criteria": ["It is kind."], "target": "mumble"}
    folder.write_suite(talk(max_turns=1) | {"assertions": [{"type": "judge", "target": "mumble"}, rubric]})

    sweep(folder, simulator="play")

    assert folder.ask("SELECT role, lines, cost_usd, unknown_costs FROM conversation_spending") == [
        ("agent", 1, None, 1),
        ("grader", 1, None, 1),
        ("judge", 1, None, 1),
    ]


def test_the_time_of_the_simulator_counts_against_the_seconds_of_a_conversation(folder: ProjectFolder) -> None:
    folder.write_suite(talk(limits={"seconds": 0.2}))

    sweep(folder, simulator="dawdle")

    ((found, error),) = folder.ask("SELECT failure_class, error FROM target_executions")
    assert found == "conversation-time"
    assert "limit: 0.2" in error


def _content(text: str) -> Reply:
    parts = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    return json_reply({"candidates": [parts]})


def _message(text: str) -> Reply:
    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return json_reply({**said, "id": "m", "model": "m", "stop_reason": "end_turn", "usage": {}})


def _sent_seeds(folder: ProjectFolder, wire: str, reply: Callable[[str], Reply], *sweeps: dict[str, Any]) -> list[Any]:
    """What a model server got as a seed for each line of a simulator, sweep by sweep; None without a seed."""
    numbers, seeds = iter(range(100)), []
    with serve(lambda request: reply(f"line {next(numbers)} of the user")) as server:
        entries = json.loads((folder.root / "runners.yaml").read_text())["runners"]
        chat = {"adapter": "chat", "wire": wire, "base_url": server.url, "model": "m"}
        folder.write_runners(*entries, {"name": "model", **chat, "max_tokens": 9})
        for options in sweeps:
            at = len(server.requests)
            sweep(folder, simulator="model", **options)
            bodies = [request.json for request in server.requests[at:]]
            seeds.append([{**body, **body.get("generationConfig", {})}.get("seed") for body in bodies])
    return seeds


@pytest.mark.parametrize(
    ("wire", "reply"),
    [("openai", chat_reply), ("azure", chat_reply), ("openrouter", chat_reply), ("gemini", _content)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_simulator_gets_a_seed_from_case_repetition_and_turn(
    folder: ProjectFolder, wire: str, reply: Callable[[str], Reply]
) -> None:
    folder.write_suite(talk(max_turns=3), talk(max_turns=2) | {"id": "other"})

    first, again = _sent_seeds(folder, wire, reply, {"repetitions": 2}, {"repetitions": 2, "refresh": "all"})

    assert len(set(first)) == len(first) == 6
    assert all(0 <= seed < 2**31 for seed in first)
    assert sorted(again) == sorted(first)


def test_a_wire_without_a_seed_is_sent_none(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=3))

    assert _sent_seeds(folder, "anthropic", _message, {}) == [[None, None]]
    assert folder.ask("SELECT failure_class FROM target_executions") == [(None,)]


def test_a_seed_of_the_runner_goes_before_that_of_the_line(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=3))
    numbers = iter(range(100))
    with serve(lambda request: chat_reply(f"line {next(numbers)} of the user")) as server:
        entries = json.loads((folder.root / "runners.yaml").read_text())["runners"]
        chat = {"adapter": "chat", "base_url": server.url + "/v1", "model": "m"}
        folder.write_runners(*entries, {"name": "fixed", **chat, "seed": 7})
        sweep(folder, simulator="fixed")

        assert [request.json["seed"] for request in server.requests] == [7, 7]


def test_the_instructions_of_a_simulator_may_be_a_file(folder: ProjectFolder) -> None:
    (folder.root / "suites" / "pirate.md").write_text("Play {{ persona }} as a pirate.")
    folder.write_suite(talk(max_turns=2, persona="Bob", prompt="file://pirate.md"))

    sweep(folder, simulator="play")

    assert "system: Play Bob as a pirate." in lines(folder, "user.log")[0]
    folder.write_suite(talk(max_turns=2, prompt="file://nothing.md"))
    (error,) = folder.session().load_suites()[0].errors
    assert error.place.field == "tests[0].user.prompt"
    assert "nothing.md" in str(error)


def test_a_reviewer_discards_lines_with_facts_that_are_made_up(folder: ProjectFolder) -> None:
    folder.write_suite(talk(max_turns=2, reviewer="strict"))

    sweep(folder, simulator="play")

    assert folder.ask("SELECT status, failure_class FROM current_verdicts") == [("error", "simulator-fault")]
    ((error,),) = folder.ask("SELECT error FROM target_executions")
    assert "it makes facts up: No parcel was named." in error
    assert folder.ask("SELECT discarded_lines FROM simulator_faults") == [(3,)]
    columns = "role, lines, input_tokens, cost_usd, unknown_costs"
    assert folder.ask(f"SELECT {columns} FROM conversation_spending WHERE role <> 'agent'") == [
        ("reviewer", 1, 27, 0.75, 0),
        ("simulator", 1, 21, 1.5, 0),
    ]


def test_a_conversation_that_its_simulator_ends_too_early_is_kept_and_counts_in_coverage_only(
    folder: ProjectFolder,
) -> None:
    hasty = {"fault": "ended-early", "why": "The parcel is not found."}
    (folder.root / "hasty.py").write_text(
        f"def review(messages):\n    asked = messages[-1]['content'].rpartition('What it says next')[2]\n"
        f"    return {json.dumps(hasty)!r} if '\"end\": true' in asked else '{{\"fault\": null}}'\n"
    )
    entries = json.loads((folder.root / "runners.yaml").read_text())["runners"]
    folder.write_runners(*entries, {"name": "hasty", "adapter": "python", "function": "hasty:review"})
    folder.write_suite(talk(max_turns=5, reviewer="hasty"), talk(max_turns=2) | {"id": "short"})

    sweep(folder, simulator="play")

    assert folder.ask("SELECT case_id, status, failure_class FROM current_verdicts ORDER BY ALL") == [
        ("short", "passed", None),
        ("talk", "error", "simulator-fault"),
    ]
    ((error,),) = folder.ask("SELECT error FROM target_executions WHERE case_id = 'talk'")
    assert "it ends the conversation too early: The parcel is not found." in error
    said = "SELECT text FROM session_events e JOIN session_reports r USING (execution_id) WHERE r.case_id = 'talk'"
    assert folder.ask(f"{said} AND kind = 'message' AND turn = 2 ORDER BY position") == [
        ("line 1",),
        ("parcel answer",),
    ]
    (row,) = folder.session().store.update_leaderboards().filter(scope="suite").rows(named=True)
    assert [row[name] for name in ("planned", "graded", "errored", "pass_rate", "coverage")] == [2, 1, 1, 1.0, 0.5]


def test_lines_that_a_reviewer_did_not_review_are_used_and_counted_and_the_reviewer_is_named(
    folder: ProjectFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_suite(talk(max_turns=3, reviewer="mumble"))

    sweep(folder, simulator="play")

    assert folder.ask("SELECT status FROM current_verdicts") == [("passed",)]
    assert folder.ask("SELECT lines, unreviewed_lines FROM simulator_faults") == [(2, 2)]
    assert caplog.text.count("reviewer 'mumble' did not review a line") == 1


def test_simulator_and_reviewer_are_money_of_the_platform_of_the_month_and_of_what_is_expected(
    folder: ProjectFolder,
) -> None:
    sweeps = {"talks": {"suites": ["sums"], "runners": ["answer"], "month_budget_usd": 9}}
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], "sweeps": sweeps}))
    priced = [{"name": "answer", "adapter": "python", "function": "talkers:answer", "prices": {"per_call": 0.125}}]
    others = [{"name": name, "adapter": "python", "function": f"talkers:{name}"} for name in ("play", "kind")]
    folder.write_runners(*priced, *others)
    folder.write_suite(talk(max_turns=2, reviewer="kind"))

    session = recorded(folder, simulator="play")

    with open_results(session.project.data) as connection:
        found = totals(read_measured(connection, Selection()))
    assert (found.cost_usd, found.platform_cost_usd, found.cost_unknown) == (0.25, 0.75, 0)
    assert found.platform_input_tokens == 16
    assert mean_executions(session.warehouse).of(PairKey("sums", "answer")).cost_usd == 1.0
    assert mean_executions(session.warehouse, ["answer"]).of(PairKey("sums", "answer")).cost_usd == 1.0
    assert mean_executions(session.warehouse, ["play"]).of(PairKey("sums", "answer")).cost_usd is None
    month = month_budget(session.project, session.warehouse, "talks")
    assert month is not None
    assert (month.spent_usd, month.doubt) == (1.0, None)
    with session.warehouse.transaction() as connection:  # as an older version published them
        connection.execute("ALTER TABLE session_reports DROP COLUMN given_up")
        assert totals(read_measured(connection, Selection())) == found


def test_gradings_of_unknown_cost_are_said_and_make_what_is_expected_unknown(
    folder: ProjectFolder, caplog: pytest.LogCaptureFixture
) -> None:
    sweeps = {"talks": {"suites": ["sums"], "runners": ["answer"], "month_budget_usd": 9}}
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], "sweeps": sweeps}))
    prices = {"prices": {"per_call": 0.125}}
    entries = {"answer": prices, "mumble": {}}
    folder.write_runners(
        *({"name": name, "adapter": "python", "function": f"talkers:{name}"} | more for name, more in entries.items())
    )
    rubric = {"type": "rubrics", "criteria": ["It is kind."], "target": "mumble"}
    folder.write_suite(talk(max_turns=1) | {"assertions": [rubric]})

    session = recorded(folder, simulator="mumble")

    assert mean_executions(session.warehouse).of(PairKey("sums", "answer")).cost_usd is None
    month = month_budget(session.project, session.warehouse, "talks")
    assert month is not None
    assert "at least 0.125 of 9 USD, the cost of 1 execution or grading is" in str(month.doubt)
    recorded(folder, simulator="mumble")
    assert "has spent at least 0.125 of 9 USD" in caplog.text


def test_an_agent_of_unknown_cost_makes_what_the_month_has_spent_a_lower_bound(folder: ProjectFolder) -> None:
    def write_project(**budget: float) -> None:
        sweeps = {"talks": {"suites": ["sums"], "runners": ["answer"], **budget}}
        (folder.root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], "sweeps": sweeps}))

    write_project()
    folder.write_suite(talk(script=["once more"]))
    recorded(folder)
    write_project(month_budget_usd=9)

    session = folder.session()

    month = month_budget(session.project, session.warehouse, "talks")
    assert month is not None
    assert "at least 0 of 9 USD, the cost of 1 execution or grading is not known" in str(month.doubt)


@pytest.mark.parametrize(
    ("limits", "failure"),
    [({"usd": 0.7}, "conversation-cost"), ({"tokens": 15}, "conversation-tokens"), ({"usd": 0.8, "tokens": 20}, None)],
    ids=["money", "tokens", "enough"],
)
def test_what_a_reviewer_uses_counts_against_the_limits_of_a_conversation(
    folder: ProjectFolder, limits: dict[str, float], failure: str | None
) -> None:
    names = ("play", "kind")
    spoken = {"output": "parcel answer", "usage": {"input_tokens": 0, "output_tokens": 0}, "cost_usd": 0.0}
    (folder.root / "counted.py").write_text(f"def counted(messages):\n    return {spoken!r}\n")
    counted = {"name": "answer", "adapter": "python", "function": "counted:counted"}
    folder.write_runners(
        counted, *({"name": name, "adapter": "python", "function": f"talkers:{name}"} for name in names)
    )
    folder.write_suite(talk(max_turns=3, reviewer="kind", limits=limits))

    sweep(folder, simulator="play")

    assert folder.ask("SELECT failure_class FROM current_verdicts") == [(failure,)]


def test_both_sides_have_tools_on_the_same_state(folder: ProjectFolder) -> None:
    def answer(request: Received) -> Reply:
        messages = request.json["messages"]
        if messages[-1]["role"] == "tool":
            return chat_reply(f"done: {messages[-1]['content']}")
        return calls(("note", {"by": request.path.split("/")[1]}))

    with serve(answer) as server:
        note = tool("note", implementation={"type": "python", "function": "talkers:note", "timeout_s": 20})
        entries = [
            {"name": name, "adapter": "chat", "base_url": f"{server.url}/{name}/v1", "model": "m", "tools": [note]}
            for name in ("answer", "model")
        ]
        folder.write_runners(*entries)
        folder.write_suite(talk(max_turns=2) | {"state": {"notes": []}})
        sweep(folder, simulator="model")

    said = folder.ask("SELECT text FROM session_events WHERE kind = 'message' ORDER BY turn, position")
    assert [text for (text,) in said] == [
        "hello", 'done: ["answer"]', 'done: ["answer","model"]', 'done: ["answer","model","answer"]',
    ]  # fmt: skip
