"""The user's own functions as runners: what they are given, what they may return, what becomes of their failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.python import Python
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner

SOLVER = """
    import asyncio, functools, sys
    from eval_pipeline.executions.model import TargetFailure
    from eval_pipeline.failures import RATE_LIMITED

    def by_prompt(prompt): return f"prompt: {prompt}"
    def by_any_name(question): return f"question: {question}"
    def by_position(question, /): return f"question: {question}"
    def by_many(*questions): return list(questions)
    def by_names(**named): return sorted(named)
    def by_keyword(*, question): return f"question: {question}"
    def by_nothing(): return "nothing"
    def by_all(prompt, messages, case, suite, repetition): return [prompt, messages, case.id, suite, repetition]
    def by_some(*, repetition, suite="?"): return [suite, repetition]
    def with_default(question, style="plain"): return [question, style]
    def configured(style, question): return [style, question]
    def named_prompt(prompt, style): return [prompt, style]

    async def later(prompt):
        await asyncio.sleep(0)
        return f"later: {prompt}"

    class Solver:
        def __call__(self, prompt): return f"object: {prompt}"
        async def ask(self, prompt): return f"method: {prompt}"

    class Later:
        async def __call__(self, prompt): return f"later object: {prompt}"

    solver, later_object = Solver(), Later()
    part = functools.partial(with_default, style="fancy")
    awaited = lambda prompt: later(prompt)

    def answers(prompt): return {"output": "4", "usage": {"input_tokens": 8}, "cost_usd": 0.1, "latency_ms": 12}
    def a_mapping(prompt): return {"sum": 4}
    def a_typo(prompt): return {"output": "4", "usgae": {}}
    def a_number(prompt): return 4
    def none(prompt): return None

    def raises(prompt): raise ValueError("no idea")
    async def raises_later(prompt): raise ValueError("no idea")
    def leaves(prompt): sys.exit(3)
    async def leaves_later(prompt): sys.exit(3)
    def ends(prompt): return next(iter([]))
    def times_out(prompt): raise TimeoutError("upstream")
    def refuses(prompt): raise TargetFailure(RATE_LIMITED, "slow down", retryable=True)
    def needs_more(prompt, style): return style
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests, so that they have one worker process."""
    folder = tmp_path_factory.mktemp("solver")
    (folder / "solver.py").write_text(dedent(SOLVER))
    return folder


@pytest.fixture
def call(folder: Path, tmp_path: Path) -> Callable[..., RawExecution]:
    """Calls a function of the solver once."""

    def call(function: str, prompt: str = "2 + 2?", **arguments: Any) -> RawExecution:
        settings = {"function": f"solver:{function}", "arguments": arguments}
        adapter = Python(a_runner(adapter="python", settings=settings, folder=folder))
        plan = a_plan(a_case(text=prompt), suite="math", repetition=3)
        return asyncio.run(adapter.execute(a_call(tmp_path, plan)))

    return call


Caller = Callable[..., RawExecution]


@pytest.mark.parametrize(
    ("function", "output"),
    [
        ("by_prompt", "prompt: 2 + 2?"),
        ("by_any_name", "question: 2 + 2?"),
        ("by_position", "question: 2 + 2?"),
        ("by_many", ["2 + 2?"]),
        ("by_names", []),
        ("by_nothing", "nothing"),
        ("by_keyword", "question: 2 + 2?"),
        ("by_all", ["2 + 2?", [{"role": "user", "content": "2 + 2?"}], "c1", "math", 3]),
        ("by_some", ["math", 3]),
        ("with_default", ["2 + 2?", "plain"]),
        ("later", "later: 2 + 2?"),
        ("solver", "object: 2 + 2?"),
        ("solver.ask", "method: 2 + 2?"),
        ("later_object", "later object: 2 + 2?"),
        ("part", ["2 + 2?", "fancy"]),
        ("awaited", "later: 2 + 2?"),
    ],
)
def test_a_function_is_given_what_its_parameters_name(call: Caller, function: str, output: object) -> None:
    assert call(function) == RawExecution(format="python", payload={"output": output})


@pytest.mark.parametrize(
    ("function", "arguments", "output"),
    [
        pytest.param("with_default", {"style": "fancy"}, ["2 + 2?", "fancy"], id="a default"),
        pytest.param("configured", {"style": "fancy"}, ["fancy", "2 + 2?"], id="the first parameter"),
        pytest.param("named_prompt", {"style": "fancy"}, ["2 + 2?", "fancy"], id="beside the prompt"),
        pytest.param("by_prompt", {"prompt": "mine"}, "prompt: mine", id="instead of the prompt"),
        pytest.param("by_names", {"a": 1, "b": 2}, ["a", "b"], id="any name"),
    ],
)
def test_arguments_of_the_runner_are_given_to_every_call(
    call: Caller, function: str, arguments: dict[str, Any], output: object
) -> None:
    assert call(function, **arguments).payload == {"output": output}


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        ("answers", {"output": "4", "usage": {"input_tokens": 8}, "cost_usd": 0.1, "latency_ms": 12}),
        ("a_mapping", {"output": {"sum": 4}}),
        ("a_number", {"output": 4}),
    ],
)
def test_a_function_returns_an_answer_or_a_mapping_with_output(
    call: Caller, function: str, payload: dict[str, Any]
) -> None:
    assert call(function).payload == payload


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("raises", "ValueError: no idea"),
        ("raises_later", "ValueError: no idea"),
        ("leaves", "SystemExit: 3"),
        ("leaves_later", "SystemExit: 3"),
        ("ends", "StopIteration"),
        ("times_out", "TimeoutError: upstream"),
        ("needs_more", "TypeError: needs_more() missing 1 required positional argument: 'style'"),
        ("a_typo", "returned unknown keys ['usgae']; there are: output, messages, usage, cost_usd, latency_ms"),
    ],
)
def test_a_function_that_fails_is_a_crash_of_the_target(call: Caller, function: str, message: str) -> None:
    with pytest.raises(TargetFailure) as raised:
        call(function)

    assert (raised.value.failure.id, raised.value.retryable) == ("target-crash", False)
    assert message in str(raised.value)


def test_a_function_that_returns_nothing_gave_no_output(call: Caller) -> None:
    with pytest.raises(TargetFailure, match="returned nothing") as raised:
        call("none")

    assert raised.value.failure.id == "output-missing"


def test_a_function_may_say_itself_what_failed(call: Caller) -> None:
    with pytest.raises(TargetFailure) as raised:
        call("refuses")

    assert (raised.value.failure.id, raised.value.retryable) == ("rate-limited", True)


def test_a_conversation_is_given_as_messages_and_as_one_text(tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text("def answer(prompt, messages):\n    return [prompt, len(messages)]\n")
    adapter = Python(a_runner(adapter="python", settings={"function": "solver:answer"}, folder=tmp_path))
    case = a_case(input=(Message(role="system", content="Be brief"), Message(role="user", content="Hi")))

    raw = asyncio.run(adapter.execute(a_call(tmp_path, a_plan(case))))

    assert raw.payload == {"output": ["@[System]:\nBe brief\n\n@[User]:\nHi", 2]}


def test_the_file_of_the_function_is_content(tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text("def answer(prompt):\n    return prompt\n")

    content = Python(a_runner(settings={"function": "solver:answer"}, folder=tmp_path)).content()

    assert list(content) == ["solver:answer"]


def test_a_function_of_python_itself_has_no_content(tmp_path: Path) -> None:
    assert Python(a_runner(settings={"function": "builtins:len"}, folder=tmp_path)).content() == {}


def test_a_function_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^function: cannot import 'nowhere:f'"):
        Python(a_runner(settings={"function": "nowhere:f"}, folder=tmp_path))
