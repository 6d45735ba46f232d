"""What changed between two setups: only what is known of both."""

from __future__ import annotations

from eval_pipeline.leaderboards.differences import Setup, setup_change


def test_a_grader_of_a_side_without_a_score_is_unknown_and_no_change() -> None:
    judged = Setup(suite="s", runner="r", graders={"judge": [{"runner": "referee"}], "rubric": [{"runner": "one"}]})
    failed = Setup(suite="s", runner="r", graders={"rubric": [{"runner": "two"}]})

    (change,) = setup_change(judged, failed).values

    assert (change.field, change.old, change.new) == ("graders.rubric[0].runner", "one", "two")
