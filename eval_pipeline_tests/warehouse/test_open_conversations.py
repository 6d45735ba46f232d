"""Files of conversations that are held: who may go on with one that another process began."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.fingerprints import to_json
from eval_pipeline.processes import this_process
from eval_pipeline.warehouse.open_conversations import OpenConversation

PARENT = replace(this_process(), pid=os.getppid(), start="")


@pytest.mark.parametrize(
    ("holder", "goes_on"),
    [
        pytest.param(this_process(), True, id="this process"),
        pytest.param(replace(this_process(), pid=os.getppid(), start="1"), True, id="an id that was given again"),
        pytest.param(replace(this_process(), boot="another"), True, id="before the machine started anew"),
        pytest.param(PARENT, False, id="a process that runs"),
        pytest.param(replace(this_process(), host="another"), False, id="a process of another machine"),
    ],
)
def test_a_conversation_is_gone_on_with_when_its_process_is_gone(holder: object, goes_on: bool, tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    path.write_bytes(b"\n" + to_json({"held_by": str(holder)}) + b"\n" + to_json({"turn": 1}))
    conversation = OpenConversation(path, tuple)

    entries = conversation.entries()
    conversation.append({"turn": 2})

    assert list(entries) == ([{"turn": 1}] if goes_on else [])
    assert (b'{"turn":2}' in path.read_bytes()) is goes_on
