"""Functions that forge what their worker process sends: nothing changes in the pipeline, and the next call works."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.scores import model
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score

CHECKS = r"""
import gc, json, socket, struct

CHANGES_A_CLASS = (
    b"\x80\x05ceval_pipeline.scores.model\nOutcome\n(N(\x8c\x06passes\x88dtb.",
    b"\x80\x05ceval_pipeline.scores.model\nFinding\n(N(\x8c\x06passed\x88dtb.",
)

def send(*pieces):
    (connection,) = [thing for thing in gc.get_objects() if type(thing) is socket.socket]
    connection.sendall(b"".join(pieces))

def reply(head, body=b"", announced=None):
    send(struct.pack("<IQ", len(head), len(body) if announced is None else announced), head, body)

def pickled():
    for content in CHANGES_A_CLASS: send(struct.pack("<Q", len(content)), content)
    return 0.5
def endless():
    reply(b'["value", 1]', announced=10**13)
    return 0.5
def long_head(): reply(b" " * 20_000)
def no_json(): reply(b"[")
def no_message(): reply(b'{"value": 1}')
def nested_head(): reply(b"[" * 9_000)
def unknown_kind(): reply(json.dumps(["__class__", newest()]).encode())
def no_number(): reply(json.dumps(["value", newest()]).encode(), b"NaN")
def no_outcome(): reply(json.dumps(["outcome", newest()]).encode(), b'{"value": 1}')
def no_error(): reply(json.dumps(["error", newest()]).encode(), b"5")
def newest():
    import sys
    frame = sys._getframe()
    while "reply" not in frame.f_locals or not hasattr(frame.f_locals["reply"], "id"): frame = frame.f_back
    return frame.f_locals["reply"].id
def honest(): return 0.5
"""
FORGERIES = (
    "pickled", "endless", "long_head", "no_json", "no_message", "nested_head", "unknown_kind", "no_number",
    "no_outcome", "no_error",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.py").write_text(CHECKS, encoding="utf-8")
    return folder


@pytest.mark.parametrize("function", FORGERIES)
def test_a_forged_reply_costs_its_score_and_changes_nothing_here(folder: Path, function: str) -> None:
    before = dict(vars(model.Outcome)), dict(vars(model.Finding))

    forged = score(an_evaluator("python", function=f"hostile:{function}"), a_report("yes"), folder=folder)

    assert forged.value is None
    assert (dict(vars(model.Outcome)), dict(vars(model.Finding))) == before
    assert score(an_evaluator("python", function="hostile:honest"), a_report("yes"), folder=folder).value == 0.5
