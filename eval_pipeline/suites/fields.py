"""The fields of a suite file, declared once for readers, docs and schemas.

The formats in `formats/` read them; another system's names are aliases here.
"""

from __future__ import annotations

from eval_pipeline.parsing.tables import (
    ANY,
    COUNT,
    FLAG,
    MAPPING,
    NAME,
    POSITIVE,
    SHARE,
    TEXT,
    TEXTS,
    WEIGHT,
    WHOLE,
    WORDS,
    Field,
    FieldTable,
    either,
    list_of,
    mapping_of,
    one_of,
)
from eval_pipeline.suites.model import INCOMPLETE
from eval_pipeline.suites.simulation_fields import DIFFICULTIES, MOCK, STATUSES, USER, WEIGHTS
from eval_pipeline.suites.solutions import SOLUTION
from eval_pipeline.suites.workspace import HISTORIES

STRATEGIES = ("pass_at_k", "pass_any", "pass_all", "mean", "confidence_interval")

REPEAT = FieldTable(
    "repeat",
    (
        Field("count", COUNT, "How often each case is carried out.", required=True),
        Field("strategy", one_of(*STRATEGIES), "How the repetitions of a case become one verdict.", "pass_at_k"),
        Field("cost_limit_usd", POSITIVE, "Stops the repetitions of a case when they have cost this much."),
        Field("on_failure", WHOLE, "How often each of them is tried again until it passes: all have to pass then."),
        Field("early_exit", FLAG, "Stops repeating a case as soon as its verdict is certain."),
    ),
    "How often a case is carried out, and how its repetitions become one verdict.",
)
_REPEAT = either(COUNT, mapping_of(REPEAT))


MESSAGE = FieldTable(
    "message",
    (
        Field("role", one_of("system", "user", "assistant", "tool"), "Who speaks.", required=True),
        Field("content", ANY, "A text, a list of parts (`type: text`, `file` or `image`, and `value`), or an object."),
        Field("name", TEXT, "The name of the tool that a `tool` message comes from."),
        Field("tool_calls", list_of(MAPPING), "The tool calls of an assistant."),
    ),
    "One message of a conversation.",
)
_MESSAGES = either(TEXT, MAPPING, list_of(MESSAGE))

EVALUATOR = FieldTable(
    "evaluator",
    (
        Field("type", TEXT, "The registered evaluator, or an author's own script of this name.", required=True),
        Field("name", TEXT, "The name of the score; by default made of the type and its value."),
        Field("weight", WEIGHT, "The weight of the score in the mean of the case.", 1.0),
        Field("required", either(FLAG, SHARE), "Makes the score a gate: true, or the least score (default 0.8)."),
        Field("min_score", SHARE, "The least score of a required evaluator."),
        Field("negate", FLAG, "Turns the score around: what passes fails.", default=False),
        Field("failure_class", TEXT, "The failure class of a case that this evaluator fails."),
        Field("include", TEXT, "The name or path of a template whose entries take the place of this one."),
    ),
    "An evaluator of a case; its further fields are the arguments of its type.",
    others=True,
)
EVALUATORS = list_of(EVALUATOR)
PREPROCESSOR = FieldTable(
    "preprocessor",
    (
        Field("type", TEXT, "The files that it reads: a suffix such as `xlsx`, or a media type.", required=True),
        Field("command", TEXTS, "The program with its arguments; the last one is a file beside the suite or above.",
              required=True),
    ),
    "A program that prints the text of a file that an answer consists of.",
)  # fmt: skip
_EVALUATORS = list_of(either(TEXT, mapping_of(EVALUATOR)))
_ASSERTIONS = Field(
    "assertions",
    _EVALUATORS,
    "The evaluators; a text is a criterion for a grader.",
    aliases=("assert", "evaluators"),
)

HOOK = FieldTable(
    "hook",
    (
        Field("command", TEXTS, "The program with its arguments: a list, or a text split at spaces (no shell).",
              aliases=("script",)),
        Field("timeout_ms", POSITIVE, "The longest that the hook may take (default 60 s before, 30 s after)."),
        Field("cwd", TEXT, "The folder in which the hook runs (default: the suite's)."),
        Field("reset", one_of("none", "fast", "strict"), "How the workspace is restored after the hook."),
    ),
    "A program that runs before or after all cases or each case.",
)  # fmt: skip
HOOKS = FieldTable(
    "hooks",
    (
        Field("before_all", mapping_of(HOOK), "Runs once, before the first case."),
        Field("before_each", mapping_of(HOOK), "Runs before each case."),
        Field("after_each", mapping_of(HOOK), "Runs after each case."),
        Field("after_all", mapping_of(HOOK), "Runs once, after the last case."),
        Field("enabled", FLAG, "Set to false to run no hook.", default=True),
    ),
    "Programs that prepare and clean up a workspace.",
)
RUNNER_CHOICE = FieldTable(
    "target",
    (
        Field("name", TEXT, "The name of a runner in the runners file, or a new one (with `use_target`).",
              required=True),
        Field("use_target", TEXT, "The runner that a new name stands for in this suite."),
        Field("hooks", mapping_of(HOOKS), "Programs that run for this runner, inside of the workspace's own hooks."),
    ),
    "A runner of the suite.",
)  # fmt: skip
REPOSITORY_SOURCE = FieldTable(
    "source",
    (
        Field("type", one_of("git", "local"), "Whether the repository is cloned from a URL or a local path.",
              required=True),
        Field("url", TEXT, "The URL of a git repository (`type: git`)."),
        Field("path", TEXT, "The path of a git repository on this machine (`type: local`)."),
    ),
)  # fmt: skip
CHECKOUT = FieldTable(
    "checkout",
    (
        Field("ref", TEXT, "The branch, tag or commit to check out."),
        Field("resolve", one_of("remote", "local"), "Where the reference is resolved.", "remote"),
        Field("ancestor", WHOLE, "How many commits before the reference to check out (0: the reference itself)."),
    ),
)
CLONE = FieldTable(
    "clone",
    (
        Field("depth", COUNT, "How many commits of history to fetch."),
        Field("filter", TEXT, "A partial clone filter of git, such as `blob:none`."),
        Field("sparse", TEXTS, "Folders or patterns of a sparse checkout."),
    ),
)
REPOSITORY = FieldTable(
    "repository",
    (
        Field("path", TEXT, "The place of the repository in the workspace.", required=True),
        Field("repo", TEXT, "A repository on GitHub (`owner/name`), or the URL of any other."),
        Field("commit", TEXT, "The commit to check out (with `repo`).", aliases=("base_commit",)),
        Field("ancestor", WHOLE, "How many commits before that one to check out (with `repo`)."),
        Field("sparse", TEXTS, "Folders or patterns of a sparse checkout (with `repo`)."),
        Field("source", mapping_of(REPOSITORY_SOURCE), "Where the repository comes from, instead of `repo`."),
        Field("checkout", mapping_of(CHECKOUT), "What is checked out (with `source`)."),
        Field("clone", mapping_of(CLONE), "How much is fetched (with `source`)."),
        Field(
            "history",
            one_of(*HISTORIES),
            "What a target sees of other commits: none, those before its own without tags and origin, or all.",
            "past",
        ),
    ),
)
REQUIREMENTS = FieldTable(
    "env",
    (
        Field("required_commands", TEXTS, "Commands that have to be on the PATH."),
        Field("required_python_modules", TEXTS, "Modules that `python3` has to import."),
    ),
    "What the machine must have.",
)
WORKSPACE = FieldTable(
    "workspace",
    (
        Field("template", TEXT, "A folder that is copied into the workspace."),
        Field("files", TEXTS, "Files of the suite that are copied into the workspace."),
        Field("file_changes", one_of("all", "case"), "In a shared workspace: all changes so far, or the case's."),
        Field("isolation", one_of("shared", "per_test", "per_case"), "One workspace for all cases, or one for each."),
        Field("mode", one_of("pooled", "temp", "static"), "Whether folders are reused, made anew, or given."),
        Field("path", TEXT, "The folder to work in (`mode: static`)."),
        Field("repos", list_of(REPOSITORY), "Git repositories in the workspace."),
        Field("hooks", mapping_of(HOOKS), "Programs that prepare and clean up."),
        Field("env", mapping_of(REQUIREMENTS), "What the machine must have, checked before the first hook."),
    ),
    "The folder in which a target works; a text names a YAML file that holds this mapping.",
)
_WORKSPACE = either(TEXT, mapping_of(WORKSPACE))

TURN = FieldTable(
    "turn",
    (
        Field("input", _MESSAGES, "What the user says.", required=True),
        Field("expected_output", ANY, "The expected answer."),
        Field("criteria", TEXT, "What a good answer to this turn does."),
        Field("assertions", _EVALUATORS, "The evaluators of the answer.", aliases=("assert", "evaluators")),
        Field("rubrics", list_of(ANY), "Criteria for one grader of the answer."),
    ),
    "One turn of a live conversation.",
)

EXECUTION = FieldTable(
    "execution",
    (
        Field("target", TEXT, "The runner to use."),
        Field("targets", either(TEXTS, list_of(RUNNER_CHOICE)), "The runners to use."),
        Field("threshold", SHARE, "The least weighted mean of its scores with which a case passes."),
        Field("trials", _REPEAT, "How often each case is carried out.", aliases=("repeat",)),
        Field("cache", FLAG, "Set to false to execute in every sweep instead of reusing stored executions."),
        Field(
            "fail_on_error",
            FLAG,
            "Stops the suite at the first execution that fails technically; on a test, at this test's.",
            default=False,
        ),
        Field("evaluators", _EVALUATORS, "An older place of `assertions`."),
    ),
    "How cases are carried out.",
)
SUITE_EXECUTION = FieldTable(
    "execution",
    (
        *EXECUTION.fields,
        Field("workers", COUNT, "How many executions of the suite run at the same time."),
        Field("total_budget_usd", POSITIVE, "The most that a run of the suite may cost.", aliases=("budget_usd",)),
        Field("cache_path", TEXT, "Has no effect: executions are stored in the project's data folder."),
    ),
    "How the cases of the suite are carried out.",
)
CASE_EXECUTION = FieldTable(
    "execution",
    (
        *EXECUTION.fields,
        Field("skip_defaults", FLAG, "Leaves out the input and evaluators that the suite gives to all cases.", False),
        Field(
            "budget_usd",
            POSITIVE,
            "The most that a run of this case may cost with one runner: nothing more of it is executed then.",
            aliases=("total_budget_usd",),
        ),
    ),
    "How this case is carried out, in place of what the suite sets.",
)

CASE = FieldTable(
    "test",
    (
        Field("id", NAME, "The id of the case, unique in the suite.", required=True),
        Field("input", _MESSAGES, "What the target receives: a text, an object, or a list of messages."),
        Field("input_files", TEXTS, "Files that are attached to the input."),
        Field("criteria", TEXT, "What a good answer does, for graders.", aliases=("expected_outcome",)),
        Field("expected_output", ANY, "The expected answer: a text, an object, or messages."),
        _ASSERTIONS,
        Field("rubrics", list_of(ANY), "Criteria for one grader of the answer."),
        Field("tags", TEXTS, "Labels to filter and group by."),
        Field("metadata", MAPPING, "Free-form data that is stored with the case and passed to hooks and graders."),
        Field("note", ANY, "A remark; it is not read."),
        Field("execution", mapping_of(CASE_EXECUTION), "How this case is carried out."),
        Field("repeat", _REPEAT, "How often the case is carried out."),
        Field("timeout_s", POSITIVE, "The time limit of one attempt, in seconds."),
        Field("max_steps", COUNT, "The most steps (replies of the model) of an agent, in place of its runner's limit."),
        Field("expected_fail", FLAG, "Marks a case that is known to fail: passing it is reported.", default=False),
        Field("incomplete", one_of(*INCOMPLETE),
              "Whether a session that a time or step limit ended is an error, graded by what it left, or failed."),
        Field("workspace", _WORKSPACE, "The workspace of this case."),
        Field("vars", MAPPING, "Values for `{{ name }}` in the texts of the case."),
        Field("depends_on", TEXTS, "Ids of cases of the suite that are carried out first."),
        Field("on_dependency_failure", one_of("skip", "fail", "run"), "What happens when one of them fails.", "skip"),
        Field("conversation_id", TEXT, "A label for cases that belong to one conversation."),
        Field("suite", TEXT, "A label that groups cases."),
        Field("mode", one_of("conversation"), "Marks a live conversation; `turns` implies it."),
        Field("turns", list_of(TURN), "The turns of a live conversation, each after the answer to the one before."),
        Field("window_size", COUNT, "How many of the latest exchanges the target sees (default: all)."),
        Field("on_turn_failure", one_of("continue", "stop"), "Whether a failed turn ends the conversation.",
              "continue"),
        Field("aggregation", one_of("mean", "min", "max"), "How the scores of the turns become one.", "mean"),
        Field("user", mapping_of(USER), "The simulated user of a conversation whose turns are made up as it goes."),
        Field("mocks", list_of(MOCK), "Canned answers of tools that the target calls."),
        Field("state", MAPPING, "The document that tools begin with and change."),
        Field("solution", mapping_of(SOLUTION), "How the case is solved, for the adapter `oracle`; no agent sees it."),
        Field("difficulty", one_of(*DIFFICULTIES), "How hard the case is."),
        Field("should_trigger", either(TEXTS, MAPPING),
              "Skills that the case should trigger: names, or a mapping of names to true and false."),
        Field("status", one_of(*STATUSES), "Only active cases are carried out by default.", "active"),
    ),
    "One case of a suite.",
)  # fmt: skip

CASE_TABLE = FieldTable(
    "cases",
    (
        Field("from", WORDS, "A file of columns (.parquet, .csv, .tsv), a glob of them, or a `SELECT` over such files.",
              required=True),
        Field("map", MAPPING, "For each field of a case, a column or a text with `{{ column }}`: "
              "`{id: key, input: \"Q: {{ question }}\", metadata.lang: lang}`."),
        Field("database", TEXT, "A DuckDB file that the query's tables are in; it is only read."),
    ),
    "A table with one case a row.",
)  # fmt: skip

SUITE = FieldTable(
    "suite",
    (
        Field("tests", either(list_of(either(mapping_of(CASE), TEXT)), TEXT),
              "The cases, or the path of a file, folder or glob with them.", aliases=("eval_cases", "evalcases"),
              required=True),
        Field("cases", mapping_of(CASE_TABLE), "In place of `tests`: a table with one case a row."),
        Field("$schema", TEXT, "The schema that the file follows, for editors."),
        Field("name", TEXT, "The name of the suite (default: the name of its file)."),
        Field("description", TEXT, "What the suite is about."),
        Field("version", ANY, "The version of the suite; stored with its metadata."),
        Field("author", ANY, "Who wrote the suite; stored with its metadata."),
        Field("license", ANY, "The license of the suite; stored with its metadata."),
        Field("governance", MAPPING, "Risks and controls that the suite is about; stored with its metadata."),
        Field("requires", MAPPING, "Versions of other systems that the suite is written for."),
        Field("tags", TEXTS, "Labels of the suite; every case has them, too."),
        Field("metadata", MAPPING, "Free-form data of the suite; every case has it, too."),
        Field("input", _MESSAGES, "Messages that come before the input of every case."),
        Field("input_files", TEXTS, "Files attached to the input of every case that has none of its own."),
        _ASSERTIONS,
        Field("rubrics", list_of(ANY), "Criteria for one grader of every answer."),
        Field("execution", mapping_of(SUITE_EXECUTION), "How the cases are carried out."),
        Field("target", TEXT, "The runner to use; a shorter form of `execution.target`."),
        Field("evaluator", TEXT, "The grader of cases that list no evaluators.", "llm-grader"),
        Field("repeat", _REPEAT, "How often each case is carried out."),
        Field("incomplete", one_of(*INCOMPLETE),
              "Whether a session that a time or step limit ended is an error, graded by what it left, or failed.",
              "error"),
        Field("weights", mapping_of(WEIGHTS), "How much cases count in rates and means, by difficulty: `{hard: 2}`."),
        Field("workspace", _WORKSPACE, "The workspace of the cases."),
        Field("vars", MAPPING, "Values for `{{ name }}` in the texts of all cases."),
        Field("preprocessors", list_of(PREPROCESSOR), "Programs that print the text of files for graders."),
    ),
    "A named set of cases, with what they share.",
)  # fmt: skip


def suite_fields() -> FieldTable:
    """The fields of a suite file."""
    return SUITE
