"""What every test of this room starts with: the small project of the sweeps' tests."""

from __future__ import annotations

from eval_pipeline_tests.sweeps.conftest import empty_warehouse, folder, no_project_in_the_environment

__all__ = ["empty_warehouse", "folder", "no_project_in_the_environment"]
