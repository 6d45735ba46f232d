"""Puts the results of several evaluators together: as good as the weakest of them."""

import json
import sys

results = json.load(sys.stdin)["results"]
name, weakest = min(results.items(), key=lambda item: item[1]["score"])
print(json.dumps({"score": weakest["score"], "assertions": [{"text": f"{name} is the weakest", "passed": True}]}))
