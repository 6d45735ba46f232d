"""People correct grades: stored beside the scores, agreement follows, and the page says when nothing can be stored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from filelock import FileLock

from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.orchestration.browser import Browser, See
from eval_pipeline_tests.pages.sample_page import EVIL, Served, served_page


@pytest.fixture
def graded(page_project: CliProject, tmp_path: Path) -> Iterator[tuple[Served, CliProject]]:
    """A copy of the project that people may grade, and its page."""
    shutil.copytree(page_project.root, tmp_path / "project")
    project = CliProject(tmp_path / "project")
    with served_page(project.root / "data") as page:
        yield page, project


def plan_of(page: Served, runner: str = "greeter", case: str = "nobody") -> Any:
    plans = page.document("case", suite="greetings", case=case)["plans"]
    return next(plan for plan in plans if plan["runner"] == runner)


def grade(page: Served, plan: Any, **values: Any) -> httpx.Response:
    address = f"{page.url}/api/grades?suite={plan['suite']}&case={plan['case_id']}"
    body = {"execution_id": plan["execution_id"], "spec_key": plan["scores"][0]["spec_key"], "person": "Ann", **values}
    return httpx.post(address, json=body, timeout=30)


def test_a_grade_is_stored_beside_the_score_with_who_when_and_why(graded: tuple[Served, CliProject]) -> None:
    page, project = graded
    plan = plan_of(page)

    answer = grade(page, plan, passed=True, comment="polite enough")

    (stored,) = page.document("case", suite="greetings", case="nobody")["grades"]
    assert answer.json()["grades"] == [stored]
    assert (stored["person"], stored["passed"], stored["comment"]) == ("Ann", True, "polite enough")
    assert stored["graded_at"] > "2026"
    assert plan_of(page) == plan
    assert "polite" in project("sql", "SELECT evaluator, person FROM human_grades").out


def test_agreement_is_of_the_newest_grade_of_each_person(graded: tuple[Served, CliProject]) -> None:
    page, project = graded
    right, wrong = plan_of(page, case="ann", runner="parrot"), plan_of(page)
    grade(page, right, passed=True)
    grade(page, wrong, passed=False)
    grade(page, wrong, passed=True)  # Ann thinks again
    grade(page, wrong, passed=False, person="Bob")

    (row,) = (each for each in page.document("agreement")["people_agreement"] if each["evaluator"] == "polite")
    printed = project("agreement", "--json").document["people_agreement"]

    assert printed == page.document("agreement")["people_agreement"]
    assert (row["grader"], row["people"], row["grades"]) == ("icontains", 2, 3)
    assert row["agreement"] == pytest.approx(2 / 3)
    assert (row["passed_wrongly"], row["failed_wrongly"]) == (0, 1)
    assert "66.7 %" in project("agreement").out


def test_a_verdict_as_a_whole_may_be_graded(graded: tuple[Served, CliProject]) -> None:
    page, _ = graded

    assert grade(page, plan_of(page), spec_key=None, passed=True).status_code == 200

    (row,) = page.document("agreement")["people_agreement"]
    assert (row["evaluator"], row["agreement"], row["cohens_kappa"]) == ("verdict", 0.0, 0.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"passed": True, "person": " "}, "who grades?"),
        ({}, "expected passed, failed or a comment"),
        ({"passed": "yes"}, "passed: expected true, false or null"),
        ({"passed": True, "execution_id": "other"}, "no execution 'other'"),
        ({"passed": True, "spec_key": "other"}, "no such score"),
        ({"comment": "x" * 20_001}, "at most 20,000 characters"),
    ],
    ids=["nobody", "nothing", "no boolean", "no execution", "no score", "too long"],
)
def test_a_bad_grade_is_refused(graded: tuple[Served, CliProject], values: dict[str, Any], message: str) -> None:
    page, _ = graded

    answer = grade(page, plan_of(page), **values)

    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://attacker.example", "content-type": "application/json"}, 403),
        ({"sec-fetch-site": "cross-site", "content-type": "application/json"}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_no_other_site_can_grade(served: Served, headers: dict[str, str], status: int) -> None:
    answer = httpx.post(f"{served.url}/api/grades?suite=a&case=b", content=b"{}", headers=headers, timeout=30)

    assert answer.status_code == status


def test_without_its_warehouse_the_page_says_that_it_cannot_store(graded: tuple[Served, CliProject]) -> None:
    page, project = graded
    plan = plan_of(page)
    (project.root / "data" / "warehouse.duckdb").unlink()

    assert "cannot be stored" in page.document("live")["read_only"]
    answer = grade(page, plan, passed=True)

    assert answer.status_code == 503
    assert "warehouse.duckdb is missing" in answer.json()["error"]


def test_a_warehouse_in_use_is_waited_for_and_named(graded: tuple[Served, CliProject]) -> None:
    page, project = graded
    plan = plan_of(page)

    with FileLock(project.root / "data" / "warehouse.lock"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDBWarehouse, "lock_timeout_s", 0.2)
        answer = grade(page, plan, passed=True)

    assert answer.status_code == 503
    assert "is held by" in answer.json()["error"]
    assert grade(page, plan, passed=True).status_code == 200


@pytest.mark.slow
@pytest.mark.browser
def test_a_person_grades_in_the_browser(graded: tuple[Served, CliProject], browser: Browser) -> None:
    page, _ = graded
    fields = "document.querySelector('.score form [name={}]').value = {}"

    seen = browser.look(
        f"{page.url}/#case?suite=greetings&case=nobody&runner=greeter", See("grade this score"),
        "document.querySelector('.score .ask').open = true", See("comment only"),
        fields.format("person", "'Ann'"), fields.format("comment", json.dumps(EVIL)),
        "[...document.querySelectorAll('.score form button')][0].click()", See("stored"), See("✓ passes it"),
        "document.querySelectorAll('main img').length",
    )  # fmt: skip

    assert EVIL in seen.text
    assert seen.values[-1] == 0
    assert seen.problems == []
