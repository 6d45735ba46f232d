"""A custom assertion: `type: polite` in an eval file finds this file by its name."""

import json
import sys

seen = json.load(sys.stdin)
text = " ".join(str(message.get("content", "")) for message in seen["output"] or []).lower()
words = (seen["config"] or {}).get("words", ["please", "sorry", "welcome", "may i", "thank"])
found = [word for word in words if word in text]
checks = [{"text": f"says one of {words}", "passed": bool(found)}]
print(json.dumps({"score": 1.0 if found else 0.0, "assertions": checks}))
