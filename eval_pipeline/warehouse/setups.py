"""Published results → setups: what each runner of a selection was, who played its users and who graded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from eval_pipeline.leaderboards.differences import Setup
from eval_pipeline.warehouse.selections import Selection
from eval_pipeline.warehouse.store import Connection

PROMPTS = ("system", "system_prompt", "prompt", "instructions")
"""The settings of runners that are a prompt."""
_SETUPS = """
    WITH chosen AS ({chosen}),
    played AS (
        SELECT c.suite, c.runner, list(DISTINCT s.simulator ORDER BY s.simulator) AS simulators
        FROM chosen c JOIN (
            SELECT execution_id,
                   unnest(TRY_CAST(json_extract_string(turns, '$[*].speech.simulator') AS VARCHAR[])) AS simulator
            FROM session_reports WHERE turns IS NOT NULL) s USING (execution_id)
        WHERE s.simulator IS NOT NULL GROUP BY ALL),
    pairs AS (
        SELECT suite, runner, arg_max(suite_revision, decided_at) AS suite_revision,
               arg_max(runner_revision, decided_at) AS runner_revision,
               list(DISTINCT case_id ORDER BY case_id) AS cases, flatten(list(score_keys)) AS score_keys
        FROM chosen GROUP BY ALL),
    graded AS (
        SELECT p.suite, p.runner,
               list({{'evaluator': e.evaluator, 'graders': e.graders}} ORDER BY e.evaluator) AS graders
        FROM pairs p JOIN evaluator_specs e ON e.suite = p.suite AND e.runner = p.runner
             AND list_contains(p.score_keys, e.spec_key)
        WHERE e.graders IS NOT NULL GROUP BY ALL)
    SELECT p.suite, p.runner, p.suite_revision, p.cases, r.settings, r.model, played.simulators, graded.graders
    FROM pairs p
    LEFT JOIN runners r ON r.runner = p.runner AND r.runner_revision = p.runner_revision
    LEFT JOIN played ON played.suite = p.suite AND played.runner = p.runner
    LEFT JOIN graded ON graded.suite = p.suite AND graded.runner = p.runner
    ORDER BY p.suite, p.runner"""


def read_setups(connection: Connection, selection: Selection) -> list[Setup]:
    """Return the setup of each pair of a selection, as of its newest verdict."""
    query = _SETUPS.format(chosen=selection.query("v.*"))
    return [_setup(*row) for row in connection.execute(query, selection.values).fetchall()]


def _setup(
    suite: str, runner: str, revision: str, cases: list[str], settings: str | None, model: str | None,
    simulators: list[str] | None, graders: list[Mapping[str, Any]] | None,
) -> Setup:  # fmt: skip
    values = orjson.loads(settings) if settings else {}
    prompt = next((values[name] for name in PROMPTS if isinstance(values.get(name), str)), None)
    tools = values.get("tools")
    return Setup(
        suite=suite,
        runner=runner,
        prompt=prompt,
        tools=tools if isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools) else None,
        model=model,
        settings={name: value for name, value in values.items() if name not in (*PROMPTS, "tools", "model")},
        graders={each["evaluator"]: orjson.loads(each["graders"]) for each in graders or ()},
        simulators=tuple(simulators or ()),
        suite_revision=revision,
        cases=tuple(cases),
    )
