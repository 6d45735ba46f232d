"""AgentV's `targets.yaml` entries → runner entries: the adapter of each provider, and the names of its settings.

Syntax shared with our runners file (aliases, fallbacks, placeholders) is in `runners.py`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.executions.adapters.mock import DEFAULT_RESPONSE
from eval_pipeline.executions.runner_files import JsonMap, RunnerEntry, RunnersFormat
from eval_pipeline.formats.agentv.agent_targets import (
    COPILOT_SETTINGS,
    PI_SETTINGS,
    codex_entry,
    copilot_entry,
    pi_entry,
)
from eval_pipeline.parsing.interpolation import filled_in, is_placeholder, names_in
from eval_pipeline.parsing.source import FieldPath, Source

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The mapping of a provider's entries to ours.

    `names` maps its settings to ours; `needs` are required settings; `ignored` are settings without effect here.
    `always` are defaults of our entry, `finish` completes the entry after renaming.
    """

    adapter: str
    names: Mapping[str, str]
    needs: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    always: JsonMap = field(default_factory=dict)
    finish: Callable[[dict[str, Any]], dict[str, Any]] = dict
    retries: bool = False


_COMMON = {
    "name": "name", "workers": "concurrency", "grader_target": "grader", "judge_target": "grader",
    "grader_payload": "grader_payload",
    "fallback_targets": "fallbacks", "timeout_seconds": "timeout_s",
}  # fmt: skip
_COMMON_IGNORED = frozenset({"provider", "subagent_mode_allowed"})
_RETRIES = {
    "max_retries": "max_retries",
    "retry_initial_delay_ms": "initial_delay_s",
    "retry_max_delay_ms": "max_delay_s",
    "retry_backoff_factor": "factor",
    "retry_status_codes": "statuses",
}
_NUMBERS = frozenset({
    "workers", "timeout_seconds", "temperature", "max_output_tokens", "thinking_budget", "max_turns", "max_budget_usd",
    *_RETRIES,
}) - {"retry_status_codes"}  # fmt: skip


def _cli_command(entry: dict[str, Any]) -> dict[str, Any]:
    """AgentV counts {ATTEMPT} from 0."""
    if isinstance(entry.get("command"), str):
        entry["command"] = entry["command"].replace("{ATTEMPT}", "{RETRY}")
    return entry


def _some_response(entry: dict[str, Any]) -> dict[str, Any]:
    """Add the default response to a mock without one."""
    return entry if {"response", "responses"} & entry.keys() else {**entry, "response": DEFAULT_RESPONSE}


_MODEL = {
    "api_key": "api_key", "model": "model", "temperature": "temperature", "max_output_tokens": "max_output_tokens",
    "system_prompt": "system",
}  # fmt: skip
_ADDRESS = {"base_url": "base_url", "endpoint": "base_url"}
_OPENAI = {**_MODEL, **_ADDRESS, "api_format": "api_format", "deployment": "model", "variant": "model"}
_AZURE = {**_OPENAI, "resource": "base_url", "version": "api_version", "api_version": "api_version"}
_AWS = {name: name for name in ("region", "access_key_id", "secret_access_key", "session_token")}
_GOOGLE = {"project": "project", "region": "region", "location": "region", "credentials": "credentials"}
_NAMED_MODEL = {**_MODEL, **_ADDRESS, "deployment": "model", "variant": "model"}
_KEY = frozenset({"api_key", "model"})
_CLI = {
    "command": "command", "cwd": "cwd", "files_format": "files_format", "healthcheck": "healthcheck",
    "provider_batching": "batch", "batch_requests": "batch",
}  # fmt: skip
_CLI_ALWAYS: dict[str, Any] = {
    "retry_failures": True,
    "retries": {"max_retries": 2, "initial_delay_s": 1.0, "max_delay_s": 30.0, "jitter": 0.0},
}  # AgentV runs a program that failed twice more, after one second and after two
_AGENT = {
    "model": "model", "executable": "executable", "command": "executable", "binary": "executable", "args": "args",
    "arguments": "args", "cwd": "cwd", "system_prompt": "system",
}  # fmt: skip
_LOGS = frozenset({"log_dir", "log_directory", "log_format", "log_output_format", "stream_log"})


def _chat(wire: str, names: Mapping[str, str], needs: frozenset[str], **always: Any) -> Provider:
    return Provider(adapter="chat", names=names, needs=needs, always={"wire": wire, **always}, retries=True)


def _agent(name: str, *limits: str) -> Provider:
    names = {**_AGENT, **{limit: limit for limit in limits}}
    return Provider(adapter="agent", names=names, ignored=_LOGS, always={"agent": name})


_CLI_PROVIDER = Provider(
    adapter="command",
    names=_CLI,
    needs=frozenset({"command"}),
    ignored=frozenset({"keep_temp_files", "verbose"}),
    always=_CLI_ALWAYS,
    finish=_cli_command,
)
_COPILOT = Provider(
    adapter="agent",
    names={**_AGENT, "cli_path": "executable", **{name: name for name in COPILOT_SETTINGS}},
    ignored=_LOGS,
    always={"agent": "copilot"},
    finish=copilot_entry,
)
_CODEX = Provider(
    adapter="agent",
    names={**_AGENT, "model_reasoning_effort": "model_reasoning_effort"},
    ignored=_LOGS,
    always={"agent": "codex"},
    finish=codex_entry,
)
_PI = Provider(
    adapter="agent",
    names={**_AGENT, **{name: name for name in PI_SETTINGS}},
    ignored=_LOGS,
    always={"agent": "pi"},
    finish=pi_entry,
)
_PROVIDERS: dict[str, Provider] = {
    "openai": Provider(adapter="chat", names=_OPENAI, needs=_KEY, retries=True),
    "azure": _chat("azure", _AZURE, _KEY | {"endpoint", "resource", "base_url", "deployment"}),
    "openrouter": _chat("openrouter", _NAMED_MODEL, _KEY),
    "anthropic": _chat("anthropic", {**_NAMED_MODEL, "thinking_budget": "thinking_budget"}, _KEY),
    "gemini": _chat("gemini", _NAMED_MODEL, frozenset({"api_key"}), model="gemini-2.5-flash"),
    "bedrock": _chat("bedrock", {**_MODEL, **_ADDRESS, **_AWS}, frozenset({"model", *_AWS})),
    "vertex": _chat("vertex", {**_MODEL, **_ADDRESS, **_GOOGLE}, frozenset({"model", "project"})),
    "copilot-sdk": _COPILOT,
    "cli": _CLI_PROVIDER,
    "codex": _CODEX,
    "claude": _agent("claude-code", "max_turns", "max_budget_usd"),
    "copilot-cli": _COPILOT,
    "pi-cli": _PI,
    "copilot-log": Provider(
        adapter="copilot-log",
        names={name: name for name in ("session_dir", "session_id", "discover", "session_state_dir", "cwd", "model")},
        ignored=_LOGS,
    ),
    "mock": Provider(
        adapter="mock",
        names={"response": "response", "responses": "responses"},
        ignored=frozenset({"trace"}),
        finish=_some_response,
    ),
    "replay": Provider(
        adapter="replay",
        names={
            "fixtures": "recording", "transcripts": "recording", "recording": "recording", "suite": "suite",
            "source_target": "source_target", "variant": "variant",
        },
        ignored=frozenset({"eval_path"}),
    ),
    "transcript": Provider(
        adapter="replay", names=dict.fromkeys(("transcript", "transcripts", "path", "file", "recording"), "recording")
    ),
}  # fmt: skip
_ALIASES = {
    "azure-openai": "azure", "google": "gemini", "google-gemini": "gemini", "codex-cli": "codex",
    "claude-cli": "claude",
    "claude-sdk": "claude", "claude-code": "claude", "copilot": "copilot-cli", "pi": "pi-cli",
    "pi-coding-agent": "pi-cli",
}  # fmt: skip
_BY_CLI = "run it by 'provider: cli', with a command that writes its answer to {OUTPUT_FILE}"
_NOT_YET = {
    **dict.fromkeys(("vscode", "vscode-insiders"), _BY_CLI),
    "agentv": "name a model instead ('provider: openai', 'anthropic', 'gemini', …)",
}
_REMOVED = {
    "workspace_template": "give the eval file a 'workspace' with a 'template'",
    "command_template": "write 'command'",
    "attachments_format": "write 'files_format'",
    "cli_verbose": "write 'verbose'",
    "keep_output_files": "write 'keep_temp_files'",
    "execution_traces": "name the recorded answers under 'fixtures' or 'transcripts'",
}
_CAMEL = re.compile(r"(?<=[a-z0-9])[A-Z]")


def runner_entry(raw: JsonMap, at: FieldPath, source: Source, environment: Mapping[str, str]) -> RunnerEntry:
    """Return a target as an entry of our runners file. Raises InputError at the setting that cannot be read."""
    name, provider = _provider(raw, at, source)
    given = {
        key: _number(value, key, environment)
        for key, value in raw.items()
        if _is_set(key, value, provider, environment)
    }
    names = {**provider.names, **_COMMON}
    for key, value in given.items():
        _check(key, value, name, provider, (*at, key), source)
    values: dict[str, Any] = {"adapter": provider.adapter, **provider.always, **_own_folder(provider, source)}
    values |= {names[key]: value for key, value in given.items() if key in names}
    retries = {_RETRIES[key]: _in_seconds(key, value) for key, value in given.items() if key in _RETRIES}
    if retries:
        values["retries"] = retries
    spelled = {names[key]: key for key in given if key in names} | {
        f"retries.{ours}": key for key, ours in _RETRIES.items()
    }
    place = _project_of(source.path) if provider.adapter == "command" else None
    return RunnerEntry(values=_finished(values, provider, at, source), spelled=spelled, place=place)


def _finished(values: dict[str, Any], provider: Provider, at: FieldPath, source: Source) -> dict[str, Any]:
    try:
        return provider.finish(values)
    except InputError as error:
        raise error.at(source.place((*at, error.place.field or ""))) from None


def _provider(raw: JsonMap, at: FieldPath, source: Source) -> tuple[str, Provider]:
    """Return the provider of an entry: a supported one, or the project's own by AgentV's convention."""
    name = raw.get("provider")
    if not isinstance(name, str) or not name.strip():
        raise source.error((*at, "provider"), f"a target needs a provider; there are: {', '.join(sorted(_PROVIDERS))}")
    key = name.strip().lower().replace("_", "-")
    key = _ALIASES.get(key, key)
    if key in _NOT_YET:
        raise source.error((*at, "provider"), f"provider '{name}' is not supported yet: {_NOT_YET[key]}")
    provider = _PROVIDERS.get(key) or _own_provider(key, raw, source.path)
    if provider is None:
        known = sorted({*_PROVIDERS, *_ALIASES})
        hint = did_you_mean(key, known)
        problem = f"no provider '{name}'; there are: {', '.join(known)}; or .agentv/providers/{key}.ts, or a 'command'"
        raise source.error((*at, "provider"), problem + hint)
    return key, provider


def _own_provider(name: str, raw: JsonMap, path: Path) -> Provider | None:
    """Return the provider of a project's script: `.agentv/providers/<name>.ts`, unless the entry has a command."""
    if "command" in raw:
        return _CLI_PROVIDER
    for folder in path.absolute().parents:
        script = folder / ".agentv" / "providers" / f"{name}.ts"
        if re.fullmatch(r"[\w.-]+", name) and script.is_file():
            always = {**_CLI_ALWAYS, "command": ["bun", "run", str(script), "{PROMPT}"]}
            return Provider(
                adapter="command", names=_CLI, ignored=_CLI_PROVIDER.ignored, always=always, finish=_cli_command
            )
    return None


def _own_folder(provider: Provider, source: Source) -> JsonMap:
    """Agents run in the project, not in its `.agentv` folder."""
    is_inside = _project_of(source.path) != source.path.absolute().parent
    return {"cwd": ".."} if provider.adapter == "agent" and is_inside else {}


def _project_of(path: Path) -> Path:
    """Return the folder that a targets file belongs to."""
    folder = path.absolute().parent
    return folder.parent if folder.name == ".agentv" else folder


def _is_set(key: str, value: Any, provider: Provider, environment: Mapping[str, str]) -> bool:
    """Return whether a setting has a value: null has none, nor has an optional one with an unset variable."""
    unset = isinstance(value, str) and is_placeholder(value) and not environment.get(names_in(value)[0])
    return value is not None and not (unset and key not in provider.needs and key != "name")


def _number(value: Any, key: str, environment: Mapping[str, str]) -> Any:
    """Return the number in a variable, where a number is expected, and the name of a provider in one."""
    if key == "subprovider" and isinstance(value, str):
        return filled_in(value, environment)
    if key not in _NUMBERS or not isinstance(value, str) or not is_placeholder(value):
        return value
    text = filled_in(value, environment).strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return value


def _check(key: str, value: Any, name: str, provider: Provider, at: FieldPath, source: Source) -> None:
    """Raise InputError for an unknown setting, and for a key in plain text."""
    if key == "judge_target":
        _LOG.warning("%s: 'judge_target' is deprecated, write 'grader_target'", source.place(at))
    known = {*provider.names, *provider.ignored, *_COMMON, *_COMMON_IGNORED, *(_RETRIES if provider.retries else ())}
    if key == "api_key" and isinstance(value, str) and not is_placeholder(value):
        cure = "put it into the environment or .env, and write api_key: ${{ ITS_NAME }}"
        raise source.error(at, f"a key does not belong into this file: {cure}")
    if key in known or (key == "provider_batching" and value is False):
        return
    snake = _CAMEL.sub(lambda letter: f"_{letter[0].lower()}", key)
    if key in _REMOVED or snake in _REMOVED:
        raise source.error(at, f"is not read any more: {_REMOVED.get(key) or _REMOVED[snake]}")
    if snake != key:
        raise source.error(at, f"is not read any more: write '{snake}'")
    if key == "provider_batching":
        raise source.error(at, f"only 'provider: cli' can take all tests in one run, not '{name}'")
    problem = f"'{name}' has no such setting; there are: {', '.join(sorted(known))}{did_you_mean(key, known)}"
    raise source.error(at, problem)


def _in_seconds(key: str, value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value / 1000 if key.endswith("_ms") and is_number else value


TARGETS = RunnersFormat(
    title="AgentV's targets.yaml",
    key="targets",
    use_key="use_target",
    expected_entry="target (a mapping with name and provider)",
    file_names=("targets.yaml", "targets.yml", ".agentv/targets.yaml", ".agentv/targets.yml"),
    schemas=("agentv-targets",),
    entry=runner_entry,
    beside_suites=True,
)
"""How AgentV's targets are found and read."""
