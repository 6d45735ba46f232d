"""`rubrics`: a model grades a checklist, or scores each criterion from 0 to 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Strict

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators.llm_grader import reply_format_for
from eval_pipeline.scores.grader_client import GraderClient
from eval_pipeline.scores.grading.answer_files import Preprocessor, programs_content, with_files_as_text
from eval_pipeline.scores.grading.context import build_context
from eval_pipeline.scores.grading.criteria import Criterion, read_criteria
from eval_pipeline.scores.grading.grader import GraderArguments
from eval_pipeline.scores.grading.prompts import question, shown_names
from eval_pipeline.scores.model import Outcome, Subject


@EVALUATORS.register("rubrics")
@dataclass(frozen=True, slots=True, kw_only=True)
class Rubrics(GraderArguments):
    """The weight of the criteria that an answer meets, according to a model.

    `criteria` are texts, or mappings with `outcome`, `id`, `weight`, `required` (an unmet one fails the gate),
    `operator` (`correctness`, `contradiction`), and for scores from 0 to 10 `score_ranges` and `min_score`.
    """

    criteria: Any
    preprocessors: Annotated[tuple[Preprocessor, ...], Strict(False)] = ()

    def __post_init__(self) -> None:
        GraderArguments.__post_init__(self)
        self._rubric()

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return fingerprints of the programs that read files of answers."""
        return programs_content(self.preprocessors, folder)

    @property
    def sees_workspace(self) -> bool:
        """Whether files of the answer may be read in the workspace."""
        return bool(self.preprocessors)

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        rubric = self._rubric()
        subject = await with_files_as_text(subject, self.preprocessors, client.timeout_s)
        reply_format, criteria = reply_format_for(rubric), subject.case.criteria or ""
        material = build_context(subject, shown_names(subject, None, criteria))
        asked = question(material, reply_format, template=None, criteria=criteria, rubric=rubric)
        return await self.call_graders(asked, client, subject.pass_mark)

    def _rubric(self) -> tuple[Criterion, ...]:
        if not isinstance(self.criteria, Sequence) or isinstance(self.criteria, str):
            raise ValueError(f"criteria: expected a list of texts and mappings, got {self.criteria!r}")
        return read_criteria(self.criteria)
