"""Ranges of AgentV's versions, as suites require them."""

from __future__ import annotations

import pytest

from eval_pipeline.formats.agentv.versions import is_compatible


@pytest.mark.parametrize(
    ("versions", "compatible"),
    [
        (">=4.2", True), (">=4.9.1", True), (">=4.42.5", False), (">4.42.4", False), (">4.8", True), (">4.42", False),
        ("<5", True), ("<4.9.1", False), ("<=4.9", True), ("<=4.9.0", False), ("^4.1.0", True), ("^3.10", False),
        ("^0.3.1", False), ("~4.9", True), ("~4.8.2", False), ("~4", True), ("4.x", True), ("4", True), ("4.9.1", True),
        ("=4.9.0", False), ("*", True), ("v4.9.1", True), (">= 4.2 <5", True), (">=4.2, <4.5", False),
        ("^4.42", True), ("~4.42.4", True), ("^3 || ^4", True), ("^3 || ^5", False), (">=4.0.0-beta.1", True),
        ("latest", None), ("", None),
        ("^4 || x y", None),
    ],
)  # fmt: skip
def test_a_range_holds_the_version_that_we_are_compatible_with_or_not(versions: str, compatible: bool | None) -> None:
    assert is_compatible(versions) is compatible
