"""The runners file: what entries become, what is kept out of identity and storage, what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from eval_pipeline.errors import InputError, InputErrors, UnknownName
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.identity import runner_revision
from eval_pipeline.executions.model import RetryPolicy, Runner
from eval_pipeline.executions.runners import load_runners, require_environment, select_runners
from eval_pipeline_tests.builders import a_runner

KNOWN = ", ".join(ADAPTERS.names())
CHAT = "name: gpt\nadapter: chat\nbase_url: http://127.0.0.1:1/v1\nmodel: m"


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str, file: str = "runners.yaml", **environment: str) -> list[Runner]:
    Path(file).write_text(dedent(text), encoding="utf-8")
    return load_runners(Path(file), environment)


def entry(fields: str, more: str = "") -> str:
    """A runners file with one runner of these fields."""
    block = indent("\n".join(part for part in (dedent(fields).strip(), dedent(more).strip()) if part), "    ")
    return f"runners:\n  -\n{block}\n"


def load_one(fields: str, more: str = "", **environment: str) -> Runner:
    (runner,) = load(entry(fields, more), **environment)
    return runner


def errors_of(text: str, file: str = "runners.yaml", **environment: str) -> list[str]:
    """What is said when all runners of a file are used."""
    with pytest.raises((InputErrors, InputError)) as raised:
        require_environment(load(text, file, **environment))
    return str(raised.value).split("\n")


def test_a_runner_is_read(tmp_path: Path) -> None:
    runner = load_one(
        CHAT,
        """
        description: the usual one
        tags: [openai, cheap]
        timeout_s: 30
        concurrency: 50
        temperature: 0.5
        prices: {input_per_million: 1, output_per_million: 2.5}
        """,
    )

    assert runner == Runner(
        name="gpt",
        adapter="chat",
        settings={"base_url": "http://127.0.0.1:1/v1", "model": "m", "temperature": 0.5},
        public_settings={"base_url": "http://127.0.0.1:1/v1", "model": "m", "temperature": 0.5},
        tags=("openai", "cheap"),
        folder=tmp_path,
        timeout_s=30.0,
        concurrency=50,
        prices={"input_per_million": 1.0, "output_per_million": 2.5},
    )
    assert runner.model == "m"


def test_runners_keep_the_order_of_the_file() -> None:
    runners = load("""\
        runners:
          - {name: b, adapter: command, command: [cat]}
          - {name: a, adapter: command, command: cat}
        """)

    assert [runner.name for runner in runners] == ["b", "a"]


def test_relative_paths_begin_at_the_file() -> None:
    Path("deep").mkdir()

    (runner,) = load("runners: [{name: a, adapter: command, command: cat}]", "deep/runners.yaml")

    assert runner.folder == Path("deep").absolute()


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        pytest.param("", RetryPolicy(), id="by default"),
        pytest.param("retries: 2", RetryPolicy(max_retries=2), id="a number"),
        pytest.param("retries: 0", RetryPolicy(max_retries=0), id="none"),
        pytest.param("retries: {max_retries: 1, initial_delay_s: 0, factor: 3, jitter: 0.1}",
                     RetryPolicy(max_retries=1, initial_delay_s=0.0, factor=3.0, jitter=0.1), id="a policy"),
        pytest.param("retries: {factor: null}", RetryPolicy(), id="nothing said"),
        pytest.param("retries: {statuses: [429, 503]}", RetryPolicy(statuses=(429, 503)), id="statuses"),
    ],
)  # fmt: skip
def test_retries_are_a_number_or_a_policy(written: str, policy: RetryPolicy) -> None:
    assert load_one(CHAT, written).retries == policy


def test_placeholders_are_filled_in_from_the_environment() -> None:
    runner = load_one(CHAT.replace("model: m", "model: ${{ MODEL }}-${{SIZE}}"), MODEL="gpt", SIZE="mini")

    assert runner.settings["model"] == runner.public_settings["model"] == "gpt-mini"


@pytest.mark.parametrize(
    ("more", "public", "secrets"),
    [
        pytest.param("api_key: ${{ KEY }}", {"api_key": "***"}, ("sk-123456",), id="a key from the environment"),
        pytest.param("api_key: sk-in-plain", {"api_key": "***"}, ("sk-in-plain",), id="a key in the file"),
        pytest.param("headers: {X-Api-Key: sk-in-plain}", {"headers": {"X-Api-Key": "***"}}, ("sk-in-plain",),
                     id="a header"),
        pytest.param("headers: {Authorization: Bearer sk-in-plain}", {"headers": {"Authorization": "***"}},
                     ("Bearer sk-in-plain", "sk-in-plain"), id="a bearer"),
        pytest.param("body: {extra: [{client_secret: s3cret-s3cret}]}", {"body": {"extra": [{"client_secret": "***"}]}},
                     ("s3cret-s3cret",), id="deep inside"),
        pytest.param("headers: {X-Custom: '${{ MY_TOKEN }}'}", {"headers": {"X-Custom": "***"}}, ("tok-123456",),
                     id="a variable that is called a secret"),
        pytest.param("headers: {X-Custom: 'v1 ${{ MY_TOKEN }} ${{ REGION }}'}", {"headers": {"X-Custom": "***"}},
                     ("v1 tok-123456 eu", "tok-123456"), id="a header of any name"),
        pytest.param("system: 'v1 ${{ MY_TOKEN }} ${{ REGION }}'", {"system": "v1 *** eu"},
                     ("tok-123456",), id="a variable inside a text"),
        pytest.param("api_key: ''", {"api_key": ""}, (), id="no key"),
        pytest.param("max_tokens: 100", {"max_tokens": 100}, (), id="a count of tokens"),
        pytest.param("body: {max_tokens: '100'}", {"body": {"max_tokens": "100"}}, (), id="a count as text"),
        pytest.param("headers: {X-Region: '${{ REGION }}'}", {"headers": {"X-Region": "eu"}}, (), id="no secret"),
    ],
)  # fmt: skip
def test_secrets_are_known_and_kept_out_of_what_is_public(
    more: str, public: dict[str, Any], secrets: tuple[str, ...]
) -> None:
    runner = load_one(CHAT, more, KEY="sk-123456", MY_TOKEN="tok-123456", REGION="eu")

    assert {key: runner.public_settings[key] for key in public} == public
    assert runner.secrets == secrets
    assert not any(secret in repr(runner.public_settings) for secret in secrets)


def test_a_new_key_is_the_same_runner() -> None:
    runners = [load_one(CHAT, "api_key: ${{ KEY }}", KEY=key) for key in ("sk-123456", "sk-abcdef")]

    assert len({runner_revision(runner) for runner in runners}) == 1


def test_secrets_are_not_shown_where_a_runner_is_shown() -> None:
    assert "sk-123456" not in repr(a_runner(secrets=("sk-123456",)))


def test_an_environment_that_is_not_set_matters_only_to_runners_that_are_used() -> None:
    runner, other = load(
        """\
        runners:
          - {name: gpt, adapter: chat, base_url: '${{ URL }}', model: m, headers: {X: '${{ KEY }} ${{ URL }}'}}
          - {name: cat, adapter: command, command: cat}
        """
    )

    assert (runner.unset, other.unset) == (("URL", "KEY"), ())
    require_environment([other])
    with pytest.raises(InputErrors) as raised:
        require_environment([runner, other])
    assert str(raised.value).split("\n") == [
        "runner 'gpt' needs the environment variable URL; export it or put it into .env",
        "runner 'gpt' needs the environment variable KEY; export it or put it into .env",
    ]


def test_a_variable_that_is_set_to_nothing_is_set() -> None:
    assert load_one(CHAT, "api_key: ${{ KEY }}", KEY="").unset == ()


@pytest.mark.parametrize(
    ("names", "tags", "chosen"),
    [
        ((), (), ["a", "b", "c"]),
        (("c", "a", "c"), (), ["c", "a"]),
        ((), ("cheap",), ["a", "b"]),
        ((), ("fast", "new"), ["b", "c"]),
        (("a", "c"), ("fast",), ["c"]),
        ((), ("unknown",), []),
    ],
)
def test_runners_are_chosen_by_name_and_tag(names: tuple[str, ...], tags: tuple[str, ...], chosen: list[str]) -> None:
    runners = [a_runner("a", tags=("cheap",)), a_runner("b", tags=("cheap", "new")), a_runner("c", tags=("fast",))]

    assert [runner.name for runner in select_runners(runners, names, tags)] == chosen


def test_a_runner_that_is_not_there_says_which_are() -> None:
    with pytest.raises(UnknownName, match=r"no runner 'gtp'; there are: claude, gpt; did you mean 'gpt'?"):
        select_runners([a_runner("gpt"), a_runner("claude")], ["gtp"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("runners: {}", "runners.yaml:1: expected a list under 'runners' (or, in AgentV's targets.yaml,"
                     " 'targets')", id="no list"),
        pytest.param("[]", "runners.yaml:1: expected a list under 'runners'", id="no mapping"),
        pytest.param("", "runners.yaml: expected a list under 'runners'", id="empty"),
        pytest.param("runners: [", "runners.yaml:2: not valid YAML", id="no YAML"),
        pytest.param("runners: [hello]", "runners.yaml:1: runners[0]: expected a runner (a mapping with name and"
                     " adapter)", id="no entry"),
        pytest.param(entry("adapter: chat"), "runners.yaml:3: runners[0].name: a runner's name has letters, digits,"
                     " '.', '_' and '-' only, got None", id="no name"),
        pytest.param(entry("name: a b\nadapter: chat"), "runners[0].name: a runner's name has letters, digits",
                     id="name"),
        pytest.param(entry("name: ../a\nadapter: chat"), "got '../a'", id="name that leads elsewhere"),
        pytest.param(entry("name: a"), f"runners[0].adapter: runner 'a' needs an adapter; there are: {KNOWN}",
                     id="no adapter"),
        pytest.param(entry("name: a\nadapter: chta"), f"runners.yaml:4: runners[0].adapter: no adapter 'chta'; there"
                     f" are: {KNOWN}; did you mean 'chat'?", id="adapter"),
        pytest.param(entry("name: a\nadapter: claude-code"), "; for the coding agent: `adapter: agent`, `agent:"
                     " claude-code`", id="agent for adapter"),
        pytest.param(entry("name: a\nadapter: claude"), "`agent: claude-code`", id="first word of an agent"),
        pytest.param(entry("name: a\nadapter: gemini-cli"), "`agent: gemini`", id="agent with a word more"),
        pytest.param(entry(CHAT, "temprature: 1"), "runners.yaml:7: runners[0].temprature: unknown setting; there"
                     " are: ", id="unknown setting"),
        pytest.param(entry(CHAT, "temprature: 1"), "; did you mean 'temperature'?", id="near setting"),
        pytest.param(entry(CHAT, "timeout_s: 0"), "runners.yaml:7: runners[0].timeout_s: expected a number above 0,"
                     " got a number (0)", id="timeout"),
        pytest.param(entry(CHAT, "timeout_s: " + "9" * 500), "timeout_s: expected a number above 0", id="huge"),
        pytest.param(entry(CHAT, "concurrency: 0"), "concurrency: expected a whole number of at least 1",
                     id="none at once"),
        pytest.param(entry(CHAT, "concurrency: many"), "expected a whole number of at least 1, got a text ('many')",
                     id="many"),
        pytest.param(entry(CHAT, "tags: {a: 1}"), "runners[0].tags: expected a list of texts", id="tags"),
        pytest.param(entry(CHAT, "retries: often"), "runners[0].retries: expected a number of retries or a mapping",
                     id="retries"),
        pytest.param(entry(CHAT, "retries: {max_retrys: 1}"), "runners[0].retries.max_retrys: no retry setting"
                     " 'max_retrys'; there are: factor, initial_delay_s, jitter, max_delay_s, max_retries,"
                     " max_retry_after_s, statuses; did you mean 'max_retries'?", id="retry setting"),
        pytest.param(entry(CHAT, "retries: {max_retries: -1}"), "retries.max_retries: expected a whole number of at"
                     " least 0, got a number (-1)", id="fewer than none"),
        pytest.param(entry(CHAT, "retries: {statuses: [200]}"), "retries.statuses: expected a list of HTTP statuses"
                     " from 400 to 599, got [200]", id="statuses"),
        pytest.param(entry(CHAT, "retries: {jitter: -1}"), "retries.jitter: expected a number of at least 0",
                     id="jitter"),
        pytest.param(entry(CHAT, "prices: 5"), "runners[0].prices: expected a mapping with some of: input_per_million",
                     id="prices"),
        pytest.param(entry(CHAT, "prices: {input: 5}"), "runners[0].prices.input: no price 'input'; there are: ",
                     id="price"),
        pytest.param(entry(CHAT.replace("http:", "ftp:")), "runners.yaml:5: runners[0].base_url: expected an http:// or"
                     " https:// address, got 'ftp://127.0.0.1:1/v1'", id="address"),
        pytest.param(entry(CHAT.replace(":1/", ":port/")), "runners[0].base_url: 'http://127.0.0.1:port/v1' is not an"
                     " address: Invalid port: 'port'", id="port"),
        pytest.param(entry(CHAT.replace("127.0.0.1:1", "")), "base_url: 'http:///v1' names no host", id="host"),
        pytest.param(entry(CHAT.replace("model: m", "model: 4")), "runners[0].model: expected a text, got a number (4)",
                     id="model"),
        pytest.param(entry(CHAT, "headers:\n  X-One: a\n  X Two: b"), "runners[0].headers: 'X Two' cannot be the name"
                     " of a header", id="header"),
        pytest.param(entry(CHAT, "headers:\n  X-One: a\n  X-Two: [1]"), "runners.yaml:9: runners[0].headers.X-Two:"
                     " expected a text, got a list", id="value of a header"),
        pytest.param(entry(CHAT, 'api_key: "k\\n"'), "runners.yaml:7: runners[0].api_key: holds a line break or another"
                     " control character", id="key with a line break"),
        pytest.param(entry(CHAT, "stream: often"), "runners[0].stream: expected true or false, got a text ('often')",
                     id="flag"),
        pytest.param(entry(CHAT, "body: 3"), "runners[0].body: expected a mapping, got a number (3)", id="body"),
        pytest.param(entry("name: a\nadapter: command"), "runners[0].command: expected a program with its arguments"
                     " (a list), or a shell line", id="command"),
        pytest.param(entry("name: a\nadapter: command\ncommand: run {PROMT}"), "runners[0].command: unknown placeholder"
                     " {PROMT}; there are: {PROMPT}, {PROMPT_FILE},", id="placeholder"),
        pytest.param(entry("name: a\nadapter: command\ncommand: cat\nprompt: mail"), "runners[0].prompt: expected"
                     " one of argument, stdin, file; got a text ('mail')", id="way of the prompt"),
        pytest.param(entry("name: a\nadapter: command\ncommand: cat\nprompt: file"), "runners[0].prompt: the command"
                     " does not contain {PROMPT_FILE}", id="file of the prompt"),
        pytest.param(entry("name: a\nadapter: command\ncommand: cat\nok_exit_codes: [one]"), "runners[0].ok_exit_codes:"
                     " expected a list of exit codes", id="exit codes"),
        pytest.param(entry("name: a\nadapter: replay\nrecording: none.jsonl"), "runners[0].recording: no recording at"
                     " none.jsonl", id="recording"),
        pytest.param(entry("name: a\nadapter: python\nfunction: solver"), "runners[0].function: expected"
                     " module:callable, got 'solver'", id="function"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_runners_file_is_said(text: str, problem: str) -> None:
    (message,) = errors_of(text)

    assert problem in message


def test_every_bad_entry_is_named_at_once() -> None:
    text = """\
        runners:
          - {name: a, adapter: command, command: cat}
          - {name: b, adapter: nothing}
          - {name: a, adapter: command, command: cat}
        """

    assert [message.partition(";")[0] for message in errors_of(text)] == [
        "runners.yaml:3: runners[1].adapter: no adapter 'nothing'",
        "runners.yaml:4: runners[2].name: two runners are named 'a'",
    ]


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: there is no such runners file"):
        load_runners(Path("nowhere.yaml"), {})


def test_a_secret_is_hidden_under_every_key_it_stands_under(tmp_path: Path) -> None:
    path = tmp_path / "runners.yaml"
    path.write_text(
        "runners:\n- name: r\n  adapter: command\n  command: [echo]\n"
        "  env: {API_KEY: '${{ MODEL_KEY }}', THE_ONE: 'x-${{ MODEL_KEY }}'}\n",
        encoding="utf-8",
    )

    (runner,) = load_runners(path, {"MODEL_KEY": "sk-0123456789abcdef"})

    assert runner.public_settings["env"] == {"API_KEY": "***", "THE_ONE": "x-***"}


# Runners that lean on others.

CAT = "{name: cat, adapter: command, command: cat, tags: [small]}"


def runners_of(*entries: str, **environment: str) -> dict[str, Runner]:
    lines = "".join(f"  - {item}\n" for item in entries)
    return {runner.name: runner for runner in load(f"runners:\n{lines}", **environment)}


def problems_of(*entries: str, **environment: str) -> list[str]:
    lines = "".join(f"  - {item}\n" for item in entries)
    return errors_of(f"runners:\n{lines}", **environment)


def test_a_runner_that_uses_another_has_its_settings_and_says_what_is_different() -> None:
    runners = runners_of(CAT, "{name: slow-cat, use: cat, timeout_s: 900}", "{name: dog, use: slow-cat, command: dog}")

    assert runners["slow-cat"].settings == {"command": "cat"}
    assert (runners["slow-cat"].tags, runners["slow-cat"].timeout_s) == (("small",), 900.0)
    assert (runners["dog"].settings, runners["dog"].timeout_s) == ({"command": "dog"}, 900.0)


def test_what_is_used_may_be_named_by_the_environment() -> None:
    assert runners_of(CAT, "{name: mine, use: '${{ WHICH }}'}", WHICH="cat")["mine"].settings == {"command": "cat"}


CHAIN = [f"{{name: r{number}, use: r{number + 1}}}" for number in range(12)]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        pytest.param(["{name: a, use: b}", CAT], "runners.yaml:2: runners[0].use: no runner 'b'; there are: a, cat",
                     id="nobody"),
        pytest.param(["{name: a, use: cta}", CAT], "; did you mean 'cat'?", id="nearly"),
        pytest.param(["{name: a, use: a}"], "runners[0].use: 'a' uses itself: a → a", id="itself"),
        pytest.param(["{name: a, use: b}", "{name: b, use: a}"], "runners[0].use: 'a' uses itself: a → b → a",
                     id="in a circle"),
        pytest.param([*CHAIN, "{name: r12, adapter: command, command: cat}"], "runners[0].use: more than 10 runners use"
                     " one another: r0 → r1 → r2", id="a long chain"),
        pytest.param(["{name: a, use: [cat]}", CAT], "runners[0].use: expected the name of a runner, got ['cat']",
                     id="several"),
        pytest.param(["{name: a, use: '${{ WHICH }}'}"], "runners[0].use: needs the environment variable WHICH; export"
                     " it or put it into .env", id="unset"),
        pytest.param(["{name: a, adapter: command, command: cat, grader: [cat, a]}", CAT], "runners[0].grader: expected"
                     " the name of one runner", id="several graders"),
        pytest.param(["{name: a, adapter: command, command: cat, fallbacks: [cat, dog]}", CAT], "runners[0].fallbacks:"
                     " no runner 'dog'; there are: a, cat", id="no fallback"),
        pytest.param(["{name: a, adapter: command, command: cat, fallbacks: a}"], "runners[0].fallbacks: 'a' cannot be"
                     " its own fallback", id="its own fallback"),
    ],
)  # fmt: skip
def test_a_runner_that_leans_on_what_is_not_there_says_so(entries: list[str], problem: str) -> None:
    assert problem in problems_of(*entries)[0]


def test_a_runner_names_its_grader_and_its_fallbacks() -> None:
    runners = runners_of(
        CAT,
        "{name: a, use: cat, grader: cat, fallbacks: [cat, '${{ OTHER }}']}",
        CAT.replace("name: cat", "name: dog"),
        OTHER="dog",
    )

    assert (runners["a"].grader, runners["a"].fallbacks) == ("cat", ("cat", "dog"))
    assert runners["a"].settings == {"command": "cat"}


def test_an_entry_that_is_wrong_leaves_the_others_usable() -> None:
    good, bad = load(f"runners:\n  - {CAT}\n  - {{name: b, adapter: nothing, tags: [odd]}}\n")

    require_environment([good])
    with pytest.raises(InputErrors, match=r"runners.yaml:3: runners\[1\].adapter: no adapter 'nothing'"):
        require_environment([good, bad])
    with pytest.raises(InputError, match="no adapter 'nothing'"):
        runner_revision(bad)
    assert (bad.name, bad.adapter, bad.tags) == ("b", "nothing", ("odd",))


def test_a_healthcheck_is_no_part_of_who_a_runner_is() -> None:
    plain, checked = (
        load_one("name: a\nadapter: command\ncommand: cat", more) for more in ("", "healthcheck: {command: x}")
    )

    assert runner_revision(plain) == runner_revision(checked)
