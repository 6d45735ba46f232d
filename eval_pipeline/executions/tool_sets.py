"""The tools of a model as a runner declares them: what a provider is sent of them, and what carries out their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, error_text
from eval_pipeline.executions.threads import is_interruption
from eval_pipeline.executions.tools import TOOLS, Tool, ToolAnswer, ToolPlace, ToolRequest
from eval_pipeline.llm.reading import mapping
from eval_pipeline.parsing.fields import DETACHED, FieldCursor, kind
from eval_pipeline.suites.simulation import ToolMock
from eval_pipeline.suites.simulation_fields import read_table

TERMINATING, IMPLEMENTATION, FOREIGN = "terminating", "implementation", "platform_config"
_OURS = (TERMINATING, IMPLEMENTATION, FOREIGN)
_FOREIGN_TYPES = {"http_webhook": "http"}
_INLINE = ("code", "source")
_LEAST_MS, _MOST_MS = 1_000, 60_000
_MOCK = "mock"
LIVE, SYNTHETIC = "live", "synthetic"
TOOL_MODE, TOOL_MODES = "tool_mode", (_MOCK, LIVE, SYNTHETIC)
UNCANNED = (LIVE, SYNTHETIC)
"""The modes without canned answers."""


def _predefined(name: str, description: str, **properties: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
        "required": list(properties),
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function, TERMINATING: True}


PREDEFINED: Mapping[str, Mapping[str, Any]] = {
    "end_call": _predefined("end_call", "End the conversation."),
    "transfer_call": _predefined(
        "transfer_call", "Hand the user over to somebody else.", to_phone_number="The number to transfer to."
    ),
}
"""Tools that a runner may declare by name; each ends the conversation."""


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """The tools that a model may call: their names, those whose call ends the conversation, and the implementations
    of those that have one. Canned answers carry out the calls of all others."""

    names: frozenset[str] = frozenset()
    terminating: frozenset[str] = frozenset()
    implementations: Mapping[str, tuple[Mapping[str, Any], FieldCursor]] = field(default_factory=dict)


def declared_tools(tools: Any) -> DeclaredTools:
    """Return the tools of a setting; those without a name are the provider's own. Raises InputError for a name that is
    taken, a `terminating` that is not true or false, and an implementation that has no such fields."""
    declared: dict[str, tuple[bool, tuple[Mapping[str, Any], FieldCursor] | None]] = {}
    for number, raw in enumerate(tools if isinstance(tools, list) else ()):
        at = DETACHED.at("tools", number)
        tool = _expanded(raw, at)
        name = _name(tool)
        if not name:
            if any(key in tool for key in _OURS):
                raise at.error("expected a tool with a name, as `function: {name: …}`")
            continue  # the provider's own, such as a web search
        if name in declared:
            raise at.error(f"the tool '{name}' is declared twice")
        declared[name] = _is_terminating(tool, at), _implementation(tool, name, at)
    return DeclaredTools(
        frozenset(declared),
        frozenset(name for name, (terminating, _) in declared.items() if terminating),
        {name: implementation for name, (_, implementation) in declared.items() if implementation is not None},
    )


def in_mode(declared: DeclaredTools, mode: str | None) -> DeclaredTools:
    """Return the tools as a mode has them: `mock` by canned answers only, `live` by their implementations only,
    `synthetic` by neither. Raises InputError for a tool that is to be live and has no implementation."""
    if mode is None:
        return declared
    own = declared.names - declared.terminating
    if mode == LIVE and (missing := sorted(own - set(declared.implementations))):
        problem = f"Live tool mode: no implementation of {', '.join(missing)}; add one, or choose mock or synthetic"
        raise InputError(problem, SourceLocation(field=TOOL_MODE))
    simulated = {name: ({"type": SYNTHETIC}, DETACHED) for name in own} if mode == SYNTHETIC else {}
    return replace(declared, implementations=declared.implementations if mode == LIVE else simulated)


def as_sent(tools: Any) -> Any:
    """Return the tools of a setting as a provider knows them."""
    if not isinstance(tools, list):
        return tools
    return [_sent(tool) for tool in tools]


def unknown_mocks(mocks: Sequence[ToolMock], tools: DeclaredTools) -> Iterator[tuple[int, ToolMock]]:
    """Yield the canned answers of tools that are not declared, with their places."""
    yield from ((place, mock) for place, mock in enumerate(mocks) if mock.tool not in tools.names)


class ToolSet:
    """The implementations of declared tools. Raises InputError for one that cannot be used."""

    def __init__(self, declared: DeclaredTools, place: ToolPlace) -> None:
        self.declared = declared
        self._mock = TOOLS.get(_MOCK)({}, place, DETACHED)
        self._parts: dict[str, Tool] = {}
        for name, (config, cursor) in declared.implementations.items():
            type_ = TOOLS.get(str(config["type"]), cursor.place("type"))
            given = {key: value for key, value in config.items() if key != "type"}
            self._parts[name] = type_(read_table(given, type_.settings, cursor), place, cursor)

    @property
    def carries_out(self) -> bool:
        """Whether a tool has an implementation, so that calls are carried out without canned answers."""
        return bool(self._parts)

    @property
    def keeps_state(self) -> bool:
        """Whether a tool remembers earlier calls in a process of its own."""
        return any(getattr(part, "keeps_state", False) for part in self._parts.values())

    def content(self) -> Mapping[str, str]:
        """Return fingerprints of the files that results depend on, by name."""
        return {file: print_ for part in self._parts.values() for file, print_ in part.content().items()}

    async def answer(self, request: ToolRequest) -> ToolAnswer:
        """Return the result of a call; canned answers of the case go before the tool itself."""
        if request.tool not in self.declared.names and not request.canned.has(request.tool):
            return ToolAnswer(output={"error": f"there is no tool '{request.tool}'"}, is_error=True)
        part = self._mock if request.canned.has(request.tool) else self._parts.get(request.tool, self._mock)
        try:
            return await part.answer(request)
        except BaseException as error:
            # The one boundary to tools: what they raise is a result that the model sees.
            if is_interruption(error):
                raise
            return ToolAnswer(output={"error": str(error) or error_text(error)}, is_error=True)

    async def close(self) -> None:
        """Close every tool."""
        for part in self._parts.values():
            await part.close()


def _expanded(raw: Any, at: FieldCursor) -> Mapping[str, Any]:
    if isinstance(raw, str) and raw in PREDEFINED:
        return PREDEFINED[raw]
    if not isinstance(raw, Mapping):
        raise at.error(
            f"expected a tool, or one of {', '.join(PREDEFINED)}; got {raw if isinstance(raw, str) else kind(raw)}"
        )
    return raw


def _sent(raw: Any) -> Any:
    tool = PREDEFINED.get(raw, raw) if isinstance(raw, str) else raw
    if not isinstance(tool, Mapping):
        return tool
    return {key: value for key, value in tool.items() if key not in _OURS}


def _name(tool: Mapping[str, Any]) -> str:
    return str(mapping(tool.get("function")).get("name") or tool.get("name") or "").strip()


def _is_terminating(tool: Mapping[str, Any], at: FieldCursor) -> bool:
    for given, cursor in ((tool, at), (mapping(tool.get(FOREIGN)), at.at(FOREIGN))):
        mark = given.get(TERMINATING)
        if mark is not None and not isinstance(mark, bool):
            raise cursor.error(f"expected true or false, got {mark!r}", TERMINATING)
        if mark is not None:
            return mark
    return False


def _implementation(
    tool: Mapping[str, Any], name: str, at: FieldCursor
) -> tuple[Mapping[str, Any], FieldCursor] | None:
    """Return what carries out the calls of a tool, checked, with its place."""
    cursor, raw = at.at(IMPLEMENTATION), tool.get(IMPLEMENTATION)
    foreign = mapping(tool.get(FOREIGN))
    if raw is None and foreign:
        cursor, raw = at.at(FOREIGN, IMPLEMENTATION), foreign.get(IMPLEMENTATION)
        if raw is None and foreign.get("mode") == "live":
            raise at.error(f"the tool '{name}' is live and has no implementation", FOREIGN)
        if foreign.get("mode") == _MOCK:
            return None
    if raw is None:
        return None
    if not isinstance(raw, Mapping) or not isinstance(raw.get("type"), str):
        raise cursor.error("expected a mapping with type (mock, synthetic, http, python, mcp) and its settings")
    config = _own_form(raw, cursor)
    if any(key in config for key in _INLINE):
        raise cursor.error(
            "source within a file is not run; put it into a module beside the runners file and name it: "
            "`function: module:callable`",
            next(key for key in _INLINE if key in config),
        )
    read_table({key: value for key, value in config.items() if key != "type"}, _settings(config, cursor), cursor)
    return config, cursor


def _settings(config: Mapping[str, Any], cursor: FieldCursor) -> Any:
    return TOOLS.get(str(config["type"]), cursor.place("type")).settings


def _own_form(raw: Mapping[str, Any], cursor: FieldCursor) -> dict[str, Any]:
    """Return an implementation with our names of its type and its time limit."""
    config = {**raw, "type": _FOREIGN_TYPES.get(raw["type"], raw["type"])}
    limit_ms = config.pop("timeout_ms", None)
    if limit_ms is None:
        return config
    if isinstance(limit_ms, bool) or not isinstance(limit_ms, int | float):
        raise cursor.error(f"expected a number of milliseconds, got {kind(limit_ms)}", "timeout_ms")
    if not _LEAST_MS <= limit_ms <= _MOST_MS:
        raise cursor.error(f"expected {_LEAST_MS} to {_MOST_MS} milliseconds, got {limit_ms:g}", "timeout_ms")
    return {**config, "timeout_s": limit_ms / 1000}
