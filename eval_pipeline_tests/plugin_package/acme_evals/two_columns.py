"""The suite format `acme-columns`: a `.tsv` file of questions and answers."""

from __future__ import annotations

from pathlib import Path

from eval_pipeline import Case, EvaluatorSpec, InputError, LoadOptions, Message, SourceLocation, Suite, content_revision


class TwoColumns:
    """Each line is a case: the question, a tab, and a text that the answer contains."""

    suffixes = (".tsv",)

    def recognizes(self, path: Path, head: str) -> bool:
        """Return whether the first line has two columns."""
        return "\t" in head.split("\n", 1)[0]

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        """Load the suite; raises InputError for a line that has not two columns."""
        rows = [line.split("\t") for line in text.splitlines()]
        for number, row in enumerate(rows, start=1):
            if len(row) != 2:
                raise InputError(f"expected two columns, got {len(row)}", SourceLocation(str(path), number))
        return Suite(
            name=path.stem,
            path=path,
            format="acme-columns",
            revision=content_revision(rows),
            cases=tuple(_case(number, *row) for number, row in enumerate(rows, start=1)),
        )


def _case(number: int, question: str, answer: str) -> Case:
    return Case(
        id=f"line-{number}",
        input=(Message(role="user", content=question),),
        evaluators=(
            EvaluatorSpec(type="contains", name="contains", config={"value": answer}),
            EvaluatorSpec(type="acme-sentences", name="acme-sentences", config={"most": 1}),
        ),
        line=number,
    )
