"""What every part has to keep, whoever adds one: evaluators, adapters, normalizers and formats.

A new part needs an entry in EVALUATOR_ARGUMENTS, ADAPTER_SETTINGS or SUITES here; a test says so when it has none.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import RawExecution, Runner
from eval_pipeline.executions.runners import load_runners
from eval_pipeline.exports import EXPORTS
from eval_pipeline.plugins import PluginError, Registry, canonical_name
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import NORMALIZERS, normalize, normalizer_version
from eval_pipeline.scores.evaluate import EVALUATORS, EvaluatorSet, bind, build, evaluate_with
from eval_pipeline.scores.model import Score, Subject
from eval_pipeline.suites.load import FORMATS, load_suite
from eval_pipeline.suites.model import Case, EvaluatorSpec
from eval_pipeline.suites.solutions import Solution
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_evaluator, an_execution
from eval_pipeline_tests.local_server import chat_reply, json_reply, serve
from eval_pipeline_tests.scores.fake_grader import MembersDesk

REGISTRIES: list[Registry[Any]] = [EVALUATORS, ADAPTERS, NORMALIZERS, FORMATS, EXPORTS]
PARTS = [pytest.param(part, id=f"{registry.kind}-{name}") for registry in REGISTRIES for name, part in registry]

ODD_TEXT = "é 😀 \" ' : # - | {x} \\n"
EVALUATOR_ARGUMENTS: dict[str, dict[str, Any]] = {
    "agent-rubric": {"value": [ODD_TEXT, {"id": "a", "outcome": "yes", "weight": 0.5}], "graders": ["one", "two"]},
    "assert-set": {"assertions": [{"type": "contains", "value": ODD_TEXT}, ODD_TEXT], "threshold": 0.5},
    "code-grader": {"command": [sys.executable, "grader.py", ODD_TEXT], "target": {"max_calls": 3}, "words": ODD_TEXT},
    "commands": {"includes": [ODD_TEXT, {"executable": "npm", "options": {"--x": [ODD_TEXT, True]}}], "size": 3},
    "composite": {
        "assertions": [{"type": "equals", "name": "same", "value": "yes", "weight": 2}, {"type": "is-json"}],
        "aggregator": {"type": "weighted_average", "weights": {"same": 3}},
    },
    "contains": {"value": ODD_TEXT},
    "contains-all": {"value": ["yes", ODD_TEXT]},
    "contains-any": {"value": ["yes", ODD_TEXT]},
    "conversation": {"aggregation": "max", "turns": [{"turn": 1, "assertions": [], "criteria": ODD_TEXT}]},
    "cost": {"budget": 0.1, "on_missing": "fail"},
    "ends-with": {"value": ODD_TEXT},
    "equals": {"value": "yes"},
    "execution-metrics": {"max_tool_calls": 3, "target_exploration_ratio": 0.5},
    "tool-state": {"expected": {ODD_TEXT: {"n": 1}}, "match": "whole"},
    "expected-calls": {"calls": [{"tool": "read", "arguments": {"path": ODD_TEXT}}], "forbidden": ["delete"]},
    "field-accuracy": {"fields": [{"path": "a[0].b", "match": "numeric_tolerance", "tolerance": 0.1}]},
    "file-changes": {"must_change": ["src/**/*.py"], "must_not_change": [ODD_TEXT], "max_lines": 20},
    "file-reads": {"first": ODD_TEXT, "at_most": {"match": {"regex": "\\.md$", "flags": "i"}, "number": 2}},
    "icontains": {"value": ODD_TEXT},
    "icontains-all": {"value": ["no", "off", "1", "null"]},
    "icontains-any": {"value": ["~", "0x10", "2026-01-15", "1_000"]},
    "is-json": {},
    "javascript": {"value": "return context.config.word !== output // \n  && 0.5", "config": {"word": ODD_TEXT}},
    "judge": {"outcomes": [ODD_TEXT, {"outcome": "read", "expected": False}], "metrics": ["tool_routing"], "votes": 3},
    "latency": {"threshold": 1500},
    "llm-grader": {"prompt": ODD_TEXT, "target": "strict", "votes": 3, "vote": "median", "temperature": 0.5},
    "llm-rubric": {"value": ODD_TEXT, "grades": {"C": 1.0, "I": 0.0}},
    "output": {"includes": [ODD_TEXT, {"regex": "yes|no"}], "not_empty": True},
    "python-check": {"file": "suite.py", "timeout_s": 5, "classifies": True},
    "python": {"function": "checks:check", "arguments": {"limit": 3, "words": [ODD_TEXT, None, True]}},
    "recorded-score": {"score": ODD_TEXT, "range": [10.0, 0.0], "labels": {"good": 1.0}},
    "regex": {"value": r"^\s*(?<answer>\d+)\b: #\\", "flags": "im"},
    "rubrics": {"criteria": [ODD_TEXT, {"id": "a", "score_ranges": {"0": "no", "5": "yes"}, "min_score": 0.5}]},
    "script": {"command": [sys.executable, "grader.py"], "timeout_s": 30, "words": ODD_TEXT},
    "similar": {"config": {"embedding_provider": {"model": "m", "base_url": "http://127.0.0.1:9"}}, "threshold": 0.9},
    "skill-trigger": {"skill": "tidy", "should_trigger": False},
    "skill-used": {"value": {"pattern": "tid?", "min": 1, "max": 2}, "on_missing": "fail"},
    "skills": {"has": "tidy", "only": ["tidy", ODD_TEXT], "min_confidence": "strong"},
    "starts-with": {"value": "  yes"},
    "tool-calls": {"sequence": ["read", {"tool": {"regex": "^ed"}, "args": {"path": ODD_TEXT}}]},
    "tool-trajectory": {"mode": "in_order", "expected": [{"tool": "read", "args": {"path": [ODD_TEXT, 1, None]}}]},
    "token-usage": {"max_total": 100, "max_output": 10.5},
    "trajectory:goal-success": {"value": {"goal": ODD_TEXT}, "provider": "strict"},
    "trajectory:step-count": {"value": {"type": ["tool", "command"], "pattern": "npm*", "max": 3}},
    "trajectory:tool-args-match": {"value": {"name": "read", "args": {"path": [ODD_TEXT, 1, None]}, "ignore": "x*"}},
    "trajectory:tool-sequence": {"value": {"steps": ["read", {"name": ODD_TEXT}], "mode": "exact"}},
    "trajectory:tool-used": {"value": ["read", ODD_TEXT]},
    "turn": {"turn": 1, "assertions": [{"type": "contains", "value": ODD_TEXT}], "criteria": ODD_TEXT},
    "webhook": {"value": "http://127.0.0.1:9/check?a=b", "threshold": 0.5},
}
OPPOSITES = sorted(name for name in EVALUATORS.names() if name.startswith("not-"))
EVALUATOR_ARGUMENTS |= {
    name: EVALUATOR_ARGUMENTS[base] for name in OPPOSITES if (base := name[4:]) in EVALUATOR_ARGUMENTS
}
EVALUATOR_ARGUMENTS["not-skill-used"] = {"value": ["tidy", ODD_TEXT]}
EVALUATOR_ARGUMENTS["not-trajectory:tool-used"] = EVALUATOR_ARGUMENTS["trajectory:tool-used"]
PASSES_ARGUMENTS_ON = ("code-grader", "script")  # to the user's program
EVALUATOR_ARGUMENTS["tests"] = {
    "command": [sys.executable, "-c", ODD_TEXT],
    "junit": "results.xml",
    "fail_to_pass": ["a"],
}
ADAPTER_SETTINGS: dict[str, dict[str, Any]] = {
    "agent": {"agent": "codex", "executable": sys.executable, "args": ["agent.py"], "env": {"GREETING": ODD_TEXT}},
    "chat": {"base_url": "http://127.0.0.1:9/v1", "model": "m", "temperature": 0.5, "stop": ["\n"], "body": {"n": 1}},
    "command": {"command": [sys.executable, "program.py", "{CASE_ID}"], "env": {"GREETING": ODD_TEXT}},
    "copilot-log": {"session_dir": "events.jsonl"},
    "endpoint": {"url": "http://127.0.0.1:9/agent/respond", "headers": {"x-greeting": "hi"}},
    "mock": {"response": ODD_TEXT, "responses": {"c2": {"text": ODD_TEXT}}},
    "nop": {},
    "oracle": {},
    "prepared": {"folder": ".", "response": "checks.py"},
    "python": {"function": "answers:answer", "arguments": {"extra": ODD_TEXT}},
    "replay": {"recording": "recording.jsonl"},
}
SUITES: dict[str, str] = {
    "agentv-yaml": "name: small\ntests:\n  - id: c1\n    input: hi\n    assertions: [{type: contains, value: hi}]\n",
    "agentv-jsonl": '{"id": "c1", "input": "hi", "assertions": [{"type": "contains", "value": "hi"}]}\n',
    "agent-skills": '{"skill_name": "small", "evals": [{"id": "c1", "prompt": "hi", "expected_output": "hi"}]}\n',
    "skillgym": "from eval_pipeline import Case\n\nsuite = [Case(id='c1', prompt='hi', check=print)]\n",
    "connexity": '{"id": "c1", "name": "small", "initial_message": "hi", "expected_outcomes": {"greeted": true}}\n',
}
USER_FILES = {
    "suite.py": "from eval_pipeline import Case\n\nsuite = [Case(id='c1', prompt='hi', check=print)]\n",
    "checks.py": "def check(output, limit, words): return len(output) <= limit\n",
    "grader.py": "import json, sys\nprint(json.dumps({'score': json.load(sys.stdin)['answer'] == 'yes'}))\n",
    "exec": """print('{"type": "item.completed", "item": {"type": "agent_message", "text": "4"}}')
print('{"type": "turn.completed"}')
""",
    "answers.py": "def answer(prompt, extra): return prompt + extra\n",
    "program.py": "import os, sys\nprint(sys.argv[1] + os.environ['GREETING'])\n",
    "recording.jsonl": '{"case": "c1", "output": "4"}\n',
    "events.jsonl": '{"type": "assistant.message", "data": {"content": "4"}}\n{"type": "session.shutdown"}\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with the files that the settings and arguments above name."""
    for name, text in USER_FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


# All parts.


@pytest.mark.parametrize("part", PARTS)
def test_a_part_says_what_it_does(part: Any) -> None:
    module = inspect.getmodule(part)

    assert part.__doc__
    assert not part.__doc__.startswith(f"{part.__name__}(")  # what a dataclass would say of itself
    assert module is not None
    assert module.__doc__


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_names_are_canonical_and_taken_once(registry: Registry[Any]) -> None:
    names = registry.names()

    assert names == [canonical_name(name) for name in names]
    for name in names:
        with pytest.raises(PluginError, match=f"two parts claim the {registry.kind} '{name}'"):
            registry.register(name)(object())


def defined_in(part: Any) -> str:
    """The module of a part; installed plug-ins bring others than ours."""
    return str(getattr(part, "__module__", None) or type(part).__module__)


@pytest.mark.parametrize(
    ("registry", "examples"),
    [(EVALUATORS, EVALUATOR_ARGUMENTS), (ADAPTERS, ADAPTER_SETTINGS), (FORMATS, SUITES)],
    ids=["evaluators", "adapters", "formats"],
)
def test_every_part_has_an_example_here(registry: Registry[Any], examples: dict[str, Any]) -> None:
    shipped = [name for name in registry.names() if defined_in(registry.get(name)).startswith("eval_pipeline.")]

    assert sorted(examples) == shipped


# Evaluators.

ALL_EVALUATORS = pytest.mark.parametrize("name", EVALUATOR_ARGUMENTS)
EMPTY = SessionReport(execution_id="e1")
FULL = SessionReport(execution_id="e1", final_output="yes", duration_ms=10.0, unknown_events={"odd": 1})


def spec_of(name: str, **changes: Any) -> EvaluatorSpec:
    return dataclasses.replace(an_evaluator(name, **EVALUATOR_ARGUMENTS[name]), **changes)


def score(spec: EvaluatorSpec, report: SessionReport, folder: Path, case: Case | None = None) -> Score:
    case = case or a_case()
    bound = [bind(spec, case, folder)]
    (result,) = asyncio.run(evaluate_with(MembersDesk(), Subject(case, report, folder), bound))
    return result._replace(duration_ms=None)


@ALL_EVALUATORS
def test_an_evaluator_is_a_frozen_dataclass_that_says_what_its_scores_depend_on(name: str) -> None:
    part = EVALUATORS.get(name)

    assert dataclasses.is_dataclass(part)
    assert part.__dataclass_params__.frozen
    assert part.version
    assert set(part.reads) <= {field.name for field in dataclasses.fields(Case)}


@ALL_EVALUATORS
def test_an_evaluators_arguments_survive_yaml_and_back(name: str, folder: Path) -> None:
    spec = spec_of(name)
    test = {"id": "c1", "input": "hi", "assertions": [{"type": name, "name": "mine", **spec.config}]}
    (folder / "suite.yaml").write_text(yaml.safe_dump({"tests": [test]}, allow_unicode=True), encoding="utf-8")

    suite = load_suite(folder / "suite.yaml")
    (bound,) = EvaluatorSet(suite).of(suite.cases[0])

    assert suite.warnings == ()
    assert bound.evaluator == build(spec)


@pytest.mark.parametrize("name", [name for name in EVALUATOR_ARGUMENTS if name not in PASSES_ARGUMENTS_ON])
def test_an_evaluator_refuses_an_argument_it_does_not_know(name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} nobody_knows_this: unknown argument; "):
        build(an_evaluator(name, **EVALUATOR_ARGUMENTS[name], nobody_knows_this=1))


@ALL_EVALUATORS
@pytest.mark.parametrize("report", [EMPTY, FULL], ids=["empty", "full"])
def test_an_evaluator_changes_nothing_and_gives_the_same_answer_twice(
    name: str, report: SessionReport, folder: Path
) -> None:
    case = a_case(metadata={"deep": [1, {"a": 2}]}, evaluators=(spec_of(name),))
    before = copy.deepcopy((case, report))

    first, second = (score(case.evaluators[0], report, folder, case) for _ in range(2))

    assert first == second
    assert (case, report) == before


@ALL_EVALUATORS
def test_an_evaluator_gives_a_reason_even_for_an_empty_report(name: str, folder: Path) -> None:
    result = score(spec_of(name), EMPTY, folder)

    assert result.reason
    assert "evaluator failed" not in result.reason
    assert result.value is None or 0 <= result.value <= 1


@ALL_EVALUATORS
@pytest.mark.parametrize("report", [EMPTY, FULL], ids=["empty", "full"])
def test_an_evaluator_and_its_opposite_add_up_to_one_or_neither_can_tell(
    name: str, report: SessionReport, folder: Path
) -> None:
    value, opposite = (score(spec_of(name, negate=negate), report, folder).value for negate in (False, True))

    assert opposite == (None if value is None else 1 - value)


# Adapters.

ALL_ADAPTERS = pytest.mark.parametrize("name", ADAPTER_SETTINGS)


def runner_of(name: str, folder: Path, **settings: Any) -> Runner:
    return a_runner(adapter=name, settings={**ADAPTER_SETTINGS[name], **settings}, folder=folder)


@ALL_ADAPTERS
def test_an_adapter_says_its_version_and_how_patient_it_is(name: str) -> None:
    part = ADAPTERS.get(name)

    assert part.version
    assert part.default_timeout_s > 0
    assert isinstance(part.retries_timeouts, bool)
    assert set(ADAPTER_SETTINGS[name]) <= set(part.settings)


@ALL_ADAPTERS
def test_an_adapters_settings_survive_yaml_and_back(name: str, folder: Path) -> None:
    entry = {"name": "mine", "adapter": name, **ADAPTER_SETTINGS[name]}
    (folder / "runners.yaml").write_text(yaml.safe_dump({"runners": [entry]}, allow_unicode=True), encoding="utf-8")

    (runner,) = load_runners(folder / "runners.yaml", {})

    assert (runner.adapter, runner.settings) == (name, ADAPTER_SETTINGS[name])


@pytest.mark.parametrize("name", [name for name, given in ADAPTER_SETTINGS.items() if given])
def test_an_adapter_without_settings_names_the_one_that_is_missing(name: str, folder: Path) -> None:
    with pytest.raises(InputError) as raised:
        ADAPTERS.get(name)(a_runner(adapter=name, folder=folder))

    assert raised.value.place.field in ADAPTERS.get(name).settings


@pytest.fixture(scope="module")
def model_server() -> Iterator[str]:
    answer = {"role": "assistant", "content": "4"}
    with serve(json_reply({**chat_reply("4").json, "messages": [answer]})) as server:
        yield server.url


@ALL_ADAPTERS
def test_an_adapter_changes_nothing_and_its_answer_can_be_read(name: str, folder: Path, model_server: str) -> None:
    addresses = {key: model_server for key in ("base_url", "url") if key in ADAPTER_SETTINGS[name]}
    plan = a_plan(a_case(solution=Solution(command=("true",))), runner_of(name, folder, **addresses))
    before = copy.deepcopy(plan)

    contents, reports = asyncio.run(carried_out_twice(plan, folder))

    assert plan == before
    assert contents[0] == contents[1]
    assert reports[0].final_output
    assert reports[0].failure_class is None
    without_time = [dataclasses.replace(report, duration_ms=None) for report in reports]
    assert without_time[0] == without_time[1]


async def carried_out_twice(plan: Any, folder: Path) -> tuple[list[Any], list[SessionReport]]:
    """What an adapter says its answers depend on, and the reports of two answers to one case."""
    adapter = ADAPTERS.get(plan.runner.adapter)(plan.runner)
    contents, reports = [], []
    for attempt in (1, 2):
        contents.append(adapter.content())
        call = a_call(folder / "files", plan, attempt=attempt)
        raw = await adapter.execute(
            dataclasses.replace(call, workspace=folder) if plan.runner.adapter == "oracle" else call
        )
        reports.append(normalize(an_execution(plan, raw=raw), plan.case, plan.runner))
    await adapter.close()
    return contents, reports


# Normalizers.

RAW_TEXTS = {
    "nothing": None,
    "empty": b"",
    "blank-lines": b"\n\n",
    "odd-bytes": b"\xff\xfe\x00\n",
    "words": b"hello\n",
    "other-json": b'{"type": "nobody-knows", "deep": {"a": [1]}}\n[1]\n42\nnull\n',
    "half-json": b'{"type": "result", "resu',
    "empty-objects": b"{}\n{}\n",
}


@pytest.mark.parametrize("name", NORMALIZERS.names())
@pytest.mark.parametrize("content", RAW_TEXTS.values(), ids=RAW_TEXTS)
def test_a_normalizer_takes_anything_changes_nothing_and_gives_the_same_report_twice(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(content or b"")
    files = {} if content is None else {"stdout": path, "stderr": path}
    raw = RawExecution(format=name, payload={"deep": [1, {"a": 2}]}, files=files, exit_code=0)
    before = copy.deepcopy(raw)

    first, second = (normalize(an_execution(raw=raw), a_case(), a_runner()) for _ in range(2))

    assert first == second
    assert raw == before
    assert path.read_bytes() == (content or b"")
    assert first.failure_class is None or first.error


@pytest.mark.parametrize("name", NORMALIZERS.names())
def test_a_report_of_nothing_says_why_it_has_no_output(name: str) -> None:
    report = normalize(an_execution(raw=RawExecution(format=name)), a_case(), a_runner())

    assert report.usage.total_tokens is None
    assert report.final_output in (None, "")
    assert report.failure_class is None or report.error


@pytest.mark.parametrize("name", NORMALIZERS.names())
def test_a_normalizer_says_its_version(name: str) -> None:
    assert normalizer_version(name) == f"{name}/{NORMALIZERS.get(name)().version}"


# Formats.

ALL_FORMATS = pytest.mark.parametrize("name", SUITES)


def suffix_of(name: str) -> str:
    return FORMATS.get(name)().suffixes[0]


@ALL_FORMATS
def test_a_formats_suffixes_are_suffixes(name: str) -> None:
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in FORMATS.get(name)().suffixes)


@ALL_FORMATS
def test_a_format_recognizes_its_own_suites_and_loads_them_the_same_twice(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"small{suffix_of(name)}"
    path.write_text(SUITES[name], encoding="utf-8")

    first, second = load_suite(path), load_suite(path)

    assert first == second
    assert (first.format, first.name, first.errors, first.warnings) == (name, "small", (), ())
    assert [case.id for case in first.cases] == ["c1"]
    assert path.read_text(encoding="utf-8") == SUITES[name]


@ALL_FORMATS
@pytest.mark.parametrize("cut", [0.0, 0.3, 0.6, 0.9])
def test_a_format_loads_half_a_suite_or_says_where_it_went_wrong(name: str, cut: float, tmp_path: Path) -> None:
    path = tmp_path / f"small{suffix_of(name)}"
    path.write_text(SUITES[name][: int(len(SUITES[name]) * cut)], encoding="utf-8")

    try:
        errors = list(load_suite(path).errors)
    except InputError as error:
        errors = [error]

    assert all(str(path) in str(error) for error in errors)


@ALL_FORMATS
def test_changing_a_suite_changes_its_revision(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"small{suffix_of(name)}"
    path.write_text(SUITES[name], encoding="utf-8")
    before = load_suite(path).revision
    path.write_text(SUITES[name].replace("hi", "ho"), encoding="utf-8")

    assert load_suite(path).revision != before
