#!/usr/bin/env python3
"""A coding agent of one page, in the place of a CLI of npm: it speaks chat completions and prints what Codex prints.

Its provider is at OPENAI_BASE_URL. The prompt comes on standard input, `--model` names the model; other options are
those of `codex exec` and have no effect.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

TOOLS = {
    "shell": {"command": {"type": "string"}},
    "write_file": {"path": {"type": "string"}, "content": {"type": "string"}},
}
MOST_STEPS = 20


def ask(model, messages):
    """Send the conversation, read the stream of the answer; return its message and usage."""
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": given}}}
        for name, given in TOOLS.items()
    ]
    body = {"model": model, "messages": messages, "tools": tools, "stream": True}
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    text, calls, usage = "", {}, {}
    with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), headers)) as stream:
        for line in stream:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                for part in choice["delta"].get("tool_calls", []):
                    call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                    call["id"] += part.get("id", "")
                    call["name"] += part["function"].get("name", "")
                    call["arguments"] += part["function"].get("arguments", "")
    return text, list(calls.values()), usage


def use(number, call):
    """Carry out a call of a tool, and print it as Codex does; return what the model is told."""
    arguments = json.loads(call["arguments"])
    if call["name"] == "write_file":
        Path(arguments["path"]).write_text(arguments["content"])
        change = {"path": str(Path(arguments["path"]).absolute()), "kind": "update"}
        show("item.completed", item={"id": number, "type": "file_change", "changes": [change], "status": "completed"})
        return "written"
    done = subprocess.run(["bash", "-lc", arguments["command"]], capture_output=True, text=True)
    item = {
        "id": number,
        "type": "command_execution",
        "command": arguments["command"],
        "exit_code": done.returncode,
        "aggregated_output": done.stdout + done.stderr,
        "status": "failed" if done.returncode else "completed",
    }
    show("item.completed", item=item)
    return done.stdout + done.stderr


def show(kind, **values):
    print(json.dumps({"type": kind, **values}), flush=True)


def main():
    model = sys.argv[sys.argv.index("--model") + 1]
    messages = [{"role": "user", "content": f"You work in {Path.cwd()}.\n\n{sys.stdin.read()}"}]
    spent = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    show("thread.started", thread_id="0a1b2c3d-0000-4000-8000-000000000001")
    show("turn.started")
    for step in range(MOST_STEPS):
        try:
            text, calls, usage = ask(model, messages)
        except urllib.error.HTTPError as error:
            show("turn.failed", error={"message": f"unexpected status {error.code}: {error.read().decode()}"})
            sys.exit(1)
        spent["input_tokens"] += usage.get("prompt_tokens", 0)
        spent["output_tokens"] += usage.get("completion_tokens", 0)
        if text:
            show("item.completed", item={"id": f"text_{step}", "type": "agent_message", "text": text})
        if not calls:
            break
        asked = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls
        ]
        messages.append({"role": "assistant", "content": text or None, "tool_calls": asked})
        for index, call in enumerate(calls):
            told = use(f"item_{step}_{index}", call)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": told})
    show("turn.completed", usage=spent)


if __name__ == "__main__":
    main()
