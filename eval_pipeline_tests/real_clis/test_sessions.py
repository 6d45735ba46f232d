"""Real agent CLIs against a scripted model, through `eval-pipeline run`: what a session reports, and what it sees.

Needs the CLIs of `eval_pipeline_tests/real_clis/install.py` in the folder that AGENT_CLIS names; skipped otherwise.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.local_server import Received
from eval_pipeline_tests.real_clis.agent_runners import CLIS, KEY
from eval_pipeline_tests.real_clis.install import PACKAGES
from eval_pipeline_tests.real_clis.installed import installed, left_running
from eval_pipeline_tests.real_clis.model_server import scripted_model, turns_of
from eval_pipeline_tests.real_clis.sealed_project import CANARY, CASES, SealedProject, sealed_project

pytestmark = [pytest.mark.real_agents, pytest.mark.slow]
RUNS = {
    "": "",
    "-badmodel": "-badmodel",
    "-auth401": "-once",
    "-err429": "",
    "-tool_hang": "-hurried",
}
"""The suites of a CLI and the runner of each, by what is behind the CLI's name."""

CALLS = {"plain": 1, "dash": 1, "big": 2, "env": 2, "fail": 3, "files": 5, "skill": 2}
"""The cases of the first suite, and how many answers of the model each takes."""

SCENARIO_OF = {"dash": "plain"}
"""The scenario of a case that has not its name."""

MARKS = ("++", "--")
"""How the names of files begin in a diff, after the first sign."""

SKILLS_NEED_RIPGREP = {"opencode"}
"""CLIs whose tool for skills fails, and loads none, where the program `rg` is not on the PATH."""

RETRIES_OUTLAST_LIMITS = {"qwen"}
"""CLIs that try a refused call again for more than 200 s, and print nothing of it: time ends such a session."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one CLI's runs: the project, every request to the model, and how each command ended."""

    name: str
    sealed: SealedProject
    requests: list[Received]
    commands: Mapping[str, subprocess.CompletedProcess[str]]
    left: list[str]

    def rows(self, columns: str, suite: str) -> dict[str, tuple[Any, ...]]:
        query = (
            f"SELECT case_id, {columns} FROM current_verdicts v JOIN session_reports r USING (execution_id, case_id)"
        )
        return {row[0]: row[1:] for row in self.sealed.project.ask(f"{query} WHERE v.suite = '{self.name}{suite}'")}

    def failures(self, suite: str) -> list[str | None]:
        query = f"SELECT failure_class FROM current_verdicts WHERE suite = '{self.name}{suite}' ORDER BY case_id"
        return [row[0] for row in self.sealed.project.ask(query)]


ALL_AROUND = b"cat ../../*/*.yaml"
"""What the scenario `env` has an agent run, to see what is there."""


@pytest.fixture(scope="module", params=list(CLIS))
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    name, clis = request.param, installed(request.param)
    with scripted_model() as (server, _):
        sealed = sealed_project(tmp_path_factory.mktemp(name), server.url, clis, [name])
        commands = {
            suite: run_command(
                "run", f"suites/{name}{suite}.json", "--runner", _runner_of(name, suite), "--quiet",
                cwd=sealed.project.root, env=sealed.environment,
            )
            for suite in RUNS
        }  # fmt: skip
        yield Seen(name, sealed, server.requests, commands, left_running(sealed.environment))


def _runner_of(name: str, suite: str) -> str:
    hurried = suite == "-err429" and name in RETRIES_OUTLAST_LIMITS
    return f"{name}{'-hurried' if hurried else RUNS[suite]}"


def test_every_task_is_answered(seen: Seen) -> None:
    rows = seen.rows("v.status, r.final_output, r.failure_class, r.exit_code", "")

    assert seen.commands[""].returncode == 0, seen.commands[""].stderr
    assert rows == {case: ("passed", f"Done: scenario {SCENARIO_OF.get(case, case)} ended.", None, 0) for case in CALLS}


def test_every_task_is_done_in_the_workspace_and_nowhere_else(seen: Seen) -> None:
    changes = {case: row[0] or "" for case, row in seen.rows("r.file_changes", "").items()}

    changed = [line for line in changes["files"].splitlines() if line.startswith(("+", "-")) and line[1:3] not in MARKS]
    assert changed == ["-line two", "+line TWO", "+alpha", "+beta"]
    assert {case for case, diff in changes.items() if diff} == {"files"}


def test_what_tools_printed_and_how_they_failed_reached_the_model(seen: Seen) -> None:
    told = {name: "\n".join(_results(seen, name)) for name in ("files", "fail")}

    assert "3 notes.txt" in told["files"]
    assert "to-stdout" in told["fail"]
    assert "to-stderr" in told["fail"]


def test_a_prompt_reaches_the_model_as_it_was_written(seen: Seen) -> None:
    prompts = {turn.text for request in seen.requests for turn in turns_of(request) if turn.role == "user"}

    assert [case for case, prompt in CASES.items() if not any(prompt in text for text in prompts)] == []


def test_the_text_of_a_skill_reached_the_model(seen: Seen) -> None:
    """Some CLIs send it as the result of a tool, others in the user's place."""
    told = any(b"Say that the demo ran." in request.body for request in seen.requests)

    assert told is _loads_skills(seen)


def _results(seen: Seen, scenario: str) -> list[str]:
    """Return the results of tools that the model was sent in a scenario."""
    talks = (turns_of(request) for request in seen.requests if f"[[script:{scenario}]]".encode() in request.body)
    return [turn.text for talk in talks for turn in talk if turn.is_result]


def test_a_command_that_fails_is_no_success(seen: Seen) -> None:
    query = (
        "SELECT event->>'exit_code' FROM session_events "
        f"WHERE case_id = 'fail' AND suite = '{seen.name}' AND kind = 'command' AND text LIKE '%exit 3%'"
    )
    codes = [row[0] for row in seen.sealed.project.ask(query)]

    assert codes == ["3"]


def test_model_version_and_number_of_calls_are_known(seen: Seen) -> None:
    rows = seen.rows("r.model, r.agent_version, r.model_calls", "")

    assert {row[0].rpartition("/")[2] for row in rows.values()} == {"scripted"}
    assert {row[1].rpartition("@")[2] for row in rows.values()} == {PACKAGES[seen.name][1]}
    assert {case: row[2] for case, row in rows.items()} == CALLS


def test_the_report_has_the_models_tokens_and_the_agents_doings(seen: Seen) -> None:
    rows = seen.rows("r.input_tokens, r.output_tokens, r.commands, len(r.file_reads), r.skills", "")

    calls = CLIS[seen.name].calls_of_an_answer
    assert rows["plain"][:3] == (1000 * calls, 50 * calls, 0)
    assert rows["files"][:2] == (6000, 260)
    assert rows["fail"][:2] == (3300, 153)
    assert rows["files"][2] >= 1
    assert rows["files"][3] >= 1
    assert ("demo-skill" in rows["skill"][4]) is _loads_skills(seen)


def _loads_skills(seen: Seen) -> bool:
    has_ripgrep = shutil.which("rg", path=seen.sealed.environment["PATH"]) is not None
    return seen.name not in SKILLS_NEED_RIPGREP or has_ripgrep


def test_a_rejected_model_costs_one_session(seen: Seen) -> None:
    assert seen.failures("-badmodel") == ["model-rejected", "stopped"]


def test_a_rejected_login_costs_one_session(seen: Seen) -> None:
    assert seen.failures("-auth401") == ["authentication", "stopped"]


def test_a_rate_limit_is_named(seen: Seen) -> None:
    ending = "timeout" if seen.name in RETRIES_OUTLAST_LIMITS else "rate-limited"
    assert seen.failures("-err429") == [ending] * 2


def test_a_tool_that_hangs_ends_with_the_time_limit_or_the_tools_own(seen: Seen) -> None:
    assert set(seen.failures("-tool_hang")) <= {"timeout", None}


def test_nothing_goes_on_after_a_run(seen: Seen) -> None:
    assert seen.left == []


def test_nothing_of_the_user_reaches_the_model(seen: Seen) -> None:
    told = [request.path for request in seen.requests if CANARY.encode() in request.body]

    assert told == []


def test_neither_canaries_nor_keys_reach_the_disk(seen: Seen) -> None:
    assert seen.sealed.files_with(f"{CANARY}-") == []
    assert seen.sealed.files_with(KEY) == []


def test_a_session_saw_its_own_folder_and_no_project(seen: Seen) -> None:
    """By what the model was sent: Codex does not always print a command that ends at once."""
    told = b"".join(request.body for request in seen.requests if ALL_AROUND in request.body)

    assert b"notes.txt" in told
    assert str(seen.sealed.project.root).encode() not in told
