"""Cutting a sweep: every pair once, no chunk above its limits, the longest first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eval_pipeline.sweeps.chunks import cut, expected_seconds
from eval_pipeline.sweeps.dagster_settings import DagsterSettings
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder

SECONDS = st.none() | st.floats(0, 1000, allow_nan=False)


def pairs_of(count: int) -> list[PairKey]:
    return [PairKey(f"suite-{index}", "runner") for index in range(count)]


@given(seconds=st.lists(SECONDS, max_size=60), most_seconds=st.floats(1, 500), most_pairs=st.integers(1, 9))
def test_every_pair_is_in_one_chunk_and_no_chunk_is_above_its_limits(
    seconds: list[float | None], most_seconds: float, most_pairs: int
) -> None:
    pairs = pairs_of(len(seconds))
    expected = dict(zip(pairs, seconds, strict=True))

    chunks = cut(pairs, expected, DagsterSettings(chunk_seconds=most_seconds, chunk_pairs=most_pairs))

    assert sorted(pair.suite for chunk in chunks for pair in chunk.pairs) == sorted(pair.suite for pair in pairs)
    for chunk in chunks:
        assert 1 <= len(chunk.pairs) <= most_pairs
        assert len(chunk.pairs) == 1 or sum(expected[pair] or 0.0 for pair in chunk.pairs) <= most_seconds * (1 + 1e-9)


def test_the_longest_pairs_begin_first_and_short_ones_fill_what_is_left() -> None:
    pairs = pairs_of(5)
    expected: dict[PairKey, float | None] = dict(zip(pairs, [10.0, 90.0, 40.0, 400.0, 50.0], strict=True))

    chunks = cut(pairs, expected, DagsterSettings(chunk_seconds=100.0))

    assert [[expected[pair] for pair in chunk.pairs] for chunk in chunks] == [[400.0], [90.0, 10.0], [50.0, 40.0]]
    assert [chunk.seconds for chunk in chunks] == [400.0, 100.0, 90.0]


def test_pairs_of_unknown_time_count_as_the_mean_and_a_chunk_of_them_has_none() -> None:
    pairs = pairs_of(4)
    chunks = cut(pairs, {pairs[0]: 60.0}, DagsterSettings(chunk_seconds=120.0))

    assert [len(chunk.pairs) for chunk in chunks] == [2, 2]
    assert [chunk.seconds for chunk in chunks] == [60.0, None]


def test_what_is_expected_comes_from_what_executions_took(folder: ProjectFolder) -> None:
    session = folder.session()
    pair = PairKey("sums", "echo")
    assert expected_seconds(session, session.pairs([pair]), SweepOptions()) == {pair: None}

    folder.sweep_once()
    again = folder.session()

    assert expected_seconds(again, again.pairs([pair]), SweepOptions()) == {pair: 0.0}, "everything is reused"
    known = expected_seconds(again, again.pairs([pair]), SweepOptions(refresh="all"))[pair]
    assert known is not None
    assert known > 0
