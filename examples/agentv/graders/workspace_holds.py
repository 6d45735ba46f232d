"""Runs Python in the workspace as the agent left it, and looks at what the agent changed there.

Its configuration: `run` (what Python is to run, such as the tests), `changed` (the files that may have changed).
"""

import json
import os
import subprocess
import sys

seen = json.load(sys.stdin)
config, folder = seen["config"] or {}, seen["workspace_path"]
checks = []
if "run" in config:
    command = [sys.executable, "-B", *config["run"]]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folder})
    text = f"python {' '.join(config['run'])} ends well"
    checks.append({"text": text, "passed": ran.returncode == 0, "evidence": ran.stderr[-300:]})
if "changed" in config:
    marks = [line[4:] for line in (seen["file_changes"] or "").splitlines() if line.startswith(("--- ", "+++ "))]
    changed = sorted({mark[2:] for mark in marks if mark != "/dev/null"})
    checks.append({"text": f"changed: {changed}", "passed": changed == sorted(config["changed"])})
score = sum(check["passed"] for check in checks) / len(checks)
print(json.dumps({"score": score, "assertions": checks}))
