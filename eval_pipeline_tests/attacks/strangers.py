"""Strangers: requests of other sites' pages to the UI, links that lead out of workspaces, what targets leave in clones.

The guard passes no request that a page of another site makes a browser send, and refuses none of our own; nothing
outside of a workspace is written; the next sweep finds a pooled clone as the first one did.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from eval_pipeline.cli.request_guard import guarded
from eval_pipeline.pages.request_guard import Message, Receive, Scope, Send
from eval_pipeline.suites.workspace import WorkspaceFile
from eval_pipeline_tests.attacks.findings import Attack, Findings, carry_out
from eval_pipeline_tests.executions.sample_workspaces import (
    SampleWorkspaces,
    a_repository,
    cloned,
    failure_of,
    one_case,
    plan_for,
)
from eval_pipeline_tests.executions.test_workspaces_kept_state import ATTACKS as LEFT_IN_CLONES

OURS = "127.0.0.1:3000"
PROXY = "evals.example.com"
LAUNCH = "mutation { launchRun(executionParams: {}) { __typename } }"
Request = dict[str, Any]


def attack(seconds: float, seed: str, folder: Path) -> Findings:
    """Carry out every kind of attack, then again with other random values, until the time is over."""
    return carry_out(ATTACKS, seconds, seed, folder)


def _passes(request: Mapping[str, Any]) -> bool:
    """Whether the guard passes a request on."""
    passed: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        passed.append(scope)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        pass

    headers = {"host": OURS, **request.get("headers", {})}
    scope = {
        "type": "http", "method": "POST", "path": "/graphql", "query_string": b"", "server": ("127.0.0.1", 3000),
        **request, "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(guarded(application, "127.0.0.1", [PROXY])(scope, receive, send))
    return bool(passed)


def _refused(make: Callable[[random.Random], Request], folder: Path, rng: random.Random) -> str | None:
    requests = [make(rng) for _ in range(100)]
    passed = [request for request in requests if _passes(request)]
    return f"{len(passed)} of 100 passed, such as {passed[0]}" if passed else None


def _served(make: Callable[[random.Random], Request], folder: Path, rng: random.Random) -> str | None:
    requests = [make(rng) for _ in range(100)]
    refused = [request for request in requests if not _passes(request)]
    return f"{len(refused)} of 100 were refused, such as {refused[0]}" if refused else None


def _name(rng: random.Random) -> str:
    return "".join(rng.choice("abcxyz0189-") for _ in range(rng.randint(1, 12)))


def _foreign(rng: random.Random) -> str:
    name = f"{_name(rng)}x.example"
    return rng.choice([
        name, f"{name}:3000", f"127.0.0.1.{name}", f"{PROXY}.{name}", f"localhost.{name}", "localhost.", "8.8.8.8",
        f"{name}\\@127.0.0.1", f"127.0.0.1@{name}", "[", "", "0.0.0.0", "2130706433", f"x{PROXY}", "127.0.0.1x",
    ])  # fmt: skip


def _foreign_origin(rng: random.Random) -> str:
    scheme = rng.choice(["http", "https", "file", "data", "chrome-extension", "HTTP"])
    return rng.choice([
        f"{scheme}://{_foreign(rng)}", "null", "", "file://", f"http://127.0.0.1:{rng.randint(1, 2_999)}", "http://localhost",
        "http://127.0.0.1", f"{_name(rng)}://{OURS}", f"http://{OURS}.{_name(rng)}", f"http://{OURS}/", f"http://x@{OURS}",
    ])  # fmt: skip


def _mutation(rng: random.Random) -> Request:
    document = rng.choice([
        LAUNCH, f"query A {{ a }} {LAUNCH}", f"# {{\n{LAUNCH}", f"fragment F on Q {{ a }} {LAUNCH}",
        LAUNCH.replace("mutation", "mutation M"), LAUNCH.replace("mutation", "subscription"),
        f"\ufeff{LAUNCH}", f",,{LAUNCH}",
    ])  # fmt: skip
    name = rng.choice(["query", "qu%65ry", "%71uery"])
    query = rng.choice(
        [f"{name}={quote(document)}", f"query=%7Ba%7D&{name}={quote(document)}", f"a=b&{name}={quote(document)}"]
    )
    return {"method": rng.choice(["GET", "HEAD", "POST", "PUT", "OPTIONS"]), "query_string": query.encode()}


def _site(rng: random.Random) -> str:
    return rng.choice(["cross-site", "same-site", "Cross-Site", _name(rng)])


def _embedding(rng: random.Random) -> Request:
    destination = rng.choice(
        ["image", "script", "style", "empty", "video", "font", "iframe", "frame", "embed", "object"]
    )
    mode = "navigate" if destination in ("iframe", "frame", "embed", "object") else rng.choice(["no-cors", "cors"])
    fetch = {"sec-fetch-site": _site(rng), "sec-fetch-mode": mode, "sec-fetch-dest": destination}
    return {"method": rng.choice(["GET", "POST"]), "path": rng.choice(["/runs", "/graphql"]), "headers": fetch}


def _own(rng: random.Random) -> Request:
    host = rng.choice([OURS, "localhost:3000", "[::1]:3000", "127.9.9.9", PROXY, f"{PROXY}:8443"])
    origin = rng.choice([{}, {"origin": f"http://{host}"}, {"origin": f"https://{PROXY}"}])
    fetch = rng.choice([{}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}])
    kind = rng.choice(["http", "websocket"])
    return {
        "type": kind,
        "headers": {"host": host, **origin, **fetch},
        "query_string": rng.choice([b"", b"query=%7Ba%7D"]),
    }


def _written_outside(
    make: Callable[[SampleWorkspaces, Path, random.Random], None], folder: Path, rng: random.Random
) -> str | None:
    home = folder / "home"
    home.mkdir()
    (home / ".bashrc").write_text("mine\n")
    make(SampleWorkspaces(folder), home, rng)
    content = {path.name: path.read_text() for path in home.rglob("*") if path.is_file()}
    return None if content == {".bashrc": "mine\n"} else f"written outside: {content}"


def _linking_template(samples: SampleWorkspaces, home: Path, rng: random.Random) -> str:
    """Make a template with a link to the home folder at a random depth; return the link's path."""
    template = samples.template(a="a")
    path = "/".join([*("d" * rng.randint(1, 3) for _ in range(rng.randint(0, 3))), "out"])
    (template / path).parent.mkdir(parents=True, exist_ok=True)
    (template / path).symlink_to(rng.choice([home, Path(os.path.relpath(home, (template / path).parent))]))
    return path


def _file_through_link(samples: SampleWorkspaces, home: Path, rng: random.Random) -> None:
    link = _linking_template(samples, home, rng)
    origin = samples.folder / "file-of-the-suite"
    origin.write_text("theirs\n")
    file = WorkspaceFile(
        path=f"{link}/{rng.choice(['.bashrc', 'new/.profile', '.ssh/authorized_keys'])}", origin=origin, sha256="0" * 64
    )
    failure_of(samples.workspaces(), plan_for(samples.spec(template=samples.folder / "template", files=(file,))))


def _clone_through_link(samples: SampleWorkspaces, home: Path, rng: random.Random) -> None:
    link = _linking_template(samples, home, rng)
    repository = cloned(
        a_repository(samples.folder / "origin", {"number": "1\n"}), f"{link}/{rng.choice(['r', 'r/s'])}"
    )
    mode = rng.choice(["temp", "pooled"])
    failure_of(
        samples.workspaces(),
        plan_for(samples.spec(template=samples.folder / "template", mode=mode, repositories=(repository,))),
    )


def _left_in_clone(line: str, folder: Path, rng: random.Random) -> str | None:
    samples = SampleWorkspaces(folder)
    spec = samples.spec(
        mode="pooled", repositories=(cloned(a_repository(folder / "origin", {"number": "1\n", "other": "2\n"})),)
    )
    found: list[dict[str, bytes]] = []

    def spoil(at: Path) -> None:
        os.system(f"cd '{at}/repo' && {{ {line}; }} >/dev/null 2>&1")

    def look(at: Path) -> None:
        found.append({path.name: path.read_bytes() for path in (at / "repo").iterdir() if path.is_file()})

    one_case(samples.workspaces(), plan_for(spec), spoil)
    one_case(samples.workspaces(sweep_id="2"), plan_for(spec), look)
    return None if found == [{"number": b"1\n", "other": b"2\n"}] else f"the next sweep finds {found}"


def _headers(name: str, make: Callable[[random.Random], str], **more: Any) -> Callable[[random.Random], Request]:
    return lambda rng: {**more, "headers": {name: make(rng)}}


REFUSED: dict[str, Callable[[random.Random], Request]] = {
    "100 requests under a foreign host": _headers("host", _foreign),
    "100 requests of a foreign origin": _headers("origin", _foreign_origin),
    "100 websockets of a foreign origin": _headers("origin", _foreign_origin, type="websocket"),
    "100 mutations in an address": _mutation,
    "100 frames and embedded addresses": _embedding,
}
ATTACKS: dict[str, Attack] = {
    **{name: partial(_refused, make) for name, make in REFUSED.items()},
    "100 requests of our own pages (served)": partial(_served, _own),
    "a file through a link of a template": partial(_written_outside, _file_through_link),
    "a clone through a link of a template": partial(_written_outside, _clone_through_link),
    **{f"left in a pooled clone: {case.id}": partial(_left_in_clone, str(case.values[0])) for case in LEFT_IN_CLONES},
}
