"""Connexity's recorded facts about test cases: reading them, their older generations, and which of them run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.planning import pair_cases
from eval_pipeline.executions.tool_sets import declared_tools
from eval_pipeline.formats.connexity.generations import Generation, as_generation
from eval_pipeline.parsing.fields import DETACHED
from eval_pipeline.suites.conversion import ConversionLoss
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.model import Case
from eval_pipeline_tests.builders import a_runner
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations, Problem
from eval_pipeline_tests.conformance.recorded_facts import Row, conformance_folder

_FORMS: Mapping[str, Mapping[str, Any]] = {
    "g0": {"persona": {"type": "t", "description": "d", "instructions": "i"}},
    "g1": {"persona_context": "p"},
    "g2": {"persona_context": "p", "first_turn": "user"},
}
"""What a case needs besides so that its generation is plain to see."""
_CONFIGS: Mapping[str, str | None] = {
    "RunConfig": None, "JudgeConfig": "judge", "UserSimulatorConfig": "user_simulator",
    "AgentSimulatorConfig": "agent_simulator",
}  # fmt: skip
KINDS = ("test_case.schema", "run_config.schema")
_EXAMPLES = {"g0": "g0-page-schema", "g1": "g1-eval-config", "g2": "g2-current"}


def observe(row: Row) -> Observations:
    """Load what a row about the schema of cases or run configurations gives, in each of its generations."""
    with tempfile.TemporaryDirectory() as folder:
        observe_one = _observe_case if row.kind == "test_case.schema" else _observe_config
        seen = [observe_one(row.data, generation, Path(folder)) for generation in row.data["generations"]]
    problems = dict.fromkeys(problem for each in seen for problem in each.problems)
    values = {name: value for each in reversed(seen) for name, value in each.values.items()}
    accepted = [generation for generation, each in zip(row.data["generations"], seen, strict=True) if each.values]
    alike = all(each.values == values for each in seen if each.values)
    return {
        AS_WRITTEN: Observation(
            problems=tuple(problems), values={**values, "accepted": accepted, "alike": alike} if values else {}
        )
    }


def check(row: Row, observation: Observation) -> None:
    """Check that what is valid there is valid here and means the same, and that all else is refused."""
    expected = row.data["expected"]
    if not expected.get("valid", expected.get("http") != 422):
        detail = expected.get("detail_lower", {}).get("$contains", "")
        assert observation.errors
        assert not observation.values
        assert all(detail in f"{error.field}: {error.text}".lower() for error in observation.errors)
        return
    assert observation.errors == ()
    assert (observation.values["accepted"], observation.values["alike"]) == (row.data["generations"], True)
    facts = {name: value for name, value in expected.items() if name not in ("valid", "normalized", "error")}
    for name, value in {**facts, **expected.get("normalized", {})}.items():
        assert observation.values[name] == _AS_READ.get(name, lambda value: value)(value), name


def _observe_case(data: Mapping[str, Any], generation: str, folder: Path) -> Observation:
    given = {name: _text(value) for name, value in data["input"].items()}
    raw = {**({} if data["op"] == "create" else {"name": "n"}), **_FORMS[generation], **given}
    expected = data["expected"]
    named = {"name", *(name for name in (*given, *expected, *expected.get("normalized", {})) if name in _VALUES)}
    return _observed(lambda: {name: _VALUES[name](case, raw) for case in [_load(raw, folder)] for name in named})


def _observe_config(data: Mapping[str, Any], generation: str, folder: Path) -> Observation:
    given, within = data["input"], _CONFIGS
    if data["op"] not in within:
        return _observed(lambda: {"tools": sorted(declared_tools([_tool(given, data["op"])]).names)})
    name = within[data["op"]]
    config = given if name is None else {name: given}
    return _observed(lambda: {"cases": [case.id for case in _load_set([{}], folder, config=config)]})


def _observed(load: Callable[[], Mapping[str, Any]]) -> Observation:
    try:
        return Observation(values=load())
    except InputError as error:
        return Observation(problems=(Problem(error.place.field or "", error.problem),))


def _tool(given: Mapping[str, Any], op: str) -> Mapping[str, Any]:
    """A tool with an implementation that has a time limit, in a form that we carry out."""
    kind = {"type": "python"} if op == "PythonImplementation" else {"type": "http_webhook"}
    return {"name": "t", "implementation": {**given, **kind, **({"url": "http://127.0.0.1"} if "url" in given else {})}}


def check_example(data: Mapping[str, Any]) -> None:
    """Check a row about an example file, in the generations that it is about."""
    name = Path(data["input"]["file"]).name
    for generation in data["generations"]:
        check_examples(conformance_folder() / "connexity" / "examples" / _EXAMPLES[generation] / name)


def check_examples(path: Path) -> None:
    """Check that an example file, or every one of a folder, is a test case without a warning."""
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        suite = load_suite(file)
        assert (len(suite.cases), suite.errors, suite.warnings) == (1, (), ())


def check_migration(data: Mapping[str, Any], folder: Path) -> None:
    """Check a row about what a case of one generation, or a set, is in the next."""
    given, expected = data["input"], data["expected"]
    if "set_repetitions" in given:
        repetitions = [case.repetitions or 1 for case in _load_set(given["members"], folder, given["set_repetitions"])]
        assert repetitions == [member["repetitions"] for member in expected["members"]]
        return
    before, target = (
        ({"persona_context": "p"}, Generation.ANSWER_PER_CALL)
        if data["area"] == "migration.g1_to_g2"
        else ({}, Generation.PERSONA_TEXT)
    )
    loss = ConversionLoss()
    case = as_generation({"name": "n", **before, **given}, DETACHED, target, loss)
    for name, value in expected.items():
        if str(value).startswith("dropped"):
            assert name not in case
            assert any(name in note for note in loss.notes())
        else:
            assert case[name] == value


def check_selection(data: Mapping[str, Any], folder: Path) -> None:
    """Check a row about which cases run."""
    members = data["input"]["members"]
    if "plan" in data["expected"]:
        cases = _load_set(members, folder, data["input"].get("set_repetitions", 1))
        planned = [{"case": case.id, "repetitions": case.repetitions or 1} for case in cases]
        assert planned == [{name: each[name] for name in ("case", "repetitions")} for each in data["expected"]["plan"]]
        return
    path = folder / "set.json"
    entries = [{"name": each["case"], "id": each["case"], "status": each["status"], **_deleted(each), **_FORMS["g1"]}
               for each in members]  # fmt: skip
    links = [{"test_case_id": each["case"], **{name: each[name] for name in ("position",) if name in each}}
             for each in members]  # fmt: skip
    path.write_text(json.dumps({"test_cases": entries, "members": links}))
    assert [case.id for case in pair_cases(load_suite(path), a_runner())] == data["expected"]["executed"]


def _deleted(member: Mapping[str, Any]) -> dict[str, str]:
    """Return when the case of a member was deleted; nothing for one that was not."""
    deleted = member.get("deleted_at") or member.get("deleted")
    return {"deleted_at": "2026-01-01T00:00:00Z" if deleted is True else deleted} if deleted else {}


def check_membership(data: Mapping[str, Any], folder: Path) -> None:
    """Check a row about the members of a set."""
    given, expected = data["input"], data["expected"]
    if "sets" not in given:
        _check_members(given, expected, folder)
        return
    for name, repetitions in given["sets"].items():
        cases = _load_set([{"repetitions": number} for number in repetitions], folder)
        assert sum(case.repetitions or 1 for case in cases) == expected.get(name, sum(repetitions))
        assert len(cases) == expected.get("count", len(cases))


def _check_members(given: Mapping[str, Any], expected: Mapping[str, Any], folder: Path) -> None:
    """Check the members that a set has after it was made or changed."""
    added = given.get("add") or given.get("replace_with") or given.get("replace") or given.get("members") or []
    present = given.get("members", []) if "add" in given else []
    members = [each if isinstance(each, Mapping) else {"case": each} for each in (*present, *added)]
    if "$raises" in expected or expected.get("http") == 422:
        known = [each["case"] for each in members if not each["case"].startswith("missing")]
        with pytest.raises(InputError, match=r"no test case|is a member already|repetitions"):
            _load_set(members, folder, known=known or ["other"])
        return
    cases = _load_set(members, folder, given.get("set_repetitions", 1))
    repetitions = [each.get("repetitions", 1) * given.get("set_repetitions", 1) for each in members]
    assert [case.repetitions or 1 for case in cases] == repetitions
    assert sum(repetitions) == expected.get("total", sum(repetitions))
    assert len(cases) == expected.get("count", len(cases))
    assert list(range(len(cases))) == expected.get("positions", list(range(len(cases))))


def check_member_defaults(data: Mapping[str, Any], folder: Path) -> None:
    """Check a row about the defaults of a member."""
    (case,) = _load_set([data["input"]], folder)
    assert (case.repetitions or 1) == data["expected"]["repetitions"]


def _load_set(
    members: Sequence[Mapping[str, Any]],
    folder: Path,
    set_repetitions: int = 1,
    *,
    known: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> Sequence[Case]:
    """Return the cases of a set with these members; each is a case, unless `known` lists the cases."""
    ids = [str(each.get("case", f"case-{number}")) for number, each in enumerate(members)]
    entries = [
        {"test_case_id": id_, **{name: each[name] for name in ("position", "repetitions") if name in each}}
        for id_, each in zip(ids, members, strict=True)
    ]
    cases = [{"id": id_, "name": id_, **_FORMS["g1"]} for id_ in dict.fromkeys(known or ids)]
    document = {
        "test_cases": cases or [{"name": "other"}], "members": entries, "set_repetitions": set_repetitions,
        "config": config,
    }  # fmt: skip
    path = folder / "set.json"
    path.write_text(json.dumps(document))
    return load_suite(path).cases


def check_calls(data: Mapping[str, Any], folder: Path) -> None:
    """Check a row about the defaults of an expected call and of its canned answers."""
    given = data["input"]
    call = given if "tool" in given else {"tool": "t", "mock_responses": [given]}
    for generation in data["generations"]:
        case = _load({"name": "n", **_FORMS[generation], "expected_tool_calls": [call]}, folder)
        if "tool" in given:
            assert case.mocks == ()
        else:
            assert [mock.params for mock in case.mocks] == [data["expected"]["expected_params"]]


def _load(raw: Mapping[str, Any], folder: Path) -> Case:
    path = folder / "case.json"
    path.write_text(json.dumps(raw))
    suite = load_suite(path)
    assert not suite.errors
    (case,) = suite.cases
    return case


def _text(value: Any) -> Any:
    lengths = {"<255 chars>": 255, "<256 chars>": 256}
    return "x" * lengths[value] if isinstance(value, str) and value in lengths else value


def _plain_calls(calls: Any) -> Any:
    return calls and [{"tool": call["tool"], "arguments": call["expected_params"]} for call in calls]


def _config(case: Case, type_: str) -> Mapping[str, Any]:
    return next((spec.config for spec in case.evaluators if spec.type == type_), {})


def _outcomes(case: Case, raw: Mapping[str, Any]) -> Any:
    outcomes = _config(case, "judge").get("outcomes", [])
    if isinstance(raw.get("expected_outcomes"), Mapping):
        return {each["outcome"]: each["expected"] for each in outcomes} or []
    return [each["outcome"] for each in outcomes]


def _of_metadata(name: str, case: Case, raw: Mapping[str, Any]) -> Any:
    return case.metadata.get(name)


def _of_user(name: str) -> Any:
    return lambda case, raw: getattr(case.user, name)


def _filled(text: str | None) -> str | None:
    """Return a text; None for a blank one, which counts as left out."""
    return text if text is not None and text.strip() else None


_AS_READ: Mapping[str, Callable[[Any], Any]] = {
    "expected_tool_calls": _plain_calls,
    **dict.fromkeys(("initial_message", "first_message", "persona_context", "evaluation_criteria_override"), _filled),
    "expected_outcomes": lambda value: value or [],
}
"""What a value means, by its field."""
_VALUES: Mapping[str, Any] = {
    "name": lambda case, raw: case.metadata["name"],
    "description": lambda case, raw: case.metadata.get("description"),
    "difficulty": lambda case, raw: case.difficulty,
    "status": lambda case, raw: case.status,
    "tags": lambda case, raw: list(case.tags),
    "first_turn": _of_user("first_turn"),
    "first_message": _of_user("opener"),
    "initial_message": _of_user("opener"),
    "persona": _of_user("persona"),
    "persona_context": _of_user("persona"),
    "user_context": _of_user("context"),
    "max_turns": _of_user("max_turns"),
    "expected_outcomes": _outcomes,
    "expected_tool_calls": lambda case, raw: _config(case, "expected-calls").get("calls"),
    "evaluation_criteria_override": lambda case, raw: _config(case, "judge").get("criteria"),
    **{name: partial(_of_metadata, name) for name in ("agent_id", "id", "source_call_id")},
}
