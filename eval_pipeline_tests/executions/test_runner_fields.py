"""The tables of runners' fields and the readers agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.runner_fields import RUNNER, runner_fields
from eval_pipeline.executions.runners import UnusableRunner, load_runners
from eval_pipeline_tests.builders import a_runner
from eval_pipeline_tests.test_contracts import ADAPTER_SETTINGS
from eval_pipeline_tests.watched_keys import WatchedKeys

WRONG: dict[str, object] = {
    "tags": 3, "timeout_s": 0, "concurrency": 0, "retries": "often", "prices": 3, "grader": 3, "fallbacks": 3,
    "adapter": 3, "use": 3, "max_output_mb": 0, "isolation": "none", "simulator": 3,
    "arms": 3, "grader_payload": "trace",
}  # fmt: skip
EACH_ADAPTER = pytest.mark.parametrize("adapter", ADAPTERS.names())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "events.jsonl").write_text('{"type": "session.shutdown"}\n')
    (tmp_path / "recording.jsonl").write_text('{"case": "c1", "output": "4"}\n')
    (tmp_path / "answers.py").write_text("def answer(prompt): return prompt\n")
    return tmp_path


@EACH_ADAPTER
def test_an_adapter_looks_for_the_settings_of_its_table_and_no_others(adapter: str, folder: Path) -> None:
    table = ADAPTERS.get(adapter).settings
    settings = WatchedKeys(ADAPTER_SETTINGS[adapter])
    runner = a_runner(adapter=adapter, folder=folder)
    ADAPTERS.get(adapter)(replace(runner, settings=settings, public_settings=dict(settings)))

    handed_on = {  # by copies; where chosen; what is stored only
        "agent": set(table),
        "copilot-log": {"session_id", "session_state_dir"},
        "endpoint": {"system_prompt", "tools"},
    }
    assert sorted(settings.keys_read - table.names) == []
    assert sorted(table.names - settings.keys_read - {"model"} - handed_on.get(adapter, set())) == []


@EACH_ADAPTER
def test_an_adapters_settings_are_no_fields_of_every_runner(adapter: str) -> None:
    assert sorted(ADAPTERS.get(adapter).settings.names & RUNNER.names) == []


FIELDS = {f"{name}.{field.name}": field for name in ADAPTERS.names() for field in runner_fields(name).values()}


def test_a_field_is_described_in_one_sentence() -> None:
    docs = {name: field.doc for name, field in FIELDS.items()}

    assert docs
    assert {name: doc for name, doc in docs.items() if not (doc[:1].isupper() and doc.endswith("."))} == {}


@pytest.mark.parametrize("field", sorted(set(RUNNER) - {"name", "description"}))
def test_a_field_of_a_runner_is_read(field: str, tmp_path: Path) -> None:
    value = WRONG[field]
    file = tmp_path / "runners.yaml"
    file.write_text(f"runners:\n  - {{name: a, adapter: mock, response: x, {field}: {value!r}}}\n".replace(
        "adapter: mock, response: x, adapter", "response: x, adapter"
    ))  # fmt: skip

    (runner,) = load_runners(file, {})

    assert isinstance(runner, UnusableRunner)
    assert (runner.problem.place.field or "").endswith(field)


def test_an_unknown_field_of_a_runner_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "runners.yaml"
    file.write_text("runners:\n  - {name: a, adapter: mock, response: x, timeout: 3}\n")

    (runner,) = load_runners(file, {})

    assert isinstance(runner, UnusableRunner)
    assert "unknown setting; there are: adapter, " in runner.problem.problem
    assert "did you mean 'timeout_s'?" in runner.problem.problem


def test_the_fields_of_an_adapter_join_those_of_every_runner() -> None:
    assert list(runner_fields("mock"))[: len(RUNNER)] == list(RUNNER)
    assert "response" in runner_fields("mock")
    assert "response" not in runner_fields()
    with pytest.raises(InputError, match="no adapter 'mok'"):
        runner_fields("mok")
