"""`chat`: a model behind the API of OpenAI, Azure, Anthropic, Gemini, OpenRouter, Bedrock, Vertex or
a compatible server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.canned_answers import CannedAnswers
from eval_pipeline.executions.chat_messages import wire_messages
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, RawExecution, Runner
from eval_pipeline.executions.model_failures import target_failure
from eval_pipeline.executions.tool_rounds import ToolRounds
from eval_pipeline.executions.tool_sets import (
    TOOL_MODE,
    TOOL_MODES,
    UNCANNED,
    DeclaredTools,
    ToolSet,
    as_sent,
    declared_tools,
    in_mode,
)
from eval_pipeline.executions.tools import ToolPlace
from eval_pipeline.llm.client import ChatClient, ChatReply, Model, read_response
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.model import SETTINGS, CloudAccount, Options, Reply
from eval_pipeline.llm.reading import mapping
from eval_pipeline.parsing.tables import (
    ANY,
    COUNT,
    FLAG,
    LIST,
    MAPPING,
    NUMBER,
    TEXT,
    TEXT_MAPPING,
    TEXTS,
    WHOLE,
    Field,
    FieldTable,
    one_of,
)
from eval_pipeline.plugins import canonical_name

MAX_CONNECTIONS = 1_000
_FORMATS = ("chat", "responses")
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "thinking_budget")
MODEL_SETTINGS = FieldTable(
    "model settings",
    (
        Field("temperature", NUMBER, "The sampling temperature."),
        Field("top_p", NUMBER, "The probability mass that is sampled from."),
        Field("max_tokens", COUNT, "The most tokens of an answer."),
        Field("max_completion_tokens", COUNT, "The most tokens of an answer, reasoning included."),
        Field("max_output_tokens", COUNT, "The most tokens of an answer, by the field that the provider has for it."),
        Field("seed", NUMBER, "The seed of sampling, for providers that have one."),
        Field("stop", TEXTS, "Texts at which the answer ends."),
        Field("frequency_penalty", NUMBER, "The penalty on frequent tokens."),
        Field("presence_penalty", NUMBER, "The penalty on tokens that are present."),
        Field("reasoning_effort", TEXT, "How much the model reasons, such as `low` or `high`."),
        Field("thinking_budget", WHOLE, "The most tokens of thinking, for providers that have a budget."),
        Field("response_format", MAPPING, "The format of the answer, such as `{type: json_object}`."),
        Field(
            "tools",
            LIST,
            "The model's tools, as OpenAI declares them, with `terminating` and `implementation`.",
        ),
        Field(
            TOOL_MODE,
            one_of(*TOOL_MODES),
            "What answers calls: canned answers, implementations, or neither (default: canned answers first).",
        ),
        Field("tool_choice", ANY, "Which tool the model must call, as OpenAI writes it."),
        Field("parallel_tool_calls", FLAG, "Whether the model may call several tools at once."),
    ),
    "Settings of a request beside the messages.",
)


@ADAPTERS.register("chat")
class Chat:
    """Send a case's messages to a model and return its response.

    Settings: `wire` (the provider's format: `openai`, `openai-responses`, `azure`, `azure-responses`, `anthropic`,
    `gemini`, `openrouter`, `bedrock`, `vertex`), `api_format` (`responses` selects that form of `openai` and `azure`),
    `base_url`, `api_key`, `api_version`, the account of a cloud (`region`, `project`, `access_key_id`,
    `secret_access_key`, `session_token`, `credentials`), `headers`, `model`, `system` (a message put first), `stream`,
    `body` (extra fields of the request), and the common parameters (`temperature`, `max_tokens`, `tools`, …), mapped to
    the provider's fields.

    A tool with an `implementation` (`type`: `python`, `http`, `mcp`, `synthetic`) is carried out. In a conversation,
    and where the case has `mocks`, these answer the calls of all others, and of those that they name. The model goes
    on until it calls no more tools, at most 16 times a turn. A tool with `terminating: true` ends the conversation.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable(
        "chat",
        (
            Field("wire", TEXT, "The format of the provider's API, such as `openai` or `anthropic`.", "openai"),
            Field("api_format", one_of(*_FORMATS), "Chat completions or responses, for `openai` and `azure`.", "chat"),
            Field("base_url", TEXT, "The address of the API (default: the provider's own)."),
            Field("api_key", TEXT, "The key; write `${{ NAME }}` to take it from the environment."),
            Field("api_version", TEXT, "The version of the API, for providers that have versions."),
            Field("region", TEXT, "The region of the cloud (`bedrock`, `vertex`)."),
            Field("project", TEXT, "The id of the Google Cloud project (`vertex`)."),
            Field("access_key_id", TEXT, "The id of the AWS key that signs requests (`bedrock`)."),
            Field("secret_access_key", TEXT, "The secret of the AWS key; write `${{ NAME }}`."),
            Field("session_token", TEXT, "The token of a temporary AWS key; write `${{ NAME }}`."),
            Field("credentials", TEXT, "A file of Google credentials (`vertex`; default: Google's usual file)."),
            Field("headers", TEXT_MAPPING, "Further HTTP headers of each request."),
            Field("model", TEXT, "The name of the model.", required=True),
            Field("system", TEXT, "A system message that is put before the messages of every case."),
            Field("stream", FLAG, "Streams the answer, which measures the time to the first token.", default=False),
            Field("body", MAPPING, "Further fields of the request, sent as they are."),
            *MODEL_SETTINGS.fields,
        ),
        "Sends a case's messages to a model behind an HTTP API.",
    )
    default_timeout_s: ClassVar[float] = 120.0
    retries_timeouts: ClassVar[bool] = True

    @property
    def keeps_state(self) -> bool:
        """Whether a tool remembers earlier calls in a process of its own."""
        return self._tools.keeps_state

    @staticmethod
    def reports_cost(runner: Runner) -> bool:
        """Only this provider is asked for the cost of each answer."""
        return runner.settings.get("wire") == "openrouter"

    @staticmethod
    def declared_tools(runner: Runner) -> DeclaredTools:
        """The tools that canned answers may belong to."""
        return declared_tools(runner.settings.get("tools"))

    def __init__(self, runner: Runner) -> None:
        config = runner.settings
        self._client = ChatClient(
            settings.optional_text(config, "base_url"),
            wire=_wire_name(config),
            api_key=settings.optional_text(config, "api_key"),
            api_version=settings.optional_text(config, "api_version"),
            cloud=_cloud(config, runner.folder),
            headers=settings.texts(config, "headers"),
            max_connections=max(runner.concurrency or DEFAULT_CONCURRENCY, MAX_CONNECTIONS),
            max_bytes=runner.max_output_bytes,
        )
        self._system = settings.optional_text(config, "system")
        self._place = ToolPlace(folder=runner.folder, isolation=runner.isolation or "process")
        self._declared = declared_tools(config.get("tools"))
        self._mode = settings.choice(config, TOOL_MODE, TOOL_MODES, "") or None
        self._sets: dict[str | None, ToolSet] = {}
        self._tools = self._in_mode(self._mode)
        self._options = _options(config)
        self._model = self._client.model(self._options)
        self._has_seed = False if "seed" in config else None

    def content(self) -> Mapping[str, str]:
        return self._tools.content()

    async def execute(self, call: Call) -> RawExecution:
        raw = await self._answer(call)
        own = call.plan.case.model_settings
        return replace(raw, payload={**raw.payload, "settings": own}) if own else raw

    async def _answer(self, call: Call) -> RawExecution:
        case, messages = call.plan.case, wire_messages(call.plan.case)
        if self._system is not None:
            messages.insert(0, {"role": "system", "content": self._system})
        mode = mapping(case.model_settings).get(TOOL_MODE) or self._mode
        tools = self._in_mode(mode)
        if tools.carries_out or (tools.declared.names and (case.mocks or mode or call.turn is not None)):
            return await self._use_tools(call, messages, tools, CannedAnswers(() if mode in UNCANNED else case.mocks))
        try:
            reply = await self._model_for(call).complete(messages, timeout_s=call.timeout_s)
        except ModelError as error:
            raise target_failure(error, call, "chat") from error
        return RawExecution(format="chat", payload=_payload(reply))

    def _in_mode(self, mode: str | None) -> ToolSet:
        if mode not in self._sets:
            self._sets[mode] = ToolSet(in_mode(self._declared, mode), self._place)
        return self._sets[mode]

    async def _use_tools(
        self, call: Call, messages: Sequence[Mapping[str, Any]], tools: ToolSet, canned: CannedAnswers
    ) -> RawExecution:
        """Answer the model's calls until it speaks. A failure keeps the rounds before it, and another attempt goes on
        after them: they are paid for, and tools may have done something."""
        rounds = ToolRounds(tools, canned, call.context, call.plan.case.state, call.unfinished, call.save)
        response: Mapping[str, Any] | None = rounds.take_up(_read)
        while True:
            if response is None:
                response = await self._next_response(call, messages, rounds)
            if await rounds.add(response, _read(response), call.timeout_s):
                return rounds.raw()
            response = None

    async def _next_response(
        self, call: Call, messages: Sequence[Mapping[str, Any]], rounds: ToolRounds
    ) -> Mapping[str, Any]:
        try:
            model = self._model_for(call)
            return _payload(await model.complete([*messages, *rounds.messages], timeout_s=call.timeout_s))
        except ModelError as error:
            failure = target_failure(error, call, "chat")
            if rounds.messages and (failure.raw is None or not failure.raw.files):
                failure.raw = rounds.raw(str(error))
            raise failure from error

    def _model_for(self, call: Call) -> Model:
        """Return the model, with the settings of the case, and with the seed of the call where the wire has one and the
        runner sets none."""
        own = {name: value for name, value in mapping(call.plan.case.model_settings).items() if name != TOOL_MODE}
        if not own and (call.seed is None or self._has_seed is False):
            return self._model
        model = str(own.pop("model", self._options.model))
        options = replace(self._options, model=model, settings={**self._options.settings, **own})
        if call.seed is None or self._has_seed is False:
            return self._client.model(options)
        try:
            return self._client.model(replace(options, settings={**options.settings, "seed": call.seed}))
        except InputError:
            self._has_seed = False
            return self._client.model(options)

    async def close(self) -> None:
        await self._client.close()
        for tools in self._sets.values():
            await tools.close()


def _payload(reply: ChatReply) -> dict[str, Any]:
    """Return the stored payload: the provider's response and its wire (absent for OpenAI's chat completions)."""
    payload: dict[str, Any] = {"response": reply.response}
    if reply.wire != "openai":
        payload["wire"] = reply.wire
    if reply.ttft_ms is not None:
        payload["ttft_ms"] = reply.ttft_ms
    return payload


def _read(payload: Mapping[str, Any]) -> Reply:
    """Return the content of a stored response."""
    return read_response(payload.get("wire", "openai"), payload["response"])


def _cloud(config: Mapping[str, Any], folder: Path) -> CloudAccount:
    """Return the settings of a cloud; a relative file of credentials is below the folder of the runners file."""
    given = {field.name: settings.optional_text(config, field.name) for field in fields(CloudAccount)}
    if given["credentials"]:
        given["credentials"] = str(folder / Path(given["credentials"]).expanduser())
    return CloudAccount(**given)


def _wire_name(config: Mapping[str, Any]) -> str:
    name = canonical_name(settings.optional_text(config, "wire") or "openai")
    responses = settings.choice(config, "api_format", _FORMATS, "chat") == "responses"
    if not responses or name.endswith("-responses"):
        return name
    if name not in ("openai", "azure"):
        raise InputError(f"wire '{name}' has no such format; openai and azure have", SourceLocation(field="api_format"))
    return f"{name}-responses"


def _options(config: Mapping[str, Any]) -> Options:
    for key in _LIMITS:
        value = config.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InputError(f"expected a whole number of tokens, got {value!r}", SourceLocation(field=key))
    if not isinstance(config.get("tools") or [], list):
        raise InputError(f"expected a list of tools, got {config['tools']!r}", SourceLocation(field="tools"))
    return Options(
        model=settings.text(config, "model"),
        stream=settings.flag(config, "stream"),
        settings={key: as_sent(config[key]) if key == "tools" else config[key] for key in SETTINGS if key in config},
        extra=settings.mapping(config, "body"),
    )
