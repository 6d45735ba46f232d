"""A case as one text: conversations in blocks, files written out or pointed at."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.executions.prompt import Files, prompt_text
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import a_case

FILE = {"type": "file", "value": "src/a.py", "text": "x = 1\n", "resolved_path": "/nowhere/src/a.py"}
BINARY = {"type": "file", "value": "a.bin", "sha256": "0", "resolved_path": "/nowhere/a.bin"}
IMAGE = {"type": "image", "value": "a.png", "media_type": "image/png", "source": "data:image/png;base64,AAAA"}
WRITTEN_OUT = '<file path="src/a.py">\nx = 1\n</file>'


def text(value: str) -> dict[str, str]:
    return {"type": "text", "value": value}


@pytest.mark.parametrize(
    ("content", "files", "prompt"),
    [
        pytest.param([FILE, text("Explain")], "inline", f"{WRITTEN_OUT}\n\nExplain", id="written out"),
        pytest.param([{**FILE, "text": "x = 1"}], "inline", WRITTEN_OUT, id="a last line without its end"),
        pytest.param([FILE, text("Explain")], "reference", '<file: path="src/a.py">\n\nExplain', id="pointed at"),
        pytest.param([BINARY, text("Explain")], "inline", '<file: path="a.bin">\n\nExplain', id="no text to write"),
        pytest.param([text("See"), IMAGE], "inline", 'See\n\n<image: path="a.png">', id="an image"),
        pytest.param([text("See"), IMAGE], "reference", 'See\n\n<image: path="a.png">', id="an image, pointed at"),
        pytest.param([text("a"), text("b")], "inline", "a\nb", id="texts alone"),
        pytest.param([text(""), FILE, "Explain"], "inline", f"{WRITTEN_OUT}\n\nExplain", id="an empty text"),
        pytest.param({"a": 1}, "reference", '{"a":1}', id="an object"),
    ],
)
def test_files_stand_in_a_prompt_as_its_reader_needs_them(content: Any, files: Files, prompt: str) -> None:
    case = a_case(input=(Message(role="user", content=content),))

    assert prompt_text(case, files=files) == prompt


def test_files_in_a_conversation_stand_in_their_turns() -> None:
    case = a_case(input=(Message(role="system", content="Be brief"), Message(role="user", content=[FILE, text("Hi")])))

    assert prompt_text(case) == f"@[System]:\nBe brief\n\n@[User]:\n{WRITTEN_OUT}\n\nHi"
    assert prompt_text(case, files="reference") == ('@[System]:\nBe brief\n\n@[User]:\n<file: path="src/a.py">\n\nHi')
