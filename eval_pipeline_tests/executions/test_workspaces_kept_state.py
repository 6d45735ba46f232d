"""What a target leaves in the git folder of a pooled clone, and that neither a reset nor the next sweep sees it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.suites.workspace import Hook, WorkspaceSpec
from eval_pipeline_tests.executions.sample_workspaces import (
    SampleWorkspaces,
    a_repository,
    a_shell,
    cloned,
    in_sweep,
    one_case,
    plan_for,
    run_git,
    worked,
)

REPLACE = """git config user.name x; git config user.email x@example.org; old=$(git rev-parse HEAD);
echo theirs > number; git commit -qam theirs; git replace $old $(git rev-parse HEAD)"""


@pytest.fixture
def samples(tmp_path: Path) -> SampleWorkspaces:
    return SampleWorkspaces(tmp_path)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    return a_repository(tmp_path / "origin", {"number": "1\n", "other": "2\n"})


ATTACKS = [
    pytest.param(REPLACE, id="a replaced commit"),
    pytest.param(
        "git replace $(git rev-parse HEAD:number) $(echo theirs | git hash-object -w --stdin)", id="a replaced file"
    ),
    pytest.param("git update-index --skip-worktree number; echo theirs > number", id="skip-worktree"),
    pytest.param("git update-index --assume-unchanged number; echo theirs > number", id="assume-unchanged"),
    pytest.param("echo '* eol=crlf' > .git/info/attributes; rm number", id="attributes"),
    pytest.param("echo left > theirs; echo theirs > .git/info/exclude", id="excluded files"),
    pytest.param("echo /other > .git/info/sparse-checkout; git config core.sparseCheckout true", id="sparse checkout"),
    pytest.param(f"{REPLACE}; mkdir -p .git/info; git rev-parse HEAD > .git/shallow", id="a shallow clone"),
    pytest.param("git rev-parse HEAD | tee .git/info/grafts; git config core.bare true", id="grafts"),
    pytest.param(
        "git config extensions.worktreeConfig true; git config --worktree core.eol crlf; rm number",
        id="configuration of a work tree",
    ),
    pytest.param(
        "printf '#!/bin/sh\\necho theirs > number\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/*", id="a hook"
    ),
]


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "repo").iterdir() if path.is_file()}


def spec(samples: SampleWorkspaces, origin: Path, **fields: object) -> WorkspaceSpec:
    return samples.spec(mode="pooled", repositories=(cloned(origin),), **fields)


@pytest.mark.parametrize("line", ATTACKS)
def test_the_next_sweep_finds_the_clone_as_the_first_did(samples: SampleWorkspaces, origin: Path, line: str) -> None:
    seen: list[dict[str, bytes]] = []

    def attack(folder: Path) -> None:
        seen.append(content_of(folder))
        assert os.system(f"cd '{folder}/repo' && {{ {line}; }} >/dev/null") == 0

    one_case(samples.workspaces(), plan_for(spec(samples, origin)), attack)
    one_case(samples.workspaces(sweep_id="2"), plan_for(spec(samples, origin)), lambda at: seen.append(content_of(at)))

    assert seen[1] == seen[0] == {"number": b"1\n", "other": b"2\n"}


@pytest.mark.parametrize("line", ATTACKS)
def test_a_reset_between_cases_leaves_nothing_of_it(samples: SampleWorkspaces, origin: Path, line: str) -> None:
    seen: list[dict[str, bytes]] = []
    strict = spec(samples, origin, hooks={"after_each": a_reset()})

    def attack(folder: Path) -> None:
        assert os.system(f"cd '{folder}/repo' && {{ {line}; }} >/dev/null") == 0

    in_sweep(
        samples.workspaces(),
        lambda opened: worked(opened, plan_for(strict), attack),
        lambda opened: worked(opened, plan_for(strict, "c2"), lambda at: seen.append(content_of(at))),
    )

    assert seen == [{"number": b"1\n", "other": b"2\n"}]


def a_reset() -> Hook:
    return replace(a_shell("true"), reset="strict")


def test_a_replaced_object_is_not_seen_by_git_in_the_next_sweep(samples: SampleWorkspaces, origin: Path) -> None:
    commit = run_git(origin, "rev-parse", "HEAD").strip()
    seen: list[str] = []

    def attack(folder: Path) -> None:
        assert os.system(f"cd '{folder}/repo' && {{ {REPLACE}; }} >/dev/null") == 0

    def look(folder: Path) -> None:
        seen.append(run_git(folder / "repo", "show", f"{commit}:number"))
        seen.append(run_git(folder / "repo", "for-each-ref", "refs/replace"))

    one_case(samples.workspaces(), plan_for(spec(samples, origin)), attack)
    one_case(samples.workspaces(sweep_id="2"), plan_for(spec(samples, origin)), look)

    assert seen == ["1\n", ""]
