"""A project with hostile texts, carried out once, and the server of its page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from eval_pipeline.pages.server import Documents, make_app
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

EVIL = "<img src=x onerror=\"document.title='attacked'\"><script>document.title='attacked'</script>"
HOSTILE = {
    "name": "hostile",
    "execution": {"targets": ["parrot", "greeter"]},
    "assertions": [{"name": "polite", "type": "icontains", "value": "hello"}],
    "tests": [
        {"id": "script", "input": EVIL, "tags": ["<b>tag</b>"], "criteria": EVIL, "expected_output": EVIL},
        {"id": "odd/name?&#%", "input": "a plain question", "criteria": "a greeting"},
        {"id": "hidden", "input": "right\u202eto left", "criteria": "a greeting"},
    ],
}


@dataclass(frozen=True, slots=True)
class Served:
    """A page while its server runs."""

    url: str
    port: int

    def get(self, path: str = "/", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.get(f"{self.url}{path}", headers=named, timeout=30)

    def document(self, name: str, **parameters: Any) -> Any:
        answer = httpx.get(f"{self.url}/api/{name}", params=parameters, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()


def make_page_project(folder: Path) -> CliProject:
    """Return a project with two sweeps; the second differs by an answer that fails now."""
    project = make_cli_project(folder)
    (folder / "suites" / "hostile.yaml").write_text(json.dumps(HOSTILE))  # JSON is YAML
    assert project("run", "--quiet").code in (0, 1)
    script = folder / "greet.sh"
    script.write_text(script.read_text().replace('*) echo "hello $who"', 'Ann) echo "no" ;;\n  *) echo "hello $who"'))
    assert project("run", "--quiet", "--refresh", "all").code in (0, 1)
    return project


@contextmanager
def served_page(data: Path) -> Iterator[Served]:
    """The server of a data folder's page, in a thread of this process."""
    app = make_app(Documents(DuckDBWarehouse(data)), "127.0.0.1")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    started = threading.Event()
    server_startup = server.startup

    async def startup(sockets: Any = None) -> None:
        await server_startup(sockets)
        started.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert started.wait(120)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}", port)
    finally:
        server.should_exit = True
        thread.join(30)
