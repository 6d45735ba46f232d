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
)
