"""Raw suites of test cases → files of one of the three generations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, InputErrors
from eval_pipeline.formats.connexity.cases import read_case
from eval_pipeline.formats.connexity.editing import CASES
from eval_pipeline.formats.connexity.generations import Generation, as_generation
from eval_pipeline.formats.connexity.sets import is_set
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor, kind
from eval_pipeline.parsing.writing import yaml_text
from eval_pipeline.suites.conversion import ConversionLoss, NewFile, RawSuite, SuiteWriter, pretty_json

JsonMap = Mapping[str, Any]


def _write(target: Generation, suite: RawSuite, path: Path) -> tuple[list[NewFile], ConversionLoss]:
    """Return a file with the cases in a generation: a set or an export stays one, and one case stays alone."""
    lost = ConversionLoss()
    limit = _limit_of_all(suite) if is_set(suite.document) and target > Generation.PAGE else None
    cases = _converted(suite, target, lost, left_out=() if limit is None else ("max_turns",))
    document: Any = cases[0] if len(cases) == 1 else cases
    if suite.at == (CASES,):
        config = {} if limit is None else {"config": {**(suite.document.get("config") or {}), "max_turns": limit}}
        document = {**suite.document, **config, CASES: cases}
    text = yaml_text(document) if path.suffix.lower() in (".yaml", ".yml") else pretty_json(document)
    return [NewFile(path, [text])], lost


def _limit_of_all(suite: RawSuite) -> int | None:
    """Return the limit of rounds that all cases of a set have, which its configuration can hold; None: none."""
    limits = [raw.get("max_turns") if isinstance(raw, Mapping) else None for _, raw in suite.entries()]
    return limits[0] if len(set(map(repr, limits))) == 1 and isinstance(limits[0], int) else None


def _converted(
    suite: RawSuite, target: Generation, lost: ConversionLoss, left_out: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the cases in a generation, without these fields. Raises InputErrors for those of another format, and for
    mixed forms."""
    errors: list[InputError] = []
    cases: list[dict[str, Any]] = []
    for path, raw in suite.entries():
        cursor = FieldCursor(suite.source, path)
        try:
            case = {name: value for name, value in _case(raw, cursor).items() if name not in left_out}
            cases.append(as_generation(case, cursor, target, lost))
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors)
    return cases


def _case(raw: Any, cursor: FieldCursor) -> JsonMap:
    if not isinstance(raw, Mapping) or "name" not in raw or "input" in raw:
        what = "a test with 'input'" if isinstance(raw, Mapping) else kind(raw)
        raise cursor.error(f"expected a test case with a simulated user ('name', 'persona', …), got {what}")
    read_case(raw, cursor, Diagnostics())  # raises for wrong fields, which no generation can hold
    return raw


def _writer(generation: Generation) -> SuiteWriter:
    """Return the writer of a generation; older and newer forms differ in what they hold, so that none is lossless."""
    call: Callable[[RawSuite, Path], tuple[list[NewFile], ConversionLoss]] = partial(_write, generation)
    return SuiteWriter(suffix=".json", write=call, in_line=True, lossless=False)


PAGE, PERSONA_TEXT, ANSWER_PER_CALL = map(_writer, Generation)
