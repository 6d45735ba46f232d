"""`chat`: a model behind the API of OpenAI, Azure, Anthropic, Gemini, OpenRouter, Bedrock, Vertex or
a compatible server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, RawExecution, Runner, TargetFailure
from eval_pipeline.executions.prompt import attachment_text, is_attachment, message_text
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.client import ChatClient, ChatReply
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.model import SETTINGS, CloudAccount, Options
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
from eval_pipeline.suites.model import Case, Message, content_text

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
        Field("tools", LIST, "The tools that the model may call, as OpenAI declares them."),
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

    @staticmethod
    def reports_cost(runner: Runner) -> bool:
        """Only this provider is asked for the cost of each answer."""
        return runner.settings.get("wire") == "openrouter"

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
        self._model = self._client.model(_options(config))

    def content(self) -> Mapping[str, str]:
        return {}

    async def execute(self, call: Call) -> RawExecution:
        messages = wire_messages(call.plan.case)
        if self._system is not None:
            messages.insert(0, {"role": "system", "content": self._system})
        try:
            reply = await self._model.complete(messages, timeout_s=call.timeout_s)
        except ModelError as error:
            raise TargetFailure(
                error.failure,
                str(error),
                retryable=error.retryable,
                status=error.status,
                retry_after_s=error.retry_after_s,
                raw=_raw_of(error, call),
            ) from error
        return RawExecution(format="chat", payload=_payload(reply))

    async def close(self) -> None:
        await self._client.close()


def _raw_of(error: ModelError, call: Call) -> RawExecution | None:
    """Return what is known of a response that is an error or too large; the latter as a file."""
    if error.partial is not None:
        call.folder.mkdir(parents=True, exist_ok=True)
        response = call.folder / "response"
        response.write_bytes(error.partial)
        return RawExecution(format="chat", payload={"error": str(error)}, files={"response": response})
    return RawExecution(format="chat", payload={"error": error.body}) if error.body else None


def _payload(reply: ChatReply) -> dict[str, Any]:
    """Return the stored payload: the provider's response and its wire (absent for OpenAI's chat completions)."""
    payload: dict[str, Any] = {"response": reply.response}
    if reply.wire != "openai":
        payload["wire"] = reply.wire
    if reply.ttft_ms is not None:
        payload["ttft_ms"] = reply.ttft_ms
    return payload


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
        settings={key: config[key] for key in SETTINGS if key in config},
        extra=settings.mapping(config, "body"),
    )


def wire_messages(case: Case) -> list[dict[str, Any]]:
    """Return a case's input as chat messages (see `llm/model`): files inlined, images as parts, tool turns as turns."""
    first = case.input[0] if len(case.input) == 1 else None
    if first is not None and isinstance(first.content, str) and not first.tool_calls and first.role != "tool":
        return [_wire_message(first)]
    return list(_WireTurns().of(case.input))


class _WireTurns:
    """Converts a conversation to wire messages; tracks tool calls without a result.

    Providers require every tool result to name its call. Where a suite names none, results belong to the preceding
    calls in order. A result without an open call becomes a marked user message.
    """

    def __init__(self) -> None:
        self._count = 0
        self._open: list[dict[str, Any]] = []

    def of(self, messages: tuple[Message, ...]) -> Iterator[dict[str, Any]]:
        for message in messages:
            if message.role != "tool":
                yield from self._inline_answers()
                yield self._turn(message)
                continue
            yield self._answer(message)
        yield from self._inline_answers()

    def _turn(self, message: Message) -> dict[str, Any]:
        wire = _wire_message(message)
        if message.tool_calls:
            calls = [self._call(raw) for raw in message.tool_calls]
            wire["tool_calls"] = [call for call, _ in calls]
            self._open = [
                {"id": call["id"], "name": call["function"]["name"], "output": output} for call, output in calls
            ]
        return wire

    def _call(self, raw: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return a call in the chat completions format, and its result if the suite gives one beside the call.

        The input is `{tool, input, output}` or the chat completions format itself.
        """
        self._count += 1
        function = raw["function"] if isinstance(raw.get("function"), Mapping) else raw
        name, arguments = function.get("name", raw.get("tool")), function.get("arguments", raw.get("input"))
        text = _json_text({} if arguments is None else arguments)
        call = {"id": raw.get("id") or f"call_{self._count}", "type": "function"}
        return {**call, "function": {"name": name, "arguments": text}}, raw.get("output")

    def _answer(self, message: Message) -> dict[str, Any]:
        matching = [call for call in self._open if message.name and message.name in (call["id"], call["name"])]
        call = next(iter(matching or self._open), None)
        text = message_text(message)
        if call is None:
            return {"role": "user", "content": f"@[Tool]:\n{text}"}
        self._open.remove(call)
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    def _inline_answers(self) -> Iterator[dict[str, Any]]:
        """Yield the inline results of calls that no message answered."""
        for call in self._open:
            if call["output"] is not None:
                yield {"role": "tool", "tool_call_id": call["id"], "content": _json_text(call["output"])}
        self._open = []


def _json_text(value: Any) -> str:
    """Return a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def _wire_message(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.name:
        wire["name"] = message.name
    return wire


def _content(message: Message) -> Any:
    """Return one text, or parts if the message has images."""
    content = message.content
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not any(map(_image_url, content)):
        return message_text(message)
    return [part for part in map(_part, content) if part.get("text") != ""]


def _image_url(part: Any) -> str | None:
    source = part.get("source") if isinstance(part, Mapping) and part.get("type") == "image" else None
    return source if isinstance(source, str) else None


def _part(part: Any) -> dict[str, Any]:
    if url := _image_url(part):
        return {"type": "image_url", "image_url": {"url": url}}
    text = attachment_text(part, "inline") if is_attachment(part) else content_text([part])
    return {"type": "text", "text": text}
