"""The web server of `eval-pipeline view`: the page, and the documents that it asks for, as an ASGI application.

Everything is read from the published results; the only request that changes something stores a person's grade.
"""

from __future__ import annotations

import gzip
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eval_pipeline.errors import EvalPipelineError, InputError, NoResults, UnknownName, WarehouseError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.pages.agreement import agreement_document
from eval_pipeline.pages.boards import board_document, requested_changes
from eval_pipeline.pages.cases import case_document
from eval_pipeline.pages.grading import MOST_BYTES, store, why_read_only
from eval_pipeline.pages.live import live_document
from eval_pipeline.pages.ratings import ratings_document
from eval_pipeline.pages.request_guard import RequestGuard, allow_hosts
from eval_pipeline.pages.static_files import static_files
from eval_pipeline.pages.suites import rows_document, search_document, suite_document
from eval_pipeline.pages.sweeps import comparison_document, sweeps_document
from eval_pipeline.warehouse.store import Connection, Warehouse

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
_JSON = "application/json"
_KEPT_BYTES = 64 * 2**20
_LEAST_PACKED = 1_000
_STATUS = {UnknownName: 404, NoResults: 404, InputError: 400, WarehouseError: 503}
CURRENT = "current"


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request."""

    values: Mapping[str, list[str]]

    def __getitem__(self, name: str) -> str:
        """Return a parameter. Raises InputError without one."""
        if not self.values.get(name):
            raise InputError(f"the parameter '{name}' is missing")
        return self.values[name][0]

    def get(self, name: str) -> str | None:
        """Return a parameter, None without one."""
        return self[name] if self.values.get(name) else None

    @property
    def of(self) -> str:
        """The results that are asked about."""
        return self.get("of") or CURRENT


@dataclass(slots=True)
class Documents:
    """Makes documents of published results, and keeps the newest until other results are published."""

    warehouse: Warehouse
    cluster_by: str | None = None
    _kept: OrderedDict[tuple[str, str], bytes] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def packed(self, name: str, url: str, query: Query) -> bytes:
        """Return a document as gzipped JSON."""
        key = (self.warehouse.published_version() or "", url)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with self.warehouse.published() as connection:
            data = gzip.compress(to_json(self._document(name, connection, query)), 3, mtime=0)
        self._keep(key, data)
        return data

    def _document(self, name: str, connection: Connection, query: Query) -> Any:
        if name == "compare":
            return comparison_document(connection, query["a"], query["b"], self.cluster_by)
        if name == "ratings":
            return ratings_document(connection, query.get("suite"), self.cluster_by)
        return DOCUMENTS[name](connection, query)

    def _keep(self, key: tuple[str, str], data: bytes) -> None:
        with self._lock:
            for other in [each for each in self._kept if each[0] != key[0]]:
                del self._kept[other]
            self._kept[key] = data
            while sum(map(len, self._kept.values())) > _KEPT_BYTES:
                self._kept.popitem(last=False)


DOCUMENTS: Mapping[str, Callable[[Connection, Query], Any]] = {
    "board": lambda connection, query: board_document(connection, query.get("board")),
    "changes": lambda connection, query: requested_changes(connection, query["a"], query["b"]),
    "suite": lambda connection, query: suite_document(connection, query["suite"], query.of),
    "rows": lambda connection, query: rows_document(connection, query["suite"], query.values.get("case", []), query.of),
    "search": lambda connection, query: search_document(connection, query["suite"], query["text"], query.of),
    "case": lambda connection, query: case_document(connection, query["suite"], query["case"], query.of),
    "agreement": lambda connection, query: agreement_document(connection),
    "sweeps": lambda connection, query: sweeps_document(connection),
}
NAMES = (*DOCUMENTS, "compare", "ratings")


def make_app(documents: Documents, listening: str, allowed_hosts: tuple[str, ...] = ()) -> RequestGuard:
    """Return the application behind the guard that refuses other hosts and origins."""
    routes = [Route(f"/api/{name}", partial(_serve_document, name=name, documents=documents)) for name in NAMES]
    routes += [Route("/api/grades", partial(_store_grade, documents=documents), methods=["POST"])]
    routes += [Route("/api/live", partial(_serve_live, documents=documents))]
    routes += [Route("/", _serve_static), Route("/{name:str}", _serve_static)]
    hosts = allow_hosts(listening, allowed_hosts, "eval-pipeline view")
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    return RequestGuard(app, hosts)


def _serve_document(request: Request, name: str, documents: Documents) -> Response:
    values: dict[str, list[str]] = {}
    for key, value in request.query_params.multi_items():
        values.setdefault(key, []).append(value)
    try:
        data = documents.packed(name, str(request.url), Query(values))
    except EvalPipelineError as error:
        return problem(error)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return answer(gzip.decompress(data), _JSON)
    return answer(data, _JSON, {"content-encoding": "gzip"})


def _serve_live(request: Request, documents: Documents) -> Response:
    warehouse = documents.warehouse
    live = live_document(warehouse.storage.progress, warehouse.published_version())
    return answer(to_json({**live, "read_only": why_read_only(warehouse)}), _JSON)


async def _store_grade(request: Request, documents: Documents) -> Response:
    """Only a page of our own can send JSON: the browser asks for leave first, which other sites do not get."""
    if request.headers.get("content-type", "").partition(";")[0] != _JSON:
        return answer(to_json({"error": f"expected {_JSON}"}), _JSON, status=415)
    suite, case_id = (request.query_params.get(name, "") for name in ("suite", "case"))
    body = await _body(request)
    try:
        grades = await run_in_threadpool(store, documents.warehouse, body, suite, case_id)
    except EvalPipelineError as error:
        return problem(error)
    return answer(to_json(grades), _JSON)


async def _body(request: Request) -> bytes:
    """Return the body of a request, of one that is too large only as much as shows it."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            break
    return body


def problem(error: EvalPipelineError) -> Response:
    """Return the answer to a request that cannot be carried out."""
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
    return answer(to_json({"error": str(error)}), _JSON, status=status)


def answer(data: bytes, media_type: str, headers: Mapping[str, str] | None = None, status: int = 200) -> Response:
    """Return an answer that the browser may use in our page only."""
    return Response(data, status, headers={**_SAFE, **(headers or {})}, media_type=media_type)


def _serve_static(request: Request) -> Response:
    file = static_files().get(request.path_params.get("name", "index.html"))
    if file is None:
        return answer(b"not found\n", "text/plain; charset=utf-8", status=404)
    if len(file.data) < _LEAST_PACKED or "gzip" not in request.headers.get("accept-encoding", ""):
        return answer(file.data, file.media_type)
    return answer(gzip.compress(file.data, 3, mtime=0), file.media_type, {"content-encoding": "gzip"})
