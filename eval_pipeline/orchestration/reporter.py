"""Finished pairs → Dagster events: a materialization per asset and partition, and its checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import dagster as dg

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.gates import Gate
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.orchestration.checks import check_target, checks_of_pair, regression_check, snapshot_check
from eval_pipeline.orchestration.event_batches import events_together, store_together
