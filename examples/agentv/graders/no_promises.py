"""A `script`: the answer's text is `output` on stdin; ending with 0 says yes, and what is printed is the reason."""

import json
import sys

output = json.load(sys.stdin)["output"]
promises = [word for word in ("guarantee", "promise") if word in output.lower()]
print(f"it says {promises}" if promises else "it promises nothing")
sys.exit(1 if promises else 0)
