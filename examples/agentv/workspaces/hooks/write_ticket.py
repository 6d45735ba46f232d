"""A before_each hook: what it is told about the case comes as JSON on stdin."""

import json
import sys
from pathlib import Path

told = json.load(sys.stdin)  # workspace_path, test_id, eval_run_id, case_input, case_metadata
metadata = told["case_metadata"] or {}
ticket = f"# {metadata.get('ticket', 'no ticket')} ({told['test_id']})\n\n{told['case_input']}\n"
Path(told["workspace_path"], "TICKET.md").write_text(ticket)
print("wrote the ticket")
