"""How each real CLI is pointed at the scripted model: settings of its runner, and files of the user's login."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline_tests.real_clis.install import program_of

KEY = "sk-scripted-0123456789abcdef"
"""The key of every provider: it reaches the provider, and must not reach the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealCli:
    """A CLI that runs here: where its skills are in a workspace, settings of its runner by the model server's address,
    and files of the user's home by the same. `calls_of_an_answer` is how many calls of the model an answer
    without tools costs, by its own count."""

    name: str
    calls_of_an_answer: int = 1
    skills: str = ".agents/skills"
    settings: Callable[[str], Mapping[str, Any]]
    home: Callable[[str], Mapping[str, str]] = field(default=lambda url: {})

    def runner(self, url: str, clis: Path, model: str = "scripted", **further: Any) -> dict[str, Any]:
        """Return an entry of a runners file."""
        given = self.settings(url)
        usual = {"name": self.name, "adapter": "agent", "agent": self.name, "model": model, "timeout_s": 240,
                 "executable": str(program_of(self.name, clis)), "retries": 0}  # fmt: skip
        return {**usual, **given, **further, "model": given.get("model", "{}").format(model)}


def _codex(url: str) -> Mapping[str, Any]:
    provider = f"{{name='scripted', base_url='{url}/v1', env_key='OPENAI_API_KEY', wire_api='responses', "
    provider += "request_max_retries=0, stream_max_retries=0}"
    settings = (
        "model_provider='scripted'",
        f"model_providers.scripted={provider}",
        "check_for_update_on_startup=false",
    )
    return {"args": [word for setting in settings for word in ("-c", setting)], "env": {"OPENAI_API_KEY": KEY}}


def _claude(url: str) -> Mapping[str, Any]:
    return {
        "env": {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
    }


def _copilot(url: str) -> Mapping[str, Any]:
    return {
        "env": {
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_PROVIDER_WIRE_API": "completions",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        },
        "args": ["--disable-builtin-mcps", "--no-remote"],
    }


def _gemini(url: str) -> Mapping[str, Any]:
    return {"env": {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}}


def _gemini_home(url: str) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"disableAutoUpdate": True, "maxAttempts": 1},
        "privacy": {"usageStatisticsEnabled": False},
    }
    return {".gemini/settings.json": json.dumps(settings)}


def _opencode(url: str) -> Mapping[str, Any]:
    limits = {"context": 200000, "output": 8192}
    model = {"tool_call": True, "cost": {"input": 1, "output": 10}, "limit": limits}
    models = dict.fromkeys(("scripted", "no-such-model"), model)
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
                "models": models}  # fmt: skip
    config = {"autoupdate": False, "share": "disabled", "small_model": "local/scripted",
              "enabled_providers": ["local"], "provider": {"local": provider}}  # fmt: skip
    return {
        "model": "local/{}",
        "env": {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"},
    }


def _pi(url: str) -> Mapping[str, Any]:
    return {"args": ["--provider", "local", "--offline"], "env": {"PI_OFFLINE": "1"}}


def _pi_home(url: str) -> Mapping[str, str]:
    cost = {"input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 0}
    models = [{"id": name, "name": name, "reasoning": True, "input": ["text"], "cost": cost, "contextWindow": 200000,
               "maxTokens": 8192} for name in ("scripted", "no-such-model")]  # fmt: skip
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": KEY, "models": models}
    return {".pi/agent/models.json": json.dumps({"providers": {"local": provider}})}


def _qwen(url: str) -> Mapping[str, Any]:
    return {"args": ["--auth-type", "openai"], "env": {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1"}}


CLIS: Mapping[str, RealCli] = {
    cli.name: cli
    for cli in (
        RealCli(name="codex", settings=_codex),
        RealCli(name="claude", skills=".claude/skills", settings=_claude),
        RealCli(name="copilot", settings=_copilot),
        RealCli(name="gemini", settings=_gemini, home=_gemini_home),
        RealCli(name="opencode", settings=_opencode),
        RealCli(name="pi", settings=_pi, home=_pi_home),
        RealCli(name="qwen", calls_of_an_answer=2, settings=_qwen),
    )
}
