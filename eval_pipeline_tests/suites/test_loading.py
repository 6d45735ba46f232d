"""Finding suite files, telling them from other files, and loading them with errors that name file, line and cure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_pipeline.errors import InputError, InputErrors
from eval_pipeline.parsing.interpolation import interpolate, names_in, read_environment
from eval_pipeline.suites.load import FORMATS, Format, find_suite_files, load_suite, load_suites
from eval_pipeline.suites.names import default_name, unique_names

SUITE = "tests:\n  - {id: a, criteria: c, input: i}\n"
ROW = '{"id": "a", "criteria": "c", "input": "i"}\n'
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file below the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(file: str, text: str = SUITE) -> Path:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def found(*patterns: str, folder: Path | None = None) -> list[str]:
    """The files found, relative to the folder."""
    root = folder or Path.cwd()
    return [str(path.relative_to(root)) for path in find_suite_files(patterns, root)]


def errors_of(*patterns: str) -> list[str]:
    with pytest.raises(InputErrors) as raised:
        load_suites(patterns, Path.cwd())
    return str(raised.value).split("\n")


def test_a_folder_gives_its_suites_sorted_however_deep(write: Write) -> None:
    for file in ("suites/b.yaml", "suites/a.jsonl", "suites/deep/er/c.yml", "suites/d.json"):
        write(file, ROW if file.endswith(".jsonl") else SUITE)

    assert found("suites") == ["suites/a.jsonl", "suites/b.yaml", "suites/d.json", "suites/deep/er/c.yml"]


@pytest.mark.parametrize(
    "file",
    ["suites/.hidden.yaml", "suites/.git/a.yaml", "suites/node_modules/a.yaml", "suites/recordings/a.yaml"],
)
def test_hidden_and_foreign_folders_are_passed_over(write: Write, file: str) -> None:
    write("suites/a.yaml")
    write(file)

    assert found("suites") == ["suites/a.yaml"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("runners.yaml", "runners:\n  - name: a\n    adapter: replay\n", id="runners"),
        pytest.param("ci.yaml", "jobs:\n  build:\n    tests: true\n    run: make tests\n", id="tests further in"),
        pytest.param("notes.yaml", "about: how our tests:are run\n", id="tests in a text"),
        pytest.param("data.jsonl", '{"question": "a", "answer": "b"}\n', id="other rows"),
        pytest.param("readme.md", SUITE, id="another kind of file"),
        pytest.param("empty.yaml", "", id="nothing"),
    ],
)
def test_other_files_in_a_folder_are_passed_over(write: Write, file: str, text: str) -> None:
    write("suites/a.yaml")
    write(f"suites/{file}", text)

    assert found("suites") == found("suites/*") == ["suites/a.yaml"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("a.yaml", "name: x\ntests: []\n", id="block"),
        pytest.param("a.yaml", "{name: x, tests: []}", id="on one line"),
        pytest.param("a.yaml", "'tests' :\n- id: a\n", id="quoted"),
        pytest.param("a.yaml", "eval_cases:\n- id: a\n", id="an older name"),
        pytest.param("a.json", '{"name": "x",\n    "tests": []}', id="json"),
        pytest.param("a.YAML", SUITE, id="in capitals"),
        pytest.param("a.yaml", "\ufeff" + SUITE, id="with a byte order mark"),
    ],
)
def test_a_suite_is_recognized_by_its_tests(write: Write, file: str, text: str) -> None:
    write(f"suites/{file}", text)

    assert found("suites") == [f"suites/{file}"]


@pytest.mark.parametrize(
    ("patterns", "files"),
    [
        pytest.param(["suites/*.yaml"], ["suites/a.yaml", "suites/b.yaml"], id="in a folder"),
        pytest.param(["**/*.yaml"], ["suites/a.yaml", "suites/b.yaml", "suites/more/c.yaml"], id="anywhere"),
        pytest.param(["suites/mor?"], ["suites/more/c.yaml"], id="a folder by its pattern"),
        pytest.param(["suites/[ab].yaml"], ["suites/a.yaml", "suites/b.yaml"], id="a set"),
        pytest.param(["suites/b.yaml", "suites"], ["suites/b.yaml", "suites/a.yaml", "suites/more/c.yaml"], id="both"),
        pytest.param(["./suites/../suites/a.yaml", "suites/a.yaml"], ["suites/a.yaml"], id="one file by two names"),
        pytest.param([], [], id="nothing asked"),
    ],
)
def test_patterns_find_files_without_repeats(write: Write, patterns: list[str], files: list[str]) -> None:
    for file in ("suites/a.yaml", "suites/b.yaml", "suites/more/c.yaml"):
        write(file)

    assert found(*patterns) == files


def test_an_absolute_pattern_is_taken_as_it_is(write: Write, tmp_path: Path) -> None:
    file = write("elsewhere/a.yaml")

    assert find_suite_files([str(tmp_path / "elsewhere" / "*.yaml")], tmp_path / "project") == [file]


def test_a_folder_whose_name_looks_like_a_pattern_is_none(write: Write, tmp_path: Path) -> None:
    write("[new] project/suites/a.yaml")

    assert found("suites/*.yaml", folder=tmp_path / "[new] project") == ["suites/a.yaml"]


def test_a_file_named_with_brackets_is_found_by_its_name(write: Write) -> None:
    write("suites/a[1].yaml")

    assert found("suites/a[1].yaml") == ["suites/a[1].yaml"]


@pytest.mark.parametrize("pattern", ["nothing.yaml", "nothing/*.yaml", "suites/*.jsonl"])
def test_a_pattern_without_a_suite_is_an_error(write: Write, pattern: str) -> None:
    write("suites/a.yaml")

    with pytest.raises(InputError, match=r"no suite at '.*': no such file, folder or glob match"):
        find_suite_files([pattern], Path.cwd())


def test_a_folder_without_suites_is_empty(write: Write) -> None:
    write("suites/notes.md")

    assert found("suites") == []


def test_suites_come_in_the_order_of_their_files(write: Write) -> None:
    write("suites/b.yaml")
    write("suites/a.yaml")

    assert [suite.name for suite in load_suites(["suites"], Path.cwd())] == ["a", "b"]


def test_a_file_named_outright_must_be_a_suite(write: Write) -> None:
    write("runners.yaml", "runners: []\n")

    assert errors_of("runners.yaml") == ["runners.yaml:1: tests: no tests: expected a list under 'tests'"]


def test_a_file_of_an_unknown_kind_says_which_are_known(write: Write) -> None:
    write("suite.toml", SUITE)

    assert errors_of("suite.toml") == [
        "suite.toml: no suite format for '.toml' files; there are: .json, .jsonl, .py, .yaml, .yml"
    ]


def test_every_bad_file_is_named_at_once(write: Write) -> None:
    write("suites/a.yaml", "tests: 3\n")
    write("suites/b.yaml", "name: b\ntests: [\n")
    write("suites/c.yaml")
    write("suites/d.yaml", "a: 1\ntests: []\na: 2\n")

    assert errors_of("suites") == [
        "suites/a.yaml:1: tests: expected a list of tests, or the path of a file or folder with them; got a number (3)",
        "suites/b.yaml:3: not valid YAML: the text ends within a list in [ ] or a mapping in { }",
        "suites/d.yaml:3: key 'a' appears twice in one mapping",
    ]


def test_suites_of_one_name_are_called_by_the_shortest_end_of_their_path_that_differs(write: Write) -> None:
    for file in ("one/evals/math.eval.yaml", "two/evals/math.EVAL.yaml", "two/other/evals/math.yaml", "two/plain.yaml"):
        write(f"suites/{file}")

    suites = load_suites(["suites"], Path.cwd())

    assert [suite.name for suite in suites] == ["one.evals.math", "two.evals.math", "other.evals.math", "plain"]
    assert {str(warning) for suite in suites[:2] for warning in suite.warnings} == {
        f"suites/{folder}: several suites are named 'math': each is called by its path; give each a 'name:' of its own"
        for folder in ("one/evals/math.eval.yaml", "two/evals/math.EVAL.yaml")
    }


@given(paths=st.sets(st.lists(st.sampled_from(["a", "b", "ä b", "x"]), min_size=1, max_size=4).map(tuple), min_size=1))
def test_names_by_path_are_unique_and_do_not_depend_on_the_order(paths: set[tuple[str, ...]]) -> None:
    files = [Path("/", *folders, ending) for folders in paths for ending in ("m.yaml", "m.jsonl", "n.yaml")]

    names = unique_names({file: default_name(file) for file in files})

    assert len(set(names.values())) == len(files)
    assert names == unique_names({file: default_name(file) for file in reversed(files)})


def test_a_bad_case_is_counted_and_the_suite_goes_on(write: Write) -> None:
    write("suites/a.yaml", SUITE + "  - {id: b, criteria: c, imput: i}\n")

    (suite,) = load_suites(["suites"], Path.cwd())

    assert [case.id for case in suite.cases] == ["a"]
    assert [str(error) for error in suite.errors] == [
        "suites/a.yaml:3: tests[1].imput: test 'b' has no input; write 'input' instead of 'imput'"
    ]


def test_a_file_outside_the_current_folder_is_shown_in_full(write: Write, tmp_path: Path) -> None:
    file = write("suites/a.yaml", "tests: 3\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(write("elsewhere/b.yaml").parent)
        with pytest.raises(InputError) as raised:
            load_suite(file)

    assert raised.value.place.file == str(file)


def test_text_that_is_not_utf_8_says_where(write: Write) -> None:
    write("suites/a.yaml").write_bytes(b"tests:\n  - {id: \xff}\n")

    assert errors_of("suites") == ["suites/a.yaml: not UTF-8 text: invalid start byte at byte 16"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a file that exists and cannot be read")
def test_a_file_that_cannot_be_read_is_named(write: Write) -> None:
    (write("suites/b.yaml").parent / "a.yaml").symlink_to("/proc/self/mem")

    (problem,) = errors_of("suites")

    assert problem.endswith("suites/a.yaml: cannot be read: Input/output error")


def test_a_link_to_nothing_is_passed_over(write: Write) -> None:
    (write("suites/b.yaml").parent / "a.yaml").symlink_to("nowhere.yaml")

    assert found("suites") == ["suites/b.yaml"]


@pytest.mark.parametrize("name", FORMATS.names())
def test_every_format_takes_text_for_a_suite_or_says_what_is_wrong(name: str, write: Write) -> None:
    format_: Format = FORMATS.get(name)()
    texts = ["", "\n", "{", "[]", "{}", "null", "tests", "[{}]", '{"tests": [{}]}', '{"tests": {"a": 1}}', "\x00"]

    for text in texts:
        path = write(f"a{format_.suffixes[0]}", text)
        try:
            assert load_suite(path).name == "a"
        except InputError as error:
            assert error.place.file == path.name


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("${{ A }}", "1"),
        ("a${{A}}b${{ B }}c", "a1b2c"),
        ("${{ NONE }}", ""),
        ("${{ A", "${{ A"),
        ("${ A }", "${ A }"),
        ("${{ 1A }}", "${{ 1A }}"),
        (["${{ A }}", {"k": "${{ B }}"}], ["1", {"k": "2"}]),
        ({"${{ A }}": 1}, {"${{ A }}": 1}),
        (3, 3),
        (None, None),
    ],
    ids=repr,
)
def test_placeholders_are_filled_in_wherever_texts_stand(value: object, filled: object) -> None:
    assert interpolate(value, {"A": "1", "B": "2", "C": "${{ A }}"}) == filled


def test_what_a_placeholder_brings_in_is_not_filled_in_again() -> None:
    assert interpolate("${{ C }}", {"A": "1", "C": "${{ A }}"}) == "${{ A }}"


def test_the_names_that_a_text_mentions() -> None:
    assert names_in("${{ A }} and ${{B_2}}") == ["A", "B_2"]
    assert names_in(["${{ A }}"]) == []


def test_the_nearest_env_file_is_read_and_an_exported_value_wins(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(".env", "FAR=1\nBOTH=far\n")
    write("project/.env", "NEAR=1\nBOTH=near\nEMPTY=\nEXPORTED=from file\n")
    write("project/suites/a.yaml")
    monkeypatch.setenv("EXPORTED", "from shell")

    environment = read_environment(tmp_path / "project" / "suites")

    assert {name: environment.get(name) for name in ("NEAR", "BOTH", "EMPTY", "EXPORTED", "FAR")} == {
        "NEAR": "1", "BOTH": "near", "EMPTY": "", "EXPORTED": "from shell", "FAR": None,
    }  # fmt: skip
