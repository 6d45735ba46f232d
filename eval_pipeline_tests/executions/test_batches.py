"""All cases in one run of a program: what it is given, and how its output is told apart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.adapters.command import Command
from eval_pipeline.executions.engine import Engine, Lane
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalize
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_execution
from eval_pipeline_tests.executions.simulated_provider import Sink

ECHO = """
import json, sys
for line in open(sys.argv[1]):
    case = json.loads(line)
    print(json.dumps({"id": case["id"], "text": case["prompt"].upper()}))
"""


def a_batch_runner(folder: Path, command: Any, **settings: Any) -> Command:
    timeout_s = settings.pop("timeout_s", None)
    result = {"command": command, "batch": True, **settings}
    return Command(a_runner(adapter="command", settings=result, folder=folder, timeout_s=timeout_s))


def calls(folder: Path, *ids: str, timeout_s: float = 30.0) -> list[Call]:
    cases = [a_case(id_, text=f"question {id_}") for id_ in ids]
    return [a_call(folder / case.id, a_plan(case, suite="math"), timeout_s=timeout_s) for case in cases]


def answers(folder: Path, command: Any, *ids: str, **settings: Any) -> list[RawExecution | TargetFailure]:
    return asyncio.run(a_batch_runner(folder, command, **settings).execute_batch(calls(folder, *ids)))


def report(answer: RawExecution | TargetFailure) -> SessionReport:
    assert isinstance(answer, RawExecution)
    return normalize(an_execution(raw=answer), a_case(), a_runner())


def writing(folder: Path, *rows: Any) -> str:
    """A command that writes these rows as its output."""
    lines = [row if isinstance(row, bytes) else orjson.dumps(row) for row in rows]
    (folder / "rows.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return "cp rows.jsonl {OUTPUT_FILE}"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("python3 echo.py {CASES_FILE}", id="a file of cases"),
        pytest.param("python3 echo.py {PROMPT_FILE} > {OUTPUT_FILE}", id="in the prompt's place, to a file"),
        pytest.param("python3 echo.py /dev/stdin", id="standard input"),
    ],
)
def test_one_run_answers_all_cases_in_the_order_they_were_asked(tmp_path: Path, command: str) -> None:
    (tmp_path / "echo.py").write_text(ECHO, encoding="utf-8")

    result = answers(tmp_path, command, "b", "a", "c")

    assert [report(item).final_output for item in result] == ["QUESTION B", "QUESTION A", "QUESTION C"]


def test_suites_and_repetitions_have_runs_of_their_own(tmp_path: Path) -> None:
    line = 'echo {SUITE} {REPETITION} >> runs; printf \'{"id": "a", "text": "%s %s"}\' {SUITE} {REPETITION}'
    cells = [("math", 1), ("math", 2), ("art", 1)]
    requests = [
        a_call(tmp_path / f"{suite}-{number}", a_plan(a_case("a"), suite=suite, repetition=number))
        for suite, number in cells
    ]

    result = asyncio.run(a_batch_runner(tmp_path, line).execute_batch(requests))

    assert [report(item).final_output for item in result] == ["math 1", "math 2", "art 1"]
    assert (tmp_path / "runs").read_text().splitlines() == ["math 1", "math 2", "art 1"]


def test_the_placeholders_of_a_batch_are_not_those_of_a_case(tmp_path: Path) -> None:
    line = 'printf \'{"id": "a", "text": "<%s> %s %s %s"}\' {PROMPT} {EVAL_ID} {SUITE} {ATTEMPT}'

    (result,) = answers(tmp_path, line, "a")

    assert report(result).final_output == "<> batch math 1"


def test_a_batch_is_told_of_its_cases_only_what_makes_them_others(tmp_path: Path) -> None:
    (tmp_path / "keys.py").write_text(
        "import json, sys\n"
        "for case in map(json.loads, open(sys.argv[1])):\n"
        "    print(json.dumps({'id': case['id'], 'text': ' '.join(case)}))\n"
    )
    call = a_call(tmp_path / "a", a_plan(a_case("a", metadata={"hint": "4"}, tags=("easy",))))

    (result,) = asyncio.run(a_batch_runner(tmp_path, "python3 keys.py {CASES_FILE}").execute_batch([call]))

    assert report(result).final_output == "id prompt input files"


KEY = "sk-1234567890"


@pytest.mark.parametrize("exit_code", [0, 3], ids=["answered", "broken"])
def test_no_secret_of_the_runner_stays_in_the_files_of_a_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, exit_code: int
) -> None:
    row = f'{{"id": "a", "text": "{KEY}"}}'
    command = f"echo key {KEY} >&2; echo '{row}' > {{OUTPUT_FILE}}; exit {exit_code}"
    adapter = a_batch_runner(tmp_path, command)
    runner = a_runner(adapter="command", secrets=(KEY,))

    async def main() -> None:
        work = Lane(runner=runner, adapter=adapter, plans=iter([a_plan(a_case("a"), runner)]))
        await Engine(sink=Sink(), folder_of=lambda plan: tmp_path / "files").carry_out([work])

    asyncio.run(main())

    batch = tmp_path / "files" / "batch"
    assert (batch / "stderr").read_text() == "key ***\n"
    assert (batch / "output").read_text() == '{"id": "a", "text": "***"}\n'
    assert KEY not in caplog.text


def test_what_is_known_of_each_answer_is_kept_and_its_time_only_when_it_is_told(tmp_path: Path) -> None:
    call = {"tool": "add", "input": {"a": 2}}
    rows = [
        {"id": "a", "output": [{"role": "assistant", "content": "4", "tool_calls": [call]}], "cost_usd": 0.5,
         "token_usage": {"input": 9, "output": 4}, "duration_ms": 70},
        {"id": "b", "text": "5"},
    ]  # fmt: skip

    first, second = map(report, answers(tmp_path, writing(tmp_path, *rows), "a", "b"))

    assert (first.final_output, first.usage.input_tokens, first.usage.cost_usd) == ("4", 9, 0.5)
    assert [item.tool for item in first.tool_calls] == ["add"]
    assert (first.duration_ms, second.duration_ms) == (70, None)


def test_a_case_without_a_row_fails_alone(tmp_path: Path) -> None:
    first, second = answers(tmp_path, writing(tmp_path, {"id": "a", "text": "4"}, {"id": "z", "text": "?"}), "a", "b")

    assert report(first).final_output == "4"
    assert isinstance(second, TargetFailure)
    assert (second.failure.id, str(second)) == ("output-missing", "the batch's output has no row with the id 'b'")


def test_a_row_may_say_that_its_case_failed(tmp_path: Path) -> None:
    first, second = answers(tmp_path, writing(tmp_path, {"id": 1, "error": "no"}, {"id": "b", "answer": 4}), "1", "b")

    assert (report(first).failure_class, report(first).error) == ("target-error", "no")
    assert report(second).final_output == '{"answer":4}'


@pytest.mark.parametrize(
    ("command", "class_", "message"),
    [
        pytest.param(["echo", '{"id": "a"}\n{"id": "a"}'], "malformed-reply", "two rows with the id 'a' (line 2)",
                     id="twice"),
        pytest.param(["echo", "hello"], "malformed-reply", "line 1 of the batch's output is not valid JSON",
                     id="words"),
        pytest.param(["echo", '{"text": "4"}'], "malformed-reply", "line 1 of the batch's output is not an object with"
                     " an 'id'", id="no id"),
        pytest.param("exit 3", "target-crash", "exit code 3", id="crash"),
        pytest.param(["true", "{OUTPUT_FILE}"], "output-missing", "without writing {OUTPUT_FILE}", id="no output"),
        pytest.param(["no-such-program"], "target-crash", "cannot be started", id="no program"),
    ],
)  # fmt: skip
def test_a_batch_that_failed_as_a_whole_raises(tmp_path: Path, command: Any, class_: str, message: str) -> None:
    with pytest.raises(TargetFailure) as raised:
        answers(tmp_path, command, "a", "b")

    assert raised.value.failure.id == class_
    assert message in str(raised.value)


def test_a_batch_may_take_as_long_as_its_calls_together(tmp_path: Path) -> None:
    runner = a_batch_runner(tmp_path, ["sleep", "60"], timeout_s=0.01)

    with pytest.raises(TargetFailure, match=r"the batch did not end within 0\.2 s") as raised:
        asyncio.run(runner.execute_batch(calls(tmp_path, "a", "b", timeout_s=0.1)))

    assert raised.value.failure.id == "timeout"


def test_a_runner_says_whether_it_takes_batches(tmp_path: Path) -> None:
    assert a_batch_runner(tmp_path, ["cat"]).batches
    assert not a_batch_runner(tmp_path, ["cat"], batch=False).batches
    with pytest.raises(InputError, match="batch: a batch requires the format 'command', not 'codex'"):
        a_batch_runner(tmp_path, ["cat"], format="codex")
