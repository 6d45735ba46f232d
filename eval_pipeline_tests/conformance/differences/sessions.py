"""Differences about what skillgym makes of the raw records of a session, and of names and numbers shown to people."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Check, Difference, Observations
from eval_pipeline_tests.conformance.recorded_facts import Row

Values = Mapping[str, Any]


def theirs_of(row: Row) -> dict[str, Any]:
    """Return what skillgym's report of a row holds, in the words of our observation."""
    report = row.data["report"]
    usage, events = report["usage"], report["events"]
    made, reasoning = usage.get("outputTokens"), usage.get("reasoningTokens", 0)
    reasoning = 0 if row.data["adapter"] == "codex" else reasoning  # Codex counts it among its output
    return {
        "output": report["finalOutput"] or None,
        "reads": list(dict.fromkeys(report["files"]["observedReads"])),
        "skills": [(item["skill"], item["confidence"]) for item in report["detectedSkills"]],
        "commands": [event["command"] for event in events if event["type"] == "command"],
        "tools": [event["tool"] for event in events if event["type"] == "toolCall"],
        "messages": [event["text"] for event in events if event["type"] == "message"],
        "input": usage.get("inputTokens"),
        "output_tokens": None if made is None else made + reasoning,
        "cached": usage.get("cacheTokens"),
        "failure": None,
    }


def _except(changed: Callable[[Row, dict[str, Any], Values], Values]) -> Check:
    """Return a check: the report is theirs, but for what `changed` returns, given theirs and ours."""

    def check(row: Row, observations: Observations) -> None:
        ours, theirs = observations[AS_WRITTEN].values, theirs_of(row)
        assert dict(ours) == {**theirs, **changed(row, theirs, ours)}

    return check


def _raw(row: Row, adapter: str) -> Sequence[Mapping[str, Any]]:
    """The records of a row of an adapter; none for other rows."""
    if row.file != "oracle_normalize" or row.data["adapter"] != adapter or "error" in row.data:
        return []
    raw = row.data["raw"]
    records = raw["records"] if isinstance(raw, dict) and "records" in raw else raw
    return [record for record in records if isinstance(record, dict)] if isinstance(records, list) else []


def _is_report(row: Row, *adapters: str) -> bool:
    return row.file == "oracle_normalize" and row.data["adapter"] in adapters and "error" not in row.data


def _without_end(row: Row) -> bool:
    if row.file != "oracle_normalize" or "error" in row.data or not row.data["report"]["finalOutput"]:
        return False
    if _is_report(row, "codex"):
        return not any(event["type"] == "message" for event in row.data["report"]["events"])
    if not _is_report(row, "claude-code", "cursor-agent", "copilot"):
        return False
    return not any(record.get("type") == "result" for record in _raw(row, row.data["adapter"]))


def _failed_result(row: Row) -> bool:
    results = [record for record in _raw(row, "claude-code") if record.get("type") == "result"]
    return bool(results) and results[-1].get("is_error") is True and "result" not in results[-1]


def _partly_reported(row: Row, theirs: dict[str, Any], ours: Values) -> Values:
    usage = [record for record in _raw(row, "claude-code") if record.get("type") == "result"][-1].get("usage", {})
    known = {} if "input_tokens" in usage else {"input": None}
    return {"output": None, "failure": "max-steps", **known}


def _texts(row: Row) -> list[str]:
    contents = [record["message"].get("content") for record in _raw(row, "claude-code") if "message" in record]
    return [content for content in contents if isinstance(content, str)]


def _thinking_last(row: Row) -> bool:
    messages = [event for event in row.data["report"]["events"] if event["type"] == "message"] if _is_report(
        row, "codex") else []  # fmt: skip
    return bool(messages) and messages[-1].get("phase") == "thinking"


def _last_answer(row: Row, theirs: dict[str, Any], ours: Values) -> Values:
    events = [event for event in row.data["report"]["events"] if event["type"] == "message"]
    return {"output": next(event["text"] for event in reversed(events) if event.get("phase") != "thinking")}


def _said_twice(row: Row) -> bool:
    messages = theirs_of(row)["messages"] if _is_report(row, "codex") else []
    return len(messages) != len(set(messages))


def _said_once(row: Row, theirs: dict[str, Any], ours: Values) -> Values:
    for name in ("messages", "tools", "commands"):
        rest = iter(ours[name])
        assert all(item in rest for item in dict.fromkeys(theirs[name])), (name, ours[name])
        assert len(ours[name]) == len(set(ours[name]))
    return {name: ours[name] for name in ("messages", "tools", "commands")}


def _cursor_names(row: Row) -> bool:
    return any("function" in record.get("tool_call", {}) for record in _raw(row, "cursor-agent"))


def _cursor_calls(row: Row, theirs: dict[str, Any], ours: Values) -> Values:
    (usage,) = [record["usage"] for record in _raw(row, "cursor-agent") if record.get("type") == "result"]
    kebab = [re.sub(r"[A-Z]", lambda letter: f"-{letter[0].lower()}", tool) for tool in ours["tools"]]
    assert [tool for tool in kebab if tool != "function"] == theirs["tools"]
    skills = [skill for skill in theirs["skills"] if skill[1] != "explicit"]
    return {"input": theirs["input"] + usage["cacheWriteTokens"], "tools": ours["tools"], "skills": skills,
            "commands": list(dict.fromkeys(theirs["commands"]))}  # fmt: skip


def _copilot_spans(row: Row) -> list[Mapping[str, Any]]:
    raw = row.data["raw"] if _is_report(row, "copilot") else {}
    spans = raw.get("telemetryRecords") or []
    is_whole = any(span["name"].startswith("invoke_agent") for span in spans)
    return [] if is_whole else [span["attributes"] for span in spans if span["name"].startswith("chat ")]


def _copilot_sum(row: Row, theirs: dict[str, Any], ours: Values) -> Values:
    spans, records = _copilot_spans(row), _raw(row, "copilot")
    said = [record["data"]["content"] for record in records if record["type"] == "assistant.message"]
    thoughts = [record["data"]["content"] for record in records if record["type"] == "assistant.reasoning"]
    commands = [record["data"]["arguments"]["command"] for record in records
                if record["type"] == "tool.execution_start" and record["data"]["toolName"] == "bash"]  # fmt: skip
    return {
        "output": said[-1] or None, "commands": commands,
        "messages": [text for text in theirs["messages"] if text not in thoughts],
        "input": sum(span["gen_ai.usage.input_tokens"] for span in spans),
        "output_tokens": sum(span["gen_ai.usage.output_tokens"] for span in spans),
    }  # fmt: skip


def _steps_reported(row: Row) -> bool:
    return _is_report(row, "opencode") and '"step-finish"' in str(row.data["raw"]).replace("'", '"')


def _of_steps(row: Row, theirs: dict[str, Any], ours: Values) -> Values:
    tokens = []
    for message in row.data["raw"]["messages"]:
        finished = [part["tokens"] for part in message["parts"] if part["type"] == "step-finish"]
        tokens += finished or [message["info"]["tokens"]] if message["info"]["role"] == "assistant" else []
    said = [part["text"] for message in row.data["raw"]["messages"] for part in message["parts"]
            if part["type"] == "text" and message["info"]["role"] == "assistant"]  # fmt: skip
    sums = [sum(part.get(name, 0) for part in tokens) for name in ("input", "output", "reasoning")]
    return {"output": "\n".join(said), "input": sums[0], "output_tokens": sums[1] + sums[2], "cached": None}


_UNITS = re.compile(r"(?:(?P<h>\d+):(?P<hm>\d\d) h)|(?:(?P<m>\d+):(?P<ms>\d\d) min)|(?:(?P<s>\d+) s)")


def _in_units(row: Row, observations: Observations) -> None:
    shown = _UNITS.fullmatch(observations[AS_WRITTEN].values["text"])
    assert shown is not None
    parts = {name: int(value or 0) for name, value in shown.groupdict().items()}
    seconds = parts["h"] * 3600 + (parts["hm"] + parts["m"]) * 60 + parts["ms"] + parts["s"]
    assert abs(seconds - row.data["ms"] / 1000) <= (60 if parts["h"] else 0.5)


def _is_dash(row: Row, observations: Observations) -> None:
    assert observations[AS_WRITTEN].values["text"] == "–"


def _is_folder(row: Row, observations: Observations) -> None:
    name, folder = row.data["id"], observations[AS_WRITTEN].values["folder"]
    kept = re.fullmatch(r"[A-Za-z0-9._-]+", name) is not None
    assert folder == name if kept else folder.endswith(hashlib.sha256(name.encode()).hexdigest()[:8])
    assert re.fullmatch(r"[A-Za-z0-9._-]+", folder)


SESSIONS = (
    Difference(
        "a session without its end is a crash",
        "the last words before a CLI broke off are no answer, and neither is its raw output: both would be graded",
        _without_end,
        _except(lambda row, theirs, ours: {"output": None, "failure": "target-crash"}),
    ),
    Difference(
        "an error without a text has no answer",
        "the CLI says that it failed; what it said before is no answer, and an unknown part makes a sum unknown",
        _failed_result,
        _except(_partly_reported),
    ),
    Difference(
        "a content that is a text is read",
        "an agent's message may hold a plain text in place of blocks; leaving it out loses words of the session",
        lambda row: bool(_is_report(row, "claude-code") and _texts(row)),
        _except(lambda row, theirs, ours: {"messages": _texts(row)}),
    ),
    Difference(
        "a thought is no answer",
        "skillgym takes the last message of any phase; the answer is the last one that is no thinking",
        _thinking_last,
        _except(_last_answer),
    ),
    Difference(
        "what Codex records twice counts once",
        "Codex writes a message as an item and as an event; further calls and summaries of thoughts are read as well",
        _said_twice,
        _except(_said_once),
    ),
    Difference(
        "Cursor's calls by the names that it prints",
        "names are kept as printed, a call without an id counts once, what was written to the cache was fed to the "
        "model, and a skill counts once its result says that it was loaded",
        _cursor_names,
        _except(_cursor_calls),
    ),
    Difference(
        "every call of Copilot's model counts",
        "skillgym takes the tokens of the first call alone; an empty last message is no answer, a thought no message, "
        "and only a shell's commands are commands",
        lambda row: len(_copilot_spans(row)) > 1,
        _except(_copilot_sum),
    ),
    Difference(
        "OpenCode's tokens step by step",
        "each step reports what it used, and a message only its last one; all texts after the prompt are the answer",
        _steps_reported,
        _except(_of_steps),
    ),
    Difference(
        "an unknown count is a dash",
        "a minus is the beginning of a number; the longer dash is what every table of ours shows for unknown",
        lambda row: row.file == "oracle_format" and row.kind == "tokens" and row.data["value"] is None,
        _is_dash,
    ),
    Difference(
        "durations have units of SI",
        "42 s, 3:05 min, 2:04 h: one form in all tables, rounded to what is shown",
        lambda row: row.file == "oracle_format" and row.kind == "duration",
        _in_units,
    ),
    Difference(
        "a folder is named by its id where that is a name",
        "only a name that had to be changed carries a hash; people find the folders of their runners",
        lambda row: row.file == "oracle_runner_ids",
        _is_folder,
    ),
)
