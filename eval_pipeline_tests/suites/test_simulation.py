"""A simulated user and canned answers are part of what identifies a case; their absence changes no key."""

from __future__ import annotations

from dataclasses import replace

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.suites.model import Case
from eval_pipeline.suites.simulation import SimulatedUser, ToolMock

PLAIN = Case(id="c", input=())
PLAYED = replace(PLAIN, user=SimulatedUser(persona="A polite customer.", max_turns=3))


def _key(case: Case) -> str:
    return fingerprint(case.fingerprint_fields())


def test_a_case_without_a_user_keeps_the_identity_it_had_before_there_were_users() -> None:
    assert PLAIN.fingerprint_fields() == []
    assert not PLAIN.is_conversation


def test_only_the_fields_of_a_user_that_are_set_are_part_of_its_identity() -> None:
    assert PLAYED.is_conversation
    assert PLAYED.fingerprint_fields() == [["user", {"persona": "A polite customer.", "max_turns": 3}]]


def test_another_persona_limit_or_canned_answer_is_another_case() -> None:
    answer = ToolMock(tool="find_order", response={"status": "shipped"})
    variants = [
        PLAYED,
        replace(PLAYED, user=SimulatedUser(persona="A hasty customer.", max_turns=3)),
        replace(PLAYED, user=SimulatedUser(persona="A polite customer.", max_turns=4)),
        replace(PLAYED, mocks=(answer,)),
        replace(PLAYED, mocks=(replace(answer, match="keys"),)),
        replace(PLAYED, mocks=(replace(answer, params={"id": 1}),)),
    ]

    assert len({_key(case) for case in variants}) == len(variants)
