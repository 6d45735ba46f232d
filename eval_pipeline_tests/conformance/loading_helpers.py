"""AgentV's rows about its loader's helpers: messages, files, settings, placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.project_file import read_project_file
from eval_pipeline.formats.agentv.suite import category_of
from eval_pipeline.parsing.fields import camel_case
from eval_pipeline.parsing.interpolation import interpolate
from eval_pipeline.suites.model import Message, Suite
from eval_pipeline_tests.conformance.loading_rows import (
    Loaded,
    differs,
    in_a_folder,
    load_document,
    load_test,
)
from eval_pipeline_tests.conformance.recorded_facts import Row


def _category(row: Row) -> None:
    (path,) = row.data["args"]

    assert category_of(path) == row.data["result"]


def _interpolation(row: Row) -> None:
    value, environment = row.data["args"]

    assert interpolate(value, environment) == row.data["result"]


def _defaults_of(row: Row, folder: Path) -> Mapping[str, Any]:
    path = folder / "config.yaml"
    path.write_text(json.dumps({"execution": row.data["args"][0]}), "utf-8")
    project = read_project_file(path, {})
    if project.problems:
        raise InputError(project.problems[0].problem, project.problems[0].place)
    execution: Mapping[str, Any] = project.settings.get("execution", {})
    return execution


@in_a_folder
def _project_defaults(row: Row, folder: Path) -> None:
    assert _defaults_of(row, folder) == (row.data["result"] or {})


@in_a_folder
def _project_defaults_refused(row: Row, folder: Path) -> None:
    with pytest.raises(InputError, match=r"execution"):
        _defaults_of(row, folder)


def _project_defaults_ignored(row: Row) -> bool:
    if row.kind != "parseExecutionDefaults":
        return False
    written = row.data["args"][0]
    result = row.data["result"] or {}
    given = [key for key, value in written.items() if value is not None] if isinstance(written, Mapping) else [None]
    return written is not None and any(key not in result for key in given)


@in_a_folder
def _input(row: Row, folder: Path) -> None:
    (value,) = row.data["args"]
    _with_files(folder, re.findall(r'"type": "file", "value": "([^"]+)"', json.dumps(value)))

    loaded = load_test({"input": value}, folder)

    if row.data["result"] is None:
        assert [error.place.field for error in loaded.errors][:1] == ["tests[0].input"]
    else:
        assert _plain(loaded.case.input) == row.data["result"]


@in_a_folder
def _expected_output(row: Row, folder: Path) -> None:
    (value,) = row.data["args"]

    loaded = load_test({"expected_output": value}, folder)

    assert _plain(loaded.case.expected_output) == (row.data["result"] or [])


@in_a_folder
def _input_files(row: Row, folder: Path) -> None:
    files, value = row.data["args"]

    loaded = load_test({"input_files": files, "input": value}, _with_files(folder, files))

    assert _plain(loaded.case.input) == (row.data["result"] or [{"role": "user", "content": value}])


@in_a_folder
def _images_are_images(row: Row, folder: Path) -> None:
    files, value = row.data["args"]

    loaded = load_test({"input_files": files, "input": value}, _with_files(folder, files))

    (message,) = _plain(loaded.case.input)
    said = [{**part, "type": "image" if _is_image(part) else part["type"]} for part in row.data["result"][0]["content"]]
    assert message["content"] == said


def _is_image(part: Mapping[str, Any]) -> bool:
    return part["type"] == "file" and Path(part["value"]).suffix.lower() in {".png", ".jpg", ".jpeg", ".gif", ".webp"}


def _images_attached(row: Row) -> bool:
    parts = row.data["result"] if row.kind == "expandInputFilesShorthand" else None
    return any(_is_image(part) for part in (parts or [{"content": ()}])[0]["content"])


@in_a_folder
def _files_attached_all_the_same(row: Row, folder: Path) -> None:
    """Files that AgentV ignores are attached to what the user says last, or the test is refused."""
    files, value = row.data["args"]

    loaded = load_test({"input_files": files, "input": value}, _with_files(folder, files))

    names = [files] if isinstance(files, str) else files
    if not isinstance(value, (str, list, Mapping)):
        assert [error.place.field for error in loaded.errors] == ["tests[0].input"]
    elif all(isinstance(name, str) for name in names):
        assert [Path(name).name for name in loaded.case.files] == [Path(name).name for name in names]
    else:
        assert [error.place.field for error in loaded.errors] == ["tests[0].input_files"]


def _with_files(folder: Path, files: Any) -> Path:
    for name in [files] if isinstance(files, str) else files or ():
        if isinstance(name, str):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("as recorded", "utf-8")
    return folder


def _plain(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as AgentV shows them: parts by their type and value."""
    plain = []
    for message in messages:
        said: dict[str, Any] = {"role": message.role}
        if message.name is not None:
            said["name"] = message.name
        if message.content is not None:
            said["content"] = _plain_content(message.content)
        if message.tool_calls:
            said["tool_calls"] = list(message.tool_calls)
        plain.append(said)
    return plain


def _plain_content(content: Any) -> Any:
    if not isinstance(content, list) or not all(isinstance(part, Mapping) and "type" in part for part in content):
        return content
    return [{key: part[key] for key in ("type", "value") if key in part} for part in content]


@in_a_folder
def _setting(row: Row, folder: Path) -> None:
    loaded = _suite_of(row, folder)

    assert loaded.suite is not None, loaded.errors
    assert _SETTINGS[row.kind](loaded.suite) == _expected_setting(row)


def _expected_setting(row: Row) -> Any:
    """What AgentV read; where it answers nothing, what ours says of the same document's other fields."""
    result = row.data["result"]
    if row.kind == "extractTargetsFromSuite":
        document = row.data["args"][0]
        single = (document.get("execution") or {}).get("target") or document.get("target")
        return tuple(result or ([single] if single else []))
    if row.kind == "extractTargetFromSuite":
        return (result,) if result is not None else ()
    if row.kind == "extractTrialsConfig":
        limit = result and result.get("cost_limit_usd", result.get("costLimitUsd"))
        return (result["count"], result["strategy"], limit) if result else (None, None, None)
    return bool(result) if row.kind == "extractFailOnError" else result


def _suite_of(row: Row, folder: Path) -> Loaded:
    document = {"tests": [], **row.data["args"][0]}
    return load_document(document, folder)


_SETTINGS: Mapping[str, Callable[[Suite], Any]] = {
    "extractTrialsConfig": lambda suite: (
        suite.settings.repetitions, suite.settings.strategy, suite.settings.repeat_budget_usd
    ),
    "extractFailOnError": lambda suite: suite.settings.stop_on_error,
    "extractThreshold": lambda suite: suite.settings.threshold,
    "extractTotalBudgetUsd": lambda suite: suite.settings.budget_usd,
    "extractTargetsFromSuite": lambda suite: suite.settings.runners,
    "extractTargetFromSuite": lambda suite: suite.settings.runners,
}  # fmt: skip
_SETTING_KEYS = {
    "extractTrialsConfig": "trials",
    "extractFailOnError": "fail_on_error",
    "extractThreshold": "threshold",
    "extractTotalBudgetUsd": "total_budget_usd",
    "extractTargetsFromSuite": "targets",
    "extractTargetFromSuite": "target",
}


def _written_setting(row: Row) -> Any:
    """The value of the setting that a row is about, in either spelling; None when there is none."""
    if row.kind not in _SETTING_KEYS:
        return None
    key = _SETTING_KEYS[row.kind]
    document = row.data["args"][0]
    execution = document.get("execution")
    if not isinstance(execution, Mapping):
        execution = {}
    written = execution.get(key, execution.get(camel_case(key)))
    return document.get(key) if written is None and key == "target" else written


def _setting_ignored(row: Row) -> bool:
    """AgentV read on without a setting, or without a part of it."""
    written, result = _written_setting(row), row.data.get("result")
    blank = written == [] or (isinstance(written, str) and not written.strip())
    if written is None or blank or _one_of_each(row):
        return False
    if result is None:
        return True
    parts = {"count", "strategy", "cost_limit_usd", "costLimitUsd"}
    if isinstance(written, Mapping) and isinstance(result, Mapping):
        lost = [key for key in written if key in parts and key not in result and camel_case(key) not in result]
        changed = [key for key in written if key in result and result[key] != written[key]]
        return bool(lost or changed)
    return isinstance(written, list) and len(written) != len(result)


def _one_of_each(row: Row) -> bool:
    written = _written_setting(row)
    return isinstance(written, Mapping) and written.get("count") == 1


@in_a_folder
def _setting_refused(row: Row, folder: Path) -> None:
    loaded = _suite_of(row, folder)

    (error,) = loaded.errors
    assert error.place.field is not None
    assert error.place.field.removeprefix("execution.").startswith(_SETTING_KEYS[row.kind])


@in_a_folder
def _execution_refused(row: Row, folder: Path) -> None:
    (error,) = _suite_of(row, folder).errors

    assert error.place.field == "execution"


def _no_execution_block(row: Row) -> bool:
    return row.kind in _SETTING_KEYS and not isinstance(row.data["args"][0].get("execution"), Mapping | None)


@in_a_folder
def _one_target(row: Row, folder: Path) -> None:
    loaded = _suite_of(row, folder)

    assert loaded.suite is not None
    assert loaded.suite.settings.runners == (_written_setting(row).strip(),)


@in_a_folder
def _carried_out_once(row: Row, folder: Path) -> None:
    loaded = _suite_of(row, folder)

    assert loaded.suite is not None
    assert loaded.suite.settings.repetitions == 1


@in_a_folder
def _refused_input(row: Row, folder: Path) -> None:
    (value,) = row.data["args"]

    loaded = load_test({"input": value}, folder)

    assert loaded.errors
    assert all((error.place.field or "").startswith("tests[0].input[") for error in loaded.errors)


@in_a_folder
def _object_content(row: Row, folder: Path) -> None:
    (value,) = row.data["args"]

    (message,) = load_test({"input": value}, folder).case.input
    said = value if "role" in value else {"role": "user", "content": value}
    assert (message.role, message.content) == (said["role"], said.get("content"))


@in_a_folder
def _scalar_as_text(row: Row, folder: Path) -> None:
    (value,) = row.data["args"]

    (message,) = load_test({"expected_output": value}, folder).case.expected_output

    assert message == Message(role="assistant", content=json.dumps(value))


def _files_ignored(row: Row) -> bool:
    if row.kind != "expandInputFilesShorthand":
        return False
    files, _ = row.data["args"]
    result = row.data["result"]
    attached = len(result[0]["content"]) - 1 if result else 0
    return files is not None and attached < (1 if isinstance(files, str) else len(files))


def _broken_messages(row: Row) -> bool:
    value = row.data["args"][0] if row.kind == "expandInputShorthand" else None
    return (
        isinstance(value, list) and bool(value) and (row.data["result"] is None or len(row.data["result"]) < len(value))
    )


def _object_input(row: Row) -> bool:
    value = row.data["args"][0] if row.kind == "expandInputShorthand" else None
    return isinstance(value, Mapping) and row.data["result"] is None


def _scalar_expected(row: Row) -> bool:
    value = row.data["args"][0] if row.kind == "expandExpectedOutputShorthand" else None
    return isinstance(value, (bool, int, float)) and row.data["result"] is None


CHECKS: Mapping[str, Callable[[Row], None]] = {
    "deriveCategory": _category,
    "interpolateEnv": _interpolation,
    "parseExecutionDefaults": _project_defaults,
    "expandInputShorthand": _input,
    "expandExpectedOutputShorthand": _expected_output,
    "expandInputFilesShorthand": _input_files,
    **dict.fromkeys(_SETTINGS, _setting),
}
DIFFERENCES = (
    differs(
        "setting refused",
        _no_execution_block,
        "AgentV ignores an `execution` that is no mapping",
        _execution_refused,
    ),
    differs(
        "setting refused",
        lambda row: _setting_ignored(row) and not isinstance(_written_setting(row), str),
        "AgentV ignores a setting of the wrong type or size: a budget or a number of trials that somebody wrote down "
        "would silently not hold",
        _setting_refused,
    ),
    differs(
        "setting refused",
        lambda row: _setting_ignored(row) and row.kind != "extractTargetsFromSuite",
        "the same for a text where a number, a truth value or a mapping is expected",
        _setting_refused,
    ),
    differs(
        "setting refused",
        _project_defaults_ignored,
        "AgentV ignores a setting of the wrong type in its project file, too",
        _project_defaults_refused,
    ),
    differs(
        "one target",
        lambda row: row.kind == "extractTargetsFromSuite" and isinstance(_written_setting(row), str),
        "AgentV ignores `targets` that is one name and not a list; what is meant is plain",
        _one_target,
    ),
    differs(
        "carried out once",
        _one_of_each,
        "AgentV has no trials when their count is 1; for us that is one repetition, which is the same",
        _carried_out_once,
    ),
    differs(
        "files attached",
        _files_ignored,
        "AgentV ignores names that are no texts, a single name, and all files beside a list of messages (a defect)",
        _files_attached_all_the_same,
    ),
    differs(
        "image attached",
        _images_attached,
        "AgentV attaches an image by `input_files` as if it were text; a model that can see is to see it",
        _images_are_images,
    ),
    differs(
        "broken message",
        _broken_messages,
        "AgentV drops messages without a role or content from the input; another question would be asked",
        _refused_input,
    ),
    differs(
        "object input",
        _object_input,
        "the seed page says that input may be an object; AgentV's code of that version skips the test",
        _object_content,
    ),
    differs(
        "scalar expected",
        _scalar_expected,
        "AgentV expects nothing where a number or truth value is expected; we expect it as a text",
        _scalar_as_text,
    ),
)
