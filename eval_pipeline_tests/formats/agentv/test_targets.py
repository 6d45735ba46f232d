"""AgentV's targets file: which provider becomes which runner, and what is said of an entry that cannot be used."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval_pipeline.agents.adapter import Agent
from eval_pipeline.errors import InputErrors
from eval_pipeline.executions.model import RetryPolicy, Runner
from eval_pipeline.executions.runners import UnusableRunner, load_runners, require_environment
from eval_pipeline.reports.normalize import normalize
from eval_pipeline_tests.builders import a_call, a_case, a_plan, an_execution

KEY = {"KEY": "sk-123456"}


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def targets(*entries: str, file: str = "targets.yaml", **environment: str) -> dict[str, Runner]:
    """The runners of a targets file with these entries, each a block of lines."""
    blocks = [f"  -\n{indent(entry.strip(), '    ')}\n" for entry in entries]
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text("targets:\n" + "".join(blocks), encoding="utf-8")
    return {runner.name: runner for runner in load_runners(Path(file), environment)}


def target(entry: str, **environment: str) -> Runner:
    for program in (Path("codex"), Path("copilot"), Path("work", "codex")):
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    runner = targets(f"name: t\n{entry}", **environment)["t"]
    require_environment([runner])
    return runner


def problem_of(entry: str, **environment: str) -> str:
    with pytest.raises(InputErrors) as raised:
        target(entry, **environment)
    return str(raised.value)


@pytest.mark.parametrize(
    ("entry", "settings"),
    [
        pytest.param("provider: openai\nmodel: m", {"model": "m"}, id="openai"),
        pytest.param("provider: openai\nmodel: m\nendpoint: http://127.0.0.1:1/v1\napi_format: responses",
                     {"model": "m", "base_url": "http://127.0.0.1:1/v1", "api_format": "responses"}, id="responses"),
        pytest.param("provider: azure\nresource: mine\ndeployment: d\nversion: v1",
                     {"wire": "azure", "base_url": "mine", "model": "d", "api_version": "v1"}, id="azure"),
        pytest.param("provider: azure-openai\nendpoint: http://127.0.0.1:1\nmodel: d",
                     {"wire": "azure", "base_url": "http://127.0.0.1:1", "model": "d"}, id="azure by its other name"),
        pytest.param("provider: openrouter\nmodel: a/m", {"wire": "openrouter", "model": "a/m"}, id="openrouter"),
        pytest.param("provider: anthropic\nmodel: m\nmax_output_tokens: 2000\nthinking_budget: 1024",
                     {"wire": "anthropic", "model": "m", "max_output_tokens": 2000, "thinking_budget": 1024},
                     id="anthropic"),
        pytest.param("provider: anthropic\ndeployment: m", {"wire": "anthropic", "model": "m"}, id="deployment"),
        pytest.param("provider: gemini", {"wire": "gemini", "model": "gemini-2.5-flash"}, id="gemini"),
        pytest.param("provider: google-gemini\nmodel: m\ntemperature: 0", {"wire": "gemini", "model": "m",
                     "temperature": 0}, id="gemini by its other name"),
        pytest.param("provider: bedrock\nmodel: m\nregion: eu-west-1", {"wire": "bedrock", "model": "m",
                     "region": "eu-west-1"}, id="bedrock"),
        pytest.param("provider: vertex\nmodel: m\nproject: p\nlocation: eu", {"wire": "vertex", "model": "m",
                     "project": "p", "region": "eu"}, id="vertex"),
        pytest.param("provider: Google\nmodel: m", {"wire": "gemini", "model": "m"}, id="in capitals"),
    ],
)  # fmt: skip
def test_a_models_target_is_a_chat_runner(entry: str, settings: dict[str, Any]) -> None:
    runner = target(f"{entry}\napi_key: ${{{{ KEY }}}}", **KEY)

    assert (runner.adapter, runner.secrets) == ("chat", ("sk-123456",))
    assert runner.settings == {**settings, "api_key": "sk-123456"}


def test_what_targets_have_in_common_is_what_runners_have_in_common() -> None:
    runner = targets(
        "name: t\nprovider: openai\nmodel: m\nworkers: 4\ntimeout_seconds: 30\ngrader_target: judge\n"
        "fallback_targets: [judge]\nsubagent_mode_allowed: false\nmax_retries: 2\nretry_initial_delay_ms: 250\n"
        "retry_max_delay_ms: 4000\nretry_backoff_factor: 3\nretry_status_codes: [429, 503]",
        "name: judge\nprovider: mock",
    )["t"]

    assert (runner.concurrency, runner.timeout_s, runner.grader, runner.fallbacks) == (4, 30.0, "judge", ("judge",))
    assert runner.retries == RetryPolicy(
        max_retries=2, initial_delay_s=0.25, max_delay_s=4.0, factor=3.0, statuses=(429, 503)
    )


def test_a_deprecated_name_of_the_grader_is_read_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        runner = targets("name: t\nprovider: mock\njudge_target: j", "name: j\nprovider: mock")["t"]

    assert runner.grader == "j"
    assert caplog.messages == [
        "targets.yaml:5: targets[0].judge_target: 'judge_target' is deprecated, write 'grader_target'"
    ]


# Values from the environment.


def test_an_optional_setting_whose_variable_is_not_set_is_not_set() -> None:
    optional = "endpoint: ${{ URL }}\ntemperature: ${{ HEAT }}\nworkers: ${{ MANY }}\ngrader_target: ${{ JUDGE }}"

    runner = target(f"provider: openai\nmodel: m\n{optional}\nmax_output_tokens:")

    assert (runner.settings, runner.unset) == ({"model": "m"}, ())
    assert (runner.concurrency, runner.grader) == (None, None)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        pytest.param("provider: openai\nmodel: m\napi_key: ${{ NEEDED }}", "NEEDED", id="key"),
        pytest.param("provider: anthropic\nmodel: ${{ NEEDED }}", "NEEDED", id="model"),
        pytest.param("provider: azure\nmodel: m\nendpoint: ${{ NEEDED }}", "NEEDED", id="address of azure"),
        pytest.param("provider: cli\ncommand: ${{ NEEDED }}", "NEEDED", id="command"),
        pytest.param("provider: codex\nargs: [--profile, '${{ NEEDED }}']", "NEEDED", id="an argument"),
    ],
)
def test_a_needed_setting_whose_variable_is_not_set_matters_when_the_target_is_used(entry: str, name: str) -> None:
    assert targets(f"name: t\n{entry}")["t"].unset == (name,)
    assert f"runner 't' needs the environment variable {name}; export it or put it into .env" in problem_of(entry)


def test_a_number_from_the_environment_is_a_number() -> None:
    entry = "provider: openai\nmodel: ${{ M }}\ntemperature: ${{ T }}\nworkers: ${{ W }}\nretry_max_delay_ms: ${{ D }}"

    runner = target(entry, M="4", T="0.5", W="7", D="2000")

    assert runner.settings == {"model": "4", "temperature": 0.5}
    assert (runner.concurrency, runner.retries.max_delay_s) == (7, 2.0)


def test_a_target_may_use_another_that_the_environment_names() -> None:
    runners = targets(
        "name: default\nuse_target: ${{ WHICH }}\nworkers: 2",
        "name: cheap\nprovider: openai\nmodel: small",
        "name: dear\nprovider: openai\nmodel: large\nworkers: 9",
        WHICH="dear",
    )

    assert (runners["default"].model, runners["default"].concurrency) == ("large", 2)


def test_targets_that_use_each_other_in_a_circle_name_the_chain() -> None:
    runners = targets("name: a\nuse_target: b", "name: b\nuse_target: a", "name: c\nprovider: mock")

    require_environment([runners["c"]])
    with pytest.raises(InputErrors, match=r"targets.yaml:4: targets\[0\].use_target: 'a' uses itself: a → b → a"):
        require_environment([runners["a"]])


# Programs and agents.


def test_a_cli_target_is_a_command_runner_that_is_tried_three_times() -> None:
    runner = target(
        "provider: cli\ncommand: 'agent {PROMPT} {ATTEMPT} > {OUTPUT_FILE}'\ntimeout_seconds: 90\ncwd: sub\n"
        "files_format: '--file {path}'\nkeep_temp_files: true\nverbose: true\nhealthcheck: {command: 'true'}"
    )

    assert (runner.adapter, runner.timeout_s) == ("command", 90.0)
    assert runner.settings == {
        "command": "agent {PROMPT} {RETRY} > {OUTPUT_FILE}", "cwd": "sub", "files_format": "--file {path}",
        "healthcheck": {"command": "true"}, "retry_failures": True,
    }  # fmt: skip
    assert runner.retries == RetryPolicy(max_retries=2, initial_delay_s=1.0, max_delay_s=30.0, jitter=0.0)


@pytest.mark.parametrize("key", ["provider_batching", "batch_requests"])
def test_a_cli_target_may_take_all_tests_in_one_run(key: str) -> None:
    assert target(f"provider: cli\ncommand: x {{OUTPUT_FILE}}\n{key}: true").settings["batch"] is True


def test_programs_of_a_hidden_folders_file_run_beside_it() -> None:
    runner = targets("name: t\nprovider: cli\ncommand: cat", file=".agentv/targets.yaml")["t"]

    assert (runner.folder.name, runner.base) == (".agentv", runner.folder.parent)


CODEX = ["codex", "exec", "--json", "--skip-git-repo-check"]
CLAUDE = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
COPILOT = ["copilot", "-p={PROMPT}", "--output-format", "json", "--allow-all-tools", "--allow-all-paths",
           "--no-auto-update", "--no-ask-user"]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "words", "format_"),
    [
        pytest.param("provider: codex", [*CODEX, "--sandbox", "workspace-write", "-"], "codex", id="codex"),
        pytest.param("provider: codex-cli\nmodel: m\nargs: [--full-auto]\nexecutable: ./codex",
                     ["./codex", *CODEX[1:], "--model", "m", "--full-auto", "-"], "codex", id="codex, as told"),
        pytest.param("provider: codex\nmodel_reasoning_effort: low\nprovider_batching: false",
                     [*CODEX, "--sandbox", "workspace-write", "-c", "model_reasoning_effort=low", "-"], "codex",
                     id="codex that reasons little"),
        pytest.param("provider: codex\nargs: ['--sandbox=read-only']", [*CODEX, "--sandbox=read-only", "-"], "codex",
                     id="codex in its sandbox"),
        pytest.param("provider: claude", CLAUDE, "claude-code", id="claude"),
        pytest.param("provider: claude-sdk\nmodel: m\nmax_turns: 5\nmax_budget_usd: 0.5\nsystem_prompt: Be brief.",
                     [*CLAUDE, "--model", "m", "--max-turns", "5", "--max-budget-usd", "0.5", "--append-system-prompt",
                      "Be brief."], "claude-code", id="claude, as told"),
        pytest.param("provider: copilot", COPILOT, "copilot", id="copilot"),
    ],
)  # fmt: skip
def test_an_agent_is_a_command_that_asks_nobody(entry: str, words: list[str], format_: str) -> None:
    runner = target(f"{entry}\nlog_dir: logs\nlog_format: json\ntimeout_seconds: 60\ncwd: work")

    assert (runner.adapter, runner.timeout_s, runner.settings["cwd"]) == ("agent", 60.0, "work")
    command = Agent.equivalent(runner).settings
    assert (command["command"], command["format"], command["cwd"]) == (words, format_, "work")
    assert command.get("prompt") == (None if "{PROMPT}" in "".join(words) else "stdin")


PI = ["pi", "--mode", "json"]


@pytest.mark.parametrize(
    ("entry", "words", "variables"),
    [
        pytest.param("provider: pi-cli\nmodel: m", [*PI, "--model", "m", "-p"], {}, id="pi-cli"),
        pytest.param(
            "provider: pi-coding-agent\nsubprovider: openrouter\ntools: read,bash\nthinking: high\nargs: [--x]\n"
            "api_key: ${{ KEY }}\nsystem_prompt: Be brief.",
            [*PI, "--append-system-prompt", "Be brief.", "--provider", "openrouter", "--tools", "read,bash",
             "--thinking", "high", "--x", "-p"],
            {"OPENROUTER_API_KEY": "sk-123456"},
            id="pi as told",
        ),
        pytest.param(
            "provider: pi\nsubprovider: ${{ WHO }}\nbase_url: https://mine.example\napi_key: ${{ KEY }}",
            [*PI, "--provider", "azure-openai-responses", "-p"],
            {"AZURE_OPENAI_BASE_URL": "https://mine.example", "AZURE_OPENAI_API_KEY": "sk-123456"},
            id="pi with Azure",
        ),
        pytest.param(
            "provider: copilot-sdk\nsubprovider: openai\nbase_url: http://127.0.0.1:1/v1\napi_key: ${{ KEY }}\n"
            "api_format: responses\ncli_path: ./copilot",
            ["./copilot", *COPILOT[1:]],
            {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:1/v1",
             "COPILOT_PROVIDER_API_KEY": "sk-123456", "COPILOT_PROVIDER_WIRE_API": "responses"},
            id="Copilot with models of its own (4.42)",
        ),
        pytest.param(
            "provider: copilot-sdk\ngithub_token: ${{ KEY }}\nbyok:\n  type: azure\n  base_url: http://a\n"
            "  api_version: v1\n  bearer_token: ${{ KEY }}",
            COPILOT,
            {"COPILOT_PROVIDER_TYPE": "azure", "COPILOT_PROVIDER_BASE_URL": "http://a",
             "COPILOT_PROVIDER_AZURE_API_VERSION": "v1", "COPILOT_PROVIDER_BEARER_TOKEN": "sk-123456",
             "COPILOT_GITHUB_TOKEN": "sk-123456"},
            id="Copilot with models of its own (4.9)",
        ),
    ],
)  # fmt: skip
def test_an_agent_with_models_of_another_provider(entry: str, words: list[str], variables: dict[str, str]) -> None:
    runner = target(entry, **KEY, WHO="azure")

    command = Agent.equivalent(runner).settings
    set_by_us = {name: value for name, value in command.get("env", {}).items() if name != "PI_TELEMETRY"}
    assert (command["command"], set_by_us) == (words, variables)
    assert "sk-123456" not in str(runner.public_settings)


def test_an_agent_of_a_hidden_folders_file_works_beside_it() -> None:
    runner = targets("name: t\nprovider: codex", file=".agentv/targets.yaml")["t"]

    assert runner.settings == {"agent": "codex", "cwd": ".."}


SAYS_LIKE_CODEX = """
echo '{"type": "thread.started", "thread_id": "t-1"}'
printf '{"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "%s"}}\\n' "$(cat)"
echo '{"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 0, "output_tokens": 4}}'
"""
SAYS_LIKE_CLAUDE = """
echo '{"type": "system", "subtype": "init", "session_id": "s-1", "cwd": "/w", "tools": []}'
printf '{"type": "result", "subtype": "success", "is_error": false, "result": "%s", "session_id": "s-1"}\\n' "$(cat)"
"""
SAYS_LIKE_COPILOT = """
printf '{"type": "assistant.message", "data": {"content": "%s"}, "id": "1"}\\n' "${1#-p=}"
echo '{"type": "result", "data": {}, "sessionId": "s-1", "exitCode": 0}'
"""


@pytest.mark.parametrize(
    ("provider", "script"),
    [("codex", SAYS_LIKE_CODEX), ("claude", SAYS_LIKE_CLAUDE), ("copilot-cli", SAYS_LIKE_COPILOT)],
    ids=["codex", "claude", "copilot"],
)
def test_an_agent_gets_its_prompt_and_what_it_prints_is_read(tmp_path: Path, provider: str, script: str) -> None:
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh{script}", encoding="utf-8")
    agent.chmod(0o755)
    runner = target(f"provider: {provider}\nexecutable: ./agent")
    plan = a_plan(a_case(text="say 4"), runner)

    raw = asyncio.run(Agent(runner).execute(a_call(tmp_path / "files", plan)))

    report = normalize(an_execution(plan, raw=raw), plan.case, runner)
    assert (report.final_output, report.failure_class) == ("say 4", None)


def test_what_codex_is_to_heed_stands_before_every_prompt() -> None:
    assert target("provider: codex\nsystem_prompt: Be brief.").settings["system"] == "Be brief."


def test_a_provider_may_be_a_script_of_the_projects() -> None:
    script = Path(".agentv/providers/mine.ts").absolute()
    script.parent.mkdir(parents=True)
    script.write_text("", encoding="utf-8")

    runner = target("provider: mine\ntimeout_seconds: 5")

    assert runner.settings["command"] == ["bun", "run", str(script), "{PROMPT}"]
    assert target("provider: mine\ncommand: run {PROMPT}").settings["command"] == "run {PROMPT}"


# Answers that are there already.


def test_a_mock_answers_something_whether_told_or_not() -> None:
    assert target("provider: mock\nresponse: hello").settings == {"response": "hello"}
    assert target("provider: mock").settings["response"].startswith("{")


@pytest.mark.parametrize(
    "entry",
    [
        "provider: replay\nfixtures: runs.jsonl\nsource_target: live\nvariant: v1",
        "provider: replay\ntranscripts: runs.jsonl",
        "provider: transcript\npath: runs.jsonl",
    ],
)
def test_recorded_answers_are_a_replay(entry: str) -> None:
    Path("runs.jsonl").write_text("", encoding="utf-8")

    runner = target(entry)

    assert (runner.adapter, runner.settings["recording"]) == ("replay", "runs.jsonl")


def test_a_recorded_session_is_named_by_its_folder() -> None:
    Path("session").mkdir()
    Path("session/events.jsonl").write_text("", encoding="utf-8")

    runner = target("provider: copilot-log\nsession_dir: session\nlog_dir: logs")

    assert (runner.adapter, runner.settings) == ("copilot-log", {"session_dir": "session"})


# What cannot be used.


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        pytest.param("provider: opneai", "targets.yaml:4: targets[0].provider: no provider 'opneai'; there are:"
                     " anthropic, azure,", id="provider"),
        pytest.param("provider: opneai", ".agentv/providers/opneai.ts, or a 'command'; did you mean 'openai'?",
                     id="near provider"),
        pytest.param("model: m", "targets[0].provider: a target needs a provider; there are: anthropic, azure,",
                     id="no provider"),
        pytest.param("provider: vscode", "targets.yaml:4: targets[0].provider: provider 'vscode' is not supported yet:"
                     " run it by 'provider: cli'", id="not yet"),
        pytest.param("provider: agentv", "is not supported yet: name a model instead", id="agentv"),
        pytest.param("provider: pi\nsubprovider: openrouter\nbase_url: http://a", "targets.yaml:6: targets[0].base_url:"
                     " pi's command takes another address for 'subprovider: azure' only", id="address of pi"),
        pytest.param("provider: copilot-sdk\ncli_url: http://a", "targets.yaml:5: targets[0].cli_url: a server that"
                     " runs already cannot be used", id="a running Copilot"),
        pytest.param("provider: cli\ncomand: x", "targets.yaml:5: targets[0].comand: 'cli' has no such setting; there"
                     " are: batch_requests, command, cwd,", id="setting"),
        pytest.param("provider: cli\ncomand: x", "; did you mean 'command'?", id="near setting"),
        pytest.param("provider: openai\nmodel: m\nmaxRetries: 2", "targets.yaml:6: targets[0].maxRetries: is not read"
                     " any more: write 'max_retries'", id="camel case"),
        pytest.param("provider: cli\nworkspace_template: ./x", "targets[0].workspace_template: is not read any more:"
                     " give the eval file a 'workspace' with a 'template'", id="workspace"),
        pytest.param("provider: cli\nworkspaceTemplate: ./x", "give the eval file a 'workspace' with a 'template'",
                     id="workspace in camel case"),
        pytest.param("provider: openai\nmodel: m\napi_key: sk-in-plain", "targets.yaml:6: targets[0].api_key: a key"
                     " does not belong into this file: put it into the environment or .env, and write api_key:"
                     " ${{ ITS_NAME }}", id="key"),
        pytest.param("provider: openai\nmodel: m\nprovider_batching: true", "targets[0].provider_batching: only"
                     " 'provider: cli' can take all tests in one run, not 'openai'", id="batching"),
        pytest.param("provider: cli\ncommand: x\nmax_retries: 2", "targets[0].max_retries: 'cli' has no such setting",
                     id="retries of a program"),
        pytest.param("provider: cli\ncommand: x {INPUT_FILE}", "targets.yaml:5: targets[0].command: unknown placeholder"
                     " {INPUT_FILE}; there are: {PROMPT}, {PROMPT_FILE},", id="placeholder"),
        pytest.param("provider: cli\ncommand: x {OUTPUT_FIL}", "{OUTPUT_FILE}; did you mean 'OUTPUT_FILE'?",
                     id="near placeholder"),
        pytest.param("provider: cli\ncommand: x\ntimeout_seconds: 0", "targets.yaml:6: targets[0].timeout_seconds:"
                     " expected a number above 0, got a number (0)", id="time limit"),
        pytest.param("provider: mock\nworkers: 0", "targets[0].workers: expected a whole number of at least 1",
                     id="workers"),
        pytest.param("provider: openai\nmodel: m\nmax_retries: -1", "targets[0].max_retries: expected a whole number",
                     id="retries"),
        pytest.param("provider: openai\nendpoint: ftp://x\nmodel: m", "targets.yaml:5: targets[0].endpoint: expected an"
                     " http:// or https:// address", id="address"),
        pytest.param("provider: mock\nfallback_targets: [nobody]", "targets[0].fallback_targets: no runner 'nobody';"
                     " there are: t", id="fallback"),
        pytest.param("provider: cli\ncommand: x\nhealthcheck: {urll: x}", "targets[0].healthcheck: expected a mapping"
                     " with either url or command", id="healthcheck"),
        pytest.param("provider: cli\ncommand: x\nhealthcheck: {command: x, wait: 3}", "targets[0].healthcheck.wait: no"
                     " setting 'wait'; there are: command, cwd, timeout_seconds, type, url", id="of a healthcheck"),
        pytest.param("provider: cli\ncommand: x\nhealthcheck: {url: localhost}", "targets[0].healthcheck.url: expected"
                     " an http:// or https:// address, got 'localhost'", id="address of a healthcheck"),
        pytest.param("provider: replay\nfixtures: none.jsonl", "targets.yaml:5: targets[0].fixtures: no recording at"
                     " none.jsonl", id="recording"),
        pytest.param("provider: replay\nexecution_traces: x", "targets[0].execution_traces: is not read any more: name"
                     " the recorded answers under 'fixtures' or 'transcripts'", id="traces"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_target_is_said(entry: str, problem: str) -> None:
    assert problem in problem_of(entry)


@pytest.mark.parametrize("entry", ["t", "[t]", "{provider: mock}"])
def test_a_target_without_a_name_is_said_of_the_file(entry: str) -> None:
    with pytest.raises(InputErrors, match=r"targets.yaml:3: targets\[0\]"):
        targets(entry)


def test_a_target_that_cannot_be_used_leaves_the_others_usable() -> None:
    runners = targets("name: a\nprovider: vscode", "name: b\nprovider: mock", "name: c\nprovider: cli")

    require_environment([runners["b"]])
    with pytest.raises(InputErrors) as raised:
        require_environment(runners.values())
    assert [error.place.line for error in raised.value.errors] == [4, 9]


PROVIDERS = ["openai", "azure", "gemini", "cli", "codex", "claude", "copilot-log", "mock", "replay", "own", "vscode"]
KEYS = [
    "command", "model", "api_key", "workers", "grader_target", "fallback_targets", "use_target", "healthcheck",
    "timeout_seconds", "args", "cwd", "responses", "fixtures", "max_retries", "retry_status_codes", "maxRetries",
]  # fmt: skip
TEXTS = ["", "x", "a", "b", "${{ SET }}", "${{ UNSET }}", "{PROMPT} '{FILES}", "{NOBODY}", "http://127.0.0.1:1"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(TEXTS)
PARTS = st.sampled_from(["url", "command", "cwd", "timeout_seconds", "x"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(PARTS, inner, max_size=2), max_leaves=4
)
ENTRIES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(entries=st.lists(st.tuples(st.sampled_from(PROVIDERS), ENTRIES), min_size=1, max_size=2))
def test_whatever_targets_say_each_is_a_runner_or_an_error_with_a_place(entries: list[tuple[str, Any]]) -> None:
    named = [{**entry, "name": "ab"[i], "provider": provider} for i, (provider, entry) in enumerate(entries)]
    Path("targets.yaml").write_text(yaml.safe_dump({"targets": named}), encoding="utf-8")

    runners = load_runners(Path("targets.yaml"), {"SET": "7"})

    assert [runner.name for runner in runners] == [entry["name"] for entry in named]
    problems = [runner.problem for runner in runners if isinstance(runner, UnusableRunner)]
    assert all(problem.place.file == "targets.yaml" and problem.place.line for problem in problems)


def test_the_secrets_of_a_cloud_account_are_secrets_of_the_runner() -> None:
    names = "access_key_id: ${{ ID }}\nsecret_access_key: ${{ SECRET }}\nsession_token: ${{ TOKEN }}"

    runner = target(
        f"provider: bedrock\nmodel: m\nregion: x\n{names}", ID="AKIDEXAMPLE", SECRET="s3cr3tkey", TOKEN="t0k3n-123"
    )

    assert {"s3cr3tkey", "t0k3n-123"} <= set(runner.secrets)


def test_copilots_sdk_is_the_command_that_it_drives() -> None:
    runner = target(f"provider: copilot-sdk\ncli_path: {sys.executable}\nmodel: m")

    assert (runner.adapter, runner.settings["agent"], runner.settings["executable"]) == (
        "agent", "copilot", sys.executable,
    )  # fmt: skip
