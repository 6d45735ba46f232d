"""A code grader as AgentV has them: one JSON object in on stdin, one out on stdout."""

import json
import sys

FORGIVING = True  # a little too long is a little worse, not wrong

seen = json.load(sys.stdin)
text = " ".join(str(message.get("content", "")) for message in seen["output"] or [])
most = (seen["config"] or {}).get("most_words", 60)
count = len(text.split())
over = max(0.0, count / most - 1)
checks = [{"text": f"{count} words, at most {most}", "passed": not over}]
score = max(0.0, 1 - over) if FORGIVING else float(not over)
print(json.dumps({"score": score, "assertions": checks, "details": {"words": count}}))
