from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.agents.shell_reads import shell_reads, unwrap_shell

READS: dict[str, tuple[str, ...]] = {
    "cat a b": ("a", "b"),
    "cat -n a": ("a",),
    "cat a a": ("a",),
    "cat -- -a": ("-a",),
    "cat -": (),
    "/bin/cat a": ("a",),
    "head a": ("a",),
    "head -n 5 a": ("a",),
    "head -5 a": ("a",),
    "tail -n +3 a": ("a",),
    "tail -c 10 a b": ("a", "b"),
    "sed -n '1,5p' a": ("a",),
    "sed -n 1,5p a b": ("a", "b"),
    "sed -e p -e q a": ("a",),
    "sed -i s/x/y/ a": (),
    "sed -ni.bak s/x/y/ a": (),
    "nl -ba a": ("a",),
    "nl -s : a": ("a",),
    "less a": ("a",),
    "bat -r 1:5 a": ("a",),
    "grep x a": (),
    "wc -l a": (),
    "echo cat a": (),
    "ls": (),
    "": (),
    # chains, folders, nesting
    "cat a && cat b || cat c; cat d": ("a", "b", "c", "d"),
    "cat a | head -3": ("a",),
    "cat a\ncat b": ("a", "b"),
    "cd x && cat j": ("x/j",),
    "cd x && cat ../j": ("j",),
    "cd x; cd y; cat j": ("x/y/j",),
    "cd /w && cat j": ("/w/j",),
    "cd && cat j": (),
    "cd - && cat j /k": ("/k",),
    "cd $DIR && cat j": ("$DIR/j",),
    "(cd x && cat j); cat k": ("x/j", "k"),
    "bash -lc 'cat a && cat b'": ("a", "b"),
    "cd x && sh -c 'cat j'": ("x/j",),
    "bash -c \"bash -c 'cat a'\"": ("a",),
    "bash script.sh": (),
    "if [ -f a ]; then cat a; fi": ("a",),
    "for f in a b; do cat $f; done": (),
    "sudo LANG=C cat a": ("a",),
    "echo $(cat a)": ("a",),
    # quotes, redirects, here-documents, what only a shell knows
    "cat 'my file' \"your file\" our\\ file": ("my file", "your file", "our file"),
    "cat 'a'\"b\"c": ("abc",),
    "cat a#b # c": ("a#b",),
    "cat a > b": ("a",),
    "cat a >> b 2>&1": ("a",),
    "cat a 2>/dev/null": ("a",),
    "cat < a": (),
    "cat <<'EOF' > b\ncat secret\nEOF\ncat a": ("a",),
    "cat <<-X\n\tcat secret\n\tX\ncat a": ("a",),
    "cat <<EOF\ncat secret": (),
    "cat *.md a": ("a",),
    "cat '*.md'": ("*.md",),
    "cat $FILE": (),
    "cat $HOME/x ~/y": ("$HOME/x", "~/y"),
    "cat 'not closed": ("not closed",),
    "cat a\\": ("a",),
}


@pytest.mark.parametrize("command", READS)
def test_a_command_reads_the_files_it_names(command: str) -> None:
    assert shell_reads(command).paths == READS[command]


@pytest.mark.parametrize(
    ("command", "after_success", "after_failure"),
    [
        pytest.param("cat a", True, False, id="one program tells of itself"),
        pytest.param("cd x && cat a", True, None, id="any part of a chain may have failed"),
        pytest.param("cat a; true", None, None, id="only the last part tells"),
        pytest.param("cat a | head", None, None, id="only the end of a pipe tells"),
        pytest.param("bash -c 'cat a; true'", None, None, id="a script tells no more than its text"),
        pytest.param("echo $(cat a)", None, None, id="a substitution tells nothing"),
    ],
)
def test_an_exit_code_shows_whether_reads_worked(
    command: str, after_success: bool | None, after_failure: bool | None
) -> None:
    reads = shell_reads(command)

    assert (reads.ok(0), reads.ok(1), reads.ok(None)) == (after_success, after_failure, None)


@pytest.mark.parametrize(
    ("command", "script"),
    [
        pytest.param("/bin/bash -lc 'echo a && cat b'", "echo a && cat b", id="quoted"),
        pytest.param("/bin/bash -lc \"printf '%s' 'a\n' > b\"", "printf '%s' 'a\n' > b", id="double quotes"),
        pytest.param(["zsh", "-lc", "ls -l"], "ls -l", id="words"),
        pytest.param(["ls", "a b"], "ls 'a b'", id="words without a shell"),
        pytest.param("bash run.sh", "bash run.sh", id="a file, no script"),
        pytest.param("cat 'not closed", "cat 'not closed", id="cannot be split"),
    ],
)
def test_the_script_of_a_wrapped_command_is_the_command(command: str | list[str], script: str) -> None:
    assert unwrap_shell(command) == script


_SHELL_PIECES = st.sampled_from([
    "cat ", "cd ", "sed -n ", "bash -c ", "a", "b/c", "'", '"', "\\", "$(", "(", ")", "`", "&&", "||", ";", "|", "\n",
    " ", "<<EOF", "EOF", ">", "2>&1", "<", "*", "#", "$x", "--", "-", "{", "}", "é", "\x00",
])  # fmt: skip


@settings(deadline=None)
@given(st.text() | st.lists(_SHELL_PIECES, max_size=30).map("".join))
def test_no_text_makes_the_reading_of_a_command_fail(command: str) -> None:
    reads = shell_reads(command)

    assert all(reads.paths)
    assert isinstance(unwrap_shell(command), str)
