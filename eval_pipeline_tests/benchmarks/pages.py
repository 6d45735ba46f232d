"""What the page of `eval-pipeline view` costs beside 100,000 executions.

Time and bytes of its documents; in Chromium the time until they are shown, and the longest pause while a person scrolls
through 10,000 cases.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.benchmarks.generated_rows import Size, fill_warehouse
from eval_pipeline_tests.orchestration.browser import See, find_chromium, open_browser

SIZE = Size(suites=2, runners=5, cases=10_000)
_QUICK = Size(suites=2, runners=5, cases=1_000)
SUITE = "bulk-0000"
FILES = ("/", "/app.js")
ADDRESSES = {
    "board": "/api/board",
    "grid": f"/api/suite?suite={SUITE}",
    "50 rows": f"/api/rows?suite={SUITE}&" + "&".join(f"case=case-{number:06d}" for number in range(50)),
    "text": f"/api/search?suite={SUITE}&text=answer",
    "case": f"/api/case?suite={SUITE}&case=case-000007",
}
_ASK = """
import asyncio, json, sys, time
from pathlib import Path

import httpx

from eval_pipeline.pages.server import Documents, make_app
from eval_pipeline.pages.static_files import static_files
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse


async def main():
    app = make_app(Documents(DuckDBWarehouse(Path(sys.argv[1]))), "127.0.0.1")
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

        async def ask(address):
            begun, cpu, size = time.perf_counter(), time.process_time(), 0
            async with client.stream("GET", address) as answer:
                answer.raise_for_status()
                async for chunk in answer.aiter_raw():
                    size += len(chunk)
            return [time.perf_counter() - begun, time.process_time() - cpu, size]

        files = [await ask(f"/{name}") for name in static_files()]
        answers = {name: await ask(address) for name, address in json.loads(sys.argv[2]).items()}
    print(json.dumps({"files": [sum(column) for column in zip(*files)], **answers}))


asyncio.run(main())
"""
SCROLL = """new Promise(done => {
    let last = performance.now(), longest = 0, steps = 0;
    const rows = document.querySelector(".rows");
    const step = now => {
        longest = Math.max(longest, now - last); last = now; steps += 1;
        rows.scrollTo(0, rows.scrollHeight * (steps % 20) / 20);
        if (steps < 40) requestAnimationFrame(step); else done(longest);
    };
    requestAnimationFrame(step);
})"""
FILTER = """(() => { const begun = performance.now();
    [...document.querySelectorAll('[data-filter]')].find(each => each.dataset.filter === 'differ').click();
    return performance.now() - begun; })()"""
SHOWN = "performance.now()"
ELEMENTS = "document.querySelectorAll('*').length"


def measure_pages(python: str, quick: bool) -> None:
    """The documents of the page beside 100,000 executions (--quick: 10,000), and the page in Chromium."""
    size = _QUICK if quick else SIZE
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        warehouse = fill_warehouse(DuckDBWarehouse(data), size)
        SweepStore(warehouse).update_leaderboards()
        warehouse.publish()
        command = [python, "-c", _ASK, str(data), json.dumps(ADDRESSES)]
        answers = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for name, (wall_s, cpu_s, bytes_) in answers.items():
            took = f"{wall_s:.2f} s, CPU {cpu_s:.2f} s, {bytes_ / 1e6:.3f} MB sent"
            print(f"{size.executions:,} executions, {name}: {took}", flush=True)
        _measure_in_chromium(data, size, Path(folder))


def _measure_in_chromium(data: Path, size: Size, folder: Path) -> None:
    from eval_pipeline_tests.pages.sample_page import served_page

    program = find_chromium()
    if program is None:
        print("no chromium: the page is not looked at")
        return
    with served_page(data) as page, open_browser(program, folder / "profile") as browser:
        board = browser.look(f"{page.url}/", See("What changed"), SHOWN)
        print(f"{size.executions:,} executions, board shown after {board.values[0] / 1000:.2f} s", flush=True)
        grid = browser.look(f"{page.url}/#suite?suite={SUITE}", See("The answer to"), SHOWN, SCROLL, FILTER, ELEMENTS)
        shown, longest, filtered, elements = grid.values
        print(f"{size.cases:,} cases × {size.runners} runners: shown after {shown / 1000:.2f} s, {elements} elements, "
              f"filter {filtered:.0f} ms, longest frame while scrolling {longest:.0f} ms", flush=True)  # fmt: skip
