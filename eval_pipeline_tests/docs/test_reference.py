"""The reference is complete: each evaluator, argument, setting, option, column and class of the code is on its page."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields
from types import ModuleType
from typing import Any

import click
import pytest

import eval_pipeline
from eval_pipeline.cli.main import COMMANDS, cli
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.runner_fields import runner_fields
from eval_pipeline.failures import FAILURE_CLASSES
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.suites.fields import suite_fields
from eval_pipeline.sweeps.options import Defaults
from eval_pipeline.sweeps.project import ProjectFile
from eval_pipeline.sweeps.retention import Retention, SweepLimit
from eval_pipeline.warehouse.tables import TABLES
from eval_pipeline.warehouse.views import VIEWS
from eval_pipeline_tests.console_blocks import ROOT, read_page

REFERENCE = ROOT / "docs" / "reference"


def hook() -> ModuleType:
    """The hook of mkdocs as a module."""
    spec = importlib.util.spec_from_file_location("reference_hook", ROOT / "docs" / "hooks" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOK = hook()


def page(name: str) -> str:
    """A page of the reference as the site shows it."""
    text: str = HOOK.with_tables(read_page(f"docs/reference/{name}.md"))
    return text


def section(text: str, name: str) -> str:
    """The part of a page below the heading that names this."""
    return next(part for part in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:] if f"`{name}`" in part.split("\n")[0])


@pytest.mark.parametrize("name", EVALUATORS.names())
def test_an_evaluator_has_its_arguments_on_the_page(name: str) -> None:
    text = page("evaluators")
    part: Any = EVALUATORS.get(name)
    if name.startswith("not-") and name.removeprefix("not-") in EVALUATORS.names():
        assert f"`{name}`" in text
        return

    entry = section(text, name)

    assert [argument.name for argument in fields(part) if f"`{argument.name}`" not in entry] == []


@pytest.mark.parametrize("name", ADAPTERS.names())
def test_an_adapter_has_its_settings_on_the_page(name: str) -> None:
    entry = section(page("adapters"), name)

    assert [setting for setting in ADAPTERS.get(name).settings if f"`{setting}`" not in entry] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_has_its_options_on_the_page(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    entry = re.split(rf"^## {name}$", page("commands"), flags=re.MULTILINE)[1].split("\n## ")[0]

    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]  # type: ignore[union-attr]

    assert [option for option in options if option not in entry] == []


def test_every_table_view_and_column_is_on_the_page() -> None:
    text = page("tables")

    names = [name for table in TABLES for name in (table.name, *table.column_names)] + [view.name for view in VIEWS]

    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_failure_class_is_on_the_page() -> None:
    text = page("failure-classes")

    assert [id_ for id_ in FAILURE_CLASSES if f"`{id_}`" not in text] == []


def test_every_public_name_is_on_the_page() -> None:
    text = page("python")

    assert [name for name in eval_pipeline.__all__ if f"`{name}`" not in text] == []


def test_every_field_of_the_project_file_is_on_the_page() -> None:
    text = page("project-file")

    fields = [item for model in (ProjectFile, Defaults, Retention, SweepLimit) for item in model.model_fields.items()]
    assert [name for name, field in fields if f"`{field.validation_alias or name}`" not in text] == []


@pytest.mark.parametrize(("name", "root"), [("suite-file", suite_fields()), ("runners-file", runner_fields())])
def test_every_field_that_readers_accept_is_on_the_page(name: str, root: FieldTable) -> None:
    sections = re.split(r"^##+ ", page(name), flags=re.MULTILINE)[1:]
    shown = {section.split("\n")[0]: section for section in sections}

    for heading, table in HOOK.tables_within(root):
        assert [spelling for spelling in table.names if f"`{spelling}`" not in shown[heading]] == []


def test_tables_of_one_title_have_headings_of_their_own() -> None:
    headings = [heading for heading, _ in HOOK.tables_within(suite_fields())]

    assert {"execution", "execution of a suite"} & set(headings)
    assert len(headings) == len(set(headings))


def test_every_mark_on_a_page_has_a_generator_and_every_generator_a_mark() -> None:
    marks = {mark for file in REFERENCE.glob("*.md") for mark in HOOK.MARK.findall(file.read_text(encoding="utf-8"))}

    assert marks == set(HOOK.GENERATORS)


def test_a_type_is_described_in_words() -> None:
    union = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer", "minimum": 1}}]}

    assert HOOK.type_text(union) == "text or list of whole number (≥ 1)"
    assert HOOK.type_text({"enum": ["a", "b"]}) == "`a`, `b`"
