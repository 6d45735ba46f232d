"""`composite` and `assert-set`: what is made of members' scores, and members that cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import Usage
from eval_pipeline.scores.evaluate import bind, build
from eval_pipeline.scores.grader_client import FakeGraderClient
from eval_pipeline.scores.model import Finding, Score, Subject
from eval_pipeline.suites.model import EvaluatorSpec
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.fake_grader import MembersDesk, graded
from eval_pipeline_tests.scores.single_scores import a_report

MEAN = {"type": "weighted_average"}


def members_of(values: Mapping[str, Any], **common: Any) -> list[dict[str, Any]]:
    """Raw members by name; the script of `combined` gives them these values."""
    return [{"name": name, "type": "latency", "threshold": 1, **common} for name in values]


def combined(
    values: Mapping[str, float | None],
    kind: str = "composite",
    *,
    members: Any = None,
    mark: Any = 0.8,
    **config: Any,
) -> Score:
    """The score of a composite whose members score as told."""

    def found(spec: EvaluatorSpec, subject: Subject) -> Score:
        value = values[spec.name]
        message = "no reply" if value is None else "as told"
        return Score(
            "e1", "key", spec.name, spec.type, value, message, weight=spec.weight, minimum=spec.minimum,
            findings=(Finding("seen", True),) if value else (),
        )  # fmt: skip

    spec = an_evaluator(kind, assertions=members or members_of(values), **config)
    return graded(spec, a_report("yes"), client=FakeGraderClient(scores=found), threshold=mark)


@pytest.mark.parametrize(
    ("values", "aggregator", "value", "passes"),
    [
        ({"a": 1.0, "b": 0.5}, MEAN, 0.75, None),
        ({"a": 1.0, "b": 0.0}, {**MEAN, "weights": {"a": 0.7, "b": 0.3}}, 0.7, None),
        ({"a": 1.0, "b": 0.0}, {**MEAN, "weights": {"a": 3}}, 0.75, None),
        ({"a": 1.0, "b": 1.0}, {**MEAN, "weights": {"a": 0, "b": 0}}, 0.0, None),
        ({"a": 1.0, "b": None, "c": 0.8}, MEAN, 0.9, None),
        ({"a": None, "b": None}, MEAN, None, None),
        ({"a": 1.0, "b": 0.8, "c": 0.79, "d": 0.0}, {"type": "threshold", "threshold": 0.5}, 0.5, True),
        ({"a": 1.0, "b": 0.2}, {"type": "threshold", "threshold": 0.75}, 0.5, False),
        ({"a": 0.3, "b": 0.1}, {"type": "threshold", "threshold": 0}, 0.0, True),
        ({"a": 1.0, "b": None, "c": 0.2}, {"type": "threshold", "threshold": 0.5}, 0.5, True),
        ({"a": None}, {"type": "threshold", "threshold": 0}, None, None),
    ],
)  # fmt: skip
def test_an_aggregator_makes_one_score_of_the_members_that_could_tell(
    values: dict[str, float | None], aggregator: dict[str, Any], value: float | None, passes: bool | None
) -> None:
    score = combined(values, aggregator=aggregator)

    assert score.value == (None if value is None else pytest.approx(value))
    assert score.passes is passes
    assert all(f"{name} has no score: no reply" in score.reason for name, item in values.items() if item is None)


def test_each_member_is_a_row_with_its_weight_and_its_findings_are_named_after_it() -> None:
    score = combined({"a": 1.0, "b": None}, aggregator={**MEAN, "weights": {"a": 2}})

    assert [(item.name, item.type, item.value, item.reason, item.weight) for item in score.members] == [
        ("a", "latency", 1.0, "as told", 2.0),
        ("b", "latency", None, "no reply", 1.0),
    ]
    assert [(item.text, item.passed) for item in score.findings] == [("[a] seen", True)]


def test_a_member_that_found_nothing_in_particular_is_a_finding_itself() -> None:
    score = combined({"a": 0.0, "b": 1.0}, aggregator=MEAN)

    assert [(item.text, item.passed) for item in score.findings] == [("[a] as told", False), ("[b] seen", True)]


@pytest.mark.parametrize("kind", ["composite", "assert-set"])
@pytest.mark.parametrize(
    ("values", "value", "passes", "message"),
    [
        ({"must": 0.5, "nice": 1.0}, 0.0, False, "required must failed with 0.5"),
        ({"must": 0.9, "nice": 0.9}, 0.9, None, "0.9"),
        ({"must": None, "nice": 1.0}, None, None, "required must has no score: no reply"),
    ],
    ids=["failed", "held", "open"],
)
def test_a_required_member_that_fails_makes_the_whole_0(
    kind: str, values: dict[str, float | None], value: float | None, passes: bool | None, message: str
) -> None:
    members = [{"name": "must", "type": "is-json", "required": True}, {"name": "nice", "type": "is-json"}]
    config = {"aggregator": MEAN} if kind == "composite" else {}

    score = combined(values, kind, members=members, **config)

    assert score.value == value
    assert score.passes is (True if kind == "assert-set" and value else passes)
    assert message in score.reason or kind == "assert-set"


def test_members_are_weighted_and_negated_as_they_say() -> None:
    members = [
        {"type": "contains", "value": "yes", "weight": 3},
        {"type": "contains", "value": "yes", "negate": True},
    ]

    score = graded(an_evaluator("composite", assertions=members, aggregator=MEAN), a_report("yes"))

    assert score.value == 0.75
    assert [(item.name, item.value) for item in score.members] == [("contains-yes", 1.0), ("contains-yes-2", 0.0)]


def test_a_composite_may_stand_inside_another_and_keeps_its_own_members() -> None:
    inner = {"name": "inner", "type": "composite", "aggregator": MEAN, "evaluators": [
        {"type": "contains", "value": "yes"}, {"type": "contains", "value": "no"},
    ]}  # fmt: skip

    score = graded(an_evaluator("composite", assertions=[inner, {"type": "is-json"}], aggregator=MEAN), a_report("yes"))

    assert score.value == 0.25
    assert [member["value"] for member in score.members[0].details["members"]] == [1.0, 0.0]


# Programs and models that put members together.


def program(text: str) -> dict[str, Any]:
    return {"type": "code_grader", "path": [sys.executable, "-c", text]}


def test_a_program_is_given_the_members_results_and_its_verdict_counts() -> None:
    text = (
        "import json, sys; results = json.load(sys.stdin)['results'];"
        "print(json.dumps({'score': 0.6, 'verdict': 'pass', 'assertions': [{'text': 'all read', 'passed': True}],"
        " 'details': {name: [one['score'], one['verdict'], one['assertions']] for name, one in results.items()}}))"
    )

    score = combined({"a": 1.0, "b": 0.2, "c": None}, aggregator=program(text))

    assert (score.value, score.passes) == (0.6, True)
    assert score.details["a"] == [1.0, "pass", [{"text": "seen", "passed": True, "evidence": None}]]
    assert score.details["b"][:2] == [0.2, "fail"]
    assert "c" not in score.details
    assert score.findings[0].text == "all read"


@pytest.mark.parametrize(
    ("text", "message"),
    [("import sys; sys.exit('no idea')", "ended with 1: no idea"), ("print('words')", "no JSON object: words")],
)
def test_a_program_that_cannot_put_members_together_leaves_the_score_open(text: str, message: str) -> None:
    score = combined({"a": 1.0}, aggregator=program(text))

    assert score.value is None
    assert message in score.reason
    assert len(score.members) == 1


def test_a_model_is_shown_the_members_results_where_the_prompt_says(tmp_path: Path) -> None:
    (tmp_path / "sum.md").write_text("Sum up:\n{{EVALUATOR_RESULTS_JSON}}")
    client = MembersDesk(replies=['{"score": 0.4, "assertions": [{"text": "uneven", "passed": false}]}'])
    aggregator = {"type": "llm-grader", "prompt": "file://sum.md", "target": "judge"}
    spec = an_evaluator("composite", assertions=[{"type": "is-json", "name": "json"}], aggregator=aggregator)

    score = graded(spec, a_report("[1]"), client=client, folder=tmp_path)

    shown = "\n".join(message.text for message in client.requests[0])
    assert "Sum up:" in shown
    assert '"json":{' in shown
    assert (score.value, score.findings[0].text) == (0.4, "uneven")
    assert build(spec).graders == ("judge",)  # type: ignore[union-attr]


def test_a_model_that_does_not_answer_leaves_the_score_open() -> None:
    score = combined({"a": 1.0}, aggregator={"type": "llm-grader"})

    assert score.value is None
    assert "could not be combined" in score.reason


# Sets.


@pytest.mark.parametrize(
    ("values", "threshold", "value", "passes"),
    [
        ({"a": 1.0, "b": 1.0}, 0.5, 1.0, True),
        ({"a": 1.0, "b": 0.0}, 0.5, 0.5, True),
        ({"a": 1.0, "b": 0.0}, 0.6, 0.5, False),
        ({"a": 1.0, "b": 0.7}, None, 0.85, False),
        ({"a": 1.0, "b": 0.8}, None, 0.9, True),
    ],
)
def test_a_set_passes_by_its_threshold_or_when_every_member_does(
    values: dict[str, float | None], threshold: float | None, value: float, passes: bool
) -> None:
    score = combined(values, "assert-set", **({} if threshold is None else {"threshold": threshold}))

    assert score.value == pytest.approx(value)
    assert score.passes is passes


def test_a_member_without_weight_does_not_keep_a_set_from_passing() -> None:
    members = [*members_of({"a": 1}), *members_of({"b": 0}, weight=0)]

    score = combined({"a": 1.0, "b": 0.0}, "assert-set", members=members)

    assert (score.value, score.passes) == (1.0, True)


def test_texts_among_members_are_the_criteria_of_one_rubric() -> None:
    evaluator = build(an_evaluator("assert-set", assertions=["is short", {"type": "is-json"}, "is kind"]))

    assert [(spec.type, spec.config) for spec in evaluator.members] == [  # type: ignore[union-attr]
        ("rubrics", {"criteria": ["is short", "is kind"]}),
        ("is-json", {}),
    ]


def test_members_may_be_given_as_the_fields_of_a_spec() -> None:
    entry: dict[str, Any] = {
        "type": "contains", "name": "n", "weight": 2.0, "minimum": 0.5, "negate": True, "failure_class": None,
        "config": {"value": "x"},
    }  # fmt: skip

    evaluator = build(an_evaluator("assert-set", assertions=[entry]))

    assert evaluator.members == (EvaluatorSpec(**entry),)  # type: ignore[union-attr]


# What its scores depend on, and what it refuses.


def test_editing_a_members_script_or_naming_another_grader_makes_the_scores_new(tmp_path: Path) -> None:
    script = tmp_path / "grade.py"
    members = [{"type": "code-grader", "name": "program", "command": ["python3", "grade.py"], "target": True}]
    keys = set()
    for text in ("print(1)", "print(2)"):
        script.write_text(text)
        for judge in ("a", "b"):
            spec = an_evaluator("composite", assertions=members, aggregator={"type": "llm-grader", "target": judge})
            keys.add(bind(spec, a_case(), tmp_path).key)

    assert len(keys) == 4
    assert build(spec).graders == (None, "b")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "composite assertions: required"),
        ({"assertions": []}, "at least one member"),
        ({"assertions": "all"}, "assertions: expected a list"),
        ({"assertions": [{"name": "x"}]}, "expected an evaluator with a type"),
        ({"assertions": [{"type": "contains"}]}, "member 'contains': contains value: required"),
        ({"assertions": [{"type": "contians", "name": "x"}]}, "no evaluator 'contians'"),
        ({"assertions": [{"type": "is-json", "weight": -1}]}, "weight"),
        ({"aggregator": {}}, "aggregator type: no 'None'; there are: weighted-average"),
        ({"aggregator": {"type": "treshold"}}, "did you mean 'threshold'"),
        ({"aggregator": {"type": "threshold"}}, "aggregator threshold: required"),
        ({"aggregator": {"type": "threshold", "threshold": 2}}, "aggregator threshold: "),
        ({"aggregator": {"type": "threshold", "threshold": 1, "weights": {}}}, "aggregator weights: unknown argument"),
        ({"aggregator": {**MEAN, "weights": {"jsn": 1}}}, "no member 'jsn'; there are: json; did you mean 'json'?"),
        ({"aggregator": {"type": "code-grader"}}, "aggregator path: required"),
        ({"aggregator": {**MEAN, "weigts": {}}}, "unknown argument of this aggregator; did you mean 'weights'?"),
        ({"aggregator": {"type": "code-grader", "path": 5}}, "expected a command line"),
        ({"aggregator": {"type": "llm-grader", "prompt": "file://no.md"}}, "no file 'no.md'"),
        ({"aggregator": "mean"}, "composite aggregator: expected a mapping"),
    ],
)  # fmt: skip
def test_a_composite_that_cannot_be_used_is_refused_naming_the_member_or_argument(
    config: dict[str, Any], message: str
) -> None:
    whole = {"assertions": [{"type": "is-json", "name": "json"}], "aggregator": MEAN}
    arguments = {**whole, **config} if config else {"aggregator": MEAN}

    with pytest.raises(InputError) as raised:
        bind(an_evaluator("composite", **arguments), a_case(), Path())

    assert message in str(raised.value)


def test_evaluators_inside_each_other_without_end_are_refused() -> None:
    nested: dict[str, Any] = {"type": "is-json"}
    for _ in range(400):
        nested = {"type": "assert-set", "assertions": [nested]}

    with pytest.raises(InputError):
        build(an_evaluator("assert-set", assertions=[nested]))


def test_a_member_that_measures_nothing_is_left_out_and_said() -> None:
    members = [{"type": "latency", "threshold": 100}, {"type": "token-usage", "max_total": 10}]
    report = a_report("yes", usage=Usage(input_tokens=4, output_tokens=4))

    score = graded(an_evaluator("composite", assertions=members, aggregator=MEAN), report)

    assert score.value == 1.0
    assert "left out: latency has no score" in score.reason


def test_members_pass_from_the_threshold_of_the_suite_on() -> None:
    values = {"a": 0.6, "b": 0.9}
    share = {"type": "threshold", "threshold": 1}

    assert [combined(values, aggregator=share, mark=mark).value for mark in (0.5, 0.8, 0.95)] == [1.0, 0.5, 0.0]
    assert [combined(values, "assert-set", mark=mark).passes for mark in (0.5, 0.8)] == [True, False]


def test_a_composite_is_scored_again_for_another_threshold_and_keeps_its_key_for_the_usual_one() -> None:
    spec, plain = an_evaluator("assert-set", assertions=members_of({"a": 1})), an_evaluator("contains", value="a")

    def keys(spec: EvaluatorSpec) -> list[str]:
        cases = (a_case(), a_case(), a_case(threshold=0.6))
        return [bind(spec, case, Path(), threshold=mark).key for case, mark in zip(cases, (0.8, 0.6, 0.8), strict=True)]

    assert len(set(keys(spec))) == 2
    assert keys(spec)[1] == keys(spec)[2]
    assert len(set(keys(plain))) == 1
