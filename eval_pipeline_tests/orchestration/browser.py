"""A real browser without a window: opens a page, waits until it shows what is expected, and takes its picture.

Spoken to by Chromium's own debugging protocol over a local WebSocket.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
    "--window-size=1600,1400",
)  # fmt: skip
PATIENCE_S = 180.0
TEXT = "document.body ? document.body.innerText : ''"


def find_chromium() -> str | None:
    """The program, None where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@dataclass(frozen=True, slots=True)
class Click:
    """A click on the innermost button, link or label whose text starts so."""

    text: str


@dataclass(frozen=True, slots=True)
class See:
    """Wait until the page shows a text."""

    text: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Wait until the page has sent a mutation."""


Action = Click | See | Sent
PROBLEMS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
"""What a page reports while it is looked at: ours has nothing to say."""
CLICK = """(() => {
    const all = [...document.querySelectorAll("button, a, label, [role=tab], [role=radio]")];
    const found = all.filter(e => e.offsetParent !== null && !e.disabled && e.innerText.trim().startsWith(TEXT)).pop();
    if (found) found.click();
    return Boolean(found);
})()"""


@dataclass(frozen=True, slots=True)
class Window:
    """How a page is looked at: its size in pixels, and whether the user prefers dark colours."""

    width: int = 1400
    height: int = 1000
    dark: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a page showed, what its scripts returned, and what it reported: errors, warnings, refused content."""

    text: str
    values: list[Any]
    problems: list[str]


@dataclass(frozen=True, slots=True)
class Browser:
    """A running browser, by the address of its debugging server."""

    address: str

    def read(self, url: str, *expected: str, picture: Path | None = None) -> str:
        """The text of a page once it shows everything that is expected. Raises AssertionError with what it shows."""
        return asyncio.run(self._read(url, expected, picture))

    def drive(self, url: str, *actions: Action, picture: Path | None = None) -> list[dict[str, Any]]:
        """Carry out actions on a page one after the other; return the GraphQL mutations that it sent.

        Raises AssertionError with what the page shows when an action cannot be carried out.
        """
        return asyncio.run(self._drive(url, actions, picture))

    def look(self, url: str, *actions: Action | str, window: Window | None = None, picture: Path | None = None) -> Seen:
        """Open a page, carry out actions and scripts (texts) one after the other, and return what there was to see."""
        return asyncio.run(self._look(url, actions, window or Window(), picture))

    async def _look(self, url: str, actions: tuple[Action | str, ...], window: Window, picture: Path | None) -> Seen:
        async with aiohttp.ClientSession() as session:
            async with session.put(f"{self.address}/json/new?about:blank") as answer:
                target = await answer.json()
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = _Page(socket)
                await page.prepare(window)
                await page.ask("Page.navigate", url=url)
                values: list[Any] = []
                try:
                    for action in actions:
                        if isinstance(action, str):
                            values.append(await page.run(action))
                        else:
                            await page.carry_out(action)
                finally:
                    if picture is not None:
                        shot = await page.ask("Page.captureScreenshot", format="png")
                        picture.write_bytes(base64.b64decode(shot["data"]))
                return Seen(await page.text_with(()), values, page.problems)

    async def _drive(self, url: str, actions: tuple[Action, ...], picture: Path | None) -> list[dict[str, Any]]:
        async with self._tab(picture) as page:
            await page.ask("Network.enable")
            await page.ask("Page.navigate", url=url)
            for action in actions:
                await page.carry_out(action)
            return page.mutations

    async def _read(self, url: str, expected: tuple[str, ...], picture: Path | None) -> str:
        async with self._tab(picture) as page:
            await page.ask("Page.navigate", url=url)
            return await page.text_with(expected)

    @asynccontextmanager
    async def _tab(self, picture: Path | None) -> AsyncIterator[_Page]:
        """A new tab, whose picture is taken at the end. It is closed: a page of the UI asks the server for ever."""
        async with aiohttp.ClientSession() as session:
            async with session.put(f"{self.address}/json/new?about:blank") as answer:
                target = await answer.json()
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = _Page(socket)
                try:
                    yield page
                finally:
                    if picture is not None:
                        shot = await page.ask("Page.captureScreenshot", format="png")
                        picture.write_bytes(base64.b64decode(shot["data"]))
            async with session.get(f"{self.address}/json/close/{target['id']}"):
                pass


class _Page:
    """One tab, asked one thing after the other."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.mutations: list[dict[str, Any]] = []
        self.problems: list[str] = []

    async def prepare(self, window: Window) -> None:
        """Set the size and colours, and have problems reported."""
        for domain in ("Runtime", "Log"):
            await self.ask(f"{domain}.enable")
        size = {"width": window.width, "height": window.height, "deviceScaleFactor": 1, "mobile": window.width < 600}
        await self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if window.dark else "light"}
        await self.ask("Emulation.setEmulatedMedia", features=[scheme])

    async def run(self, script: str) -> Any:
        """Return the value of a script, which may be a promise. Raises AssertionError with what it threw."""
        answer = await self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            answer = await self._socket.receive_json(timeout=PATIENCE_S)
            if answer.get("method") == "Network.requestWillBeSent":
                self._note(answer["params"]["request"].get("postData", ""))
            if answer.get("method") in PROBLEMS:
                self.problems.append(json.dumps(answer["params"]))
            if answer.get("id") == number:
                result: dict[str, Any] = answer["result"]
                return result

    def _note(self, body: str) -> None:
        if '"query":"mutation' in body:
            self.mutations.append(json.loads(body)["variables"])

    async def carry_out(self, action: Action) -> None:
        if isinstance(action, See):
            await self.text_with((action.text,))
            return
        deadline = time.monotonic() + PATIENCE_S
        while not await self._done(action):
            assert time.monotonic() < deadline, f"{action} is not possible on: {await self._evaluate(TEXT)}"
            await asyncio.sleep(0.2)

    async def _done(self, action: Click | Sent) -> bool:
        if isinstance(action, Click):
            return bool(await self._evaluate(CLICK.replace("TEXT", json.dumps(action.text))))
        await self._evaluate(TEXT)  # requests of the page are reported between answers
        return bool(self.mutations)

    async def _evaluate(self, script: str) -> Any:
        answer = await self.ask("Runtime.evaluate", expression=script)
        return answer["result"].get("value")

    async def text_with(self, expected: tuple[str, ...]) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = await self.ask("Runtime.evaluate", expression="document.body ? document.body.innerText : ''")
            text = str(answer["result"].get("value", ""))
            missing = [part for part in expected if part not in text]
            if not missing:
                return text
            assert time.monotonic() < deadline, f"{missing} not in: {text}"
            await asyncio.sleep(0.2)


@contextmanager
def open_browser(program: str, profile: Path) -> Iterator[Browser]:
    """Starts a browser with a profile of its own, and ends it."""
    process = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Browser(f"http://127.0.0.1:{_port(profile / 'DevToolsActivePort', process)}")
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _port(file: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while not file.exists() or not file.read_text().strip():
        assert process.poll() is None, "the browser ended at once"
        assert time.monotonic() < deadline, "the browser did not start"
        time.sleep(0.05)
    return file.read_text().split()[0]
