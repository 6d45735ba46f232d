"""Agent-Skills' `evals.json`: prompts, expected answers, and assertions in plain words.

AgentV defines how an eval becomes a test. An eval's files are attached to its prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.formats.agentv.documents import RawTest, parse_document
from eval_pipeline.formats.agentv.eval_files import EvalFiles
from eval_pipeline.formats.agentv.load_context import LoadContext, open_context
from eval_pipeline.formats.agentv.suite import read_suite
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.suites.conversion import RawSuite
from eval_pipeline.suites.load import FORMATS, LoadOptions
from eval_pipeline.suites.model import Suite

_EVALS = re.compile(r'[{,]\s*"evals"\s*:\s*\[')


@FORMATS.register("agent-skills")
class AgentSkills(EvalFiles):
    """Files ending in .json whose root object has a list `evals`."""

    suffixes: tuple[str, ...] = (".json",)

    def recognizes(self, path: Path, head: str) -> bool:
        return bool(_EVALS.search(head))

    def read_raw(self, path: Path) -> RawSuite:
        from eval_pipeline.formats.agentv.agent_skills.conversion import read_evals  # noqa: PLC0415 — only `convert` needs it

        return read_evals(path)

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        context = open_context(path, load_options)
        document, cursor = parse_document(path, text, context)
        if not isinstance(document, Mapping):
            raise cursor.error("expected an object with a list of evals")
        name = fields.text(document, "skill_name", cursor)
        evals = document.get("evals")
        if not isinstance(evals, list) or not evals:
            raise cursor.error(f"expected a list of evals, got {kind(evals)}", "evals")
        suite_level = {"name": name} if name else {}
        return read_suite(suite_level, cursor, context, "agent-skills", _tests(evals, cursor, context))


def _tests(evals: list[Any], cursor: FieldCursor, context: LoadContext) -> Iterator[RawTest]:
    for index, entry in enumerate(evals):
        at = cursor.at("evals", index)
        if not isinstance(entry, Mapping):
            yield RawTest(at.error(f"expected an eval (an object), got {kind(entry)}"), at)
        elif not isinstance(entry.get("prompt"), str) or not entry["prompt"].strip():
            yield RawTest(
                at.error(f"every eval needs a prompt (a text), got {kind(entry.get('prompt'))}", "prompt"), at
            )
        else:
            yield RawTest(_test(entry), at)


def _test(entry: Map) -> dict[str, Any]:
    """Return an eval as an AgentV test."""
    test: dict[str, Any] = {"id": entry.get("id"), "input": entry["prompt"]}
    if entry.get("expected_output") is not None:
        test |= {"expected_output": entry["expected_output"], "criteria": entry["expected_output"]}
    if entry.get("files"):
        test["input_files"] = entry["files"]
    assertions = entry.get("assertions")
    if isinstance(assertions, list):
        test["assertions"] = [_grader(text, index) for index, text in enumerate(assertions, start=1)]
    elif assertions is not None:
        test["assertions"] = assertions
    return test


def _grader(text: Any, number: int) -> Any:
    """Return an assertion's text as the prompt of a grader."""
    return {"type": "llm-grader", "name": f"assertion-{number}", "prompt": text} if isinstance(text, str) else text
