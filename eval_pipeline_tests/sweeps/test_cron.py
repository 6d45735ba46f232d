"""Which cron expressions a schedule takes, and what is expected instead of the others."""

from __future__ import annotations

import pytest

from eval_pipeline.sweeps.cron import NAMES, cron_problem


@pytest.mark.parametrize(
    "text",
    [
        "0 2 * * *", "*/5 1-3 * JAN mon", "30 4 * * 1", "0 22-2 * * *", "0,30 8-18/2 1,15 1-6 mon-fri", "0 0 ? * sun",
        "0 0 l * *", "0 6 * * fri#2", "0 0 29 2 *", "0 0 31 * 7", "59 23 31 12 0", *NAMES,
    ],
)  # fmt: skip
def test_what_can_be_scheduled(text: str) -> None:
    assert cron_problem(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every day", "a cron expression of five fields, such as '0 2 * * *'"),
        ("0 2 * *", "a cron expression of five fields"),
        ("60 2 * * *", "a minute of 0–59 where the cron expression has '60'"),
        ("0 25 * * *", "an hour of 0–23 where the cron expression has '25'"),
        ("0 2 0 * *", "a day of the month of 1–31 where the cron expression has '0'"),
        ("0 2 * sept *", "a month of 1–12 or jan–dec where the cron expression has 'sept'"),
        ("0 2 * * monday", "a day of the week of 0–7 or sun–sat where the cron expression has 'monday'"),
        ("*/0 * * * *", "a minute of 0–59 where the cron expression has '*/0'"),
        ("a b c d e", "a minute of 0–59 where the cron expression has 'a'"),
        ("1,,2 * * * *", "a minute of 0–59 where the cron expression has '1,,2'"),
        ("0 0 30 2 *", "a day that one of the months of the cron expression has"),
        ("0 0 31 4,6 *", "a day that one of the months of the cron expression has"),
        ("@reboot", "a cron expression of five fields"),
    ],
)
def test_what_is_expected_instead(text: str, expected: str) -> None:
    assert (cron_problem(text) or "").startswith(expected)
