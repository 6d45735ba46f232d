"""skillgym's scenarios of repetitions, schedules, workspaces, token baselines and questions, carried out by `run`.

The target is a small program: it notes when it begins and ends, counts its calls by case, and prints a session with the
tokens of the row. What we do otherwise on purpose is an entry of `differences/runs.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from eval_pipeline_tests.conformance.public_verbs import command, new_folder
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

PROGRAM = """
count="@ROOT/count-$1-$2"; n=$(($(cat "$count" 2>/dev/null || echo 0) + 1)); echo $n > "$count"
echo "start $1:$2 $(date +%s%N)" >> @ROOT/log
tokens=$(sed -n "${n}p" @ROOT/tokens 2>/dev/null); [ -n "$tokens" ] || tokens=$(tail -n 1 @ROOT/tokens 2>/dev/null)
sleep @SLEEP
seen="$(pwd) $(cat README.md .git/HEAD booted.txt 2>/dev/null | tr '\\n' ' ')"
[ -z "$tokens" ] || usage=', "usage": {"input_tokens": '$((tokens - 20))', "output_tokens": 20}'
echo '{"type": "system", "subtype": "init", "session_id": "ses_123"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "call-'$n' '"$seen"'"'"$usage"'}'
echo "end $1:$2 $(date +%s%N)" >> @ROOT/log
"""
HEAD = """from eval_pipeline import Case, commands, explain, file_reads, output, soft

def passes(report, ctx): pass

def number(ctx): return int(ctx.final_output().split()[0].removeprefix("call-"))

"""
_PLAIN = "suite = [Case(id=i, prompt='2', check=passes) for i in ({cases},)]\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How a row is carried out: its suite (default: its cases pass), options, tokens by call, and what differs in the
    project; `check` asserts what the row holds."""

    check: Callable[[Mapping[str, Any], Mapping[str, Any]], None]
    suite: str = _PLAIN
    options: tuple[str, ...] = ()
    tokens: Sequence[int] = ()
    runner: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    sleep: str = "0"
    prepare: Callable[[Path], None] = lambda root: None


def _calls(values: Mapping[str, Any], case: str = "", runner: str = "open") -> int:
    begun = [each for each in values["log"] if each[0] == "start"]
    return sum(each[1] == f"{case}:{runner}" or not case for each in begun)


def _case_status(values: Mapping[str, Any], case: str) -> str:
    return str(next(status for case_id, status in values["cases"] if case_id == case))


def _mean_tokens(values: Mapping[str, Any]) -> float:
    tokens = [each["tokens"] for each in values["verdicts"] if each["status"] == "passed"]
    return float(sum(tokens) / len(tokens))


def _retried(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    assert _calls(values) == asserted["invocations"]
    assert (_case_status(values, "flaky") == "passed") is asserted["runnerResult"]["passed"]
    assert len(values["verdicts"]) == asserted["results_json_keeps_sessions"]
    assert values["code"] == 0


def _repeated(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    result = asserted["runnerResult"]
    assert values["code"] == (0 if result["passed"] else 1)
    assert all(status == result["status"] for _, status in values["cases"])
    assert _mean_tokens(values) == asserted["usage_totalTokens"]
    passed = sum(each["status"] == "passed" for each in values["verdicts"])
    assert passed == result["successfulRepetitions"]
    assert "invocations" not in asserted or _calls(values) == asserted["invocations"]
    words = asserted.get("error_contains")
    assert words is None or all(words in each["reason"] for each in values["verdicts"] if each["status"] == "failed")


def _counters(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for case, seen in asserted["counters_seen"].items():
        assert _calls(values, case) == len(seen)
        assert _case_status(values, case) == "passed"
    texts = [each["reason"] for each in values["verdicts"] if each["status"] != "passed"]
    expected = [error for error in asserted["flaky"]["third_repetition_session_errors"] if error]
    assert all(any(error in text for text in texts) for error in expected)
    assert len(texts) == len(expected)


def _entries(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    found = {key: entry["value"] for key, entry in values["baselines"].items()}
    assert found == asserted["entries_after"]


def _created(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    assert values["code"] == 0
    assert [entry["value"] for entry in values["baselines"].values()] == [120]


def _mismatch(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    theirs = {"alpha / open-main": "alpha / open"}
    words = [
        theirs.get(word, word.replace("Snapshot check requires provider ", "")) for word in asserted["error_contains"]
    ]
    (reason,) = (reason for _, reason in values["snapshots"])
    assert [(each["status"], each["class"]) for each in values["verdicts"]] == [("failed", "snapshot")]
    assert values["code"] == 1
    assert all(word in reason for word in words), reason
    assert asserted["failureClass"]["label"] in values["out"]
    assert f"[{asserted['failureClass']['id']}]" in values["out"]


def _limits(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    assert _calls(values) == len(asserted["executions_in_order"])
    for case, runner, limit_ms in asserted["executions_in_order"]:
        (verdict,) = (each for each in values["verdicts"] if (each["case"], each["runner"]) == (case, runner))
        assert (verdict["class"] == "timeout") is (limit_ms == 7000)


def _templated(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    (verdict,) = values["verdicts"]
    assert "template ref: refs/heads/main" in verdict["output"]
    assert not list(values["root"].joinpath("data", "workspaces").rglob("README.md"))
    assert not Path(verdict["output"].split()[1]).exists()


def _in_place(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    (verdict,) = values["verdicts"]
    assert verdict["output"].split()[1] == str(values["root"])


def _booted(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    (verdict,) = values["verdicts"]
    assert "booted" in verdict["output"]
    assert not (values["root"] / "suites" / "booted.txt").exists()


def _questions(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    questions = asserted.get("questions_in_order") or [each["question"] for each in asserted["questions"]]
    assert [each["question"] for each in values["questions"]] == questions
    assert all("cases.py:" in each["source"] for each in values["questions"])
    (verdict,) = values["verdicts"]
    assert verdict["session"] == asserted.get("explain_json", {}).get("sessionId", "ses_123")


def _first_case_alone(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Assert that the first session has ended before another begins."""
    first, second, *_ = sorted(values["log"], key=lambda each: int(each[2]))
    assert (first[0], second[0]) == ("start", "end")
    assert asserted


def _failed_with(asserted: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    (verdict,) = values["verdicts"]
    assert (verdict["status"], verdict["class"]) == ("failed", asserted["failureClass"]["id"])


def _write_template(root: Path) -> None:
    (root / "suites" / "template" / ".git").mkdir(parents=True)
    (root / "suites" / "template" / "README.md").write_text("template\n")
    (root / "suites" / "template" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def _write_bootstrap(root: Path) -> None:
    (root / "suites" / "bootstrap.sh").write_text("echo booted > booted.txt\n")


def _write_baseline(value: int, case: str = "alpha") -> Callable[[Path], None]:
    def write(root: Path) -> None:
        entry = {"caseId": case, "runnerId": "open", "metric": "totalTokens", "value": value}
        document = {"version": 1, "entries": {f"{case}::open": entry}}
        (root / "suites" / "cases.snapshots.json").write_text(json.dumps(document))

    return write


_UNTIL = "def check(report, ctx): assert number(ctx) {condition}, {reason!r}\n"
_LOADED = "expected skill to be loaded before command execution"
_COUNTER = """
def flaky(report, ctx):
    if number(ctx) in (3, 4): raise ValueError(f"intentional failure at counter {number(ctx)}")

suite = [Case(id="repeat-counter-stable", prompt="2", check=passes),
         Case(id="repeat-counter-flaky", prompt="2", check=flaky)]
"""
_HARD = """
def check(report, ctx):
    with explain("Why did you skip reading SKILL.md before acting?"): file_reads.includes(report, "SKILL.md")
"""
_SOFT = """
def check(report, ctx):
    with explain("Why did you produce no final output?"): soft.output.includes(report, "nothing of this")
    with explain("Why did you skip running pnpm test?"): soft.commands.includes(report, "pnpm test")
    with explain("Why did you skip reading README.md?"): file_reads.includes(report, "README.md")
"""
_ONE = "suite = [Case(id={case!r}, prompt='2', check=check)]\n"
_SNAPSHOTS = "snapshots = {{'metric': 'total_tokens', 'tolerance': {{'absolute': {absolute}}}}}\n"
SCENARIOS: Mapping[str, Scenario] = {
    "retries-only-failed": Scenario(
        check=_retried,
        options=("--on-failure", "2"),
        suite=_UNTIL.format(condition="> 1", reason=_LOADED) + _ONE.format(case="flaky"),
    ),
    "repeats-successful": Scenario(
        check=_repeated, options=("--repeat", "3", "--on-failure", "1"), tokens=(100, 200, 300)
    ),
    "stops-on-a-failed": Scenario(
        check=_repeated,
        options=("--repeat", "4", "--on-failure", "1"),
        tokens=(100, 200, 500),
        suite=_UNTIL.format(condition="< 3", reason=_LOADED) + _ONE.format(case="flaky"),
    ),
    "repeats-asserts": Scenario(check=_counters, options=("--repeat", "4", "--on-failure", "2"), suite=_COUNTER),
    "refreshes-matching": Scenario(
        check=_entries,
        options=("--update-snapshots",),
        tokens=(222,),
        prepare=_write_baseline(100),
        suite=_PLAIN + _SNAPSHOTS.format(absolute=20).replace("{", "{{").replace("}", "}}"),
    ),
    "use-the-average": Scenario(
        check=_entries,
        options=("--repeat", "2"),
        tokens=(100, 200),
        suite=_PLAIN + _SNAPSHOTS.format(absolute=20).replace("{", "{{").replace("}", "}}"),
    ),
    "creates-a-missing": Scenario(
        check=_created,
        tokens=(120,),
        suite="suite = [Case(id='alpha', prompt='2', check=passes)]\n" + _SNAPSHOTS.format(absolute=10),
    ),
    "tolerance-is-exceeded": Scenario(
        check=_mismatch,
        options=("--report", "summary"),
        tokens=(120,),
        prepare=_write_baseline(100),
        suite="suite = [Case(id='alpha', prompt='2', check=passes)]\n" + _SNAPSHOTS.format(absolute=10),
    ),
    "metric-is-unavailable": Scenario(
        check=_mismatch,
        options=("--report", "summary"),
        prepare=_write_baseline(100),
        suite="suite = [Case(id='alpha', prompt='2', check=passes)]\n" + _SNAPSHOTS.format(absolute=10),
    ),
    "applies-per-case-timeout": Scenario(
        check=_limits,
        sleep="1",
        runner={"timeout_s": 20},
        suite="suite = [Case(id='from-config', prompt='2', check=passes),"
        " Case(id='from-case', prompt='2', check=passes, timeout_ms=400)]\n",
    ),
    "provisions-isolated": Scenario(
        check=_templated,
        prepare=_write_template,
        suite=_PLAIN + "workspace = {{'mode': 'isolated', 'templateDir': './template'}}\n",
    ),
    "defaults-to-none": Scenario(check=_in_place),
    "resolves-suite-relative": Scenario(
        check=_booted,
        prepare=_write_bootstrap,
        suite=_PLAIN + "workspace = {{'mode': 'isolated',"
        " 'bootstrap': {{'command': 'sh', 'args': ['./bootstrap.sh']}}}}\n",
    ),
    "for-hard-explainable": Scenario(check=_questions, suite=_HARD + _ONE.format(case="alpha")),
    "with-collected-soft": Scenario(check=_questions, suite=_SOFT + _ONE.format(case="alpha")),
}
"""Scenarios by words of their id."""
LANES = Scenario(check=_first_case_alone, sleep="0.3", runner={"concurrency": 1})
CRASHED = Scenario(check=_failed_with, runner={"command": ["sh", "-c", "echo boom >&2; exit 1"]})


def scenario_of(id_: str) -> Scenario | None:
    """Return how a row of this id is carried out."""
    if "isolated-by-runner" in id_:
        return LANES
    if "execution-errors" in id_:
        return CRASHED
    return next((scenario for words, scenario in SCENARIOS.items() if words in id_), None)


@cache
def carried_out(id_: str, cases: tuple[str, ...], runners: tuple[str, ...], parallel: int | None) -> dict[str, Any]:
    """Carry the cases out with the runners, and return everything that a check looks at."""
    scenario = scenario_of(id_)
    assert scenario is not None
    folder = make_project(new_folder())
    (folder.root / "suites" / "sums.yaml").unlink()
    suite = (
        scenario.suite if "{cases}" not in scenario.suite else scenario.suite.format(cases=", ".join(map(repr, cases)))
    )
    (folder.root / "suites" / "cases.py").write_text(HEAD + suite)
    (folder.root / "program.sh").write_text(
        PROGRAM.replace("@ROOT", str(folder.root)).replace("@SLEEP", scenario.sleep)
    )
    if scenario.tokens:
        (folder.root / "tokens").write_text("".join(f"{value}\n" for value in scenario.tokens))
    scenario.prepare(folder.root)
    folder.write_runners(*(_runner(folder.root, name, scenario) for name in runners))
    limit = ("--concurrency", str(parallel)) if parallel else ()
    ended = command("run", "--project", folder.root, "--quiet", *scenario.options, *limit)
    return {"code": ended.code, "out": ended.out + ended.err, "root": folder.root, **_stored(folder)}


def _runner(root: Path, name: str, scenario: Scenario) -> dict[str, Any]:
    words = ["sh", str(root / "program.sh"), "{CASE_ID}", name]
    in_order = {"concurrency": 1} if scenario.tokens else {}  # the first call takes the first tokens
    return {"name": name, "adapter": "command", "command": words, "format": "claude-code", "retries": 0,
            **in_order, **scenario.runner}  # fmt: skip


def _stored(folder: ProjectFolder) -> dict[str, Any]:
    names = ("case", "runner", "status", "class", "label", "reason", "output", "session", "tokens")
    verdicts = folder.ask("""
        SELECT v.case_id, v.runner, v.status, v.failure_class, v.failure_label, v.reason, r.final_output, r.session_id,
               r.total_tokens
        FROM current_verdicts v LEFT JOIN session_reports r USING (execution_id)
        ORDER BY v.case_id, v.runner, v.repetition""")
    log, file = folder.root / "log", folder.root / "suites" / "cases.snapshots.json"
    details = folder.ask("SELECT details FROM evaluator_scores WHERE details IS NOT NULL")
    return {
        "verdicts": [dict(zip(names, row, strict=True)) for row in verdicts],
        "cases": folder.ask("SELECT case_id, status FROM case_results ORDER BY ALL"),
        "log": [line.split() for line in log.read_text().splitlines()] if log.exists() else [],
        "baselines": json.loads(file.read_text())["entries"] if file.exists() else {},
        "snapshots": folder.ask("SELECT passed, reason FROM token_snapshots"),
        "questions": [each for (text,) in details for each in json.loads(text).get("questions", [])],
    }
