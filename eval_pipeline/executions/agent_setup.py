"""What an agent was told and given: its prompt and its tools, as it returned them or as its runner declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import RawExecution, Runner
from eval_pipeline.llm.reading import mapping
from eval_pipeline.llm.wires import WIRES
from eval_pipeline.parsing.redaction import redact

PROMPT_SETTINGS = ("system", "system_prompt", "instructions")
"""The settings of runners that are a prompt, the first that is set."""
RETURNED_PROMPT = (*PROMPT_SETTINGS, "prompt")
"""The fields of an answer's metadata that are the prompt of its agent, the first that is set."""
_OURS = ("implementation", "terminating")


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """The prompt and the tools of an agent; None where they are not known."""

    prompt: str | None = None
    tools: Sequence[Any] | None = None


UNKNOWN_SETUP = AgentSetup()


def declared_prompt(settings: Mapping[str, Any]) -> str | None:
    """Return the prompt among the settings of a runner."""
    return next((settings[name] for name in PROMPT_SETTINGS if isinstance(settings.get(name), str)), None)


def agent_setup(raw: RawExecution | None, runner: Runner, secrets: Sequence[str]) -> AgentSetup:
    """Return the setup of the agent of an execution, without secrets and without how tools are carried out."""
    payload = raw.payload if raw is not None else {}
    turns = payload.get("turns") or ()
    metadata = mapping(mapping(turns[-1].get("payload") if turns else payload).get("metadata"))
    returned = next((metadata[name] for name in RETURNED_PROMPT if isinstance(metadata.get(name), str)), None)
    given = (each["tools"] for each in (metadata, runner.settings) if isinstance(each.get("tools"), list))
    tools: Sequence[Any] | None = next(given, () if _has_no_tools(runner) else None)
    return AgentSetup(
        redact(returned if returned is not None else declared_prompt(runner.settings), secrets),
        None if tools is None else redact([_as_offered(tool) for tool in tools], secrets),
    )


def _has_no_tools(runner: Runner) -> bool:
    """Return whether a runner has the tools that it declares and no others, and declares none. What other fields of
    a body offer, and what answers behind an address of the user's own, is not known."""
    declares = getattr(ADAPTERS.find(runner.adapter), "declared_tools", None) is not None
    settings = runner.settings
    return declares and "tools" not in settings and not settings.get("body") and _is_of_provider(settings)


def _is_of_provider(settings: Mapping[str, Any]) -> bool:
    """Return whether the API of a provider answers, which has no tools of its own. At another address may be an agent;
    the APIs of clouds have an address for each customer."""
    address = settings.get("base_url")
    if not isinstance(address, str) or not address:
        return True
    usual = vars(WIRES.get(str(settings.get("wire") or "openai"))).get("base_url")
    return usual is None or urlsplit(address).hostname == urlsplit(usual).hostname


def _as_offered(tool: Any) -> Any:
    """Return a tool as the agent sees it."""
    return {name: tool[name] for name in tool if name not in _OURS} if isinstance(tool, Mapping) else tool
