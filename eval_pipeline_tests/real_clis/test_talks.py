"""Conversations with real agent CLIs against a scripted model: the second turn goes on with the first one's session."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.real_clis.agent_runners import CLIS
from eval_pipeline_tests.real_clis.installed import installed, left_running
from eval_pipeline_tests.real_clis.model_server import scripted_model, turns_of
from eval_pipeline_tests.real_clis.sealed_project import sealed_project

pytestmark = [pytest.mark.real_agents, pytest.mark.slow]


@pytest.mark.parametrize("name", list(CLIS))
def test_the_second_turn_goes_on_with_the_session_of_the_first(tmp_path: Path, name: str) -> None:
    clis = installed(name)
    with scripted_model() as (server, _):
        sealed = sealed_project(tmp_path, server.url, clis, [name])
        done = run_command("run", f"suites/{name}-talk.json", "--runner", name, "--quiet", cwd=sealed.project.root,
                           env=sealed.environment)  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    calls = 2 * CLIS[name].calls_of_an_answer
    assert sealed.project.ask("SELECT input_tokens, output_tokens FROM session_reports") == [(1000 * calls, 50 * calls)]
    talks = [[(turn.role, turn.text) for turn in turns_of(request)] for request in server.requests]
    asked = [talk for talk in talks if any("[[script:second]]" in text for _, text in talk)]
    assert asked
    for talk in asked:
        first, answer, second = (
            next(at for at, (role, text) in enumerate(talk) if role == of and words in text)
            for of, words in (("user", "[[script:plain]]"), ("assistant", "plain ended"), ("user", "[[script:second]]"))
        )
        assert first < answer < second
    assert left_running(sealed.environment) == []
