"""skillgym's configuration: checked as skillgym does, with the place of what is wrong, and converted into ours.

Validation ends at the first problem. Names are dotted paths: `runners.main.agent.model`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.formats.skillgym.javascript_modules import default_export
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.writing import yaml_text
from eval_pipeline.suites.conversion import NewFile, ProjectConverter

FILE_NAMES = tuple(f"skillgym.config.{suffix}" for suffix in ("ts", "mts", "cts", "js", "mjs", "cjs", "json"))
AGENTS = ("codex", "opencode", "claude-code", "cursor-agent", "copilot")
SCHEDULES = ("serial", "parallel", "isolated-by-runner")
METRICS = ("totalTokens", "inputTokens", "outputTokens", "reasoningTokens", "cacheTokens")
_FORBIDDEN = {"none": ("templateDir", "bootstrap"), "shared": ("cwd",), "isolated": ("cwd",)}
_REPORTERS = {
    "json": "`run --json` prints it",
    "json-summary": "`run --json` prints it",
    "github-actions": "`run --report github` writes it",
    "html": "`export --format html` writes it after a run",
}
"""What a reporter is here: it is named at each run."""
_OTHER_REPORTER = "a module of one's own is an export here, installed as an entry point ('Write a plug-in' in the docs)"
Check = Callable[[Any, str], Any]


def _wrong(path: str, expected: str) -> InputError:
    return InputError(f"expected {expected}", SourceLocation(field=path or None))


def _text(value: Any, path: str) -> Any:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(path, "non-empty string")
    return value


def _any_text(value: Any, path: str) -> Any:
    if not isinstance(value, str):
        raise _wrong(path, "string")
    return value


def _whole(least: int, words: str) -> Check:
    def check(value: Any, path: str) -> Any:
        whole = value.is_integer() if isinstance(value, float) else type(value) is int
        if not whole or value < least:
            raise _wrong(path, words)
        return value

    return check


def _number(value: Any, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise _wrong(path, "number >= 0")
    return value


def _one_of(values: Sequence[str], words: str) -> Check:
    def check(value: Any, path: str) -> Any:
        if value not in values:
            raise _wrong(path, words)
        return value

    return check


def _list(words: str) -> Check:
    def check(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _wrong(path, words)
        return [_text(item, f"{path}[{number}]") for number, item in enumerate(value)]

    return check


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(path, "plain object")
    return value


def _fields(table: Mapping[str, Check], required: Sequence[str] = (), first: Sequence[str] = ()) -> Check:
    """A mapping of these fields, and of no others; `first` are looked at before unknown names are refused."""

    def check(value: Any, path: str) -> Any:
        given = _object(value, path)
        for name in first:
            table[name](given.get(name), _join(path, name))
        for name in given:
            if name not in table:
                place = SourceLocation(field=_join(path, name))
                raise InputError(f"unknown key; there are: {', '.join(table)}{did_you_mean(name, table)}", place)
        return {
            name: table[name](given.get(name), _join(path, name)) for name in table if name in required or name in given
        }

    return check


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _mapping_of(check: Check, words: str | None = None) -> Check:
    def checked(value: Any, path: str) -> Any:
        given = _object(value, path)
        if words is not None and not given:
            raise _wrong(path, words)
        return {name: check(item, _join(path, name)) for name, item in given.items()}

    return checked


_STEPS = _whole(1, "integer >= 1")
_TIMEOUT = _whole(2, "integer > 1")
_BOOTSTRAP = _fields(
    {"command": _text, "args": _list("array of non-empty strings"), "timeoutMs": _TIMEOUT,
     "env": _mapping_of(_any_text)},
    required=("command",),
)  # fmt: skip


def _workspace(value: Any, path: str) -> Any:
    given = _object(value, path)
    mode = _one_of(tuple(_FORBIDDEN), '"none", "shared", or "isolated"')(given.get("mode"), f"{path}.mode")
    for name in _FORBIDDEN[mode]:
        if name in given:
            raise _wrong(f"{path}.{name}", f'this key to be omitted when workspace mode is "{mode}"')
    table = {"mode": _text, "cwd": _text, "templateDir": _text, "bootstrap": _BOOTSTRAP}
    return _fields(table)(given, path)


def _tolerance(value: Any, path: str) -> Any:
    given = _fields({"absolute": _number, "percent": _number})(value, path)
    if not given:
        raise _wrong(path, "at least one of absolute or percent")
    return given


_AGENT = _fields(
    {
        "type": _one_of(AGENTS, '"codex", "opencode", "claude-code", "cursor-agent", or "copilot"'),
        "model": _text,
        "command": _text,
        "commandArgs": _list("array of non-empty strings"),
        "env": _mapping_of(_any_text),
    },
    required=("type", "model"),
    first=("type",),
)
_CONFIG = _fields(
    {
        "run": _fields(
            {
                "cwd": _text,
                "outputDir": _text,
                "reporter": _text,
                "schedule": _one_of(SCHEDULES, f"one of: {', '.join(SCHEDULES)}"),
                "maxParallel": _STEPS,
                "repeat": _STEPS,
                "repeatFailure": _whole(0, "integer >= 0"),
                "retryFailed": _whole(0, "integer >= 0"),
                "maxSteps": _STEPS,
                "tags": _list("array of non-empty strings"),
                "workspace": _workspace,
            }
        ),
        "defaults": _fields({"timeoutMs": _whole(1, "integer >= 1")}),
        "runners": _mapping_of(_fields({"agent": _AGENT}, required=("agent",)), "non-empty object"),
        "snapshots": _fields(
            {"path": _text, "metric": _one_of(METRICS, f"one of: {', '.join(METRICS)}"), "tolerance": _tolerance},
            required=("tolerance",),
        ),
    },
    required=("runners",),
)


def parse_config(value: Any) -> dict[str, Any]:
    """Return a configuration with its known keys. Raises InputError at the first wrong one."""
    config: dict[str, Any] = _CONFIG(value, "")
    return config


_INTEGERS = (("maxParallel", 1), ("repeat", 1), ("repeatFailure", 0), ("retryFailed", 0))


def run_options(cli: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run: the command line goes before the configuration, that before the defaults. Raises
    InputError for a number that is none; an empty one is none, too."""
    given = {name: _option(cli[name], name, least) for name, least in _INTEGERS if cli.get(name) is not None}
    options: dict[str, Any] = {
        "schedule": cli.get("schedule") or run.get("schedule") or "serial",
        "repeat": given.get("repeat", run.get("repeat", 1)),
    }
    failure = [given.get("repeatFailure"), given.get("retryFailed"), run.get("repeatFailure"), run.get("retryFailed")]
    options["repeatFailure"] = options["retryFailed"] = next((value for value in failure if value is not None), 0)
    options["tags"] = cli["tags"] if cli.get("tags") is not None else run.get("tags", [])
    for name in ("cwd", "outputDir", "maxSteps"):
        value = cli.get(name, run.get(name))
        options |= {name: value} if value is not None else {}
    parallel = given.get("maxParallel", run.get("maxParallel"))
    return options | ({"maxParallel": parallel} if parallel is not None else {})


def _option(text: Any, name: str, least: int) -> int:
    flag = "--" + re.sub(r"([A-Z])", r"-\1", name).lower()
    value = _javascript_number(str(text).strip())
    if value is None or not value.is_integer() or value < least:
        raise _wrong(f"CLI option {flag}", f"integer >= {least}")
    return int(value)


def _javascript_number(text: str) -> float | None:
    """Return the number that JavaScript reads in a text: `1e1`, `0x10`, …; None for a text that is none."""
    if "_" in text:
        return None
    try:
        return float(int(text, 0)) if re.match(r"0[box]", text, re.IGNORECASE) else float(text)
    except ValueError:
        return None


# Files.


def find_config(start: Path) -> Path:
    """Return the configuration of a folder, or the nearest above it. Raises InputError for none and for two."""
    for folder in (start.absolute(), *start.absolute().parents):
        found = [folder / name for name in FILE_NAMES if (folder / name).is_file()]
        if len(found) > 1:
            names = ", ".join(sorted(path.name for path in found))
            raise InputError(f"several configurations in {show_path(folder)}: {names}; keep one of them")
        if found:
            return found[0]
    raise InputError(f"no configuration of skillgym in {show_path(start)} or above: none of {', '.join(FILE_NAMES)}")


def read_config(path: Path) -> dict[str, Any]:
    """Return the configuration in a file: JSON, or a module of JavaScript or TypeScript, which node runs. Raises
    InputError with the file."""
    value = _read_json(path) if path.suffix == ".json" else default_export(path)
    try:
        return parse_config(value)
    except InputError as error:
        raise error.at(SourceLocation(show_path(path), field=error.place.field)) from None


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", SourceLocation(show_path(path))) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON: {error}", SourceLocation(show_path(path))) from None


# Conversion.


@dataclass(frozen=True, slots=True)
class ConvertedConfig:
    """The project file and the runners file of a configuration, and what has no place in them."""

    project: dict[str, Any]
    runners: dict[str, Any]
    lost: tuple[str, ...]


def converted(config: Mapping[str, Any]) -> ConvertedConfig:
    """Return our files for a configuration; relative paths begin at its folder in both."""
    run, lost = config.get("run", {}), list[str]()
    options = run_options({}, run)
    schedule = options["schedule"]
    defaults = {
        "repeat": options["repeat"] if options["repeat"] != 1 else None,
        "on_failure": options["repeatFailure"],
        "concurrency": 1 if schedule == "serial" else options.get("maxParallel"),
        "tags": list(options["tags"]),
    }
    defaults = {name: value for name, value in defaults.items() if value}
    project: dict[str, Any] = {"suites": ["."], "runners": "runners.yaml", "defaults": defaults}
    if run.get("outputDir"):
        project["data"] = run["outputDir"]
    if config.get("snapshots"):
        project["snapshots"] = dict(config["snapshots"])
    if run.get("reporter", "standard") != "standard":
        lost.append(f"run.reporter: {_REPORTERS.get(run['reporter'], _OTHER_REPORTER)}")
    if run.get("workspace"):
        lost.append("run.workspace: write it as `workspace = {…}` into each suite's module")
    runners = [_runner(name, fields["agent"], config, schedule, lost) for name, fields in config["runners"].items()]
    return ConvertedConfig({name: value for name, value in project.items() if value}, {"runners": runners}, tuple(lost))


def _runner(
    name: str, agent: Mapping[str, Any], config: Mapping[str, Any], schedule: str, lost: list[str]
) -> dict[str, Any]:
    run = config.get("run", {})
    ours = runner_name(name)
    if ours != name:
        lost.append(f"runners.{name}: the runner is called '{ours}'")
    runner: dict[str, Any] = {"name": ours, "adapter": "agent", "agent": agent["type"], "model": agent["model"]}
    if agent.get("command"):
        runner["executable"] = agent["command"]
    if agent.get("commandArgs"):
        runner["args"] = list(agent["commandArgs"])
    if agent.get("env"):
        runner["env"] = dict(agent["env"])
    if run.get("cwd"):
        runner["cwd"] = run["cwd"]
    if run.get("maxSteps"):
        runner["max_steps"] = run["maxSteps"]
    runner["timeout_s"] = config.get("defaults", {}).get("timeoutMs", 120_000) / 1000
    if schedule == "isolated-by-runner":
        runner["concurrency"] = 1
    runner["keep_session"] = True  # so that `explain` can ask, as it can there
    return runner


def runner_name(id_: str) -> str:
    """Return a runner's id as a name of ours: letters, digits, `.`, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", id_.strip()).strip("-") or "runner"


def _convert(path: Path) -> tuple[list[NewFile], Sequence[str]]:
    result = converted(read_config(path))
    files = [
        NewFile(path.parent / "eval-pipeline.yaml", [yaml_text(result.project)]),
        NewFile(path.parent / "runners.yaml", [yaml_text(result.runners)]),
    ]
    return files, result.lost


CONFIGURATION = ProjectConverter(
    recognizes=lambda path: path.name in FILE_NAMES,
    find=find_config,
    convert=_convert,
)
