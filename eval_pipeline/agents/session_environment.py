"""What a session of a coding agent sees of this machine: a home of its own, and few variables of the environment.

The agent gets a list of harmless variables, those by which it finds its provider, and what the runner passes on. Its
login is linked into the fresh home, which is removed with everything that the agent kept there.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.executions.sealed_environment import HARMLESS, chosen_variables
from eval_pipeline.executions.session_folders import session_folder
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline.parsing.secret_names import is_word

_GIT_IDENTITY = "[user]\n\tname = agent\n\temail = agent@example.com\n"
"""Without one, git refuses to commit."""

_EXCLUDED = re.compile(r"\[![^]]*\]")
"""The part of a variable's pattern that leaves variables out; a message goes without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnvironment:
    """How the sessions of a runner are sealed. `passed` are names and patterns of further variables; with
    `isolated` False sessions work in the user's own home."""

    cli: AgentCli
    passed: Sequence[str] = ()
    isolated: bool = True

    def __post_init__(self) -> None:
        KNOWN.add(value for value in chosen_variables(os.environ, self.passed).values() if not is_word(value))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Mapping[str, str]]:
        """Yield the environment of one session. Raises OSError where no home can be made."""
        opened = self._environment()
        environment = await in_thread(opened.__enter__)
        try:
            yield environment
        finally:
            await in_thread(opened.__exit__, None, None, None)

    @contextmanager
    def _environment(self) -> Iterator[Mapping[str, str]]:
        chosen = chosen_variables(os.environ, (*HARMLESS, *self.cli.variables, *self.passed))
        chosen = {**(self.cli.variables_of_root if os.geteuid() == 0 else {}), **chosen}
        if not self.isolated:
            yield {**chosen, **chosen_variables(os.environ, ("HOME", "TMPDIR", "XDG_*", self.cli.sessions.variable))}
            return
        with session_folder() as folder:
            home, scratch = folder / "home", folder / "tmp"
            for each in (home, scratch):
                each.mkdir()
            (home / ".gitconfig").write_text(_GIT_IDENTITY, encoding="ascii")
            self._link_login(home)
            yield {**chosen, **self._caches(), "HOME": str(home), "TMPDIR": str(scratch)}

    def _link_login(self, home: Path) -> None:
        """Link the files of the user's login into a home."""
        login = self.cli.sessions.folder(Path.home(), os.environ)
        fresh = self.cli.sessions.folder(home, {})
        for name in self.cli.login_files:
            if (login / name).is_file():
                fresh.mkdir(parents=True, exist_ok=True)
                (fresh / name).symlink_to((login / name).absolute())

    def login_problem(self) -> str | None:
        """Return why a session can have no login: no key in the environment, no file of a login; None otherwise."""
        folder = self.cli.sessions.folder(Path.home(), os.environ)
        files = [folder / name for name in self.cli.login_files]
        if chosen_variables(os.environ, (*self.cli.variables, *self.passed)) or any(path.is_file() for path in files):
            return None
        shown = ", ".join(str(path) for path in files)
        variables = ", ".join(_EXCLUDED.sub("", name) for name in self.cli.variables)
        return f"no key and no login: none of {variables} is set, and there is no {shown or 'login'}"

    def _caches(self) -> dict[str, str]:
        """Return the variable of a cache that sessions share, because the CLI unpacks itself there."""
        variable = self.cli.cache_variable
        if variable is None:
            return {}
        return {variable: os.environ.get(variable) or str(Path.home() / ".cache")}
