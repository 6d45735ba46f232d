"""Writes the results that the tests import, with the packages themselves: installed into environments below a folder.

    python -m eval_pipeline_tests.formats.result_logs.write_logs inspect|lm-eval|promptfoo FOLDER

`recorded/` is what they wrote. A test with PEER_LOGS=FOLDER writes them anew, and imports those.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
QUIET = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "INSPECT_DISPLAY": "none",
}  # fmt: skip


def write_logs(system: str, folder: Path) -> Path:
    """Return the folder in which a system wrote its results."""
    logs = folder / "logs" / system
    if not logs.exists():
        WRITERS[system](folder / "installed" / system, logs)
    return logs


def _run(*command: str | Path, cwd: Path = HERE) -> None:
    environment = {**os.environ, **QUIET, "HF_HOME": str(cwd), "PROMPTFOO_CONFIG_DIR": str(cwd / "promptfoo")}
    subprocess.run(command, cwd=cwd, env=environment, check=True)


def _environment(folder: Path, package: str) -> Path:
    """Return the folder of programs of an environment that has the package."""
    if not folder.exists():
        _run(sys.executable, "-m", "venv", folder)
        _run(folder / "bin" / "pip", "install", "--quiet", package)
    return folder / "bin"


def _inspect(installed: Path, logs: Path) -> None:
    programs = _environment(installed, "inspect-ai")
    logs.mkdir(parents=True)
    for format_ in ("eval", "json"):
        _run(programs / "python", HERE / "inspect_task.py", logs / format_, format_, cwd=logs)


def _lm_eval(installed: Path, logs: Path) -> None:
    programs = _environment(installed, "lm-eval")
    logs.mkdir(parents=True)
    for name, text in LM_EVAL.items():
        (logs / name).write_text(text)
    tasks = ",".join(name for name in LM_EVAL if name.endswith(".yaml"))
    command = ("--model", "dummy", "--tasks", tasks, "--output_path", "out", "--log_samples")
    _run(programs / "lm_eval", *command, cwd=logs)


def _promptfoo(installed: Path, logs: Path) -> None:
    if not installed.exists():
        installed.mkdir(parents=True)
        _run("npm", "install", "promptfoo", "--no-audit", "--no-fund", cwd=installed)
    logs.mkdir(parents=True)
    for name, text in PROMPTFOO.items():
        (logs / name).write_text(text)
    command = installed / "node_modules" / ".bin" / "promptfoo"
    try:
        _run(command, "eval", "--no-cache", "--repeat", "2", "-o", "results.json", cwd=logs)
    except subprocess.CalledProcessError as failed:
        if failed.returncode != 100:  # 100: some tests failed, as they should
            raise


DOCUMENTS = """\
{"question": "1 + 1", "answer": "2", "choices": ["1", "2"], "gold": 1}
{"question": "2 + 2", "answer": "4", "choices": ["3", "4"], "gold": 1}
{"question": "3 + 3", "answer": "6", "choices": ["6", "7"], "gold": 0}
"""
GENERATED = """\
task: sums_gen
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "What is {{question}}?"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
repeats: 2
filter_list:
  - {name: first, filter: [{function: take_first}]}
  - {name: number, filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
CHOSEN = """\
task: sums_mc
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}} ="
doc_to_target: gold
doc_to_choice: choices
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
LM_EVAL = {"docs.jsonl": DOCUMENTS, "gen.yaml": GENERATED, "mc.yaml": CHOSEN}
TESTS = """\
description: capitals
prompts: ["Capital of {{country}}?", "In one word: capital of {{country}}?"]
providers:
  - {id: file://provider.js, label: atlas}
  - {id: echo}
tests:
  - vars: {country: France}
    threshold: 0.5
    assert:
      - {type: icontains, value: France}
      - {type: contains, value: Paris, metric: right}
  - {description: spain, vars: {country: Spain}, metadata: {region: south}, assert: [{type: contains, value: Madrid}]}
"""
PROVIDER = """\
module.exports = class {
  id() { return "atlas" }
  async callApi(prompt) {
    if (prompt.includes("Spain") && prompt.includes("one")) return { error: "overloaded" }
    const output = prompt.includes("France") ? "Paris" : "Lisbon"
    return { output, tokenUsage: { total: 12, prompt: 10, completion: 2 }, cost: 0.001 }
  }
}
"""
PROMPTFOO = {"promptfooconfig.yaml": TESTS, "provider.js": PROVIDER}
WRITERS = {"inspect": _inspect, "lm-eval": _lm_eval, "promptfoo": _promptfoo}

if __name__ == "__main__":
    print(write_logs(sys.argv[1], Path(sys.argv[2]).absolute()))
