"""Graders on AgentV's real SDKs, of 4.9 and of 4.42: each gets the input that it validates, and grades.

The SDKs are those of checkouts of AgentV with built packages (`AGENTV_CHECKOUT_4_9`, `AGENTV_CHECKOUT_4_42`).
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project, index_rows

SDKS = {"AGENTV_CHECKOUT_4_9": ("@agentv/eval", "eval"), "AGENTV_CHECKOUT_4_42": ("@agentv/sdk", "sdk")}
GRADER = """\
import { defineCodeGrader } from '%s';
export default defineCodeGrader(({ output, trace, tokenUsage, config }) => {
  const text = typeof output === 'string' ? output : String(output?.at(-1)?.content);
  return {
    score: text.includes('four') && tokenUsage?.input === 9 ? 1 : 0,
    assertions: [{ text: `${Array.isArray(output) ? 'messages' : typeof output}`, passed: true },
                 { text: `${'events' in (trace ?? {})} ${config?.least}`, passed: true }],
  };
});
"""
ANSWER = {
    "output": [
        {"role": "assistant", "content": "four", "tool_calls": [{"tool": "add", "input": {"a": 2}, "output": 4}]}
    ],
    "token_usage": {"input": 9, "output": 4},
}
SUITE = """\
tests:
  - id: a
    input: 2 + 2
    criteria: c
    assertions:
      - {name: sdk, type: code-grader, command: [bun, run, grader.ts], least: 3}
"""
TARGETS = "targets:\n  - name: default\n    provider: cli\n    command: cp answer.json {OUTPUT_FILE}\n"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("variable", "seen"),
    [
        pytest.param("AGENTV_CHECKOUT_4_9", ["messages", "false 3"], id="4.9"),
        pytest.param("AGENTV_CHECKOUT_4_42", ["string", "true 3"], id="4.42"),
    ],
)
def test_a_grader_on_the_real_sdk_gets_the_input_of_its_version(tmp_path: Path, variable: str, seen: list[str]) -> None:
    package, folder = SDKS[variable]
    sdk = Path(os.environ.get(variable, "")) / "packages" / folder
    if variable not in os.environ or not (sdk / "dist").is_dir() or shutil.which("bun") is None:
        pytest.skip(f"{variable} names no checkout with built packages, or bun is not installed")
    version = json.loads((sdk / "package.json").read_text())["version"]
    (tmp_path / "node_modules/@agentv").mkdir(parents=True)
    (tmp_path / "node_modules" / package).symlink_to(sdk)
    project = an_agentv_project(
        tmp_path,
        {
            "package.json": json.dumps({"dependencies": {package: version}}),
            ".agentv/targets.yaml": TARGETS,
            "answer.json": json.dumps(ANSWER),
            "grader.ts": GRADER % package,
            "sums.eval.yaml": SUITE,
        },
    )

    ran = project("run", "sums.eval.yaml", "--quiet")

    (score,) = index_rows(project)[0]["scores"]
    assert (score["score"], [each["text"] for each in score["assertions"]]) == (1.0, seen), ran.text
