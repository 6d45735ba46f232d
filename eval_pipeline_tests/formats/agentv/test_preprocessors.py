"""Files as answers: `preprocessors` of a suite or a grader print their text, which graders read."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project, index_rows

TARGETS = """\
targets:
  - name: default
    provider: cli
    command: mkdir -p made && printf 'a\\0b' > made/report.xlsx && echo Total 9 > made/notes.txt && \
      cp {answer} {{OUTPUT_FILE}}
    grader_target: judge
  - name: judge
    provider: cli
    command: python3 judge.py {{PROMPT_FILE}} {{OUTPUT_FILE}}
"""
JUDGE = """\
import json, re, sys
prompt = open(sys.argv[1]).read()
found = bool(re.search(open("expected.txt").read().strip(), prompt))
checks = [{"id": "rubric-1", "satisfied": found, "reasoning": "r"}]
reply = {"checks": checks, "overall_reasoning": "-", "score": float(found)}
open(sys.argv[2], "w").write(json.dumps(reply))
"""
TO_TEXT = """\
import json, sys
asked = json.load(sys.stdin)
print("sheet:", open(asked["path"], "rb").read().hex(), asked["original_path"], asked["media_type"][-5:])
"""
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SHARED = 'preprocessors: [{type: xlsx, command: ["python3", "../to_text.py"]}]\n'
TEST = "tests:\n  - id: a\n    input: report\n    criteria: has totals\n"


def scores_of(root: Path, suite: str, expected: str, *files: str, text: str = "") -> list[float]:
    """The scores of a suite whose target answers with these files, by a grader that looks for a pattern."""
    parts = [{"type": "file", "media_type": XLSX if file.endswith("xlsx") else "text/plain", "path": file}
             for file in files]  # fmt: skip
    content = [*([{"type": "text", "text": text}] if text else []), *parts]
    project = an_agentv_project(
        root,
        {
            ".agentv/targets.yaml": TARGETS.format(answer="answer.json"),
            "evals/answer.json": json.dumps({"output": [{"role": "assistant", "content": content}]}),
            "evals/judge.py": JUDGE,
            "evals/expected.txt": expected,
            "to_text.py": TO_TEXT,
            "secret.txt": "Total 9",
            "evals/a.eval.yaml": suite,
        },
    )
    ran = project("run", "evals", "--quiet")
    assert ran.code in (0, 1), ran.text
    return [score["score"] for row in index_rows(project) for score in row["scores"]]


OF_A_GRADER = f"preprocessors: [{{type: {XLSX}, command: [python3, ../to_text.py]}}]"
MEMBERS = "[{type: llm-grader, name: m}]"
EVERYWHERE = f"""\
{SHARED}
tests:
  - {{id: default grader, input: i, criteria: has totals}}
  - {{id: criteria, input: i, assertions: [Shows the revenue]}}
  - {{id: by media type, input: i, criteria: c, assertions: [{{type: llm-grader, name: g, {OF_A_GRADER}}}]}}
  - id: member
    input: i
    criteria: c
    assertions: [{{type: composite, name: c, aggregator: {{type: weighted_average}}, assertions: {MEMBERS}}}]
"""


def test_a_program_prints_the_text_of_a_file_for_each_grader(tmp_path: Path) -> None:
    pattern = r"Here:?\s*\[\[ file: made/report.xlsx \]\]\s*sheet: 610062 made/report.xlsx sheet"

    assert scores_of(tmp_path, EVERYWHERE, pattern, "made/report.xlsx", text="Here:") == [1.0] * 4


IN_PROMPTS = f"""\
{SHARED}
tests:
  - id: inline
    input: i
    criteria: c
    assertions: [{{type: llm-grader, name: g, prompt: "Read <{{{{ output }}}}>"}}]
  - {{id: file, input: i, criteria: c, assertions: [{{type: llm-grader, name: g, prompt: file://prompt.md}}]}}
  - id: rubrics
    input: i
    criteria: c
    assertions: [{{type: llm-grader, name: g, prompt: "Read <{{{{ output }}}}>", rubrics: [Shows the revenue]}}]
"""


def test_the_text_of_files_is_the_output_of_a_prompt_of_the_suite(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/prompt.md").write_text("Read <{{ output }}>")
    pattern = r"Read <[^>]*Here:\n\[\[ file: made/report.xlsx \]\]\nsheet: 610062 made/report.xlsx sheet\n?[^>]*>"

    assert scores_of(tmp_path, IN_PROMPTS, pattern, "made/report.xlsx", text="Here:") == [1.0] * 3


def test_a_program_that_prints_the_prompt_gets_the_messages_as_they_were(tmp_path: Path) -> None:
    suite = f"""\
        {SHARED}
        tests:
          - id: a
            input: i
            criteria: c
            assertions: [{{type: llm-grader, name: g, prompt: {{command: [python3, prompt.py]}}}}]
    """
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/prompt.py").write_text(
        "import json, sys\nread = json.load(sys.stdin)\n"
        "print([part.get('path', part.get('text')) for each in read['messages'] for part in each['content']])\n"
    )

    pattern = r"\['Here:', 'made/report.xlsx'\]"
    assert scores_of(tmp_path, dedent(suite), pattern, "made/report.xlsx", text="Here:") == [1.0]


def test_a_file_without_a_program_is_text_or_a_note(tmp_path: Path) -> None:
    seen = (
        r"(?s)\[\[ file: made/notes.txt \]\]\s*Total 9.*"
        r"warning\] made/report.xlsx [^\n]*: not a text; configure a preprocessor\n"
        r"[^\n]*warning\] made/gone.txt [^\n]*: no such file\n"
        r"[^\n]*warning\] ../secret.txt [^\n]*: outside of the folder that the target worked in\n"
        r"[^\n]*warning\] https://x.example/a.txt [^\n]*: only files of this machine can be read"
    )
    files = ["made/notes.txt", "made/report.xlsx", "made/gone.txt", "../secret.txt", "https://x.example/a.txt"]

    assert scores_of(tmp_path, TEST, seen, *files) == [1.0]


def test_a_program_that_fails_is_a_note(tmp_path: Path) -> None:
    failing = SHARED.replace("../to_text.py", "../fails.py")
    (tmp_path / "fails.py").write_text("import sys; sys.exit('cannot read sheets')")

    assert scores_of(tmp_path, failing + TEST, "warning.*: cannot read sheets", "made/report.xlsx") == [1.0]


@pytest.mark.parametrize(
    ("preprocessors", "problem"),
    [
        pytest.param("x", "preprocessors: expected a list of preprocessors", id="text"),
        pytest.param(
            "[{type: xlsx, comand: [x]}]",
            "preprocessors[0].command: a preprocessor needs a command; write 'command' instead of 'comand'",
            id="command",
        ),
        pytest.param("[{type: xlsx, command: [bun, gone.ts]}]", "preprocessors[0].command: no file 'gone.ts'",
                     id="program"),
    ],
)  # fmt: skip
def test_a_preprocessor_that_cannot_run_is_an_error_with_its_place(
    tmp_path: Path, preprocessors: str, problem: str
) -> None:
    project = an_agentv_project(tmp_path, {"a.eval.yaml": f"preprocessors: {preprocessors}\n{TEST}"})

    assert problem in project("validate", "a.eval.yaml").text
