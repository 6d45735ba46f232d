"""`similar`: embeddings from a server that speaks the real format, and what their likeness is worth."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.scores.evaluate import build
from eval_pipeline.scores.evaluators.similar import cosine
from eval_pipeline.scores.model import Score
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.local_server import Answer, LocalServer, Received, Reply, json_reply, serve
from eval_pipeline_tests.scores.fake_grader import graded
from eval_pipeline_tests.scores.single_scores import a_report

VECTORS = {
    "Paris.": [1.0, 0.0],
    "It is Paris.": [0.8, 0.6],
    "London.": [0.0, 1.0],
    "Not Paris.": [-1.0, 0.0],
    "void": [0.0, 0.0],
}


def embeddings(request: Received) -> Reply:
    """The vectors of the texts asked for, in OpenAI's format."""
    rows = [{"index": index, "embedding": VECTORS[text]} for index, text in enumerate(request.json["input"])]
    return json_reply({"object": "list", "data": rows, "model": "tiny", "usage": {"prompt_tokens": 7}})


def similar(server: LocalServer, output: str, **config: Any) -> Score:
    provider = {"base_url": server.url, "model": "tiny", "api_key": "k-1"}
    spec = an_evaluator("similar", **{"config": {"embedding_provider": provider}, **config})
    case = a_case(expected_output=(Message(role="assistant", content="Paris."),))
    return graded(spec, a_report(output), case=case)


LIKENESSES = [
    pytest.param("Paris.", {"value": "Paris."}, 1.0, True, id="the-same"),
    pytest.param("It is Paris.", {"value": "Paris."}, 0.8, True, id="near"),
    pytest.param("It is Paris.", {"value": "Paris.", "threshold": 0.9}, 0.8, False, id="not-near-enough"),
    pytest.param("London.", {"value": "Paris."}, 0.0, False, id="nothing-in-common"),
    pytest.param("Not Paris.", {"value": "Paris."}, 0.0, False, id="the-opposite-is-0"),
    pytest.param("London.", {"value": ["Paris.", "It is Paris."]}, 0.6, False, id="the-nearest-of-several"),
    pytest.param("It is Paris.", {}, 0.8, True, id="the-expected-output"),
    pytest.param("", {"value": "Paris."}, 0.0, False, id="empty-output"),
    pytest.param("void", {"value": "Paris."}, None, None, id="without-direction"),
]


@pytest.mark.parametrize(("output", "config", "value", "passes"), LIKENESSES)
def test_an_answer_is_worth_its_similarity(
    output: str, config: dict[str, Any], value: float | None, passes: bool | None
) -> None:
    with serve(embeddings) as server:
        score = similar(server, output, **config)

    assert score.value == pytest.approx(value)
    assert score.passes is passes


def test_both_texts_are_asked_for_in_one_request_with_the_key() -> None:
    with serve(embeddings) as server:
        score = similar(server, "It is Paris.", value="Paris.")

    (request,) = server.requests
    assert request.json == {"model": "tiny", "input": ["It is Paris.", "Paris."]}
    assert request.path.endswith("/embeddings")
    assert request.headers["authorization"] == "Bearer k-1"
    assert (score.details["model"], score.details["input_tokens"]) == ("tiny", 7)


def test_a_service_that_is_busy_for_a_moment_is_asked_again() -> None:
    answers: list[Answer] = [lambda _: json_reply({"error": {"message": "busy"}}, 503, retry_after="0"), embeddings]

    with serve(lambda request: answers.pop(0)(request)) as server:
        score = similar(server, "Paris.", value="Paris.")

    assert (score.value, len(server.requests)) == (1.0, 2)


def test_a_refused_request_leaves_the_score_open() -> None:
    with serve(lambda _: json_reply({"error": {"message": "no such model"}}, 404)) as server:
        score = similar(server, "Paris.", value="Paris.")

    assert score.value is None
    assert "no embeddings: HTTP 404: no such model" in score.reason


WRONG = [
    pytest.param({}, "similar config: required", id="no-config"),
    pytest.param({"config": {}}, "similar config.embedding_provider: required", id="no-provider"),
    pytest.param({"config": {"embedding_provider": {}}}, "config.embedding_provider.model: required", id="no-model"),
    pytest.param({"config": {"embedding_provider": {"model": "m"}}, "value": []}, "value: expected a text", id="empty"),
    pytest.param({"config": {"embedding_provider": {"model": "m"}}, "value": ["a", 1]}, "value: expected", id="number"),
    pytest.param(
        {"config": {"embedding_provider": {"model": "m", "wire": "anthropic"}}}, "has no embeddings", id="wire"
    ),
    pytest.param({"config": {"embedding_provider": {"model": "m", "base_url": "x"}}}, "base_url", id="address"),
    pytest.param({"config": {"embedding_provider": {"model": "m", "modle": 1}}}, "did you mean 'model'?", id="unknown"),
]


@pytest.mark.parametrize(("config", "problem"), WRONG)
def test_a_wrong_argument_is_named(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator("similar", **config))

    assert problem in str(raised.value)


def test_vectors_of_different_sizes_have_no_angle() -> None:
    assert cosine([1.0], [1.0, 0.0]) is None
