"""AgentV's `targets.yaml` entries → runner entries: which provider is which adapter, and its settings' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.errors import did_you_mean
from eval_pipeline.suites.source import FieldPath, Source

_CHAT = {
    "base_url": "base_url", "endpoint": "base_url", "api_key": "api_key", "model": "model", "deployment": "model",
    "variant": "model", "temperature": "temperature", "max_output_tokens": "max_tokens",
}  # fmt: skip
_CLI = {"command": "command", "cwd": "cwd", "timeout_seconds": "timeout_s"}
_RETRIES = {
    "max_retries": "max_retries",
    "retry_initial_delay_ms": "initial_delay_s",
    "retry_max_delay_ms": "max_delay_s",
    "retry_backoff_factor": "factor",
}
_PROVIDERS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "openai": ("chat", _CHAT, {"base_url": "https://api.openai.com/v1"}),
    "openrouter": ("chat", _CHAT, {"base_url": "https://openrouter.ai/api/v1"}),
    "cli": ("command", _CLI, {}),
}
_IGNORED = frozenset(
    {"name", "provider", "workers", "grader_target", "judge_target", "subagent_mode_allowed", "verbose"}
)


def runner_entry(raw: Any, at: FieldPath, source: Source) -> Mapping[str, Any]:
    """The runners-file entry that says what a target says. Raises InputError for what is not read yet."""
    if not isinstance(raw, Mapping):
        raise source.error(at, "expected a target (a mapping with name and provider)")
    provider = str(raw.get("provider", ""))
    if provider not in _PROVIDERS:
        there_are = ", ".join(sorted(_PROVIDERS))
        hint = did_you_mean(provider, _PROVIDERS)
        raise source.error(
            (*at, "provider"), f"provider '{provider}' is not supported yet; there are: {there_are}{hint}"
        )
    adapter, names, defaults = _PROVIDERS[provider]
    entry: dict[str, Any] = {"name": raw.get("name"), "adapter": adapter, **defaults}
    retries: dict[str, Any] = {}
    for key, value in raw.items():
        if key in names:
            entry[names[key]] = value
        elif key in _RETRIES:
            retries[_RETRIES[key]] = value / 1000 if key.endswith("_ms") and isinstance(value, (int, float)) else value
        elif key not in _IGNORED:
            known = sorted({*names, *_RETRIES, *_IGNORED})
            raise source.error((*at, key), f"setting is not supported for '{provider}'{did_you_mean(key, known)}")
    if "workers" in raw:
        entry["concurrency"] = raw["workers"]
    return entry | ({"retries": retries} if retries else {})
