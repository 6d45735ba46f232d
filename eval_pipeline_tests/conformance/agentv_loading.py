"""AgentV's rows about its loader's helpers: a suite file with the row's value, validated and loaded."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline import LoadOptions, Message, Suite, load_suite
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import command, new_folder
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.row_outcomes import not_recorded
from eval_pipeline_tests.conformance.suite_files import SuiteFile, write_suite, write_test

Json = Mapping[str, Any]


def observe(row: Row) -> Observations:
    """Return what is reported of a row's file, and what is loaded."""
    return {AS_WRITTEN: _OBSERVERS[row.kind](row)}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what AgentV reads."""
    _CHECKS.get(row.kind, _check_value)(row, seen)


def _check_value(row: Row, seen: Observation) -> None:
    assert not seen.errors, seen.errors
    assert seen.values["value"] == row.data["result"]


def _loaded(file: SuiteFile, read: Callable[[Suite], Any]) -> Observation:
    suite = file.suite()
    problems = file.problems()
    values = {"value": read(suite)} if suite is not None and suite.cases else {}
    return Observation(problems=problems, values=values)


# Names and placeholders


def _category(row: Row) -> Observation:
    """The category of a suite file that lies at the row's path below the current folder."""
    (path,) = row.data["args"]
    if not path:
        not_recorded("the path of a file")
    folder = new_folder()
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(json.dumps({"tests": [{"id": "t", "input": "x", "criteria": "c"}]}), "utf-8")
    with contextlib.chdir(folder):
        return Observation(values={"value": load_suite(Path(path), LoadOptions({})).category})


def _interpolation(row: Row) -> Observation:
    """The value as the metadata of a test, read with the row's environment."""
    value, environment = row.data["args"]
    file = write_test({"metadata": {"value": value}})
    suite = load_suite(file.path, LoadOptions(environment))
    return Observation(values={"value": suite.cases[0].metadata["value"]})


def _project_file(row: Row) -> Observation:
    """`.agentv/config.yaml`, as `validate` checks it."""
    folder = new_folder()
    (folder / ".agentv").mkdir()
    (folder / "eval-pipeline.yaml").write_text('{"suites": []}', "utf-8")
    path = folder / ".agentv" / "config.yaml"
    path.write_text(json.dumps({"execution": row.data["args"][0]}), "utf-8")
    result = command("validate", path, "--project", folder, "--json")
    assert result.code in (0, 2), result.err
    findings = [finding for finding in result.json if str(finding["file"]).endswith("config.yaml")]
    return Observation(problems=tuple(map(SuiteFile.problem, findings)))


def _check_project_file(row: Row, seen: Observation) -> None:
    """A setting that AgentV reads is accepted; one that it ignores is, with a warning at its place."""
    settings, result = row.data["args"][0] or {}, row.data["result"] or {}
    ignored = sorted(f"execution.{name}" for name in settings if name not in result)

    assert not seen.errors, seen.errors
    assert sorted(problem.field for problem in seen.problems) == ignored, seen.problems
    assert all(problem.text.endswith("; ignored") for problem in seen.problems)


# Messages


def _input(row: Row) -> Observation:
    (value,) = row.data["args"]
    return _loaded(write_test({"input": value}, _files_of(value)), lambda suite: plain(suite.cases[0].input))


def _check_input(row: Row, seen: Observation) -> None:
    if row.data["result"] is None:
        assert [error.field for error in seen.errors] == ["tests[0].input"]
        assert seen.errors[0].text.startswith("expected a text, an object or a list of messages")
    else:
        _check_value(row, seen)


def _expected_output(row: Row) -> Observation:
    (value,) = row.data["args"]
    return _loaded(write_test({"expected_output": value}), lambda suite: plain(suite.cases[0].expected_output))


def _check_expected_output(row: Row, seen: Observation) -> None:
    assert not seen.errors, seen.errors
    assert seen.values["value"] == (row.data["result"] or [])


def _input_files(row: Row) -> Observation:
    files, value = row.data["args"]
    file = write_test({"input_files": files, "input": value}, dict.fromkeys(file_names(files), "as recorded"))
    seen = _loaded(file, lambda suite: plain(suite.cases[0].input))
    suite = file.suite()
    attached = [Path(name).name for name in suite.cases[0].files] if suite is not None and suite.cases else []
    return Observation(problems=seen.problems, values={**seen.values, "files": attached})


def _check_input_files(row: Row, seen: Observation) -> None:
    _, value = row.data["args"]

    assert not seen.errors, seen.errors
    assert seen.values["value"] == (row.data["result"] or [{"role": "user", "content": value}])


def file_names(files: Any) -> list[str]:
    """Return the names of files that `input_files` lists."""
    return [name for name in ([files] if isinstance(files, str) else files or ()) if isinstance(name, str)]


def _files_of(value: Any) -> dict[str, str]:
    """The files that the parts of messages name."""
    return {part["value"]: "as recorded" for part in _parts(value) if part.get("type") == "file"}


def _parts(value: Any) -> Iterator[Json]:
    for message in value if isinstance(value, list) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        yield from (part for part in (content if isinstance(content, list) else ()) if isinstance(part, Mapping))


def plain(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as AgentV shows them: parts by their type and value."""
    return [_plain_message(message) for message in messages]


def _plain_message(message: Message) -> dict[str, Any]:
    fields = {"name": message.name, "content": _plain_content(message.content), "tool_calls": list(message.tool_calls)}
    return {"role": message.role, **{name: value for name, value in fields.items() if value not in (None, [])}}


def _plain_content(content: Any) -> Any:
    if not isinstance(content, list) or not all(isinstance(part, Mapping) and "type" in part for part in content):
        return content
    return [{key: part[key] for key in ("type", "value") if key in part} for part in content]


# Settings


def _setting(row: Row) -> Observation:
    document = {name: value for name, value in row.data["args"][0].items() if name != "tests"}
    test = {"id": "row", "input": "as recorded", "criteria": "as recorded"}
    file = write_suite(json.dumps({"tests": [test], **document}), files=_runners_of(document))
    return _loaded(file, _SETTINGS[row.kind])


def _runners_of(document: Json) -> dict[str, str]:
    """A runners file with every target that a document names."""
    execution = document.get("execution")
    holders = [document, execution if isinstance(execution, Mapping) else {}]
    listed = [holder.get(key) for holder in holders for key in ("target", "targets")]
    names = [name for value in listed for name in ([value] if isinstance(value, str) else value or ())]
    entries = [{"name": name.strip(), "adapter": "mock"} for name in names if isinstance(name, str)]
    return {"runners.yaml": json.dumps({"runners": entries})} if entries else {}


_SETTINGS: Mapping[str, Callable[[Suite], Any]] = {
    "extractTrialsConfig": lambda suite: [
        suite.settings.repetitions, suite.settings.strategy, suite.settings.repeat_budget_usd
    ],
    "extractFailOnError": lambda suite: suite.settings.stop_on_error,
    "extractThreshold": lambda suite: suite.settings.threshold,
    "extractTotalBudgetUsd": lambda suite: suite.settings.budget_usd,
    "extractTargetsFromSuite": lambda suite: list(suite.settings.runners),
    "extractTargetFromSuite": lambda suite: list(suite.settings.runners),
}  # fmt: skip


def _check_setting(row: Row, seen: Observation) -> None:
    assert not seen.errors, seen.errors
    assert seen.values["value"] == _expected_setting(row)


def _expected_setting(row: Row) -> Any:
    """What AgentV read. Where it read none of several targets, the one target is read by another function of it."""
    result, document = row.data["result"], row.data["args"][0]
    if row.kind == "extractTargetsFromSuite":
        single = (document.get("execution") or {}).get("target") or document.get("target")
        return result or ([single] if single else [])
    if row.kind == "extractTargetFromSuite":
        return [result] if result is not None else []
    if row.kind == "extractTrialsConfig":
        limit = result and result.get("cost_limit_usd", result.get("costLimitUsd"))
        return [result["count"], result["strategy"], limit] if result else [None, None, None]
    return bool(result) if row.kind == "extractFailOnError" else result


_OBSERVERS: Mapping[str, Callable[[Row], Observation]] = {
    "deriveCategory": _category,
    "interpolateEnv": _interpolation,
    "parseExecutionDefaults": _project_file,
    "expandInputShorthand": _input,
    "expandExpectedOutputShorthand": _expected_output,
    "expandInputFilesShorthand": _input_files,
    **dict.fromkeys(_SETTINGS, _setting),
}
_CHECKS: Mapping[str, Callable[[Row, Observation], None]] = {
    "parseExecutionDefaults": _check_project_file,
    "expandInputShorthand": _check_input,
    "expandExpectedOutputShorthand": _check_expected_output,
    "expandInputFilesShorthand": _check_input_files,
    **dict.fromkeys(_SETTINGS, _check_setting),
}
KINDS = frozenset(_OBSERVERS)
