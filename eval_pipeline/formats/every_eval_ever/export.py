"""Rows → the files of Every Eval Ever (schemas 0.3.0): for each suite and runner an aggregate, and its samples.

Plans without a score are in no sample and no rate; the aggregate counts them. Plain values are texts in
`additional_details`, as the schema requires.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from eval_pipeline.exports import ExportOptions, FileChunk
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.every_eval_ever.samples import sample_json
from eval_pipeline.leaderboards.pair_rates import PairRates
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.moments import iso
from eval_pipeline.statistics.intervals import Interval

SCHEMA = "0.3.0"
UNKNOWN = "unknown"
_NOT_IN_PATHS = re.compile(r"[^A-Za-z0-9._-]+")
_METRICS = {"pass_rate": "Share of answers that passed", "mean_score": "Mean score of answers"}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One aggregate: its id, its path without an ending, the model's name, and the first of its rows."""

    id: str
    path: str
    model: str
    first: ResultRow


class EveryEvalEver:
    """A folder `data/SUITE/DEVELOPER/MODEL` with `UUID.json` and `UUID_samples.jsonl` for each suite and runner."""

    folder: ClassVar[bool] = True

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        for (suite, runner), rows in groupby(records, key=lambda row: (row.suite, row.runner)):
            yield from _pair(PairRates(suite, runner), rows, options)


def _pair(rates: PairRates, rows: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
    evaluation: Evaluation | None = None
    samples = 0
    for row in rows:
        evaluation = evaluation or _evaluation(row, options)
        rates.add(row)
        if row.verdict.status.graded and row.verdict.score is not None:
            sample = sample_json(row, evaluation.id, evaluation.model, SCHEMA)
            samples += 1
            yield FileChunk(f"{evaluation.path}_samples.jsonl", to_json(sample) + b"\n")
    if evaluation is not None and rates.graded:
        yield FileChunk(f"{evaluation.path}.json", to_json(_aggregate(evaluation, rates, samples, options)) + b"\n")


def _evaluation(row: ResultRow, options: ExportOptions) -> Evaluation:
    model = row.model or row.runner
    developer, _, name = model.rpartition("/")
    id_ = f"{row.suite}/{row.runner}/{options.at.timestamp():.0f}"
    folder = "/".join(_NOT_IN_PATHS.sub("-", part) or UNKNOWN for part in (row.suite, developer or UNKNOWN, name))
    return Evaluation(id_, f"data/{folder}/{_uuid(id_)}", model, row)


def _uuid(text: str) -> uuid.UUID:
    """Return the identifier of a text, in the form of a random one, which names of files must have."""
    return uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)


def _aggregate(evaluation: Evaluation, rates: PairRates, samples: int, options: ExportOptions) -> dict[str, Any]:
    row = evaluation.first
    measured = {
        "pass_rate": (rates.pass_rate, rates.pass_interval),
        "mean_score": (rates.mean_score, rates.score_interval),
    }
    results = [_result(name, rates, row, *measured[name]) for name in _METRICS if measured[name][0] is not None]
    return {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation.id,
        "evaluation_timestamp": iso(options.at),
        "retrieved_timestamp": f"{options.at.timestamp():.0f}",
        "source_metadata": {
            "source_name": options.name,
            "source_type": "evaluation_run",
            "source_organization_name": UNKNOWN,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "eval_pipeline", "version": _version()},
        "model_info": _model(evaluation),
        "evaluation_results": results,
        **({"detailed_evaluation_results": _details(evaluation, samples)} if samples else {}),
    }


def _details(evaluation: Evaluation, samples: int) -> dict[str, Any]:
    return {
        "format": "jsonl",
        "file_path": f"{evaluation.path}_samples.jsonl",
        "hash_algorithm": "sha256",
        "total_rows": samples,
    }


def _model(evaluation: Evaluation) -> dict[str, Any]:
    row = evaluation.first
    developer = evaluation.model.rpartition("/")[0]
    about = {"runner": row.runner, "runner_revision": row.runner_revision, "adapter": row.adapter}
    return {
        "name": evaluation.model,
        "id": evaluation.model,
        **({"developer": developer} if developer else {}),
        "additional_details": {"deployment_type": UNKNOWN, "model_availability": UNKNOWN, **_texts(about)},
    }


def _result(
    metric: str, rates: PairRates, row: ResultRow, value: float | None, ends: Interval | None
) -> dict[str, Any]:
    counts = {"planned": rates.planned, "graded": rates.graded, "passed": rates.passed, "cases": rates.cases}
    uncertainty: dict[str, Any] = {"num_samples": rates.graded}
    if ends is not None:
        uncertainty["confidence_interval"] = {
            "lower": ends[0], "upper": ends[1], "confidence_level": 0.95, "method": "Wilson, clustered by case",
        }  # fmt: skip
    return {
        "evaluation_result_id": metric,
        "evaluation_name": rates.suite,
        "source_data": {
            "dataset_name": rates.suite,
            "source_type": "other",
            "additional_details": _texts({"revision": row.suite_revision}),
        },
        "metric_config": {
            "evaluation_description": _METRICS[metric],
            "metric_id": metric,
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {"score": value, "details": _texts(counts), "uncertainty": uncertainty},
    }


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - read by this format only

    return version("eval_pipeline")
