"""AgentV's rows about evaluators and whole tests, in one sweep with recorded answers and scripted graders."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from eval_pipeline_tests.conformance.agentv_tests import (
    BY_FILE,
    BY_PROGRAM,
    GRADERS,
    WHOLE_TESTS,
    WrittenTest,
    is_stop,
    recorded_scores,
    written,
)
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.differences.table import difference_of
from eval_pipeline_tests.conformance.evaluation_answers import agrees, rounded, verdict_of
from eval_pipeline_tests.conformance.public_verbs import ProjectOnDisk, Sweep, once
from eval_pipeline_tests.conformance.recorded_facts import Row, rows_of
from eval_pipeline_tests.conformance.sweep_observations import seen_of
from eval_pipeline_tests.conformance.synthetic_rows import SYNTHETIC_ROWS
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, json_reply, serve

Json = Mapping[str, Any]
FILES = frozenset({"evaluators", "evaluators_later", "deterministic_observed"})
_TALKER = """\
ANSWERS = {answers!r}


def answer(prompt, case):
    return ANSWERS[case.metadata["row"]].pop(0)
"""


def is_evaluation(row: Row) -> bool:
    """Whether a row is carried out here: not what stops a test, nor repeated tests."""
    return row.file in FILES and row.kind != "trials" and not is_stop(row)


def observe(row: Row) -> Observations:
    """Return what became of the forms of a row's test."""
    written(row)  # skips what cannot be written
    sweep = _sweep()
    return {form: seen_of(sweep.suites[_name(row, form)]) for form in forms_of(row)}


def forms_of(row: Row) -> Mapping[str, WrittenTest]:
    """Return the forms of a row's test: as written, and those that its difference asks for."""
    test = written(row)
    difference = difference_of(row)
    changed = difference.forms if difference is not None else {}
    return {AS_WRITTEN: test, **{form: change(row, test) for form, change in changed.items()}}


def _name(row: Row, form: str) -> str:
    suffix = "" if form == AS_WRITTEN else f"-{form}"
    return f"{row.file}-{row.number}{suffix}".replace("_", "-").replace(" ", "-")


# The sweep

_UNUSABLE = (LookupError, TypeError, ValueError, AttributeError)
"""A row that cannot be written as a suite fails by itself, when it is observed, and not all others with it."""


@once
def _sweep() -> Sweep:
    project = ProjectOnDisk()
    replies: dict[str, list[str]] = {}

    def answer(request: Received) -> Reply:
        if request.path.endswith("/embeddings"):
            return _equal_embeddings(request)
        path = request.path.removesuffix("/v1/chat/completions").strip("/")
        waiting = replies.get(path) or ["no verdict"]
        return chat_reply(waiting.pop(0) if len(waiting) > 1 else waiting[0])

    with serve(answer) as server:
        for row in (*rows_of("agentv"), *SYNTHETIC_ROWS):
            if is_evaluation(row):
                with contextlib.suppress(pytest.skip.Exception, *_UNUSABLE):
                    for form, test in forms_of(row).items():
                        _add(project, _name(row, form), test, server.url, replies)
        return project.run()


def _equal_embeddings(request: Received) -> Reply:
    """Equal texts have equal embeddings, whoever makes them."""
    texts = request.json["input"]
    return json_reply({"data": [{"index": at, "embedding": [len(text), 1.0]} for at, text in enumerate(texts)]})


def _add(project: ProjectOnDisk, name: str, test: WrittenTest, url: str, replies: dict[str, list[str]]) -> None:
    grader = f"{name}-0"
    for at in {0, *test.replies}:
        replies[f"{name}-{at}"] = list(test.replies.get(at) or ())
        project.add_model(f"{name}-{at}", f"{url}/{name}-{at}/v1")
    entries = [_bound(entry, f"{name}-{at}", url, at in test.replies) for at, entry in enumerate(test.evaluators)]
    case = {**(test.with_evaluators(entries).test if entries else test.test), "metadata": {"row": name}}
    answer = {"case": case["id"], **test.answer}
    folder = project.add_suite(name, {**test.suite, "tests": [case]}, [answer], grader=grader)
    for file, text in test.files.items():
        (folder / file).write_text(text, "utf-8")
    if test.conversation:
        talker = project.root / f"talker_{name.replace('-', '_')}.py"
        talker.write_text(_TALKER.format(answers={name: list(test.conversation)}), "utf-8")
        project.replace_runner(name, adapter="python", function=f"{talker.stem}:answer", concurrency=1)


def _bound(entry: Any, model: str, url: str, replied: bool) -> Any:
    """An entry with its grader, where the model replies to it alone, or with its provider of embeddings."""
    if not isinstance(entry, Mapping):
        return entry
    provider = (entry.get("config") or {}).get("embedding_provider")
    if provider:
        return {**entry, "config": {**entry["config"], "embedding_provider": {**provider, "base_url": url}}}
    graded = replied and str(entry.get("type")) in GRADERS and "graders" not in entry
    return {**{name: entry[name] for name in entry if name != "provider"}, "target": model} if graded else entry


# What must hold


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what AgentV answers."""
    assert not seen.problems, seen.problems
    if row.kind in WHOLE_TESTS:
        _check_whole(row, seen.values)
    else:
        (score,) = seen.values["scores"]
        check_score(row, score)


def check_score(row: Row, score: Json) -> None:
    """Assert that the score of a row's only evaluator is the recorded one."""
    asserted = row.data["asserted"]
    assert agrees(score["value"], row.data) or not {"score", "score_bounds"} & set(asserted), score
    assert verdict_of(score) == row.data.get("verdict") or "verdict" not in asserted, score
    observed = row.data.get("observed_passed")
    if score["findings"] and observed and row.kind in GRADERS | {"negate"}:
        assert score["findings"] == observed


def _check_whole(row: Row, values: Json) -> None:
    data = row.data
    observed = data.get("observed")
    if "turns" in data.get("config", ()):
        _check_turns(row, values)
    elif recorded_scores(row):
        assert [_as_recorded(score) for score in values["scores"]] == [
            _recorded(score) for score in recorded_scores(row)
        ]
    if observed is not None:
        assert values["score"] == pytest.approx(observed["score"], abs=1e-12)
        assert values["status"] == observed["execution_status"]
        return
    assert agrees(values["score"], data) or not {"score", "score_bounds"} & set(data["asserted"]), values
    assert values["status"] == data.get("execution_status") or "execution_status" not in data["asserted"]
    for entry, score in zip(data["config"].get("assertions") or (), values["scores"], strict=False):
        assert _words_of(entry) in json.dumps(score["details"].get("prompt"))


def _words_of(entry: Any) -> str:
    """What a grader's prompt must hold: the words of the file or program that the test names."""
    if isinstance(entry, Mapping) and "resolvedPromptScript" in entry:
        return BY_PROGRAM
    return BY_FILE if isinstance(entry, Mapping) and "resolvedPromptPath" in entry else ""


def _check_turns(row: Row, values: Json) -> None:
    scores = {score["name"]: score["value"] for score in values["scores"]}
    if row.data["config"].get("aggregation") in ("min", "max"):
        scores = {member["name"]: member["value"] for member in values["members"]}
    assert scores == {score["name"]: score["score"] for score in recorded_scores(row)}


def _as_recorded(score: Json) -> tuple[str, str, float | None, float, str]:
    return score["name"], score["type"], rounded(score["value"]), score["weight"], verdict_of(score)


def _recorded(score: Json) -> tuple[str, str, float | None, float, str]:
    value = None if score["verdict"] == "skip" else rounded(score["score"])
    return score["name"], score["type"], value, score["weight"], score["verdict"]
