"""A code grader that asks a model itself, through the proxy that its environment names."""

import json
import os
import sys
import urllib.request

seen = json.load(sys.stdin)
request = urllib.request.Request(
    os.environ["AGENTV_TARGET_PROXY_URL"] + "/invoke",
    data=json.dumps({"question": "has to achieve:\n" + (seen["criteria"] or "")}).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["AGENTV_TARGET_PROXY_TOKEN"],
        "Content-Type": "application/json",
    },
)
with urllib.request.urlopen(request, timeout=30) as reply:
    said = json.load(reply)
print(json.dumps({"score": 1.0 if said["output"] else 0.0, "details": {"said": said["output"]}}))
