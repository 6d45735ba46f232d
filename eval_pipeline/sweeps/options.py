"""The options of a sweep, each declared once.

From these models come the checks of `defaults:` in the project file, the flags of `run` and `plan`, the form of the
Dagster launchpad, and the options that a sweep is carried out with. A new option is one field: in `SharedOptions` it
can be set everywhere, in `RunOptions` by the command line and the launchpad, in `Defaults` by the project file only. A
`Flag` names it on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from eval_pipeline.errors import InputError, SourceLocation, UnknownName
from eval_pipeline.executions.model import Isolation
from eval_pipeline.executions.planning import ACTIVE, CaseFilter
from eval_pipeline.executions.provider_limits import ProviderLimit
from eval_pipeline.executions.sampling import CaseSample
from eval_pipeline.failures import DEFAULT_OUTPUT_MB
from eval_pipeline.leaderboards.board_columns import COVERAGE_FLOOR
from eval_pipeline.suites.load import LOAD_LIMIT_S
from eval_pipeline.suites.simulation_fields import DIFFICULTIES, STATUSES

SHARE_ERROR = 1e-6
"""The greatest error of rounding in shares that add up to 1."""
STAGES = ("target_executions", "session_reports", "evaluator_scores")
EXECUTE, NORMALIZE, EVALUATE = STAGES
Refresh = Literal["missing", "failed", "all"]
Difficulty = Literal["normal", "hard"]
CaseStatus = Literal["draft", "active", "archived"]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Flag:
    """An option's flag on the command line. `keyword` is its name in Python, where it is not the field's; a `switch`
    takes no value."""

    name: str
    keyword: str | None = None
    switch: bool = False


class SharedOptions(BaseModel):
    """What the project file, the command line and the launchpad can set."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    repetitions: Annotated[int | None, Flag("--repeat", "repeat")] = Field(
        default=None, validation_alias="repeat", ge=1, description="Repetitions of every case; 1 when not set"
    )
    on_failure: Annotated[int | None, Flag("--on-failure")] = Field(
        default=None, ge=0, description="How often each repetition is tried again until it passes; 0 when not set"
    )
    refresh: Annotated[Refresh, Flag("--refresh")] = Field(
        default="missing", description="What to execute: what has no valid execution, also what did not pass, or all"
    )
    concurrency: Annotated[int | None, Flag("--concurrency")] = Field(
        default=None, ge=1, description="Attempts at the same time, all runners together; no limit when not set"
    )
    threshold: Annotated[float | None, Flag("--threshold")] = Field(
        default=None, ge=0, le=1, description="The least score with which a case passes; 0.8 when not set"
    )
    budget_usd: Annotated[float | None, Flag("--budget", "budget")] = Field(
        default=None,
        gt=0,
        description="No target is called after this much (USD) is spent, what is under way included at its usual cost;"
        " the last calls may cost more. Budgets of suites and cases hold as well",
    )
    budget_calls: Annotated[int | None, Flag("--budget-calls")] = Field(
        default=None, ge=1, description="The most calls of targets and graders, failed ones included"
    )
    budget_tokens: Annotated[int | None, Flag("--budget-tokens")] = Field(
        default=None, ge=1, description="No target is called after this many tokens, of input and output, are spent"
    )
    keep_fallbacks: Annotated[bool, Flag("--keep-fallbacks", switch=True)] = Field(
        default=False, description="Count stored answers of fallbacks without trying the runner itself again"
    )
    grader: Annotated[str | None, Flag("--grader")] = Field(
        default=None, description="The runner that grades: on the command line everything, as a default the rest"
    )
    simulator: Annotated[str | None, Flag("--simulator")] = Field(
        default=None,
        description="The runner that plays simulated users: on the command line all, as a default the rest",
    )
    weights: Annotated[dict[Difficulty, Weight], Flag("--weights")] = Field(
        default={},
        description="How much cases of a difficulty count in rates, means and their intervals, such as hard=2; 1 when"
        " not set",
    )


class RunOptions(SharedOptions):
    """What the command line and the launchpad can set."""

    sweep: Annotated[str | None, Flag("--sweep")] = Field(
        default=None,
        description="A sweep that the project file names: its suites, runners, cases and options, where nothing else"
        " is set",
    )
    any_runner: bool = Field(default=False, description="Ignore which runners suites name; those of a case hold")
    abandon_refresh: Annotated[bool, Flag("--abandon-refresh", switch=True)] = Field(
        default=False, description="Keep the older answers where an interrupted refresh of all did not get to"
    )
    update_snapshots: Annotated[bool, Flag("--update-snapshots", switch=True)] = Field(
        default=False, description="Take the tokens of passing answers as new baselines"
    )
    resume: Annotated[str | None, Flag("--resume", switch=True)] = Field(
        default=None, description="Count what an interrupted sweep executed as done; the launchpad takes its id"
    )


class Defaults(SharedOptions):
    """What a sweep does where neither the command line nor the launchpad sets it: `defaults:` of the project file."""

    model_config = ConfigDict(strict=True)

    min_pass_rate: Annotated[float | None, Flag("--min-pass-rate")] = Field(
        default=None,
        ge=0,
        le=1,
        description="A run fails only where a runner's pass rate on a suite is shown to be below this one (95 %)",
    )
    tags: list[str] = Field(
        default=[], description="Only cases with any of these tags, where the command line names none"
    )
    ranked_coverage: float = Field(
        default=COVERAGE_FLOOR, ge=0, le=1, description="Runners with a smaller share of graded plans are not ranked"
    )
    cluster_by: str | None = Field(
        default=None, description="A key of the metadata of cases: those of one value count as alike in intervals"
    )
    min_coverage: float = Field(default=1.0, ge=0, le=1, description="The asset check `coverage` fails below it")
    runners: list[str] = Field(default_factory=list, description="The runners of a suite that names none")
    keep_workspaces: Literal["failures", "always", "never"] = Field(
        default="failures", description="Which folders of cases stay in the data folder"
    )
    workspace_archive_mb: float = Field(
        default=20, ge=0, description="Packed workspaces larger than this are not kept; 0 keeps none"
    )
    max_output_mb: float = Field(
        default=DEFAULT_OUTPUT_MB,
        gt=0,
        description="The most that is read of one answer or of one output of a program, in MB; runners may set theirs",
    )
    max_memory_mb: float | None = Field(
        default=None,
        ge=200,
        description="The most memory of a worker process that calls Python functions, and of each program that it "
        "starts, in MB; half of the machine's when not set",
    )
    load_limit_s: float = Field(
        default=LOAD_LIMIT_S, gt=0, description="How long loading the module of a Python suite may take, in seconds"
    )
    isolation: Isolation = Field(
        default="process",
        description="Where Python functions of runners and evaluators are called: in worker processes, or in the "
        "process of the sweep, which they can then end or block",
    )
    on_error: Literal["unscored", "fail"] | None = Field(
        default=None, description="The score of a grading program that fails, where its evaluator does not set it"
    )
    on_missing: Literal["unscored", "fail"] | None = Field(
        default=None, description="The score of an evaluator whose session lacks the facts, where it does not set it"
    )
    pool_slots: int = Field(default=10, ge=1, description="Clones that are kept for a set of repositories")
    providers: dict[str, ProviderLimit] = Field(
        default={},
        description="Limits of providers, by host, or by adapter where runners name no address: `concurrency`,"
        " `calls_per_minute`. All their runners share them, graders too, and all processes of a shared warehouse",
    )

    @property
    def evaluator_arguments(self) -> dict[str, str]:
        """The arguments of evaluators that are set here."""
        arguments = {"on_error": self.on_error, "on_missing": self.on_missing}
        return {name: value for name, value in arguments.items() if value is not None}


class SweepOptions(RunOptions):
    """What a sweep is carried out with. A field that is None is taken from the suite, else from `defaults`.

    `concurrency` limits all runners together and each runner that has no limit of its own; `threshold` is the least
    score that passes where a case sets none; `resume` names an interrupted sweep whose executions count as done
    whatever `refresh` is.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    cases: CaseFilter = CaseFilter()
    stages: tuple[str, ...] = STAGES
    defaults: Defaults = Defaults()


class LaunchOptions(RunOptions):
    """What one launch sets: the options, and the cases it is narrowed down to."""

    model_config = ConfigDict(loc_by_alias=False)

    tags: Annotated[tuple[str, ...], Flag("--tag")] = Field(default=(), description="Only cases with any of these tags")
    cases: Annotated[tuple[str, ...], Flag("--case")] = Field(default=(), description="Only cases of these ids")
    difficulties: Annotated[tuple[Difficulty, ...], Flag("--difficulty")] = Field(
        default=(), description="Only cases of these difficulties: normal, hard"
    )
    statuses: Annotated[tuple[CaseStatus, ...], Flag("--status")] = Field(
        default=(), description="Cases of these statuses in place of the active ones: draft, active, archived"
    )

    all_tags: Annotated[tuple[str, ...], Flag("--all-tags")] = Field(
        default=(), description="Only cases with all of these tags"
    )
    names: Annotated[tuple[str, ...], Flag("--name")] = Field(
        default=(), description="Only cases with any of these texts in their id or name, in any case"
    )
    sample: Annotated[int | None, Flag("--sample")] = Field(
        default=None, ge=1, description="The most cases of each suite, drawn from what the rest selects"
    )
    mix: Annotated[dict[str, float], Flag("--mix")] = Field(
        default={}, description="The share of each difficulty in the sample, such as normal=0.7,hard=0.3"
    )
    seed: Annotated[int | None, Flag("--seed")] = Field(
        default=None, ge=0, description="The sample of this number: the same one draws the same cases; 0 when not set"
    )

    @model_validator(mode="after")
    def _check_sample(self) -> LaunchOptions:
        """Check that the shares of a sample are of difficulties and add up to 1."""
        unknown = next((name for name in self.mix if name not in DIFFICULTIES), None)
        if unknown is not None:
            raise UnknownName("difficulty", unknown, DIFFICULTIES, SourceLocation(field="mix"))
        if any(share < 0 for share in self.mix.values()) or (
            self.mix and abs(sum(self.mix.values()) - 1) > SHARE_ERROR
        ):
            shares = ", ".join(f"{name}={share:g}" for name, share in self.mix.items())
            total = f"{sum(self.mix.values()):g}"
            problem = f"the shares of a mix add up to 1, got {total}: {shares}"
            raise InputError(problem, SourceLocation(field="mix"))
        if self.sample is None and (self.mix or self.seed is not None):
            name = "mix" if self.mix else "seed"
            raise InputError("needs the size of the sample: --sample N", SourceLocation(field=name))
        return self

    def resolve(self, defaults: Defaults, stages: tuple[str, ...] = STAGES) -> SweepOptions:
        """Return the options of a sweep: what is set here over the project's defaults."""
        given = {name: getattr(self, name) for name in RunOptions.model_fields if name in self.model_fields_set}
        options = {"refresh": defaults.refresh, **given, "cases": self.case_filter}
        return SweepOptions(**options, stages=stages, defaults=defaults)

    @property
    def case_filter(self) -> CaseFilter:
        """The filter of the cases that the launch is narrowed down to."""
        return CaseFilter(
            ids=frozenset(self.cases),
            tags=frozenset(self.tags),
            difficulties=frozenset(self.difficulties),
            statuses=frozenset(self.statuses) or ACTIVE,
            all_tags=frozenset(self.all_tags),
            names=frozenset(self.names),
            sample=CaseSample(size=self.sample, mix=tuple(self.mix.items()), seed=self.seed or 0)
            if self.sample
            else None,
        )

    def as_config(self) -> dict[str, Any]:
        """Return what is set, as the launchpad takes it."""
        values = without_unset({name: getattr(self, name) for name in sorted(self.model_fields_set)})
        return {name: sorted(value) if isinstance(value, tuple) else value for name, value in values.items()}


def without_unset(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are set: neither None nor False nor empty. 0 is a value like any other."""
    empty: tuple[object, ...] = ((), [], {})
    return {
        name: value
        for name, value in options.items()
        if value is not None and value is not False and value not in empty
    }


def launch_options(given: Mapping[str, Any]) -> LaunchOptions:
    """Return the options with these values; None and empty ones are not set. Raises InputError naming the field."""
    try:
        return LaunchOptions(**without_unset(given))
    except ValidationError as error:
        raise _input_error(error) from None


def flag_of(field: FieldInfo) -> Flag | None:
    """Return the flag of a field, None when it has none."""
    return next((mark for mark in field.metadata if isinstance(mark, Flag)), None)


_CHOICES = {
    "refresh": ("refresh policy", get_args(Refresh)),
    "difficulties": ("difficulty", DIFFICULTIES),
    "statuses": ("status of cases", STATUSES),
    "weights": ("difficulty", DIFFICULTIES),
}
_EXPECTED = {
    "greater_than_equal": "a number of at least {ge:g}",
    "greater_than": "a number greater than {gt:g}",
    "less_than_equal": "a number of at most {le:g}",
}


def _input_error(error: ValidationError) -> InputError:
    first: Any = error.errors(include_url=False)[0]
    field = ".".join(str(step) for step in first["loc"] if step != "[key]")
    if first["type"] == "literal_error":
        kind, names = _CHOICES[str(first["loc"][0])]
        return UnknownName(kind, str(first["input"]), names)
    if first["type"] == "extra_forbidden":
        return UnknownName("option", field, LaunchOptions.model_fields)
    expected = _EXPECTED.get(first["type"], first["msg"].removeprefix("Input should be ")).format(
        **first.get("ctx", {})
    )
    return InputError(f"expected {expected}, got {first['input']}", SourceLocation(field=field))
