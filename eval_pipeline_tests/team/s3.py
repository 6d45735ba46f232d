"""An object store of the tests' own, which speaks S3 (moto), and why there is none where it cannot run."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.lake_engine import extension_file

BUCKET = "evals"
SECRET = "s3-secret-4Zk"
_SERVER = "from moto.server import main; main()"


def why_no_store() -> str | None:
    """Return what is missing for an object store, None when nothing is."""
    for package in ("moto", "s3fs", "flask"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed (pip install 's3fs' 'moto[server]')"
    try:
        extension_file("httpfs")
    except WarehouseError as error:
        return str(error)
    return None


@contextmanager
def object_store(log: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a store that runs, with an empty bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    environment = {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    command = [sys.executable, "-c", _SERVER, "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            _make_bucket(endpoint)
            yield environment
        finally:
            server.kill()


def _make_bucket(endpoint: str) -> None:
    request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT", headers={"Authorization": _SIGNED})
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(request).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


_SIGNED = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
PROXY_FREE = {name: "" for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")}
"""Variables that would send calls of 127.0.0.1 elsewhere."""
