"""skillgym's rows about whole runs as files of a project: a Python suite, a program that plays the agent, options.

Everything comes of what a row holds: its cases, checks, limits, tokens and workspace of `setup`; how each session of a
case went, of `as_produced`. What a row leaves out, or says in a way that nothing here reads, fails it by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

Data = Mapping[str, Any]
Sessions = Mapping[str, Sequence[Data]]
_READ = frozenset({
    "schedule", "maxParallel", "cases", "runners", "outcome", "retryFailed", "repeat", "repeatFailure", "tags",
    "caseId", "runner", "snapshots", "baseline", "existing_entries", "totalTokens", "totalTokens_per_repetition",
    "defaults", "workspace", "template", "cwd", "suite_dir", "assert", "assert_raises", "soft", "hard", "first",
    "second", "third", "sessionId",
})  # fmt: skip
_OPTIONS = {"repeat": "--repeat", "retryFailed": "--on-failure", "repeatFailure": "--on-failure",
            "maxParallel": "--concurrency", "caseId": "--case", "runner": "--runner"}  # fmt: skip
_FIELDS = {"tags": "tags", "expectedFail": "expected_fail", "maxSteps": "max_steps", "prompt": "prompt"}
_ORDER = ("first", "second", "third")
_HEAD = """from eval_pipeline import Case, classify, commands, explain, file_reads, output, skills, soft, tool_calls

SESSIONS = {sessions!r}

def as_recorded(report, ctx):
    call, runner = ctx.final_output().split()[0].removeprefix("call-").split("/")
    origin, message = SESSIONS[f"{{ctx.case_id}}:{{runner}}"][int(call) - 1]
    assert origin != "assertion", message
    if origin == "assert-hook":
        raise ValueError(message)

def passes(report, ctx): pass

"""
_HELPER = re.compile(
    r"(?:(?P<kind>soft|hard) )?(?P<group>output|commands|fileReads|skills|toolCalls)\.(?P<helper>\w+)"
    r'(?: "(?P<value>[^"]*)")?'
    r'(?: message "(?P<message>[^"]*)")?(?: with explain\.question "(?P<question>[^"]*)")?'
)
_CLASSIFIED = re.compile(r"classify\((?P<class>[^)]*)\) around a failing output check")
_RAISED = re.compile(r'(?P<error>\w*Error)\("(?P<message>[^"]*)"\)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a row is carried out with. `acts` are lines of the program by `case-runner-call`, `files` lie beside
    the suite, `runner` are settings of every runner."""

    suite: str
    runners: tuple[str, ...]
    options: tuple[str, ...]
    acts: Mapping[str, str]
    files: Mapping[str, str]
    runner: Mapping[str, Any]
    sleep: str
    output: str
    session: str


def missing(what: str) -> NoReturn:
    """Fail a row that leaves out what it takes to carry it out, or holds what nothing reads."""
    pytest.fail(f"this row cannot be carried out: {what}")


def results_of(data: Data) -> Iterator[tuple[str, str, Data]]:
    """Yield the case, the runner and the result of each execution of a row."""
    produced = data.get("as_produced", {})
    if isinstance(produced, list):
        names = _names(data["setup"])
        for name, each in zip(names, produced, strict=False):
            yield name, each.get("runner", "open-main"), each
        return
    for case in produced.get("cases", ()):
        for each in case["runnerResults"]:
            yield case["caseId"], each["runner"], each


def sessions_of(data: Data) -> Sessions:
    """Return the sessions of each `case:runner` in the order in which they were called."""
    found = {}
    for case, runner, result in results_of(data):
        repetitions = result.get("repetitions", (result,))
        found[f"{case}:{runner}"] = [one for each in repetitions for one in each.get("sessions", (each,))]
    return found


def setup_of(data: Data) -> Setup:
    """Return what a row is carried out with."""
    setup = data["setup"]
    unread = sorted(set(setup) - _READ)
    if unread:
        missing(f"nothing reads its setup's {', '.join(unread)}")
    sessions, bodies = sessions_of(data), _bodies(data)
    if "outcome" in setup and not sessions:
        missing(f"it does not hold its sessions, only {setup['outcome']!r}")
    names, runners = _names(setup), _runners(data)
    timeouts = _timeouts(setup)
    is_lanes = setup.get("schedule") == "isolated-by-runner"
    files, workspace = _workspace_files(setup)
    default = setup.get("defaults", {}).get("timeoutMs")
    return Setup(
        suite=_suite(data, bodies, sessions, timeouts, workspace),
        runners=runners,
        options=_options(setup),
        acts=dict(_acts(setup, sessions, names, runners)),
        files={**files, **_baselines(setup, runners[0])},
        runner={"concurrency": 1} | ({"timeout_s": timeouts[default] / 1000} if default else {}),
        sleep="1.2" if len(timeouts) > 1 else "0.3" if is_lanes else "0",
        output="" if "output.notEmpty" in " ".join(bodies_text(setup)) else "call-'$n/$2' '\"$seen\"'",
        session=setup.get("sessionId", "ses_1"),
    )


def bodies_text(setup: Data) -> list[str]:
    """Return the texts of a setup that say what a check does."""
    given = (setup.get(name) for name in ("assert", "soft", "hard", *_ORDER))
    return [text for each in given if each for text in ([each] if isinstance(each, str) else each)]


def _names(setup: Data) -> tuple[str, ...]:
    ordered = tuple(name for name in _ORDER if name in setup)
    listed = tuple(case if isinstance(case, str) else case["id"] for case in setup.get("cases", ()))
    return ordered or listed or ("alpha",)


def _runners(data: Data) -> tuple[str, ...]:
    recorded = dict.fromkeys(runner for _, runner, _ in results_of(data))
    return tuple(data["setup"].get("runners", recorded)) or ("open-main",)


def _options(setup: Data) -> tuple[str, ...]:
    words = [word for key, option in _OPTIONS.items() if key in setup for word in (option, str(setup[key]))]
    words += [word for tag in setup.get("tags", ()) for word in ("--tag", tag)]
    words += ["--concurrency", "1"] * (setup.get("schedule") == "serial")
    words += ["--update-snapshots"] * bool(setup.get("snapshots", {}).get("updateSnapshots"))
    return tuple(words)


def _timeouts(setup: Data) -> dict[int, int]:
    """Return our limits by theirs: the shortest ends a session of 1.2 s, no other does."""
    own = [case.get("timeoutMs") for case in setup.get("cases", ()) if isinstance(case, dict)]
    limits = sorted({each for each in (*own, setup.get("defaults", {}).get("timeoutMs")) if each})
    return {each: 400 if at == 0 and len(limits) > 1 else 30_000 + at for at, each in enumerate(limits)}


def _acts(setup: Data, sessions: Sessions, names: Sequence[str], runners: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what the program does at each call, in words of the shell."""
    for case, runner in ((case, runner) for case in names for runner in runners):
        recorded = sessions.get(f"{case}:{runner}", ())
        for at, each in enumerate(recorded):
            lines = []
            tokens = _tokens(setup, each, at)
            if tokens is not None:
                lines.append(f"tokens={tokens}")
            origin = each.get("failureOrigin")
            if origin == "runner":
                lines.append(f"echo {json.dumps(each['error']['message'])} >&2; exit 1")
            elif origin not in (None, "assertion", "assert-hook", "snapshot"):
                missing(f"no program fails with the origin {origin!r}")
            yield f"{case}-{runner}-{at + 1}", "\n".join(lines)


def _tokens(setup: Data, session: Data, at: int) -> int | None:
    if "totalTokens" in setup:
        return None if setup["totalTokens"] is None else int(setup["totalTokens"])
    listed = setup.get("totalTokens_per_repetition")
    tokens = listed[min(at, len(listed) - 1)] if listed else session.get("usage", {}).get("totalTokens")
    return None if tokens is None else int(tokens)


def _baselines(setup: Data, runner: str) -> dict[str, str]:
    values = dict(setup.get("existing_entries", {}))
    if "baseline" in setup:
        values[f"alpha::{runner}"] = setup["baseline"]
    metric = setup.get("snapshots", {}).get("metric", "totalTokens")
    entries = {
        key: {**dict(zip(("caseId", "runnerId"), key.split("::"), strict=True)), "metric": metric, "value": value}
        for key, value in values.items()
    }
    return {"cases.snapshots.json": json.dumps({"version": 1, "entries": entries})} if entries else {}


def _workspace_files(setup: Data) -> tuple[dict[str, str], Data]:
    """Return files beside the suite, and the workspace with their paths; a script of a bootstrap leaves a mark."""
    workspace = json.loads(json.dumps(setup.get("workspace", {})).replace("<tmp>/", "./"))
    template = Path(workspace.get("templateDir", "."))
    files = {str(template / name): text for name, text in setup.get("template", {}).items()}
    for word in workspace.get("bootstrap", {}).get("args", ()):
        if word.startswith("./"):
            files[word] = "echo booted > booted.txt\n"
    return files, workspace


def _suite(
    data: Data, bodies: Mapping[str, str], sessions: Sessions, timeouts: Mapping[int, int], workspace: Data
) -> str:
    setup = data["setup"]
    recorded = {
        name: [(each.get("failureOrigin"), each.get("error", {}).get("message")) for each in calls]
        for name, calls in sessions.items()
    }
    names = _names(setup)
    given = {case["id"]: case for case in setup.get("cases", ()) if isinstance(case, dict)}
    checks = dict.fromkeys(names, "as_recorded" if "outcome" in setup else "passes")
    text = _HEAD.format(sessions=recorded)
    for at, (name, body) in enumerate(bodies.items()):
        text += f"def check_{at}(report, ctx):\n{body}\n\n"
        checks[name] = f"check_{at}"
    cases = ", ".join(_case(name, given.get(name, {}), checks[name], timeouts) for name in names)
    text += f"suite = [{cases}]\n"
    text += f"workspace = {workspace!r}\n" if workspace else ""
    if "snapshots" in setup:
        metric = re.sub(
            r"([A-Z])", lambda found: "_" + found[1].lower(), setup["snapshots"].get("metric", "totalTokens")
        )
        text += f"snapshots = { ({'metric': metric, 'tolerance': setup['snapshots'].get('tolerance', {})})!r}\n"
    return text


def _case(name: str, given: Data, check: str, timeouts: Mapping[int, int]) -> str:
    unread = sorted(set(given) - {"id", "timeoutMs", *_FIELDS})
    if unread:
        missing(f"nothing reads the field {unread[0]} of its case {name}")
    fields = {"prompt": "2", **{ours: given[theirs] for theirs, ours in _FIELDS.items() if theirs in given}}
    if given.get("timeoutMs"):
        fields["timeout_ms"] = timeouts[given["timeoutMs"]]
    words = "".join(f", {key}={value!r}" for key, value in fields.items())
    return f"Case(id={name!r}, check={check}{words})"


def _bodies(data: Data) -> dict[str, str]:
    """Return the body of the check of each case whose row says what its check does."""
    setup = data["setup"]
    ordered = [name for name in _ORDER if name in setup]
    if ordered:
        return {name: _body(setup[name], data) for name in ordered}
    lines = [
        _body(text if isinstance(text, str) else " ".join(text), data, soft=True) for text in _listed(setup, "soft")
    ]
    lines += [_body(setup[name], data) for name in ("assert", "assert_raises", "hard") if name in setup]
    return {_names(setup)[0]: "\n".join(lines)} if lines else {}


def _listed(setup: Data, name: str) -> list[Any]:
    given = setup.get(name, [])
    return [given] if isinstance(given, str) else list(given)


def _body(text: str, data: Data, *, soft: bool = False) -> str:
    """Return the lines of a check that a row describes so."""
    if text == "no assertions":
        return "    pass"
    if text == "one soft failure":
        return "    soft.output.includes(report, 'nothing of this', message='soft failure')"
    raised, classified = _RAISED.fullmatch(text), _CLASSIFIED.match(text)
    if raised is not None:
        error = "AssertionError" if raised["error"] == "AssertionError" else "RuntimeError"
        return f"    raise {error}({raised['message']!r})"
    if classified is not None:
        fields = dict(re.findall(r"(id|label): ([^,}]+)", classified["class"])) or {
            "id": classified["class"].strip("\"'")
        }
        message = data["asserted"].get("error_contains", "a failing check")
        return (f"    with classify({fields!r}):\n"
                f"        output.includes(report, 'nothing of this', message={message!r})")  # fmt: skip
    calls = list(_HELPER.finditer(text))
    if not calls:
        missing(f"nothing reads the check {text!r}")
    return "\n".join(_call(found, _question(found, at, text, data), soft) for at, found in enumerate(calls))


def _question(found: re.Match[str], at: int, text: str, data: Data) -> str | None:
    if "each with explain.question" not in text:
        return found["question"]
    return str(data["asserted"]["questions_in_order"][at])


def _call(found: re.Match[str], question: str | None, soft: bool) -> str:
    snake = [_snake(found[name]) for name in ("group", "helper")]
    prefix = "soft." if found["kind"] == "soft" or (soft and found["kind"] is None) else ""
    arguments = ["report"]
    if found["value"] is not None or found["helper"] != "notEmpty":
        arguments.append(repr(found["value"] or "nothing of this"))
    arguments += [
        f"{name}={value!r}" for name, value in (("message", found["message"]), ("explain", question)) if value
    ]
    return f"    {prefix}{'.'.join(snake)}({', '.join(arguments)})"


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)
