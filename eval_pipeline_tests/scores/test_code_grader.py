"""`code-grader` and `script`: real programs, what they are given, and what is made of what they print."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import (
    MessageEvent,
    SessionReport,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
)
from eval_pipeline.scores.evaluate import EVALUATORS, EvaluatorSet, bind, build, evaluate_with
from eval_pipeline.scores.grader_client import FakeGraderClient, GraderReply
from eval_pipeline.scores.model import Score, Subject
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.fake_grader import MembersDesk, graded
from eval_pipeline_tests.scores.single_scores import a_report

SESSION = SessionReport(
    execution_id="e1",
    final_output="Done.",
    events=(
        MessageEvent(role="user", text="Tidy up"),
        MessageEvent(role="assistant", text="Hm.", phase="thinking"),
        MessageEvent(role="assistant", text="I will look.", phase="commentary", at="2026-01-15T12:00:00Z"),
        ToolCallEvent(tool="knowledgeSearch", call_id="t1", arguments={"searchTerm": "x"}),
        ToolCallEvent(tool="Edit", call_id="t2", arguments={}),
        ToolResultEvent(call_id="t1", output="found", duration_ms=20.0),
        ToolResultEvent(call_id="t2", output="no", is_error=True),
        MessageEvent(role="assistant", text="Done.", phase="final"),
    ),
    usage=Usage(input_tokens=100, cached_input_tokens=40, output_tokens=7, cost_usd=0.5),
    duration_ms=1_500.0,
    started_at="2026-01-15T12:00:00Z",
    ended_at="2026-01-15T12:00:02Z",
    file_changes="diff --git a/x b/x",
)
KEEP = """
import json, os, sys
kept = {"stdin": json.load(sys.stdin), "cwd": os.getcwd(), "env": dict(os.environ)}
json.dump(kept, open(sys.argv[1], "w"))
print('{"score": 1}')
"""


def given(folder: Path, report: SessionReport, kind: str = "code-grader", **fields: Any) -> dict[str, Any]:
    """What a program of this kind is given: its standard input, folder and environment."""
    kept = folder / "kept.json"
    config = fields.pop("config", {})
    graded(
        an_evaluator(kind, command=[sys.executable, "-c", KEEP, str(kept)], **config), report, folder=folder, **fields
    )
    score: dict[str, Any] = json.loads(kept.read_text("utf-8"))
    return score


def printed(text: str, *, exit_code: int = 0, kind: str = "code-grader", stderr: str = "", **config: Any) -> Score:
    """The score of an answer whose grader prints a text and ends with an exit code."""
    program = f"import sys; sys.stdout.write({text!r}); sys.stderr.write({stderr!r}); sys.exit({exit_code})"
    return graded(an_evaluator(kind, command=[sys.executable, "-c", program], **config), a_report("yes"))


# What the program is given.


def test_a_grader_is_given_the_keys_of_agentv_with_null_for_what_is_not_known(tmp_path: Path) -> None:
    case = a_case(criteria="is tidy", expected_output=(Message(role="assistant", content={"answer": 4}),))

    stdin = given(tmp_path, a_report("4"), case=case)["stdin"]

    more = {
        "answer": "4",
        "messages": stdin["output"],
        "metadata": {},
        "test_id": "c1",
        "trace_summary": stdin["trace"],
    }
    assert stdin == more | {
        "criteria": "is tidy",
        "expected_output": [{"role": "assistant", "content": {"answer": 4}}],
        "output": [{"role": "assistant", "content": "4"}],
        "input_files": [],
        "input": [{"role": "user", "content": "What is 2 + 2?"}],
        "trace": {"event_count": 0, "tool_calls": {}, "error_count": 0, "llm_call_count": 1},
        **dict.fromkeys(("token_usage", "cost_usd", "duration_ms", "start_time", "end_time", "file_changes")),
        "workspace_path": None,
        "config": None,
    }


def test_a_grader_sees_the_session_with_the_names_of_its_tools_as_they_are(tmp_path: Path) -> None:
    stdin = given(tmp_path, SESSION)["stdin"]

    first, last = stdin["output"]
    assert first["tool_calls"][0] == {
        "tool": "knowledgeSearch", "input": {"searchTerm": "x"}, "id": "t1", "output": "found", "duration_ms": 20.0,
    }  # fmt: skip
    assert (first["content"], last) == ("I will look.", {"role": "assistant", "content": "Done."})
    assert stdin["trace"] == {
        "event_count": 2,
        "tool_calls": {"knowledgeSearch": 1, "Edit": 1},
        "error_count": 1,
        "llm_call_count": 2,
        "tool_durations": {"knowledgeSearch": [20.0]},
    }
    assert stdin["token_usage"] == {"input": 60, "output": 7, "cached": 40}
    assert (stdin["cost_usd"], stdin["duration_ms"], stdin["file_changes"]) == (0.5, 1500.0, "diff --git a/x b/x")
    assert (stdin["start_time"], stdin["end_time"]) == ("2026-01-15T12:00:00Z", "2026-01-15T12:00:02Z")


def test_a_script_is_given_the_answer_as_text_and_the_session_as_messages(tmp_path: Path) -> None:
    stdin = given(tmp_path, SESSION, "script")["stdin"]

    assert stdin["output"] == "Done."
    assert stdin["messages"] == stdin["trace"]["messages"]
    assert stdin["messages"][-1]["content"] == "Done."


def test_a_session_that_shows_nothing_has_no_trace(tmp_path: Path) -> None:
    stdin = given(tmp_path, a_report(None))["stdin"]

    assert (stdin["output"], stdin["trace"]) == ([], None)


@pytest.mark.parametrize(("length", "inline"), [(49_000, True), (50_001, False)])
def test_a_long_output_comes_as_the_path_of_a_file(tmp_path: Path, length: int, inline: bool) -> None:
    program = (
        "import json, sys; given = json.load(sys.stdin); path = given.get('output_path');"
        "messages = json.load(open(path)) if path else given['output'];"
        "print(json.dumps({'score': 1, 'details': {'chars': len(messages[0]['content']), 'inline': path is None,"
        " 'path': path, 'both': path is not None and given['output'] is not None}}))"
    )

    score = graded(an_evaluator("code-grader", command=[sys.executable, "-c", program]), a_report("x" * length))

    assert (score.details["chars"], score.details["inline"], score.details["both"]) == (length, inline, False)
    assert inline or not Path(score.details["path"]).exists()


def test_an_image_in_the_input_comes_as_a_file_and_an_attachment_by_its_path(tmp_path: Path) -> None:
    source = "data:image/jpeg;base64," + base64.b64encode(b"picture").decode()
    parts = [
        {"type": "image", "value": "p.jpg", "media_type": "image/jpeg", "source": source},
        {"type": "file", "value": "a.txt", "text": "hi", "resolved_path": "/there/a.txt"},
    ]
    program = (
        "import json, sys; given = json.load(sys.stdin); image = given['input'][0]['content'][0]['path'];"
        "print(json.dumps({'score': open(image, 'rb').read() == b'picture' and image.endswith('.jpg'),"
        " 'details': {'files': given['input_files']}}))"
    )
    case = a_case(input=(Message(role="user", content=parts),))

    score = graded(an_evaluator("code-grader", command=[sys.executable, "-c", program]), a_report("4"), case=case)

    assert (score.value, score.details["files"]) == (1.0, ["/there/a.txt"])
    assert "path" not in parts[0]


def test_arguments_that_are_not_ours_are_the_programs_config_but_never_the_gate(tmp_path: Path) -> None:
    config = {"threshold": 0.85, "min_score": 0.5, "config": {"mode": "strict"}}

    stdin = given(tmp_path, a_report("4"), config=config)["stdin"]

    assert stdin["config"] == {"threshold": 0.85, "mode": "strict"}


def test_a_grader_runs_in_the_suites_folder_and_is_told_the_workspace(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    (tmp_path / "graders").mkdir()

    score = given(tmp_path, a_report("4"), workspace=workspace)
    elsewhere = given(tmp_path, a_report("4"), config={"cwd": "graders"})

    assert score["cwd"] == str(tmp_path)
    assert score["env"]["AGENTV_WORKSPACE_PATH"] == score["stdin"]["workspace_path"] == str(workspace)
    assert score["env"]["EVAL_PIPELINE_WORKSPACE"] == str(workspace)
    assert elsewhere["cwd"] == str(tmp_path / "graders")
    assert "AGENTV_WORKSPACE_PATH" not in elsewhere["env"]


@pytest.mark.parametrize("name", ["command", "script"])
def test_a_text_is_a_line_for_the_shell(name: str) -> None:
    score = graded(an_evaluator("code-grader", **{name: "cat > /dev/null; echo '{\"score\":' 0.25 '}'"}), a_report("4"))

    assert score.value == 0.25


# What is made of what it prints.


@pytest.mark.parametrize(
    ("text", "value", "passes", "message"),
    [
        ('{"score": 0.75}', 0.75, None, "scores 0.75"),
        ('{"score": 1.5}', 1.0, None, "scores 1"),
        ('{"score": -2, "verdict": "pass"}', 0.0, None, "scores 0"),
        ('{"score": 0.5, "reasoning": "half of it"}', 0.5, None, "half of it"),
        ('{"score": 0.6, "pass": true, "reason": "enough"}', 0.6, True, "enough"),
        ('{"pass": false}', 0.0, False, "scores 0"),
        ('{"assertions": [{"text": "a", "passed": true}, {"text": "b", "passed": 0}]}', 0.5, None, "b"),
        ('{"checks": [{"text": "a", "pass": true, "score": 0.5}, {"text": "b", "pass": true}]}', 0.75, None, "a; b"),
        ('{"score": "high"}', None, None, "returned no score"),
        ('{"score": NaN}', None, None, "returned no score"),
        ("{}", None, None, "returned no score"),
        ("all good", None, None, "no JSON object: all good"),
        ("[1]", None, None, "no JSON object"),
        ("", None, None, "nothing at all"),
    ],
)  # fmt: skip
def test_what_a_grader_prints_is_its_score_or_leaves_it_open(
    text: str, value: float | None, passes: bool | None, message: str
) -> None:
    score = printed(text)

    assert (score.value, score.passes) == (value, passes)
    assert message in score.reason


def test_assertions_become_findings_and_details_are_kept() -> None:
    listed = [{"text": "a", "passed": True, "evidence": "line 1"}, {"text": 5, "passed": True}, {"passed": True}, "x"]

    score = printed(json.dumps({"score": 1, "assertions": listed, "details": {"tp": 2}}))

    ((text, passed, evidence),) = [(item.text, item.passed, item.evidence) for item in score.findings]
    assert (text, passed, evidence) == ("a", True, "line 1")
    assert score.details == {"tp": 2}


@pytest.mark.parametrize(
    ("config", "value"), [({}, None), ({"on_error": "fail"}, 0.0)], ids=["by default", "on_error: fail"]
)
@pytest.mark.parametrize(
    ("text", "exit_code", "message"),
    [("", 3, "ended with 3: it broke"), ('{"score": 1}', 1, "ended with 1"), ("words", 0, "no JSON object")],
    ids=["a crash", "a score and a crash", "no answer"],
)
def test_a_grader_that_breaks_leaves_the_score_open_unless_that_is_to_count(
    config: dict[str, Any], value: float | None, text: str, exit_code: int, message: str
) -> None:
    score = printed(text, exit_code=exit_code, stderr="it broke", **config)

    assert score.value == value
    assert message in score.reason


def test_only_the_end_of_a_long_complaint_is_kept() -> None:
    score = printed("", exit_code=1, stderr="x" * 5_000 + "the cause")

    assert score.reason.endswith("the cause")
    assert len(score.reason) < 2_200


@pytest.mark.parametrize("kind", ["code-grader", "script"])
@pytest.mark.parametrize(
    ("text", "exit_code", "value", "message"),
    [
        ("14 pages", 0, 1.0, "14 pages"),
        ("", 0, 1.0, "exit code 0"),
        ("3 pages", 1, 0.0, "3 pages"),
        ("", 2, 0.0, "it says"),
        ("", 127, None, "ended with 127"),
        ("5", 0, 1.0, "5"),
    ],
)
def test_a_plain_program_answers_by_its_exit_code(
    kind: str, text: str, exit_code: int, value: float | None, message: str
) -> None:
    stderr = "it says" if exit_code == 2 else ""

    score = printed(
        text, exit_code=exit_code, kind=kind, stderr=stderr, **({"plain": True} if kind != "script" else {})
    )

    assert score.value == value
    assert message in score.reason


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found by /proc")
def test_a_grader_that_takes_too_long_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    spec = an_evaluator("code-grader", command=f"sleep 60 & echo $! > {child}; wait", timeout_s=0.5)

    score = graded(spec, a_report("4"))

    assert score.value is None
    assert "took longer than 0.5 s" in score.reason
    assert not is_running(int(child.read_text()))


def is_running(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody asked after does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_desks_time_limit_is_that_of_a_grader_without_one() -> None:
    spec = an_evaluator("code-grader", command=[sys.executable, "-c", "import time; time.sleep(30)"])

    score = graded(spec, a_report("4"), client=FakeGraderClient(timeout_s=0.1))

    assert "took longer than 0.1 s" in score.reason


def test_a_program_that_is_not_there_leaves_the_score_open() -> None:
    score = graded(an_evaluator("code-grader", command=["no-such-program-anywhere"]), a_report("4"))

    assert score.value is None
    assert "cannot be started" in score.reason


# What its scores depend on.


def test_editing_a_script_makes_its_scores_new_and_an_interpreter_does_not_count(tmp_path: Path) -> None:
    script = tmp_path / "grade.py"
    keys = []
    for command in (["python3", "grade.py"], "python3 grade.py --strict"):
        for text in ("print(1)", "print(2)"):
            script.write_text(text)
            keys.append(bind(an_evaluator("code-grader", command=command), a_case(), tmp_path).key)

    content = build(an_evaluator("code-grader", command=[sys.executable, "grade.py"])).content(tmp_path)  # type: ignore[union-attr]

    assert len(set(keys)) == 4
    assert list(content) == ["grade.py"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "command: required"),
        ({"command": ""}, "command: expected a command line"),
        ({"command": ["python3", 5]}, "command: expected a command line"),
        ({"command": "x", "target": {"max_calls": 0}}, "target: expected true or a mapping"),
        ({"command": "x", "target": {"calls": 5}}, "target: expected true or a mapping"),
        ({"command": "x", "timeout_s": 0}, "timeout_s"),
        ({"command": "x", "on_error": "ignore"}, "on_error"),
        ({"command": ["python3", "missing.py"]}, "no file 'missing.py'"),
        ({"command": ["bun", "run", "../missing.ts"]}, "no file '../missing.ts'"),
        ({"command": "x", "cwd": "nowhere"}, "no file or folder 'nowhere'"),
        ({"command": "x", "cwd": "a-file"}, "'a-file' is not a folder"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_used_is_said_before_anything_runs(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    (tmp_path / "a-file").touch()

    with pytest.raises(InputError) as raised:
        bind(an_evaluator("code-grader", **config), a_case(), tmp_path)

    assert message in str(raised.value)


# The models it may ask.

ASKING = """
import json, os, sys, urllib.error, urllib.request
URL = os.environ.get("AGENTV_TARGET_PROXY_URL"); TOKEN = os.environ.get("AGENTV_TARGET_PROXY_TOKEN")
assert URL == os.environ.get("EVAL_PIPELINE_GRADER_URL") and TOKEN == os.environ.get("EVAL_PIPELINE_GRADER_TOKEN")
def call(path, body=None, token=TOKEN):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, headers={"Authorization": "Bearer " + token})
    try:
        with urllib.request.urlopen(request) as reply: return [reply.status, json.load(reply)]
    except urllib.error.HTTPError as error: return [error.code, json.load(error)]
json.load(sys.stdin)
said = [call(*arguments) for arguments in json.load(open(sys.argv[1]))] if URL else None
print(json.dumps({"score": 1, "details": {"said": said}}))
"""


def requires_client(
    folder: Path, *calls: list[Any], client: FakeGraderClient | None = None, target: Any = True
) -> Score:
    """The score of a grader that makes these calls of its proxy; what it was told is in the details."""
    (folder / "asking.py").write_text(ASKING)
    (folder / "calls.json").write_text(json.dumps(calls))
    spec = an_evaluator("code-grader", command=[sys.executable, "asking.py", "calls.json"], target=target)
    return graded(spec, a_report("4"), folder=folder, client=client)


def test_a_grader_may_ask_a_model_and_what_it_asked_is_kept(tmp_path: Path) -> None:
    client = FakeGraderClient(replies=["a cat", "a dog"])

    score = requires_client(
        tmp_path,
        ["/invoke", {"question": "What is it?", "systemPrompt": "Be short", "target": "judge"}],
        ["/invokeBatch", {"requests": [{"question": "And this?"}, {"question": ""}]}],
        ["/info"],
        client=client,
    )

    first, batch, info = score.details["said"]
    assert first == [200, {"output": [{"role": "assistant", "content": "a cat"}], "rawText": "a cat"}]
    assert [item["rawText"] for item in batch[1]["responses"]] == ["a dog", "Error: expected a text 'question'"]
    assert info == [200, {"targetName": "default", "maxCalls": 50, "callCount": 2, "availableTargets": ["default"]}]
    assert [[message.text for message in requests] for requests in client.requests] == [
        ["Be short", "What is it?"],
        ["And this?"],
    ]
    assert [call["reply"] for call in score.details["grader_calls"]] == ["a cat", "a dog"]
    assert score.details["grader_calls"][0]["grader"] == "judge"


@pytest.mark.parametrize(
    ("call", "status", "message"),
    [
        (["/info", None, "guessed"], 401, "token"),
        (["/invoke", {"question": ""}], 400, "question"),
        (["/invoke", {"question": "x", "target": 5}], 400, "target"),
        (["/invoke", "not an object"], 400, "JSON object"),
        (["/invokeBatch", {"requests": "x"}], 400, "requests"),
        (["/invokeBatch", {"requests": [{"question": "x"}] * 3}], 429, "calls"),
        (["/invoke", {"question": "x"}], 502, "no more replies"),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value),
)
def test_a_proxy_refuses_what_it_cannot_answer(tmp_path: Path, call: list[Any], status: int, message: str) -> None:
    score = requires_client(tmp_path, call, target={"max_calls": 2})

    ((code, body),) = score.details["said"]
    assert code == status
    assert message in body["error"]


def test_a_proxy_answers_no_more_often_than_allowed(tmp_path: Path) -> None:
    question = ["/invoke", {"question": "x"}]

    score = requires_client(
        tmp_path, question, question, target={"max_calls": 1}, client=FakeGraderClient(replies=["a", "b"])
    )

    assert [code for code, _ in score.details["said"]] == [200, 429]


def test_an_unknown_grader_is_the_scripts_mistake(tmp_path: Path) -> None:
    class Strict(FakeGraderClient):
        async def complete(self, *args: Any, grader: str | None = None, **kwargs: Any) -> GraderReply:
            raise InputError(f"no runner '{grader}'")

    score = requires_client(tmp_path, ["/invoke", {"question": "x", "target": "nobody"}], client=Strict())

    assert score.details["said"] == [[400, {"error": "no runner 'nobody'"}]]


def test_a_grader_without_a_target_is_told_of_no_proxy(tmp_path: Path) -> None:
    assert requires_client(tmp_path, ["/info"], target=False).details["said"] is None


@pytest.mark.parametrize(
    ("target", "graders"),
    [(None, ()), (False, ()), (True, (None,)), ({"max_calls": 3}, (None,)), ({"targets": ["a"]}, (None, "a"))],
)
def test_the_models_that_a_grader_may_ask_are_part_of_what_its_scores_depend_on(
    target: Any, graders: tuple[str | None, ...]
) -> None:
    assert build(an_evaluator("code-grader", command="x", target=target)).graders == graders  # type: ignore[union-attr]


# Scripts of the author's own that are evaluators by their name.


def test_a_script_under_agentv_assertions_is_an_evaluator_of_its_name(tmp_path: Path) -> None:
    scripts = tmp_path / ".agentv" / "assertions"
    scripts.mkdir(parents=True)
    (scripts / "word_count.py").write_text(
        "import json, sys; given = json.load(sys.stdin);"
        "print(json.dumps({'score': len(given['answer'].split()) >= given['config']['least']}))"
    )
    suite_file = tmp_path / "suite.yaml"
    suite_file.write_text(
        "tests: [{id: c1, input: hi, criteria: c, assertions: [{type: word-count, least: 2}, {type: is-json}]}]"
    )
    suite = load_suite(suite_file, LoadOptions({}, evaluators=frozenset(EVALUATORS.names())))
    subject = Subject(suite.cases[0], a_report("two words"), tmp_path)

    scores = asyncio.run(evaluate_with(MembersDesk(), subject, EvaluatorSet(suite).of(suite.cases[0])))

    assert [(item.evaluator, item.value) for item in scores] == [("word-count", 1.0), ("is-json", 0.0)]


@pytest.mark.parametrize(
    ("command", "installed", "runs"),
    [
        pytest.param(["python3", "grade.py"], ["python3"], "python3 grade.py", id="as it is written"),
        pytest.param(["python3", "grade.py"], [], "ours grade.py", id="our Python where there is no python3"),
        pytest.param(["bun", "run", "grade.ts"], ["bun"], "bun run grade.ts", id="bun"),
        pytest.param(["bun", "run", "grade.ts"], ["node"], "node grade.ts", id="node where there is no bun"),
        pytest.param(["bun", "run", "grade"], ["node"], None, id="what is no script is bun's own"),
    ],
)
def test_a_script_is_run_by_the_interpreter_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], installed: list[str], runs: str | None
) -> None:
    for name in installed:
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "{{\\"score\\": 1, \\"reasoning\\": \\"{name} $*\\"}}"\n')
        program.chmod(0o755)
    (tmp_path / "grade.py").write_text("""print('{"score": 1, "reasoning": "ours grade.py"}')""")
    (tmp_path / "grade.ts").touch()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    score = graded(an_evaluator("code-grader", command=command), a_report("yes"), folder=tmp_path)

    assert (score.value, score.reason) == ((1.0, runs) if runs else (None, score.reason))
