"""Object stores that are not there: few rows are kept in the catalog, so that nobody would notice for a long time."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from eval_pipeline.errors import WarehouseError
from eval_pipeline_tests.postgres_server import PostgresServer
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import new_lake
from eval_pipeline_tests.team.s3 import BUCKET, PROXY_FREE, SECRET, object_store, why_no_store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    if (reason := why_no_store()) is not None:
        pytest.skip(reason)
    with object_store(tmp_path / "store.txt") as environment:
        for name, value in {**environment, **PROXY_FREE}.items():
            monkeypatch.setenv(name, value)
        yield environment


def refusal(url: str, folder: Path) -> str:
    opened = machine(url, folder)
    try:
        with pytest.raises(WarehouseError) as refused:
            opened.write("sweeps", [{"sweep_id": "1"}])
    finally:
        opened.close()
    return str(refused.value)


def test_a_missing_bucket_is_an_error_before_anything_is_stored(
    server: PostgresServer, store: dict[str, str], tmp_path: Path
) -> None:
    said = refusal(new_lake(server, "s3://no-such-bucket/lake"), tmp_path / "one")

    assert said.startswith("the rows of the warehouse cannot be kept in s3://no-such-bucket/lake: ")
    assert "expected: a bucket that exists" in said
    assert SECRET not in said


def test_a_store_that_does_not_answer_is_an_error(
    server: PostgresServer, store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    said = refusal(new_lake(server, f"s3://{BUCKET}/lake"), tmp_path / "one")

    assert said.startswith(f"the rows of the warehouse cannot be kept in s3://{BUCKET}/lake: ")


class _Denied(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


def test_keys_that_may_not_list_files_are_only_reported(
    server: PostgresServer,
    store: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    denying = ThreadingHTTPServer(("127.0.0.1", 0), _Denied)
    threading.Thread(target=denying.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{denying.server_port}")
    opened = machine(new_lake(server, f"s3://{BUCKET}/lake"), tmp_path / "one")

    opened.write("sweeps", [{"sweep_id": "1"}])

    assert opened.frame("SELECT sweep_id FROM sweeps")["sweep_id"].to_list() == ["1"]
    assert f"whether the rows of the warehouse can be kept in s3://{BUCKET}/lake is not known" in caplog.text
    opened.close()
    denying.shutdown()
    denying.server_close()


def test_a_machine_takes_the_place_of_the_rows_from_the_catalog(
    server: PostgresServer, store: dict[str, str], tmp_path: Path
) -> None:
    url = new_lake(server, f"s3://{BUCKET}/lake")
    one = machine(url, tmp_path / "one")
    one.write("sweeps", [{"sweep_id": "1"}])
    one.compact()  # rows are in a file of the store now
    one.close()

    two = machine(url.replace(f" data_path=s3://{BUCKET}/lake", ""), tmp_path / "two")

    assert two.frame("SELECT sweep_id FROM sweeps")["sweep_id"].to_list() == ["1"]
    two.close()
