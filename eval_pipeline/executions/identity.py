"""What a plan depends on, as keys: an execution counts for every plan of the same key.

A key is the SHA-256 of the runner's revision, the names of suite and case, what the target receives of the case, the
content of its workspace, and the repetition. Whatever an older version of this program did not look at is hashed
last and only where it exists: all other plans keep the key that they had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.runners import UnusableRunner
from eval_pipeline.fingerprints import canonical_json, fingerprint
from eval_pipeline.suites.model import Case, Message
from eval_pipeline.suites.simulation import SimulatedUser
from eval_pipeline.suites.solutions import Solution
from eval_pipeline.suites.workspace import WorkspaceSpec

ContentOf = Callable[[WorkspaceSpec], object]
"""Returns the content of a workspace beside what its spec has (`WorkspaceContents.of`); None when there is none."""

PlayedBy = Callable[[SimulatedUser], object]
"""Returns the identity of the simulator that plays a user; None for a script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerIdentity:
    """What identifies a runner.

    `revision` is the hash of everything; `earlier` the one that older versions stored for the same runner, None where
    they stored this one. `content` are the fingerprints of its files and the versions of its programs, by name.
    `reads` names the fields of a case, beyond the input, that the target receives.
    """

    revision: str
    earlier: str | None = None
    content: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()


def runner_identity(runner: Runner) -> RunnerIdentity:
    """Return the identity of a runner: adapter, adapter version, public settings, the files that its answers depend on,
    and what the adapter finds them to depend on (`dependencies`: imported modules, versions of programs); then the hash
    of headers of unknown names.

    An adapter that converts its runner to another adapter's (`equivalent`) has that one's identity. Raises InputError
    for an unusable runner.
    """
    if isinstance(runner, UnusableRunner):
        raise runner.problem
    factory = ADAPTERS.get(runner.adapter)
    equivalent = getattr(factory, "equivalent", None)
    if equivalent is not None:
        return runner_identity(equivalent(runner))
    adapter: Any = factory(runner)
    content = adapter.content()
    known = [runner.adapter, factory.version, runner.public_settings, content]
    more = adapter.dependencies() if hasattr(adapter, "dependencies") else {}
    if runner.headers_digest is not None:
        more = {**more, "headers": runner.headers_digest}
    return RunnerIdentity(
        revision=fingerprint([*known, more] if more else known),
        earlier=fingerprint(known) if more else None,
        content={**content, **more},
        reads=tuple(getattr(adapter, "reads", ())),
    )


def runner_revision(runner: Runner) -> str:
    """Return the revision of a runner. Raises InputError for an unusable one."""
    return runner_identity(runner).revision


class CaseKeys(NamedTuple):
    """The keys of the repetitions of a case: those of today, and those that an older version stored (None: these)."""

    now: hashlib._Hash
    earlier: hashlib._Hash | None

    def key(self, repetition: int) -> str:
        """Return the key of a repetition."""
        return _key(self.now, repetition)

    def earlier_key(self, repetition: int) -> str | None:
        """Return the key by which an older version stored a repetition; None where it is that of today."""
        return _key(self.earlier, repetition) if self.earlier is not None else None


class PlanIdentity:
    """The keys of the plans of one suite × runner."""

    def __init__(
        self,
        suite: str,
        runner: RunnerIdentity,
        content_of: ContentOf | None = None,
        played_by: PlayedBy | None = None,
    ) -> None:
        self._runner = runner
        self._content_of = content_of
        self._played_by = played_by
        self._prefix = hashlib.sha256(canonical_json([runner.revision, suite]))
        self._earlier = hashlib.sha256(canonical_json([runner.earlier or runner.revision, suite]))

    def keys(self, case: Case) -> CaseKeys:
        """Return the keys of a case."""
        content = [case.id, case.fingerprint_fields()]
        if case.user is not None and self._played_by is not None:
            content.append(self._played_by(case.user))
        seen, more = canonical_json(content), self._more(case)
        now = _updated(self._prefix, seen + more)
        if not more and self._runner.earlier is None:
            return CaseKeys(now, None)
        return CaseKeys(now, _updated(self._earlier, seen))

    def parts(self, case: Case) -> dict[str, str]:
        """Return the fingerprint of each part of a plan's content, by which a later plan finds out what changed."""
        workspace = case.workspace
        parts: dict[str, object] = {"input": [message.fingerprint_fields() for message in case.input]}
        if case.conversation is not None:
            parts["conversation"] = case.conversation.fingerprint_fields()
        if case.user is not None or case.mocks or case.state is not None:
            mocks = [mock.fingerprint_fields() for mock in case.mocks]
            user = case.user.fingerprint_fields() if case.user is not None else None
            parts["user"] = [user, mocks] if case.state is None else [user, mocks, case.state]
        if self._runner.reads:
            parts["case"] = self._read(case)
        if workspace is not None:
            parts["workspace"] = [workspace.fingerprint_fields(), self._content(case)]
            parts["metadata"] = case.metadata if workspace.tells_of_case else None
        return {name: fingerprint(value)[:16] for name, value in parts.items()}

    def _more(self, case: Case) -> bytes:
        """What an older version did not look at; empty where there is nothing."""
        if not self._runner.reads and case.workspace is None:
            return b""
        read, content = self._read(case), self._content(case)
        return canonical_json([read, content]) if read or content is not None else b""

    def _read(self, case: Case) -> dict[str, object]:
        return {name: _comparable(getattr(case, name)) for name in self._runner.reads}

    def _content(self, case: Case) -> object:
        if case.workspace is None or self._content_of is None:
            return None
        return self._content_of(case.workspace)


def _comparable(value: Any) -> object:
    """A field of a case without this machine's paths of attached files."""
    if isinstance(value, tuple):
        return [_comparable(item) for item in value]
    return value.fingerprint_fields() if isinstance(value, (Message, Solution)) else value


def _updated(prefix: hashlib._Hash, more: bytes) -> hashlib._Hash:
    updated = prefix.copy()
    updated.update(more)
    return updated


def _key(case_hash: hashlib._Hash, repetition: int) -> str:
    return _updated(case_hash, b"%d" % repetition).hexdigest()
