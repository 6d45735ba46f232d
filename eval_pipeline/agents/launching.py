"""What a runner requests of a CLI → the command that starts it, by a table of the CLI.

A table is a line of words with slots. A slot is filled with the option that the CLI has for what is requested, or left
out; what a CLI has no option for is refused, or done without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from eval_pipeline.errors import InputError, SourceLocation

Access = Literal["full", "workspace", "read-only"]
ACCESSES: tuple[Access, ...] = ("full", "workspace", "read-only")
SESSION = "{SESSION}"
"""In the words that resume a session: its id."""
MODEL, SYSTEM, ACCESS, LIMITS, ARGS, RESUME = (
    "<model>", "<system>", "<access>", "<limits>", "<args>", "<resume>",
)  # fmt: skip
"""The slots of a table's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What a runner requests of its CLI. None and empty: not requested. `session` is the id of one to go on with."""

    executable: str
    wrap: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    model: str | None = None
    system: str | None = None
    access: Access | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The command that starts a CLI without interaction and with JSON output.

    `command` is the program with its arguments; `{PROMPT}` and the other placeholders of the `command` adapter are
    filled in for each case. `prompt` is how the prompt reaches the program. `preamble` is put before every prompt,
    which is how a CLI without an option for a system prompt gets one.
    """

    command: tuple[str, ...]
    prompt: Literal["argument", "stdin"] = "stdin"
    preamble: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTable:
    """How a CLI is started.

    Args:
        words: The words after the program, with slots; `{PROMPT}` among them is the prompt, else it is sent to stdin.
        model: The option of the model.
        system: The option of a system prompt; None where it is put before the prompt.
        limits: The options of `max_turns` and `max_budget_usd`, for a CLI that has them.
        access: The words for each access that the CLI can be held to.
        default: The access without a request.
        access_options: Options by which `args` choose an access themselves: then `access` is left out.
        resume: The words that go on with a session; none for a CLI that cannot.
        env: Environment variables of every session.
    """

    words: tuple[str, ...]
    model: str
    system: str | None = None
    limits: Mapping[str, str] = field(default_factory=dict)
    access: Mapping[Access, tuple[str, ...]]
    default: Access = "full"
    access_options: frozenset[str] = frozenset()
    resume: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, request: LaunchRequest) -> Launch:
        """Return the command. Raises InputError for what the CLI cannot be held to."""
        slots = {
            MODEL: _option(self.model, request.model),
            SYSTEM: _option(self.system, request.system) if self.system is not None else (),
            ACCESS: self._access_words(request),
            LIMITS: self._limit_words(request),
            ARGS: request.args,
            RESUME: tuple(word.replace(SESSION, request.session) for word in self.resume) if request.session else (),
        }
        words = tuple(word for slot in self.words for word in slots.get(slot, (slot,)))
        return Launch(
            command=(*request.wrap, request.executable, *words),
            prompt="argument" if any("{PROMPT}" in word for word in words) else "stdin",
            preamble=request.system if self.system is None else None,
            env=self.env,
        )

    def _access_words(self, request: LaunchRequest) -> tuple[str, ...]:
        chosen = any(arg.split("=")[0] in self.access_options for arg in request.args)
        if request.access is None:
            return () if chosen else self.access[self.default]
        if chosen:
            raise InputError("`args` choose another access; name it in one place", SourceLocation(field="access"))
        if request.access not in self.access:
            there_are = ", ".join(f"'{name}'" for name in self.access)
            problem = f"this CLI cannot be held to '{request.access}'; there are: {there_are}; `wrap` starts a sandbox"
            raise InputError(problem, SourceLocation(field="access"))
        return self.access[request.access]

    def _limit_words(self, request: LaunchRequest) -> tuple[str, ...]:
        given = {"max_turns": request.max_turns, "max_budget_usd": request.max_budget_usd}
        return tuple(word for name, option in self.limits.items() for word in _option(option, given[name]))


def _option(name: str, value: object) -> tuple[str, ...]:
    return () if value is None else (name, str(value))
