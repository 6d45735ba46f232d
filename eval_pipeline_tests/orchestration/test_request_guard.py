"""What `eval-pipeline dev` refuses: requests that pages of other sites make a browser send."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import httpx
import pytest

from eval_pipeline.cli.main import main
from eval_pipeline_tests.local_server import Reply, serve
from eval_pipeline_tests.orchestration.browser import find_chromium, open_browser
from eval_pipeline_tests.orchestration.dev_servers import PROXY, Ui

LAUNCH = """mutation { launchRun(executionParams: {selector: {repositoryLocationName: "eval_pipeline",
repositoryName: "__repository__", jobName: "sweep"}, runConfigData: {}}) { __typename } }"""
RUNS = '{ runsOrError(filter: {pipelineName: "sweep"}) { ... on Runs { results { runId } } } }'

PAGE = """<!doctype html><body>attacking<script>
const url = "URL", launch = LAUNCH;
const address = url + "/graphql?query=" + encodeURIComponent(launch);
const attempts = {
  get: fetch(address, {mode: "no-cors"}),
  post: fetch(address, {mode: "no-cors", method: "POST", headers: {"content-type": "text/plain"}, body: "x"}),
  json: fetch(url + "/graphql", {method: "POST", headers: {"content-type": "application/json"},
                                 body: JSON.stringify({query: launch})}),
  report: fetch(url + "/report_asset_materialization/suites", {mode: "no-cors", method: "POST", body: "{}"}),
  image: new Promise((resolve, reject) => { const i = new Image(); i.onload = resolve; i.onerror = reject;
                                            i.src = address; }),
  socket: new Promise((resolve, reject) => { const s = new WebSocket(url.replace("http", "ws") + "/graphql",
    "graphql-ws"); s.onopen = () => resolve("opened"); s.onerror = () => reject("refused"); }),
};
const frame = document.createElement("iframe"); frame.src = url + "/runs"; document.body.append(frame);
Promise.allSettled(Object.entries(attempts).map(([name, attempt]) => attempt.then(
  answer => name + "=" + (answer.type || answer), problem => name + "=refused"))).then(all => {
    document.body.append(all.map(each => each.value).join(" ") + " done"); });
</script></body>"""


@dataclass(frozen=True, slots=True)
class Served:
    """The UI of a project, started for a proxy of one name."""

    url: str
    port: int

    def get(self, path: str = "/server_info", **headers: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=named(headers), timeout=60)

    def post(self, query: str = RUNS, **headers: str) -> httpx.Response:
        return httpx.post(f"{self.url}/graphql", json={"query": query}, headers=named(headers), timeout=60)

    def runs(self) -> list[Any]:
        runs: list[Any] = self.post().json()["data"]["runsOrError"]["results"]
        return runs

    async def socket(self, **headers: str) -> str:
        """Return `opened`, or the status by which a websocket is refused."""
        async with aiohttp.ClientSession() as session:
            try:
                async with session.ws_connect(f"{self.url}/graphql", headers=named(headers), protocols=("graphql-ws",)):
                    return "opened"
            except aiohttp.WSServerHandshakeError as error:
                return str(error.status)


def named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.fixture(scope="package")
def served(ui: Ui) -> Served:
    return Served(ui.url, int(ui.url.rpartition(":")[2]))


@pytest.mark.slow
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "[::1]:8080", PROXY, f"{PROXY}:8443"])
def test_hosts_of_this_machine_and_of_the_named_proxy_are_served(served: Served, host: str) -> None:
    assert served.get(host=host).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example", "localhost.", "8.8.8.8", "["])
def test_a_foreign_host_is_refused_with_the_option_that_allows_it(served: Served, host: str) -> None:
    answer = served.get(host=host)

    assert answer.status_code == 403
    assert "--allowed-host" in answer.text


@pytest.mark.slow
def test_programs_and_the_pages_of_the_ui_may_change_things(served: Served) -> None:
    assert served.post(LAUNCH.replace('"sweep"', '"no-such-job"')).status_code == 200
    assert served.post(origin=served.url).status_code == 200
    assert served.post(origin=f"https://{PROXY}").status_code == 200
    assert served.post(origin=f"https://{PROXY}", host=f"{PROXY}").status_code == 200
    assert asyncio.run(served.socket()) == "opened"
    assert asyncio.run(served.socket(origin=served.url)) == "opened"
    assert asyncio.run(served.socket(origin=f"https://{PROXY}")) == "opened"


@pytest.mark.slow
@pytest.mark.parametrize(
    "origin", ["https://attacker.example", "null", "http://localhost:1", "http://127.0.0.1", "file://", ""]
)
def test_a_foreign_origin_is_refused(served: Served, origin: str) -> None:
    assert served.post(origin=origin).status_code == 403
    assert asyncio.run(served.socket(origin=origin)) == "403"


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [f"query={quote(LAUNCH)}", f"query=%7Ba%7D&query={quote(LAUNCH)}", f"query={quote('query A{a} ' + LAUNCH)}"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_mutation_in_an_address_is_refused(served: Served, query: str, method: str) -> None:
    before = served.runs()

    assert httpx.request(method, f"{served.url}/graphql?{query}", timeout=60).status_code == 403
    assert served.runs() == before


@pytest.mark.slow
def test_a_query_in_an_address_and_the_page_that_edits_queries_stay(served: Served) -> None:
    assert served.get(f"/graphql?query={quote(RUNS)}").json()["data"]["runsOrError"] is not None
    assert "GraphiQL" in served.get(f"/graphql?query={quote(LAUNCH)}", accept="text/html").text


@pytest.mark.slow
def test_pages_are_not_framed_and_not_embedded_by_other_sites(served: Served) -> None:
    headers = served.get("/runs", accept="text/html").headers
    framed = served.get("/runs", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe")
    embedded = served.get("/runs", sec_fetch_site="same-site", sec_fetch_mode="no-cors", sec_fetch_dest="image")
    link = served.get("/runs", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")

    assert headers["x-frame-options"] == "SAMEORIGIN"
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    assert [framed.status_code, embedded.status_code, link.status_code] == [403, 403, 200]


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_page_of_another_origin_starts_nothing_in_a_real_browser(served: Served, tmp_path: Path) -> None:
    script = re.sub(r"\s+", " ", LAUNCH).replace('"', '\\"')
    page = PAGE.replace("URL", served.url).replace("LAUNCH", f'"{script}"', 1)
    before = served.runs()

    with attacker(page) as site, open_browser(str(find_chromium()), tmp_path / "profile") as browser:
        text = browser.read(site.url, "done")

    assert served.runs() == before
    assert "socket=refused" in text
    assert "json=refused" in text
    assert "image=refused" in text


def attacker(page: str) -> Any:
    """A site of another origin, which answers every request with one page."""
    reply = Reply(body=page.encode(), headers={"content-type": "text/html; charset=utf-8"})
    return serve(reply)


def test_an_address_is_no_allowed_host(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["dev", "--allowed-host", "https://evals.example.com/"])

    assert left.value.code == 2
    assert "'https://evals.example.com/' is not a host" in capsys.readouterr().err
