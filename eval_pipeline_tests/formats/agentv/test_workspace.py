"""Workspace sections of suites: what each field becomes, how a case's goes over its suite's, what errors report."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.workspace import read_case_workspace, read_workspace
from eval_pipeline.formats.agentv.workspace_fields import WorkspaceLoading
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.file_search import search_roots
from eval_pipeline.parsing.source import Source, yaml_source
from eval_pipeline.parsing.yaml_text import parse_yaml
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.suites.workspace import Hook, Repository, Requirements, WorkspaceSpec, merged

SUITE = "suite.yaml"
REPO = "repos: [{path: a, source: {type: local, path: x}, %s}]"


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def a_loading(folder: Path | None = None, **environment: str) -> WorkspaceLoading:
    return WorkspaceLoading(
        roots=search_roots(folder or Path.cwd()), environment=environment, diagnostics=Diagnostics()
    )


def read(text: str, loading: WorkspaceLoading | None = None) -> WorkspaceSpec:
    """The workspace of a suite with this text under `workspace:`."""
    text = f"workspace:\n{_indented(text)}"
    return read_workspace(
        parse_yaml(text)["workspace"], ("workspace",), yaml_source(Path(SUITE), text), loading or a_loading()
    )


def read_case(text: str, suite: WorkspaceSpec | None = None, loading: WorkspaceLoading | None = None) -> WorkspaceSpec:
    """The workspace of the first test of a suite, with this text under its `workspace:`."""
    text = f"tests:\n- workspace:\n{_indented(text, 4)}"
    raw = parse_yaml(text)["tests"][0]["workspace"]
    path = ("tests", 0, "workspace")
    return read_case_workspace(raw, path, yaml_source(Path(SUITE), text), loading or a_loading(), suite)


def notices_of(text: str) -> list[str]:
    loading = a_loading()
    read(text, loading)
    return [str(notice) for notice in loading.diagnostics.all()]


def error_of(text: str) -> str:
    with pytest.raises(InputError) as raised:
        read(text)
    return str(raised.value)


def _indented(text: str, by: int = 2) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in dedent(text).strip().split("\n"))


def a_file(name: str, text: str = "") -> Path:
    path = Path(name).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return path


def test_every_field_of_a_workspace() -> None:
    a_file("start/main.py", "print(1)")

    spec = read("""
        template: ./start
        isolation: per_test
        mode: temp
        repos:
          - path: ./repo
            source: {type: git, url: "https://example.org/a.git"}
            checkout: {ref: main, resolve: local, ancestor: 2}
            clone: {depth: 5, filter: "blob:none", sparse: [src, docs]}
        hooks:
          before_all: {command: [python, setup.py, --fast], timeout_ms: 1500, cwd: ./start}
          after_each: {reset: fast}
    """)

    assert spec.template == Path("start").absolute()
    assert list(spec.content) == ["main.py"]
    assert (spec.isolation, spec.mode) == ("per_case", "temp")
    assert spec.repositories == (
        Repository(
            path="repo", url="https://example.org/a.git", ref="main", resolve="local", ancestor=2, depth=5,
            filter="blob:none", sparse=("src", "docs"),
        ),
    )  # fmt: skip
    assert spec.hook("before_all") == Hook(
        command=("python", "setup.py", "--fast"), cwd=Path("start").absolute(), timeout_s=1.5
    )
    assert spec.hook("after_each") == Hook(reset="fast")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        pytest.param("template: .", "temp", id="nothing that is worth pooling"),
        pytest.param("repos: [{path: a, source: {type: git, url: 'https://h/a'}}]", "pooled", id="repositories"),
        pytest.param(
            "{isolation: per_test, repos: [{path: a, source: {type: git, url: 'https://h/a'}}]}",
            "temp",
            id="repositories for each case",
        ),
        pytest.param("path: ./here", "static", id="a path"),
    ],
)
def test_the_mode_where_none_is_written(text: str, mode: str) -> None:
    assert read(text).mode == mode


@pytest.mark.parametrize(
    ("written", "command"),
    [
        pytest.param("node  setup.js --all", ("node", "setup.js", "--all"), id="a text is split on white space"),
        pytest.param("echo {{ test_id }}", ("echo", "{{test_id}}"), id="spaces in a placeholder"),
        pytest.param("echo 'a b'", ("echo", "'a", "b'"), id="quotes mean nothing: no shell"),
        pytest.param("[sh, -c, 'a b']", ("sh", "-c", "a b"), id="a list is taken as it is"),
        pytest.param("[sleep, 5]", ("sleep", "5"), id="numbers"),
    ],
)
@pytest.mark.parametrize("key", ["command", "script"])
def test_the_command_of_a_hook(key: str, written: str, command: tuple[str, ...]) -> None:
    hook = read(f"hooks: {{before_each: {{{key}: {written if written[0] == '[' else repr(written)}}}}}").hook(
        "before_each"
    )

    assert hook is not None
    assert hook.command == command


def test_disabled_hooks_are_no_hooks() -> None:
    spec = read("hooks: {enabled: false, before_all: {command: 'true'}}")

    assert spec.hook("before_all") is None


def test_a_local_repository_is_found_from_the_suite() -> None:
    (repository,) = read("repos: [{path: r, source: {type: local, path: ../origin}}]").repositories

    assert repository.local
    assert repository.url == str(Path("../origin").resolve())


@pytest.mark.parametrize("written", ["repo: ../origin", "source: {type: git, url: ../origin}"])
def test_a_path_in_place_of_a_url_begins_in_the_folder_of_the_suite(written: str) -> None:
    (repository,) = read(f"repos: [{{path: r, {written}}}]").repositories

    assert (repository.local, repository.url) == (True, str(Path("../origin").resolve()))


@pytest.mark.parametrize(
    ("name", "url"),
    [("owner/name", "https://github.com/owner/name.git"), ("file:///srv/x", "file:///srv/x"), ("a@b:x", "a@b:x")],
)
def test_a_name_or_a_url_is_no_path(name: str, url: str) -> None:
    (repository,) = read(f"repos: [{{path: r, repo: '{name}'}}]").repositories

    assert (repository.local, repository.url) == (False, url)


def test_a_workspace_file_has_paths_and_hooks_of_its_own_folder() -> None:
    a_file("shared/start/a.txt")
    a_file("shared/ws.yaml", "{template: ./start, hooks: {before_all: {command: 'node ${{TOOL}}'}}}")

    spec = read("shared/ws.yaml".join("''"), a_loading(TOOL="x.js"))

    assert spec.template == Path("shared/start").absolute()
    assert spec.hook("before_all") == Hook(command=("node", "x.js"), cwd=Path("shared").absolute())
    assert spec.folder == Path.cwd()


def test_an_error_in_a_workspace_file_is_placed_there() -> None:
    a_file("ws.yaml", "hooks:\n  before_all:\n    reset: hard\n")

    with pytest.raises(InputError) as raised:
        read("'./ws.yaml'")

    assert str(raised.value).startswith("ws.yaml:3: hooks.before_all.reset: expected one of none, fast, strict")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("[]", "suite.yaml:1: workspace: expected a mapping", id="no mapping"),
        pytest.param("''", "workspace: expected a text, got", id="empty name of a file"),
        pytest.param("missing.yaml", "workspace file 'missing.yaml' cannot be read", id="missing file"),
        pytest.param("../../up.yaml", "lies outside of", id="file outside"),
        pytest.param(".", "is a folder; to begin as its copy, write 'template: .'", id="a folder for a file"),
        pytest.param("template: gone", "suite.yaml:2: workspace.template: no folder 'gone'", id="missing template"),
        pytest.param("template: /", "workspace.template: '/' lies outside of", id="template outside"),
        pytest.param("template: 5", "workspace.template: expected a text, got a number (5)", id="template no text"),
        pytest.param(
            "files: [gone.csv]", "workspace.files[0]: file 'gone.csv' cannot be read", id="missing file of it"
        ),
        pytest.param(
            "files: [/etc/passwd]", "workspace.files[0]: '/etc/passwd' lies outside of", id="file of it outside"
        ),
        pytest.param("isolation: per_tset", "got a text ('per_tset'); did you mean 'per_test'", id="isolation"),
        pytest.param("mode: static", "mode 'static' needs a 'path'", id="static without path"),
        pytest.param(
            "{path: x, mode: temp}", "'path' is for mode 'static', and the mode is 'temp'", id="path of a temp"
        ),
        pytest.param("{path: x, isolation: per_test}", "cannot have isolation 'per_test'", id="static per test"),
        pytest.param("path: ../..", "workspace.path: '", id="static path outside"),
        pytest.param(
            "static_path: x",
            "workspace.static_path: 'static_path' is no longer a field: write 'path'",
            id="static_path",
        ),
        pytest.param("static: true", "write 'mode: static' with a 'path'", id="static"),
        pytest.param("pool: {slots: 2}", "write 'mode: pooled' instead", id="pool"),
        pytest.param("repos: {a: b}", "workspace.repos: expected a list of repositories", id="repos no list"),
        pytest.param(
            "repos: [{path: a}]", "workspace.repos[0].repo: a repository needs 'repo': its name on GitHub", id="no repo"
        ),
        pytest.param(
            "repos: [{path: a, url: x}]", "a path; write 'repo' instead of 'url'", id="repo under another name"
        ),
        pytest.param("repos: [{path: a, source: {type: git}}]", "repos[0].source.url: expected the URL", id="no url"),
        pytest.param(
            "repos: [{path: a, source: {type: git, url: 'ext::sh -c x'}}]",
            "is no URL of a git repository",
            id="a URL that runs a program",
        ),
        pytest.param(
            "repos: [{path: a, source: {type: git, url: '--upload-pack=x'}}]", "is no URL", id="a URL that is an option"
        ),
        pytest.param("repos: [{source: {type: local, path: x}}]", "repos[0].path: expected the place", id="no path"),
        pytest.param(
            "repos: [{path: ../a, source: {type: local, path: x}}]",
            "'../a' is not a path below the workspace",
            id="path above",
        ),
        pytest.param("repos: [{path: /a, source: {type: local, path: x}}]", "is not a path below", id="absolute path"),
        pytest.param(
            "repos: [&r {path: a, source: {type: local, path: x}}, {<<: *r, path: ./a}]",
            "repos[1].path: 'a' is taken",
            id="one path twice",
        ),
        pytest.param(REPO % "checkout: {ref: --all}", "must not begin with '-'", id="a ref that is an option"),
        pytest.param(REPO % "checkout: {ancestor: -1}", "checkout.ancestor: expected a whole number", id="ancestor"),
        pytest.param(REPO % "clone: {depth: 0}", "clone.depth: expected a whole number", id="depth"),
        pytest.param(REPO % "clone: {sparse: [-x]}", "clone.sparse: expected a list of folders", id="sparse"),
        pytest.param(
            "hooks: {before_all: echo}", "workspace.hooks.before_all: expected a mapping", id="hook no mapping"
        ),
        pytest.param("hooks: {enabled: 1}", "hooks.enabled: expected true or false", id="enabled"),
        pytest.param(
            "hooks: {before_all: {command: []}}", "command: expected a program with its arguments", id="empty command"
        ),
        pytest.param(
            "hooks: {before_all: {command: [{a: b}]}}",
            "command: expected a program with its arguments",
            id="command of mappings",
        ),
        pytest.param(
            "hooks: {before_all: {command: x, timeout_ms: 0}}", "timeout_ms: expected a number above 0", id="time limit"
        ),
        pytest.param("hooks: {after_each: {reset: fsat}}", "did you mean 'fast'", id="reset"),
    ],
)
def test_what_cannot_be_used_is_said_where_it_stands(text: str, error: str) -> None:
    assert error in error_of(text)


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        pytest.param(
            "templat: x",
            "suite.yaml:2: workspace.templat: unknown workspace field 'templat', ignored; did you mean 'template'?",
            id="unknown field",
        ),
        pytest.param(
            "hooks: {before_test: {command: x}}",
            "unknown workspace field 'before_test', ignored; did you mean",
            id="unknown hook",
        ),
        pytest.param(
            REPO % "checkout: {resolve: local}",
            "workspace.repos[0].checkout.resolve: has no effect",
            id="resolve of a local one",
        ),
        pytest.param(
            REPO % "checkout: {ancestor: 3}, clone: {depth: 3}",
            "clone.depth: does not reach back to ancestor 3",
            id="depth below ancestor",
        ),
        pytest.param(
            "hooks: {after_each: {reset: fast}}",
            "workspace.hooks: 'reset' without 'repos'",
            id="reset without repositories",
        ),
        pytest.param(
            "{isolation: per_test, hooks: {after_each: {reset: fast}}}",
            "'reset' has no effect with isolation 'per_test'",
            id="reset of fresh ones",
        ),
    ],
)
def test_what_is_odd_and_stops_nothing_is_a_notice(text: str, notice: str) -> None:
    (problem,) = notices_of(text)

    assert notice in problem


def test_a_sensible_workspace_gives_no_notice() -> None:
    assert notices_of("repos: [{path: a, source: {type: local, path: x}}]\nhooks: {after_each: {reset: none}}") == []


def test_fields_of_a_case_replace_and_its_hooks_are_merged_field_by_field() -> None:
    a_file("one/a")
    a_file("two/b")
    suite = read("""
        template: one
        isolation: per_test
        repos: [{path: a, source: {type: local, path: x}}, {path: b, source: {type: local, path: x}}]
        hooks:
          before_all: {command: suite-all, timeout_ms: 9000, reset: fast}
          before_each: {command: suite-each}
    """)

    spec = read_case(
        """
        template: two
        repos: [{path: c, source: {type: local, path: x}}]
        hooks: {before_all: {command: case-all}, after_each: {command: case-after}}
        """,
        suite,
    )

    assert (spec.template, list(spec.content)) == (Path("two").absolute(), ["b"])
    assert spec.isolation == "per_case"
    assert [repository.path for repository in spec.repositories] == ["c"]
    assert dict(spec.hooks) == {
        "before_all": Hook(command=("case-all",), timeout_s=9.0, reset="fast"),
        "before_each": Hook(command=("suite-each",)),
        "after_each": Hook(command=("case-after",)),
    }


def test_a_case_goes_back_to_the_usual_value_of_a_field_by_writing_it() -> None:
    suite = read("{isolation: per_test, hooks: {before_all: {command: x, reset: strict}}}")

    spec = read_case("{isolation: shared, hooks: {before_all: {reset: none}}}", suite)

    assert spec.isolation == "shared"
    assert spec.hooks["before_all"] == Hook(command=("x",), reset="none")


def test_a_case_may_leave_the_hooks_of_its_suite_out() -> None:
    suite = read("hooks: {before_all: {command: x}}")

    assert read_case("hooks: {enabled: false}", suite).hook("before_all") is None


def test_a_case_with_a_mode_of_its_own_leaves_the_static_folder_of_its_suite() -> None:
    spec = read_case("mode: temp", read("path: ./here"))

    assert (spec.mode, spec.path) == ("temp", None)


def test_a_case_that_contradicts_its_suite_is_an_error_of_the_case() -> None:
    with pytest.raises(InputError, match=r"suite\.yaml:2: tests\[0\]\.workspace: mode 'static'.*cannot have isolation"):
        read_case("isolation: per_test", read("path: ./here"))


@pytest.mark.parametrize(
    ("suite", "case", "prepared"),
    [
        pytest.param(
            "hooks: {before_all: {command: x}}", "hooks: {before_each: {command: y}}", False, id="the suite's"
        ),
        pytest.param(
            "hooks: {before_all: {command: x}}", "hooks: {before_all: {command: y}}", True, id="over the suite's"
        ),
        pytest.param(None, "hooks: {before_all: {command: y}}", True, id="the case's alone"),
        pytest.param(None, "template: .", False, id="none"),
    ],
)
def test_a_case_with_a_before_all_of_its_own_is_prepared_for_itself(
    suite: str | None, case: str, prepared: bool
) -> None:
    assert read_case(case, read(suite) if suite is not None else None).own_setup is prepared


def test_merging_nothing_changes_nothing() -> None:
    suite = read("hooks: {before_all: {command: x}}")

    assert merged(suite, WorkspaceSpec(folder=suite.folder)) == suite


def a_spec(**fields: Any) -> WorkspaceSpec:
    return replace(WorkspaceSpec(folder=Path("/suites"), template=Path("/suites/t"), content={"a": "1"}), **fields)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"content": {"a": "2"}}, id="a file of the template"),
        pytest.param({"isolation": "per_case"}, id="the isolation"),
        pytest.param({"repositories": (Repository(path="a", url="x", ref="v1"),)}, id="a repository"),
        pytest.param({"hooks": {"before_each": Hook(command=("a",))}}, id="a hook before"),
        pytest.param({"hooks": {"after_each": Hook(reset="fast")}}, id="a reset after"),
    ],
)
def test_what_decides_on_the_files_is_visible_to_the_target(other: dict[str, Any]) -> None:
    assert a_spec().fingerprint_fields() != a_spec(**other).fingerprint_fields()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"hooks": {"after_each": Hook(command=("a",))}}, id="a hook after"),
        pytest.param({"hooks": {"after_all": Hook(command=("a",))}}, id="after_all"),
        pytest.param({"mode": "pooled"}, id="whether folders are pooled"),
        pytest.param({"template": Path("/elsewhere/t"), "folder": Path("/elsewhere")}, id="where the suite lies"),
    ],
)
def test_what_does_not_decide_on_the_files_is_not_visible(other: dict[str, Any]) -> None:
    assert a_spec().fingerprint_fields() == a_spec(**other).fingerprint_fields()


def test_where_a_hook_runs_is_visible_to_the_target_as_it_is_from_the_suites_folder() -> None:
    def fingerprint_fields(folder: str, cwd: str | None) -> object:
        hook = Hook(command=("a",), cwd=Path(cwd) if cwd is not None else None)
        return a_spec(folder=Path(folder), hooks={"before_all": hook}).fingerprint_fields()

    here = [
        fingerprint_fields("/suites", cwd)
        for cwd in (None, "/suites/one", "/suites/two", "{{workspace_path}}/one", "/other")
    ]

    assert len({str(each) for each in here}) == 5
    assert fingerprint_fields("/elsewhere", "/elsewhere/one") == fingerprint_fields("/suites", "/suites/one")
    assert fingerprint_fields("/elsewhere", "{{workspace_path}}/one") == fingerprint_fields(
        "/suites", "{{workspace_path}}/one"
    )


def test_a_script_that_a_hook_names_is_part_of_what_is_visible() -> None:
    before = []
    for text in ("one", "two"):
        a_file("setup.py", text)
        before.append(read("hooks: {before_all: {command: 'python setup.py'}}").fingerprint_fields())

    assert before[0] != before[1]


def test_the_content_of_a_template_leaves_git_out_and_knows_programs_and_links() -> None:
    a_file("t/.git/config", "x")
    a_file("t/b/run.sh", "x").chmod(0o755)
    a_file("t/plain", "x")
    Path("t/link").symlink_to("plain")
    Path("t/folder-link").symlink_to("b")

    content = read("template: t").content

    assert sorted(content) == ["b/run.sh", "folder-link", "link", "plain"]
    assert content["b/run.sh"] == f"x:{content['plain']}"
    assert (content["link"], content["folder-link"]) == ("link:plain", "link:b")


def test_a_template_of_the_suites_repository_may_lie_above_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    a_file("templates/t/a")
    suite = tmp_path / "evals" / "deep"
    suite.mkdir(parents=True)
    monkeypatch.chdir(suite)

    assert read("template: ../../templates/t").template == tmp_path / "templates" / "t"


def test_single_files_come_to_the_same_place_in_the_workspace() -> None:
    a_file("data/sales.csv", "1")
    outside = a_file("notes.txt", "2")

    files = read(f"files: [data/sales.csv, ./data/../notes.txt, {outside}]").files

    assert [(file.path, file.origin) for file in files] == [
        ("data/sales.csv", Path("data/sales.csv").absolute()),
        ("notes.txt", outside),
        ("notes.txt", outside),
    ]


def test_an_edited_file_is_visible_to_the_target() -> None:
    seen = []
    for text in ("1", "2"):
        a_file("sales.csv", text)
        seen.append(read("files: [sales.csv]").fingerprint_fields())

    assert seen[0] != seen[1]


def test_a_code_workspace_file_stands_for_its_folder() -> None:
    a_file("t/my.code-workspace", "{}")

    assert read("template: t/my.code-workspace").template == Path("t").absolute()


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["..", "/", "a\0b", "a\ud800b", "--all", "x" * 5_000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("template", "files", "isolation", "mode", "path", "repos", "hooks", "static")
REPOSITORY_PARTS = (
    "path",
    "source",
    "checkout",
    "clone",
    "type",
    "url",
    "ref",
    "ancestor",
    "depth",
    "filter",
    "sparse",
)
HOOK_PARTS = ("enabled", "before_all", "after_each", "command", "timeout_ms", "cwd", "reset")


@given(
    raw=st.dictionaries(
        st.sampled_from(KEYS),
        ANYTHING
        | st.lists(st.dictionaries(st.sampled_from(REPOSITORY_PARTS), ANYTHING), max_size=2)
        | st.dictionaries(
            st.sampled_from(HOOK_PARTS), ANYTHING | st.dictionaries(st.sampled_from(HOOK_PARTS), ANYTHING)
        ),
    )
    | ANYTHING
)
@settings(max_examples=150, deadline=None)
def test_whatever_is_written_is_read_or_refused_with_its_place(raw: Any) -> None:
    try:
        spec = read_workspace(raw, ("workspace",), Source(Path(SUITE), SUITE, lambda path: 1), a_loading())
    except InputError as error:
        assert str(error).startswith(f"{SUITE}:1: workspace")
    else:
        assert len(str(spec.fingerprint_fields())) == 64


def test_cases_of_a_suite_inherit_its_workspace_or_have_hooks_of_their_own() -> None:
    text = """\
        workspace:
          hooks:
            before_all: {command: [bun, run, default-setup.ts]}
        tests:
          - id: case-1
            criteria: Should work
            input: Do something
            workspace:
              hooks:
                before_all: {command: [bun, run, custom-setup.ts]}
          - {id: case-2, criteria: Should also work, input: Do something else}
    """

    first, second = load_suite(a_file("suite.yaml", text), LoadOptions({})).cases

    assert first.workspace is not None
    assert first.workspace.hooks["before_all"].command == ("bun", "run", "custom-setup.ts")
    assert first.workspace.own_setup
    assert second.workspace is not None
    assert second.workspace.hooks["before_all"].command == ("bun", "run", "default-setup.ts")


def test_a_repository_is_named_by_its_place_on_github_and_a_commit() -> None:
    spec = read("""
        repos:
          - {path: ./a, repo: acme/tools, commit: abc123, ancestor: 1, sparse: [src]}
          - {path: ./b, repo: "https://git.example.com/x.git", base_commit: v2}
    """)

    assert spec.repositories == (
        Repository(path="a", url="https://github.com/acme/tools.git", ref="abc123", ancestor=1, sparse=("src",)),
        Repository(path="b", url="https://git.example.com/x.git", ref="v2"),
    )


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("repo: a/b, commit: x, base_commit: y", "base_commit: 'y' is another commit than 'commit: x'"),
        ("repo: a/b, checkout: {ref: x}", "checkout: 'checkout' goes with 'source'; beside 'repo' write commit"),
        ("source: {type: git, url: u}, commit: x", "commit: 'commit' goes with 'repo', not with 'source'"),
        ("repo: a/b, commit: --upload-pack=x", "commit: '--upload-pack=x' must not begin with '-'"),
        ("repo: 'ext::sh -c id'", "repo: 'ext::sh -c id' is no URL of a git repository"),
    ],
)
def test_a_repository_that_is_named_in_two_ways_is_an_error(item: str, problem: str) -> None:
    assert problem in error_of(f"repos: [{{path: a, {item}}}]")


def test_a_workspace_in_a_container_is_refused() -> None:
    assert "docker: workspaces in containers are not supported" in error_of("docker: {image: python}")


def test_what_a_machine_must_have_changes_nothing_that_a_target_sees() -> None:
    plain = read("isolation: per_test")

    spec = read("{isolation: per_test, env: {required_commands: [git], required_python_modules: [json, os.path]}}")

    assert spec.requirements == Requirements(commands=("git",), python_modules=("json", "os.path"))
    assert spec.fingerprint_fields() == plain.fingerprint_fields()
    assert "'a b' is not the name of a Python module" in error_of("env: {required_python_modules: [a b]}")
