"""Names that AgentV's users expect outside of eval files. Values only: file search and programs import this early."""

from __future__ import annotations

from eval_pipeline.parsing.compatibility import (
    GRADER_TOKEN_VARIABLE,
    GRADER_URL_VARIABLE,
    WORKSPACE_VARIABLE,
    Compatibility,
)

AGENTV = Compatibility(
    title="AgentV",
    project_marks=(".agentv",),
    variables={
        WORKSPACE_VARIABLE: ("AGENTV_WORKSPACE_PATH",),
        GRADER_URL_VARIABLE: ("AGENTV_TARGET_PROXY_URL", "AGENTV_PROVIDER_PROXY_URL"),
        GRADER_TOKEN_VARIABLE: ("AGENTV_TARGET_PROXY_TOKEN", "AGENTV_PROVIDER_PROXY_TOKEN"),
    },
    recording_schemas=("agentv.replay_fixture.v1",),
    evaluator_names={"llm-judge": "llm-grader", "code-judge": "code-grader"},
    command_words={
        "eval": "run FILES",
        "runs": "run --refresh failed, or run --case ID --refresh all",
        "inspect": "show, leaderboard, sql",
        "results": "show, leaderboard, export, delete",
        "transpile": "convert --to agent-skills",
        "workspace": "delete",
        "create": "init",
        **dict.fromkeys(("dashboard", "serve", "studio"), "dev, view"),
        "--target": "--runner NAME",
        "--targets": "--runners FILE",
        "--test-id": "--case ID",
        "--workers": "--concurrency N",
        "--budget-usd": "--budget USD",
        "--grader-target": "--grader NAME",
        **dict.fromkeys(("--retry-errors", "--rerun-failed"), "--refresh failed"),
        **dict.fromkeys(("--cache", "--no-cache"), "answers are always kept; --refresh all executes anew"),
        "--record-replay": "every run records; export --format agentv-replay writes the file",
        "--transcript": "a target with provider: transcript",
        "--experiment": "export --format agentv-4-42 --experiment NAME",
        "--output": "export --format agentv --output DIR",
        "--out": "export --format agentv-jsonl --output FILE",
        "--dry-run": "plan",
    },
)
