"""Targets that are coding agents: settings of Codex, pi and Copilot → arguments and environment variables of their
commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation

PI_SETTINGS = ("subprovider", "api_key", "base_url", "tools", "thinking")
COPILOT_SETTINGS = (
    "subprovider", "base_url", "api_key", "bearer_token", "api_version", "api_format", "github_token", "cli_url",
    "byok",
)  # fmt: skip
_PI_KEYS = {
    "google": "GEMINI_API_KEY", "gemini": "GEMINI_API_KEY", "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY", "groq": "GROQ_API_KEY", "xai": "XAI_API_KEY", "openrouter": "OPENROUTER_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
}  # fmt: skip
_PI_PROVIDERS = {"azure": "azure-openai-responses", "gemini": "google"}
_PI_DEFAULT = "google"
_COPILOT_VARIABLES = {
    "subprovider": "COPILOT_PROVIDER_TYPE", "type": "COPILOT_PROVIDER_TYPE",
    "base_url": "COPILOT_PROVIDER_BASE_URL", "api_key": "COPILOT_PROVIDER_API_KEY",
    "bearer_token": "COPILOT_PROVIDER_BEARER_TOKEN", "api_version": "COPILOT_PROVIDER_AZURE_API_VERSION",
    "api_format": "COPILOT_PROVIDER_WIRE_API", "wire_api": "COPILOT_PROVIDER_WIRE_API",
    "github_token": "COPILOT_GITHUB_TOKEN",
}  # fmt: skip


def codex_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of the agent `codex`: how much it reasons is an option."""
    effort = entry.pop("model_reasoning_effort", None)
    return entry if effort is None else _with(entry, ["-c", f"model_reasoning_effort={effort}"], {})


def pi_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of the agent `pi`: provider, tools and thinking are options, key and address are variables.

    Raises InputError, at a setting of the entry, for what pi's command cannot be given.
    """
    given = {name: entry.pop(name) for name in PI_SETTINGS if name in entry}
    provider = str(given.get("subprovider", _PI_DEFAULT)).lower()
    options = {
        "--provider": _PI_PROVIDERS.get(provider, given["subprovider"]) if "subprovider" in given else None,
        "--tools": _joined(given.get("tools")),
        "--thinking": given.get("thinking"),
    }
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    variables = _pi_key(provider, given.get("api_key")) | _pi_address(provider, given.get("base_url"))
    return _with(entry, words, variables)


def copilot_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of the agent `copilot`: a provider of models and a token are environment variables.

    Raises InputError, at a setting of the entry, for what Copilot's command cannot be given.
    """
    given = {name: entry.pop(name) for name in COPILOT_SETTINGS if name in entry}
    if "cli_url" in given:
        raise _refused("cli_url", "a server that runs already cannot be used; each case starts Copilot's command")
    own = given.pop("byok", {})
    if not isinstance(own, Mapping) or not own.keys() <= _COPILOT_VARIABLES.keys():
        expected = ", ".join(sorted(_COPILOT_VARIABLES.keys() - {"subprovider", "github_token"}))
        raise _refused("byok", f"expected a mapping with some of: {expected}")
    variables = {_COPILOT_VARIABLES[name]: value for name, value in {**own, **given}.items()}
    return _with(entry, [], variables)


def _pi_key(provider: str, key: Any) -> dict[str, Any]:
    if key is None:
        return {}
    if provider not in _PI_KEYS:
        known = ", ".join(sorted(_PI_KEYS))
        raise _refused("api_key", f"the variable for a key of '{provider}' is not known (known: {known}); export it")
    return {_PI_KEYS[provider]: key}


def _pi_address(provider: str, address: Any) -> dict[str, Any]:
    """Return the variable of the address of pi's models: it has one for Azure only."""
    if address is None:
        return {}
    if provider != "azure":
        cure = "describe this server in pi's own models.json, and name it as 'subprovider'"
        raise _refused("base_url", f"pi's command takes another address for 'subprovider: azure' only; {cure}")
    is_address = str(address).startswith(("http", "${{"))
    return {"AZURE_OPENAI_BASE_URL" if is_address else "AZURE_OPENAI_RESOURCE_NAME": address}


def _joined(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _with(entry: dict[str, Any], words: list[Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry with arguments before its own, and environment variables."""
    own = entry.get("args", [])
    args = [*words, *(own if isinstance(own, list) else [own])]
    return {**entry, **({"args": args} if args else {}), **({"env": dict(variables)} if variables else {})}


def _refused(field: str, problem: str) -> InputError:
    return InputError(problem, SourceLocation(field=field))
