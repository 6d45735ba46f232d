"""skillgym's scenarios of whole runs, carried out by `run` and compared with what their rows assert, name by name.

The target is a small program: it notes when it begins and ends, counts its calls by case and runner, and prints a
session with the tokens of the row. What we do otherwise on purpose is an entry of `differences/runs.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from eval_pipeline_tests.conformance.public_verbs import command, new_folder
from eval_pipeline_tests.conformance.skillgym_setups import Setup, missing, results_of, setup_of
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

Data = Mapping[str, Any]
PROGRAM = """
count="@ROOT/count-$1-$2"; n=$(($(cat "$count" 2>/dev/null || echo 0) + 1)); echo $n > "$count"
echo "start $1:$2 $(date +%s%N)" >> @ROOT/log
sleep @SLEEP
tokens=@TOKENS
seen="$(pwd) $(cat @SEEN 2>/dev/null | tr '\\n' ' ')"
[ ! -f "@ROOT/acts/$1-$2-$n" ] || . "@ROOT/acts/$1-$2-$n"
some=$((tokens > 20 ? 20 : tokens))
[ -z "$tokens" ] || usage=', "usage": {"input_tokens": '$((tokens - some))', "output_tokens": '$some'}'
echo '{"type": "system", "subtype": "init", "session_id": "@SESSION"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "@OUTPUT"'"$usage"'}'
echo "end $1:$2 $(date +%s%N)" >> @ROOT/log
"""
_PHRASES = {"Snapshot check requires provider token metric": "token metric"}
"""Words of messages there, and ours."""


def carried_out(data: Data) -> dict[str, Any]:
    """Carry out what a row describes, and return everything that its check looks at."""
    return _carried_out(json.dumps(data, sort_keys=False))


@cache
def _carried_out(text: str) -> dict[str, Any]:
    data = json.loads(text)
    setup, folder = setup_of(data), make_project(new_folder())
    (folder.root / "suites" / "sums.yaml").unlink()
    _write(folder.root, setup, data["setup"])
    folder.write_runners(*(_runner(folder.root, name, setup) for name in setup.runners))
    ended = command("run", "--project", folder.root, "--quiet", "--report", "summary", *setup.options)
    return {"code": ended.code, "out": ended.out + ended.err, "root": folder.root, **_stored(folder)}


def _write(root: Path, setup: Setup, given: Data) -> None:
    tokens = given.get("totalTokens") or ""
    program = PROGRAM.replace("@ROOT", str(root)).replace("@SLEEP", setup.sleep).replace("@TOKENS", str(tokens))
    seen = " ".join([*given.get("template", {}), "booted.txt"])
    program = program.replace("@SEEN", seen).replace("@SESSION", setup.session).replace("@OUTPUT", setup.output)
    (root / "program.sh").write_text(program)
    files = {"suites/cases.py": setup.suite}
    files |= {f"suites/{name}": content for name, content in setup.files.items()}
    files |= {f"acts/{name}": content for name, content in setup.acts.items()}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def _runner(root: Path, name: str, setup: Setup) -> dict[str, Any]:
    words = ["sh", str(root / "program.sh"), "{CASE_ID}", name]
    return {"name": name, "adapter": "command", "command": words, "format": "claude-code", "retries": 0, **setup.runner}


def _stored(folder: ProjectFolder) -> dict[str, Any]:
    if not (folder.root / "log").exists():
        return {"verdicts": [], "cases": [], "log": [], "baselines": {}, "snapshots": [], "questions": [], "file": ""}
    names = ("case", "runner", "status", "class", "label", "reason", "tags", "output", "session", "tokens")
    verdicts, cases, details, snapshots = folder.ask_all(*_QUERIES)
    file = folder.root / "suites" / "cases.snapshots.json"
    text = file.read_text() if file.exists() else ""
    return {
        "verdicts": [dict(zip(names, row, strict=True)) for row in verdicts],
        "cases": cases,
        "log": [line.split() for line in (folder.root / "log").read_text().splitlines()],
        "baselines": json.loads(text)["entries"] if text else {},
        "snapshots": snapshots,
        "questions": [each for (text,) in details for each in json.loads(text).get("questions", [])],
        "file": text,
    }


_QUERIES = (
    """SELECT v.case_id, v.runner, v.status, v.failure_class, v.failure_label, v.reason, to_json(v.tags),
              r.final_output, r.session_id, r.total_tokens
       FROM current_verdicts v LEFT JOIN session_reports r USING (execution_id)
       ORDER BY v.case_id, v.runner, v.repetition""",
    "SELECT case_id, runner, status FROM case_results ORDER BY ALL",
    "SELECT details FROM evaluator_scores WHERE details IS NOT NULL",
    "SELECT passed, reason FROM token_snapshots",
)


def check(data: Data, values: Data) -> None:
    """Assert every name of the row that has a counterpart, and the status of each execution that it recorded."""
    for name, expected in data["asserted"].items():
        _check_of(name, values)(expected, values, data)
    if "executions_in_order" not in data["asserted"]:  # sessions there are not carried out: no limit ends one
        _check_recorded(data, values)


def _check_recorded(data: Data, values: Data) -> None:
    """Assert the status of each execution that the row recorded, and the exit code of them all."""
    results = list(results_of(data))
    for case, runner, result in results:
        status = _status(values, case, runner)
        assert (status in ("passed", "expected-failed")) is result["passed"], (case, runner, status)
        if result["status"] in ("unexpected-passed", "expected-failed"):
            of_pair = [each for each in values["verdicts"] if (each["case"], each["runner"]) == (case, runner)]
            assert {each["status"] for each in of_pair} == {result["status"]}
    is_good = "raises" not in data["asserted"] and all(result["passed"] for _, _, result in results)
    assert (values["code"] == 0) is is_good, values["out"]


Check = Callable[[Any, Data, Data], None]


def _check_of(name: str, values: Data) -> Check:
    if name in _CHECKS:
        return _CHECKS[name]
    if _INTERNAL.fullmatch(name):
        return lambda expected, values, data: None
    if any(name in case for case, _, _ in values["cases"]):
        return lambda expected, values, data: _one_case(name, expected, values)
    return missing(f"nothing checks what it asserts of {name}")


_INTERNAL = re.compile(
    r".*([dD]irs?|[pP]ath|_dirs|_with|onError.*|_called)|hooks_seen|failureOrigin|error_json_written|context|onError_context"
    r"|declaredTags|selectedTags|repetitions|sessions_in_repetition|runnerResults_per_case|workspace_json"
)
"""Names of folders, files, hooks and fields of results there: what they stand for is checked by other names, of
`_CHECKS`, and by the recorded status of each execution."""


def _status(values: Data, case: str, runner: str) -> str:
    found = [status for case_id, name, status in values["cases"] if (case_id, name) == (case, runner)]
    assert len(found) == 1, (case, runner, values["cases"], values["out"])
    return str(found[0])


def _calls(values: Data, case: str = "") -> list[str]:
    begun = [each[1] for each in values["log"] if each[0] == "start"]
    return [name for name in begun if not case or name.split(":")[0] == case]


def _failing(values: Data) -> list[Data]:
    return [each for each in values["verdicts"] if each["status"] != "passed"]


def _result(expected: Data, values: Data, case: str | None = None) -> None:
    of_case = [each for each in values["verdicts"] if case in (None, each["case"])]
    statuses = [status for case_id, _, status in values["cases"] if case in (None, case_id)]
    assert statuses
    assert all((status in ("passed", "expected-failed")) is expected["passed"] for status in statuses)
    if "status" in expected:
        assert {each["status"] for each in of_case} >= {expected["status"]}
    if "successfulRepetitions" in expected:
        passed = sum(each["status"] in ("passed", "expected-failed") for each in of_case)
        assert passed == expected["successfulRepetitions"]


def _one_case(name: str, expected: Data, values: Data) -> None:
    (case,) = {case for case, _, _ in values["cases"] if name in case}
    _result(expected, values, case)
    errors = [error for key in expected if key.endswith("session_errors") for error in expected[key] if error]
    texts = [each["reason"] for each in _failing(values) if each["case"] == case]
    if any(key.endswith("session_errors") for key in expected):
        assert len(texts) == len(errors)
        assert all(any(error in text for text in texts) for error in errors), (texts, errors)


def _words(expected: Any, values: Data, data: Data) -> None:
    texts = [each["reason"] for each in _failing(values)]
    texts += [reason for passed, reason in values["snapshots"] if not passed]
    assert texts
    for word in [expected] if isinstance(expected, str) else expected:
        theirs = next((phrase for phrase in _PHRASES if phrase in word), None)
        ours = word.replace(theirs, _PHRASES[theirs]) if theirs else word
        assert all(ours in text for text in texts), (ours, texts)


def _class(expected: Data, values: Data, data: Data) -> None:
    failing = _failing(values)
    assert failing and values["code"] != 0
    assert all({"id": each["class"], "label": each["label"]} == expected for each in failing), failing


def _passed(expected: Any, values: Data, data: Data) -> None:
    cases = list(dict.fromkeys(case for case, _, _ in values["cases"]))
    listed = expected if isinstance(expected, list) else [expected] * len(cases)
    by_case = {case: status in ("passed", "expected-failed") for case, _, status in values["cases"]}
    assert [by_case[case] for case in cases] == listed  # the cases `first`, `second`, … are in order of the alphabet


def _seen(expected: Any, values: Data, data: Data) -> None:
    for case, numbers in expected.items():
        assert len(_calls(values, case)) == len(numbers)


def _mean(expected: Any, values: Data, data: Data) -> None:
    tokens = [each["tokens"] for each in values["verdicts"] if each["status"] == "passed"]
    assert sum(tokens) / len(tokens) == expected


def _listed_cases(expected: Any, values: Data, data: Data) -> None:
    assert {each["caseId"] for each in expected} == {case for case, _, _ in values["cases"]}
    for each in expected:
        mine = [verdict for verdict in values["verdicts"] if verdict["case"] == each["caseId"]]
        assert mine
        assert all(verdict["status"] == each.get("status", verdict["status"]) for verdict in mine)
        assert all("tags" not in each or json.loads(verdict["tags"]) == each["tags"] for verdict in mine)


def _executed(expected: Any, values: Data, data: Data) -> None:
    runner = next(iter(data["setup"]["runners"]))
    assert sorted(_calls(values)) == sorted(each if ":" in each else f"{each}:{runner}" for each in expected)


def _raised(expected: Any, values: Data, data: Data) -> None:
    assert expected.startswith("No cases matched"), "what else is raised has no counterpart so far"
    assert values["code"] == 2 and "no case matches" in values["out"]
    assert _calls(values) == []


def _totals(expected: Data, values: Data, data: Data) -> None:
    good = [status in ("passed", "expected-failed") for _, _, status in values["cases"]]
    assert (len(good), sum(good)) == (expected["totalCases"], expected["passedCases"])
    assert sum(good) / len(good) == expected["successRate"]


def _entries(expected: Any, values: Data, data: Data) -> None:
    assert {key: entry["value"] for key, entry in values["baselines"].items()} == expected


def _first_alone(expected: Any, values: Data, data: Data) -> None:
    """Assert that the first session has ended before another begins."""
    first, second, *_ = sorted(values["log"], key=lambda each: int(each[2]))
    assert (first[0], second[0]) == ("start", "end")


def _in_file(expected: Any, values: Data, data: Data) -> None:
    assert expected and all(each in values["file"] for each in expected), values["file"]


def _limits(expected: Any, values: Data, data: Data) -> None:
    assert sorted(_calls(values)) == sorted(f"{case}:{runner}" for case, runner, _ in expected)
    shortest = min(limit for _, _, limit in expected)
    is_one = all(limit == shortest for _, _, limit in expected)
    for case, runner, limit in expected:
        (verdict,) = (each for each in values["verdicts"] if (each["case"], each["runner"]) == (case, runner))
        assert (verdict["class"] == "timeout") is (limit == shortest and not is_one)


def _templated(expected: Any, values: Data, data: Data) -> None:
    template = data["setup"]["template"]
    for each in values["verdicts"]:
        assert all(text.strip() in each["output"] for text in template.values()) is expected


def _deleted(expected: Any, values: Data, data: Data) -> None:
    for each in values["verdicts"]:
        assert Path(each["output"].split()[1]).exists() is not expected


def _folders(expected: Any, values: Data, data: Data) -> None:
    assert expected == ["<tmp>"]
    assert {each["output"].split()[1] for each in values["verdicts"]} == {str(values["root"])}


def _booted(expected: Any, values: Data, data: Data) -> None:
    assert all(("booted" in each["output"]) is expected for each in values["verdicts"])
    assert not list((values["root"] / "suites").rglob("booted.txt"))


def _explained(expected: Data, values: Data, data: Data) -> None:
    (verdict,) = values["verdicts"]
    assert (verdict["case"], verdict["runner"]) == (expected["caseId"], expected["runnerId"])
    assert verdict["session"] == expected["sessionId"]


def _asked(expected: Any, values: Data, data: Data) -> None:
    assert [each["question"] for each in values["questions"]] == [
        each if isinstance(each, str) else each["question"] for each in expected
    ]
    assert all("cases.py:" in each["source"] for each in values["questions"])


def _kept(expected: Any, values: Data, data: Data) -> None:
    assert [each["tokens"] for each in values["verdicts"]] == [expected]


_CHECKS: Mapping[str, Check] = {
    "invocations": lambda expected, values, data: _same(len(_calls(values)), expected),
    "results_json_keeps_sessions": lambda expected, values, data: _same(len(values["verdicts"]), expected),
    "results_json_status": lambda expected, values, data: _has_status(expected, values),
    "runnerResult": lambda expected, values, data: _result(expected, values),
    "runner": _totals, "cases": _listed_cases, "passed": _passed, "executed": _executed, "raises": _raised,
    "usage_totalTokens": _mean, "report_kept_with_totalTokens": _kept, "counters_seen": _seen,
    "error_contains": _words, "error_message": _words, "failureClass": _class,
    "entries_after": _entries,
    "file_contains": _in_file,
    "executions_in_order": _limits, "cwd_seen": _folders,
    "workspace_had_template_files_including_dot_git": _templated, "workspace_deleted_after_pass": _deleted,
    "script_found_in_suite_dir": _booted, "files_written_in_workspace": _booted,
    "started_initially": _first_alone, "first_case_is_serial_over_runners": _first_alone,
    "explain_json": _explained, "questions": _asked, "questions_in_order": _asked,
}  # fmt: skip
"""What is asserted of a run, by its name in rows."""


def _has_status(expected: str, values: Data) -> None:
    assert expected in [each["status"] for each in values["verdicts"]]


def _same(mine: Any, expected: Any) -> None:
    assert mine == expected
