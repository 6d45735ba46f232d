"""A project with a secret of its own at every place where a secret may be, and the forms in which each may leak."""

from __future__ import annotations

import base64
import html
import json
import random
import shlex
import string
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

import yaml

PIECE = 10
"""Characters of a random secret that are searched for at both of its ends: a secret may be cut."""
LIMIT = 60_000
"""Bytes of output after which the program of the runner `flood` is cut."""
_LETTERS = string.ascii_letters + string.digits
_KINDS = (string.ascii_lowercase, string.digits, string.ascii_uppercase)
PLACES: Mapping[str, str] = {
    "OPENAI_API_KEY": "the key of a chat runner; its server repeats every header in its answers and errors",
    "TENANT": "a header of unknown name",
    "URL_PASS": "the password in an address",
    "QUERY_SIG": "a field in the query of an address, in a command",
    "ODD_PASSWORD": "a value with quotes, umlauts, a backslash and line breaks",
    "SUITE_TOKEN": "`${{ }}` in the input of a case",
    "EVALUATOR_KEY": "`${{ }}` in the arguments of an evaluator",
    "HOOK_SECRET": "output of a hook, and the warning of one that fails",
    "WORKSPACE_TOKEN": "content and names of files in a kept workspace",
    "PRINTED_SECRET": "printed, logged and written by a function and its program; in the message of its exception",
    "AMBIENT_CREDENTIAL": "in the environment only; an agent prints all of it",
    "CUT_TOKEN": "cut by the limit of an output",
    "LISTED": "a harmless name that the project file lists under `secrets`",
    "SHAPED": "a harmless name and a long random value",
    "ARGUMENT": "an argument `--api-key` of a command",
    "BODY_SECRET": "in the body of requests",
    "COOKIE": "a header of a known name",
    "GRADER_SECRET": "the key of a grader whose replies are cached",
}


@dataclass(frozen=True, slots=True)
class Planted:
    """The secrets of one round: values by the name of their environment variable, and harmless values to be kept."""

    values: Mapping[str, str]

    def needles(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield name, form and bytes of everything that must not be found."""
        for name, value in self.values.items():
            seen: set[bytes] = set()
            for form, needle in _forms(value):
                if needle not in seen:
                    seen.add(needle)
                    yield name, form, needle


def plant(seed: str) -> Planted:
    """Return a value for each place, the same for the same seed."""
    choice = random.Random(seed)
    values = {name: "".join(choice.choices(_LETTERS, k=28)) for name in PLACES}
    values["SHAPED"] = "".join(choice.choice(letters) for letters in _KINDS * 9)  # of others a few look like words
    values["ODD_PASSWORD"] = f"q\"uo'te\\{values['ODD_PASSWORD'][:12]}<&>üöß/\n{values['ODD_PASSWORD'][12:]}+=%"
    return Planted(values)


def _forms(value: str) -> Iterator[tuple[str, bytes]]:
    """The forms that this test knows, written apart from those of the product."""
    ascii_json, wide_json = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    texts = {
        "plain": value,
        "json": ascii_json,
        "json, wide": wide_json,
        "json in json": json.dumps(ascii_json)[1:-1],
        "json, wide, in json": json.dumps(wide_json)[1:-1],
        "url": quote(value, safe=""),
        "path": quote(value),
        "form": quote_plus(value),
        "html": html.escape(value),
        "html text": html.escape(value, quote=False),
        "shell": shlex.quote(value).strip("'"),
        "repr": repr(value)[1:-1],
    }
    for form, text in texts.items():
        yield form, text.encode()
    for before in range(3):
        for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
            yield f"base64 after {before}", alphabet(b"x" * before + value.encode())[4 if before else 0 : -4]
    if value.isalnum():
        yield "beginning", value[:PIECE].encode()
        yield "end", value[-PIECE:].encode()


def write_project(root: Path, address: str) -> None:
    """Write the project; its secrets come from the environment. `address` is that of a server that repeats headers."""
    (root / "suites" / "template").mkdir(parents=True)
    (root / "suites" / "template" / "notes.txt").write_text("notes\n")
    (root / "agent.py").write_text(_AGENT)
    (root / "answers.py").write_text(_ANSWERS)
    (root / "hook.py").write_text(_HOOK)
    (root / "eval-pipeline.yaml").write_text(
        yaml.safe_dump(
            {
                "suites": "suites/*.yaml",
                "secrets": ["LISTED"],
                "defaults": {"keep_workspaces": "always", "grader": "judge"},
            }
        )
    )
    (root / "runners.yaml").write_text(yaml.safe_dump({"runners": list(_runners(address))}))
    (root / "suites" / "planted.yaml").write_text(yaml.safe_dump(_suite(root)))


def _runners(address: str) -> Iterator[dict[str, object]]:
    host = address.removeprefix("http://")
    chat = {"adapter": "chat", "model": "gpt-4o-mini-2024-07-18", "retries": 1}
    yield {
        "name": "api",
        **chat,
        "base_url": f"{address}/v1",
        "api_key": "${{ OPENAI_API_KEY }}",
        "headers": {"X-Tenant": "${{ TENANT }}", "Cookie": "session=${{ COOKIE }}", "Accept-Language": "de-CH"},
        "body": {"metadata": {"secret": "${{ BODY_SECRET }}"}},
    }
    yield {"name": "userinfo", **chat, "base_url": f"http://user:${{{{ URL_PASS }}}}@{host}/v1"}
    yield {"name": "judge", **chat, "base_url": f"{address}/v1", "api_key": "${{ GRADER_SECRET }}"}
    query = f"{address}/x?sig=${{{{ QUERY_SIG }}}}&page=2"
    yield {
        "name": "program",
        "adapter": "command",
        "command": ["python3", "../agent.py", "--api-key", "${{ ARGUMENT }}", query, "{PROMPT}"],
        "cwd": "suites",
        "env": {"ODD": "${{ ODD_PASSWORD }}", "PLAIN_NAME": "${{ SHAPED }}"},
    }
    flood = f"import os, sys; print('x' * ({LIMIT} - 15) + os.environ['CUT_TOKEN'] * 99, flush=True)"
    yield {"name": "flood", "adapter": "command", "command": ["python3", "-c", flood], "max_output_mb": LIMIT / 1e6}
    yield {"name": "function", "adapter": "python", "function": "answers:answer"}


def _suite(root: Path) -> dict[str, object]:
    hook = {"command": ["python3", str(root / "hook.py")]}
    grade = {"type": "llm-grader", "prompt": "Is {{ output }} fine? ${{ EVALUATOR_KEY }}"}
    return {
        "name": "planted",
        "tests": [
            {"id": "answer", "input": "say it: ${{ SUITE_TOKEN }}", "assertions": [
                {"type": "contains", "value": "${{ EVALUATOR_KEY }}"}, grade]},
            {"id": "fail", "input": "fail", "criteria": "it fails"},
            {"id": "work", "input": "work", "criteria": "it works", "workspace": {
                "template": "template", "hooks": {"before_each": hook, "after_each": hook}}},
        ],
    }  # fmt: skip


_AGENT = textwrap.dedent('''
    """Prints its environment in every form, and writes it into files and names of files."""
    import base64, html, json, os, shlex, sys
    from pathlib import Path
    from urllib.parse import quote, quote_plus

    values = [value for name, value in os.environ.items() if name.isupper() and value] + sys.argv[1:]
    forms = [str, json.dumps, lambda v: json.dumps(v, ensure_ascii=False), lambda v: json.dumps(json.dumps(v)), quote,
             lambda v: quote(v, safe=""), quote_plus, html.escape, shlex.quote, repr,
             lambda v: base64.b64encode(v.encode()).decode(), lambda v: base64.b64encode(b"ab" + v.encode()).decode(),
             lambda v: base64.urlsafe_b64encode(b"c" + v.encode()).decode()]
    for form in forms:
        for value in values:
            print(form(value))
            print(form(value), file=sys.stderr)
    if os.environ.get("EVAL_PIPELINE_WORKSPACE") or sys.argv[-1] == "work":
        token = os.environ["WORKSPACE_TOKEN"]
        Path("leaked.txt").write_text("it is " + token)
        Path(token + ".txt").write_text("x")
        Path("dir-" + token).mkdir()
        Path("dir-" + token, "b64").write_text(base64.b64encode(token.encode()).decode())
    if sys.argv[-1] == "fail":
        sys.exit(3)
''')
_ANSWERS = textwrap.dedent("""
    import logging, os, subprocess, sys

    def answer(prompt):
        secret = os.environ["PRINTED_SECRET"]
        print("printed", secret)
        print("printed", secret, file=sys.stderr)
        os.write(1, ("written " + secret + "\\n").encode())
        subprocess.run(["sh", "-c", "printf %s $PRINTED_SECRET; echo program $PRINTED_SECRET >&2"])
        logging.getLogger("theirs").warning("logged %s", secret)
        if prompt == "fail":
            raise ValueError("no access with " + secret)
        return "it is " + secret
""")
_HOOK = textwrap.dedent("""
    import json, os, sys
    print("hook", os.environ["HOOK_SECRET"])
    print("hook", os.environ["HOOK_SECRET"], file=sys.stderr)
    sys.exit(1 if "after" in json.load(sys.stdin)["test_id"] or os.path.exists("leaked.txt") else 0)
""")
