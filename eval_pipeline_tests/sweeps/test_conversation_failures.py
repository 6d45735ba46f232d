"""Conversations in which something goes wrong: one turn is tried again, and limits end what has no end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.local_server import Answer, Reply, in_turn, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, contains, make_project

REFUSED = json_reply({}, 429)


def said(text: str) -> Reply:
    usage = {"prompt_tokens": 80, "completion_tokens": 20}
    return json_reply({"messages": [{"role": "assistant", "content": text}], "usage": usage})


def hold(
    folder: Path, reply: Answer | Reply, more: dict[str, Any] | None = None, per_call: float = 0.0, **user: Any
) -> tuple[ProjectFolder, list[int]]:
    """What came of a scripted conversation of four lines, and how many messages each request had. `more` is of the
    case."""
    made = make_project(folder)
    talk = {"id": "talk", "user": {"script": ["a", "b", "c", "d"], **user}, "assertions": [contains("hi")]}
    made.write_suite({**talk, **(more or {})})
    with serve(reply) as server:
        retries = {"max_retries": 1, "initial_delay_s": 0.0}
        prices = {"input_per_million": 1000, "output_per_million": 1000, "per_call": per_call}
        runner = {"name": "agent", "adapter": "endpoint", "url": server.url, "retries": retries, "prices": prices}
        made.write_runners(runner)
        made.sweep(runner="agent")
        return made, [len(request.json["messages"]) for request in server.requests]


def test_a_refused_turn_is_tried_again_and_no_turn_before_it(tmp_path: Path) -> None:
    replies = in_turn(said("hi 1"), said("hi 2"), REFUSED, said("hi 3"), REFUSED, said("hi 4"))

    folder, sent = hold(tmp_path / "p", replies)

    assert sent == [1, 3, 5, 5, 7, 7]
    assert folder.ask("SELECT status FROM current_verdicts") == [("passed",)]
    assert folder.ask("SELECT input_tokens FROM session_reports") == [(320,)]


def test_a_conversation_with_a_workspace_begins_anew_and_what_was_used_before_is_paid_and_not_judged(
    tmp_path: Path,
) -> None:
    (tmp_path / "p" / "template").mkdir(parents=True)
    again = [said(f"hi {number}") for number in range(4)]
    budgets = [{"type": "cost", "budget": 0.45}, {"type": "token-usage", "max_total": 400}]

    folder, sent = hold(
        tmp_path / "p",
        in_turn(said("hi 1"), said("hi 2"), REFUSED, *again),
        {"workspace": {"template": "../template"}, "assertions": budgets},
    )

    assert sent == [1, 3, 5, 1, 3, 5, 7]
    assert folder.ask("SELECT status, round(cost_usd, 6) FROM current_verdicts") == [("passed", 0.6)]
    costs = "SELECT input_tokens, round(cost_usd, 6), round(answer_cost_usd, 6) FROM session_reports"
    assert folder.ask(costs) == [(320, 0.6, 0.4)]
    assert folder.ask("SELECT role, input_tokens, round(cost_usd, 6) FROM conversation_spending") == [
        ("agent", 480, 0.6)
    ]
    assert folder.ask("SELECT sum(input_tokens) FROM conversation_turns WHERE speaker = 'agent'") == [(320,)]


def test_a_fallback_does_not_pay_for_the_runner_that_failed_before_it(tmp_path: Path) -> None:
    """Two turns and two refused calls of the agent, then four turns of its fallback, each at its own prices."""
    made = make_project(tmp_path / "p")
    made.write_suite({"id": "talk", "user": {"script": ["a", "b", "c", "d"]}, "assertions": [contains("hi")]})
    of_agent, of_spare = in_turn(said("hi 1"), said("hi 2"), REFUSED), in_turn(said("hi"))
    with serve(lambda request: (of_agent if request.path == "/agent" else of_spare)(request)) as server:
        runner = {"adapter": "endpoint", "retries": {"max_retries": 1, "initial_delay_s": 0.0}}
        prices = [{"input_per_million": 1000 * n, "output_per_million": 1000 * n, "per_call": 10 * n} for n in (1, 2)]
        made.write_runners(
            {"name": "agent", "url": f"{server.url}/agent", "fallbacks": ["spare"], "prices": prices[0], **runner},
            {"name": "spare", "url": f"{server.url}/spare", "prices": prices[1], **runner},
        )
        counts = made.sweep(runner="agent")
    run_command("run", "--quiet", "--runner", "agent", cwd=made.root)

    assert made.ask("SELECT answered_by, attempts ->> '$[*].runner' FROM target_executions") == [
        ("spare", [None, None, "spare"])
    ]
    costs = "SELECT input_tokens, cost_usd, answer_cost_usd FROM session_reports"
    assert made.ask(costs) == [(320, pytest.approx(80.8 + 20.2 + 20), pytest.approx(80.8))]
    assert counts.cost_usd == pytest.approx(121)
    spending = "SELECT role, input_tokens, cost_usd FROM conversation_spending"
    assert made.ask(spending) == [("agent", 480, pytest.approx(80.8 + 20.2))]
    shown = run_command("show", "sums/talk", cwd=made.root).stdout
    assert "cost       $121.00 (computed, $40.20 of it beside the answer)" in shown

    dear = {name: 2 * price for name, price in prices[0].items()}
    made.write_runners(
        {"name": "agent", "url": f"{server.url}/agent", "fallbacks": ["spare"], "prices": dear, **runner},
        {"name": "spare", "url": f"{server.url}/spare", "prices": prices[1], **runner},
    )
    planned = run_command("plan", "--runner", "agent", "--keep-fallbacks", cwd=made.root)
    assert "changed prices" in planned.stderr, planned
    kept = made.sweep(runner="agent", keep_fallbacks=True)
    again = made.sweep(runner="agent", keep_fallbacks=True)

    assert (kept.executed, kept.updated, again.reused) == (0, 1, 1)
    assert made.ask(costs) == [(320, pytest.approx(80.8 + 2 * (20.2 + 20)), pytest.approx(80.8))]


@pytest.mark.parametrize(
    ("agent", "spare", "spare_says", "paid"),
    [({}, {"per_call": 3}, "hi", (6.0, 6.0)), ({"per_call": 10}, {}, None, (20.0, None))],
    ids=["turns-of-unknown-cost-given-up", "nothing-known-of-the-answer"],
)
def test_what_is_known_of_the_money_counts_where_a_part_of_it_is_not(
    agent: dict[str, float], spare: dict[str, float], spare_says: str | None, paid: tuple[float, float | None],
    tmp_path: Path,
) -> None:  # fmt: skip
    """A turn of the agent, a refused one, then its fallback: with two turns, or refused at once."""
    made = make_project(tmp_path / "p")
    made.write_suite({"id": "talk", "user": {"script": ["a", "b"]}, "assertions": [contains("hi")]})
    of_agent, of_spare = in_turn(said("hi 1"), REFUSED), in_turn(REFUSED if spare_says is None else said(spare_says))
    with serve(lambda request: (of_agent if request.path == "/agent" else of_spare)(request)) as server:
        runner = {"adapter": "endpoint", "retries": {"max_retries": 0}}
        made.write_runners(
            {"name": "agent", "url": f"{server.url}/agent", "fallbacks": ["spare"], "prices": agent, **runner},
            {"name": "spare", "url": f"{server.url}/spare", "prices": spare, **runner},
        )
        counts = made.sweep(runner="agent")

    assert made.ask("SELECT cost_usd, answer_cost_usd FROM session_reports") == [paid]
    assert counts.cost_usd == paid[0]


@pytest.mark.parametrize(
    ("replies", "sent", "turns", "tokens", "paid"),
    [
        ([said("hi 1"), said("hi 2"), REFUSED], [1, 3, 5, 5], 3, 160, 0.2 + 4 * 10),
        ([REFUSED], [1, 1], 1, None, 2 * 10),
    ],
    ids=["third-turn", "first-turn"],
)
def test_a_turn_that_fails_for_good_is_paid_and_keeps_the_turns_before_it(
    replies: list[Reply], sent: list[int], turns: int, tokens: int | None, paid: float, tmp_path: Path
) -> None:
    folder, requests = hold(tmp_path / "p", in_turn(*replies), per_call=10)

    assert requests == sent
    assert folder.ask("SELECT failure_class FROM current_verdicts") == [("rate-limited",)]
    assert folder.ask("SELECT input_tokens, round(cost_usd, 6), model_calls FROM session_reports") == [
        (tokens, paid, turns)
    ]
    assert folder.ask("SELECT count(*) FROM conversation_turns WHERE speaker = 'agent'") == [(turns,)]
    assert folder.ask("SELECT sum(cost_usd) FROM conversation_turns") == [(pytest.approx(paid - 10),)]


@pytest.mark.parametrize(
    ("limits", "failure", "message"),
    [
        ({"turns": 2}, "conversation-turns", "no end after 2 turns (limit: 2)"),
        ({"tokens": 150}, "conversation-tokens", "no end after 200 tokens (limit: 150)"),
        ({"usd": 0.15}, "conversation-cost", "no end after 0.2 USD (limit: 0.15)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_conversation_that_reaches_a_limit_is_a_failure_of_that_limit(
    limits: dict[str, Any], failure: str, message: str, tmp_path: Path
) -> None:
    folder, sent = hold(tmp_path / "p", said("hi"), limits=limits)

    ((found, error),) = folder.ask("SELECT failure_class, error FROM target_executions")
    assert len(sent) == 2
    assert found == failure
    assert message in error


@pytest.mark.parametrize("limits", [{"turns": 4}, {"tokens": 400}], ids=str)
def test_a_conversation_that_ends_at_its_limit_has_an_end(limits: dict[str, Any], tmp_path: Path) -> None:
    folder, sent = hold(tmp_path / "p", said("hi"), limits=limits)

    assert len(sent) == 4
    assert folder.ask("SELECT status FROM current_verdicts") == [("passed",)]


def test_a_silent_turn_ends_with_the_seconds_of_the_conversation(tmp_path: Path) -> None:
    folder, sent = hold(tmp_path / "p", in_turn(said("hi"), Reply(hang=True)), limits={"seconds": 0.3})

    assert len(sent) == 2
    assert folder.ask("SELECT failure_class FROM current_verdicts") == [("conversation-time",)]


def test_a_limit_of_what_the_agent_does_not_report_is_a_failure_and_not_zero(tmp_path: Path) -> None:
    silent = json_reply({"messages": [{"role": "assistant", "content": "hi"}]})

    folder, sent = hold(tmp_path / "p", silent, limits={"tokens": 1000})

    ((found, error),) = folder.ask("SELECT failure_class, error FROM target_executions")
    assert (len(sent), found) == (1, "conversation-tokens")
    assert "cannot be held: a turn's tokens are not known" in error
