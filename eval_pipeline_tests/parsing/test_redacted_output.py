"""What is printed and logged has no secrets, whichever way it takes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time

import pytest

from eval_pipeline.parsing.redacted_output import redact_log_records, redacted_descriptors, redacted_printing
from eval_pipeline.parsing.redaction import KNOWN

SECRET = "sk-1234567890"


@pytest.fixture(autouse=True)
def known() -> None:
    KNOWN.add([SECRET])


def test_printed_texts_and_tracebacks_are_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    with redacted_printing():
        print("it is", f"<{SECRET}>")
        print(f"{SECRET}", file=sys.stderr)

    assert capsys.readouterr() == ("it is <***>\n", "***\n")
    assert "Redacted" not in type(sys.stdout).__name__


def test_log_records_of_every_library_are_redacted(caplog: pytest.LogCaptureFixture) -> None:
    make = logging.getLogRecordFactory()
    redact_log_records()
    try:
        logging.getLogger("theirs").warning("it is %s and %s", SECRET, "no secret")
        try:
            raise ValueError(SECRET)
        except ValueError:
            logging.getLogger("theirs").exception("failed")
    finally:
        logging.setLogRecordFactory(make)

    assert caplog.messages == ["it is *** and no secret", "failed"]
    assert SECRET not in caplog.text
    assert "ValueError: ***" in caplog.text


def test_what_programs_and_native_code_write_is_redacted(capfd: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    with redacted_descriptors():
        os.write(1, f"one {SECRET}\ntwo ".encode())
        os.write(1, f"{SECRET[:5]}".encode())
        os.write(1, f"{SECRET[5:]}".encode())
        subprocess.run(["sh", "-c", f"echo {SECRET} >&2"], check=True)

    assert capfd.readouterr() == ("one ***\ntwo ***", "***\n")
    assert time.monotonic() - begun < 1
