"""`llm-grader` and `agent-rubric`: a model grades an answer by criteria, a custom prompt, or a rubric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import ConfigDict, Strict, model_validator

from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.imports import import_roots
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.answer_files import Preprocessor, programs_content, with_files_as_text
from eval_pipeline.scores.grading.context import TEXTS, build_context
from eval_pipeline.scores.grading.criteria import Criterion, has_bands, read_criteria
from eval_pipeline.scores.grading.grader import GraderArguments
from eval_pipeline.scores.grading.grades import Grades
from eval_pipeline.scores.grading.prompts import Question, build_question, question, rubric_text, shown_names
from eval_pipeline.scores.grading.replies import ReplyFormat
from eval_pipeline.scores.grading.templates import (
    is_file_name,
    prompt_program,
    read_template,
    run_prompt_program,
    template_file,
    with_prompt,
)
from eval_pipeline.scores.grading.verdicts import Checklist, FreeForm, Ranges
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.command import argv_of, command_content
from eval_pipeline.scores.programs.reply import OnError, failure_outcome

_WORKSPACE = "The files that the answer left behind lie in {path}. Read what you need there; change nothing."
_MESSAGES_AS_THEY_WERE = {"messages of the prompt's program": "as they were"}
"""In the content of graders whose program got other messages in version 1, which stays that of all others' grades."""
_PROGRAM_FIELDS = {"command", "config", "payload", "usual_payload", "on_error"}
_BY_PROGRAM: dict[str, Any] = {"properties": {"prompt": {"type": "object"}}, "required": ["prompt"]}


def _for_editors(schema: dict[str, Any]) -> None:
    schema["if"] = _BY_PROGRAM
    schema["properties"]["prompt_template"] = {"type": ["string", "object"], "deprecated": True}


_OPEN_FOR_PROGRAMS = ConfigDict(**ARGUMENTS, json_schema_extra=_for_editors)
"""To an editor, further arguments are fine where a program prints the prompt: they are the program's own."""


@EVALUATORS.register("llm-grader", "llm-rubric")
@dataclass(frozen=True, slots=True, kw_only=True)
class LlmGrader(GraderArguments):
    """A model's score in [0, 1], based on the question, the answer and the criteria of a good answer.

    `prompt` (or `prompt_template`) replaces the default prompt: inline text, a file name (`file://grader.md`), or
    `{command: […], config: {…}}`, a program that prints it; unknown arguments are added to that program's
    configuration, and with `on_error: fail` beside `command` a program that breaks scores 0. `value` replaces the
    case's criteria. `rubrics` requests a checklist, or scores from 0 to 10. `grades` requests a grade
    (`{C: 1, P: 0.5, I: 0}`). `preprocessors` print the text of files that the answer consists of.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN_FOR_PROGRAMS
    prompt: Any = None
    value: Any = None
    rubrics: Any = None
    grades: dict[str, float] | None = None
    config: dict[str, Any] = field(default_factory=dict)
    preprocessors: Annotated[tuple[Preprocessor, ...], Strict(False)] = ()

    @model_validator(mode="before")
    @classmethod
    def _move_program_arguments(cls, raw: Any) -> Any:
        """Move a program's own arguments to `config`. Without a program they remain and are invalid."""
        raw = with_prompt(raw)
        if not isinstance(raw, Mapping) or not isinstance(raw.get("prompt"), Mapping):
            return raw
        known = {argument.name for argument in fields(cls)}
        program_arguments = {name: value for name, value in raw.items() if name not in known}
        rest = {name: value for name, value in raw.items() if name in known}
        config = rest.get("config", {})
        return {**rest, "config": {**program_arguments, **config} if isinstance(config, Mapping) else config}

    def __post_init__(self) -> None:
        GraderArguments.__post_init__(self)
        _check_prompt(self.prompt)
        _check_grades(self.grades)
        if self.value is not None and not isinstance(self.value, (str, list)):
            raise ValueError(f"value: expected a text, or a list of criteria, got {self.value!r}")
        if sum(raw is not None for raw in (self._raw_rubric, self.grades)) > 1:
            raise ValueError("rubrics and grades are two reply formats; use one of them")
        self._rubric()

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return fingerprints of the prompt's file, or of the files that its program names, and of preprocessors."""
        content = {**self._prompt_content(folder), **programs_content(self.preprocessors, folder)}
        both = isinstance(self.prompt, Mapping) and self.preprocessors
        return {**content, **_MESSAGES_AS_THEY_WERE} if both else content

    def _prompt_content(self, folder: Path) -> Mapping[str, str]:
        if isinstance(self.prompt, Mapping):
            return command_content(*prompt_program(self.prompt.get("command"), folder), import_roots(folder))
        if self.prompt is None or not is_file_name(self.prompt):
            return {}
        path = template_file(self.prompt, folder)
        read_template(path)
        return {self.prompt: file_fingerprint(path)}

    @property
    def sees_workspace(self) -> bool:
        """Whether a program receives the path of the workspace, or of files in it."""
        return isinstance(self.prompt, Mapping) or bool(self.preprocessors)

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        if not isinstance(self.prompt, Mapping):  # a program reads the messages, which name the files
            subject = await with_files_as_text(subject, self.preprocessors, client.timeout_s)
        try:
            asked = await self._question(subject, client)
        except GraderFailure as failure:
            return failure_outcome(failure, self._on_error)
        return await self.call_graders(asked, client, subject.pass_mark)

    @property
    def _on_error(self) -> OnError:
        policy: OnError = self.prompt.get("on_error", "unscored") if isinstance(self.prompt, Mapping) else "unscored"
        return policy

    @property
    def _raw_rubric(self) -> Any:
        return self.rubrics if self.rubrics is not None else self.value if isinstance(self.value, list) else None

    def _rubric(self) -> tuple[Criterion, ...]:
        raw = self._raw_rubric
        if raw is None:
            return ()
        if not isinstance(raw, Sequence) or isinstance(raw, str):
            raise ValueError(f"rubrics: expected a list of criteria, got {raw!r}")
        return read_criteria(raw, field="rubrics" if self.rubrics is not None else "value")

    def _criteria(self, subject: Subject) -> str:
        return self.value if isinstance(self.value, str) else subject.case.criteria or ""

    def _reply_format(self, rubric: tuple[Criterion, ...]) -> ReplyFormat:
        if self.grades is not None:
            return Grades(self.grades)
        return reply_format_for(rubric) if rubric else FreeForm()

    async def _question(self, subject: Subject, client: GraderClient) -> Question:
        rubric = self._rubric()
        reply_format = self._reply_format(rubric)
        criteria = self._criteria(subject)
        if isinstance(self.prompt, Mapping):
            return await self._program_question(subject, client, reply_format, rubric)
        template = self._template(subject)
        material = build_context(subject, shown_names(subject, template, criteria), grades=self.grades is not None)
        return question(material, reply_format, template=template, criteria=criteria, rubric=rubric)

    def _template(self, subject: Subject) -> str | None:
        if self.prompt is None or not is_file_name(self.prompt):
            text: str | None = self.prompt
            return text
        return read_template(template_file(self.prompt, subject.folder))

    async def _program_question(
        self, subject: Subject, client: GraderClient, reply_format: ReplyFormat, rubric: tuple[Criterion, ...]
    ) -> Question:
        material = build_context(subject, TEXTS, grades=self.grades is not None)
        config = {**self.config, **(self.prompt.get("config") or {})}
        text = await run_prompt_program(self.prompt, material, config, client.timeout_s)
        return build_question(material, reply_format, f"{text}\n\n{rubric_text(rubric)}" if rubric else text)


@EVALUATORS.register("agent-rubric")
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRubric(LlmGrader):
    """An `llm-grader` whose grader is an agent: it receives the path of the workspace as the target left it.

    A custom prompt contains `{{ criteria }}` or `{{ workspace_path }}` for the path.
    """

    @property
    def sees_workspace(self) -> bool:
        return True

    def _criteria(self, subject: Subject) -> str:
        criteria = LlmGrader._criteria(self, subject)
        if subject.workspace is None:
            return criteria
        return f"{criteria}\n\n{_WORKSPACE.format(path=subject.workspace)}".lstrip()


def reply_format_for(rubric: tuple[Criterion, ...]) -> ReplyFormat:
    """Return the reply format of a rubric."""
    return Ranges(rubric) if has_bands(rubric) else Checklist(rubric)


def _check_prompt(prompt: Any) -> None:
    if prompt is None or (isinstance(prompt, str) and prompt.strip()):
        return
    if not isinstance(prompt, Mapping) or not set(prompt) <= _PROGRAM_FIELDS:
        raise ValueError(f"prompt: expected a text, a file's name or a mapping with command and config, got {prompt!r}")
    argv_of(prompt.get("command"))
    if not isinstance(prompt.get("config") or {}, Mapping):
        raise ValueError(f"prompt: config: expected a mapping, got {prompt['config']!r}")
    if prompt.get("on_error", "unscored") not in get_args(OnError):
        raise ValueError(f"prompt: on_error: expected 'unscored' or 'fail', got {prompt['on_error']!r}")


def _check_grades(grades: Mapping[str, float] | None) -> None:
    if grades is None:
        return
    invalid = {grade: value for grade, value in grades.items() if not 0 <= value <= 1 or not grade.strip()}
    if invalid or not grades:
        raise ValueError(f"grades: expected names with values from 0 to 1, got {invalid or grades!r}")
