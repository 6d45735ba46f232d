"""`llm-grader` and `agent-rubric`: an opinion of an answer, by criteria, a prompt of the author's, or a rubric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pydantic import model_validator

from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.grader_client import GraderClient
from eval_pipeline.scores.grading.context import TEXTS, build_context
from eval_pipeline.scores.grading.criteria import Criterion, has_bands, read_criteria
from eval_pipeline.scores.grading.grader import GraderArguments
from eval_pipeline.scores.grading.grades import Grades
from eval_pipeline.scores.grading.prompts import Question, build_question, question, rubric_text, shown_names
from eval_pipeline.scores.grading.replies import ReplyFormat
from eval_pipeline.scores.grading.templates import is_file_name, read_template, run_prompt_program, template_file
from eval_pipeline.scores.grading.verdicts import Checklist, FreeForm, Ranges
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.command import argv_of, command_content, program_folder

_WORKSPACE = "The files that the answer left behind lie in {path}. Read what you need there; change nothing."
_PROGRAM_FIELDS = {"command", "config"}


@EVALUATORS.register("llm-grader", "llm-rubric")
@dataclass(frozen=True, slots=True, kw_only=True)
class LlmGrader(GraderArguments):
    """A score in [0, 1] by a model that is shown the question, the answer and what a good answer has to achieve.

    `prompt` is told instead of the usual words: inline, the name of a file (`file://grader.md`), or
    `{command: […], config: {…}}`, a program that prints it; such a program is also given, as its configuration, the
    arguments that nobody else knows. `value` is what to achieve, instead of the case's criteria.
    `rubrics` makes it a checklist, or scores from 0 to 10. `grades` makes it a grade (`{C: 1, P: 0.5, I: 0}`).
    """

    prompt: Any = None
    value: Any = None
    rubrics: Any = None
    grades: dict[str, float] | None = None
    config: dict[str, Any] = field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_programs_own_arguments(cls, raw: Any) -> Any:
        """Arguments that are a program's own stand in `config`; without a program they are mistakes."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("prompt"), Mapping):
            return raw
        known = {argument.name for argument in fields(cls)}
        own = {name: value for name, value in raw.items() if name not in known}
        rest = {name: value for name, value in raw.items() if name in known}
        config = rest.get("config", {})
        return {**rest, "config": {**own, **config} if isinstance(config, Mapping) else config}

    def __post_init__(self) -> None:
        GraderArguments.__post_init__(self)
        _check_prompt(self.prompt)
        _check_grades(self.grades)
        if self.value is not None and not isinstance(self.value, (str, list)):
            raise ValueError(f"value: expected a text, or a list of criteria, got {self.value!r}")
        if sum(raw is not None for raw in (self._rubric_given, self.grades)) > 1:
            raise ValueError("rubrics and grades are two forms of a reply; one of them is needed")
        self._rubric()

    def content(self, folder: Path) -> Mapping[str, str]:
        """Fingerprints of the prompt's file, or of the files that its program names."""
        if isinstance(self.prompt, Mapping):
            return command_content(argv_of(self.prompt.get("command")), program_folder(None, folder))
        if self.prompt is None or not is_file_name(self.prompt):
            return {}
        path = template_file(self.prompt, folder)
        read_template(path)
        return {self.prompt: file_fingerprint(path)}

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        return await self.call_graders(await self._question(subject, client), client)

    @property
    def _rubric_given(self) -> Any:
        return self.rubrics if self.rubrics is not None else self.value if isinstance(self.value, list) else None

    def _rubric(self) -> tuple[Criterion, ...]:
        raw = self._rubric_given
        if raw is None:
            return ()
        if not isinstance(raw, Sequence) or isinstance(raw, str):
            raise ValueError(f"rubrics: expected a list of criteria, got {raw!r}")
        return read_criteria(raw, field="rubrics" if self.rubrics is not None else "value")

    def _criteria(self, subject: Subject) -> str:
        return self.value if isinstance(self.value, str) else subject.case.criteria or ""

    def _form(self, rubric: tuple[Criterion, ...]) -> ReplyFormat:
        if self.grades is not None:
            return Grades(self.grades)
        return form_of(rubric) if rubric else FreeForm()

    async def _question(self, subject: Subject, client: GraderClient) -> Question:
        rubric = self._rubric()
        reply_format = self._form(rubric)
        criteria = self._criteria(subject)
        if isinstance(self.prompt, Mapping):
            return await self._printed(subject, client, reply_format, rubric)
        template = self._template(subject)
        material = build_context(subject, shown_names(subject, template, criteria), grades=self.grades is not None)
        return question(material, reply_format, template=template, criteria=criteria, rubric=rubric)

    def _template(self, subject: Subject) -> str | None:
        if self.prompt is None or not is_file_name(self.prompt):
            text: str | None = self.prompt
            return text
        return read_template(template_file(self.prompt, subject.folder))

    async def _printed(
        self, subject: Subject, client: GraderClient, reply_format: ReplyFormat, rubric: tuple[Criterion, ...]
    ) -> Question:
        material = build_context(subject, TEXTS, grades=self.grades is not None)
        config = {**self.config, **(self.prompt.get("config") or {})}
        told = await run_prompt_program(argv_of(self.prompt.get("command")), material, config, client.timeout_s)
        return build_question(material, reply_format, f"{told}\n\n{rubric_text(rubric)}" if rubric else told)


@EVALUATORS.register("agent-rubric")
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRubric(LlmGrader):
    """An `llm-grader` whose grader is an agent: it is told where the workspace lies, as the target left it.

    A prompt of the author's says `{{ criteria }}` or `{{ workspace_path }}` where that belongs.
    """

    def _criteria(self, subject: Subject) -> str:
        criteria = LlmGrader._criteria(self, subject)
        if subject.workspace is None:
            return criteria
        return f"{criteria}\n\n{_WORKSPACE.format(path=subject.workspace)}".lstrip()


def form_of(rubric: tuple[Criterion, ...]) -> ReplyFormat:
    """The form of the reply that a rubric asks for."""
    return Ranges(rubric) if has_bands(rubric) else Checklist(rubric)


def _check_prompt(prompt: Any) -> None:
    if prompt is None or (isinstance(prompt, str) and prompt.strip()):
        return
    if not isinstance(prompt, Mapping) or not set(prompt) <= _PROGRAM_FIELDS:
        raise ValueError(f"prompt: expected a text, a file's name or a mapping with command and config, got {prompt!r}")
    argv_of(prompt.get("command"))
    if not isinstance(prompt.get("config") or {}, Mapping):
        raise ValueError(f"prompt: config: expected a mapping, got {prompt['config']!r}")


def _check_grades(grades: Mapping[str, float] | None) -> None:
    if grades is None:
        return
    error = {grade: value for grade, value in grades.items() if not 0 <= value <= 1 or not grade.strip()}
    if error or not grades:
        raise ValueError(f"grades: expected names with values from 0 to 1, got {error or grades!r}")
