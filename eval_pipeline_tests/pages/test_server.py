"""Who may ask the server of the page, and what its answers forbid."""

from __future__ import annotations

import re

import pytest

from eval_pipeline.pages.static_files import modules, script, static_files, text_of
from eval_pipeline_tests.cli.sample_project import make_cli_project
from eval_pipeline_tests.pages.sample_page import Served

OURS = [name for name in static_files() if name.endswith(".js") and name != "uplot.js"]


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/board", "/api/suite", "/nothing"])
def test_every_answer_forbids_foreign_content_and_frames(served: Served, path: str) -> None:
    headers = served.get(path).headers

    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example", "8.8.8.8"])
def test_a_foreign_host_is_refused(served: Served, host: str) -> None:
    answer = served.get("/api/board", host=host)

    assert answer.status_code == 403
    assert "eval-pipeline view --allowed-host" in answer.text


@pytest.mark.parametrize("origin", ["https://attacker.example", "null", "http://localhost:1"])
def test_a_foreign_origin_is_refused(served: Served, origin: str) -> None:
    assert served.get("/api/board", origin=origin).status_code == 403
    assert served.get("/api/board", origin=served.url).status_code == 200


def test_what_another_site_embeds_is_refused(served: Served) -> None:
    headers = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"}

    assert served.get("/api/board", **headers).status_code == 403


@pytest.mark.parametrize("path", ["/../server.py", "/%2e%2e/server.py", "/uplot-LICENSE", "/api/", "/static/app.js"])
def test_only_the_files_of_the_page_are_served(served: Served, path: str) -> None:
    assert served.get(path).status_code == 404


def test_a_project_without_results_says_what_to_do(tmp_path_factory: pytest.TempPathFactory) -> None:
    answer = make_cli_project(tmp_path_factory.mktemp("new"))("view", "--port", "0")

    assert answer.code == 2
    assert "run a sweep first" in answer.err


def test_modules_and_their_functions_are_short() -> None:
    for name in OURS:
        lines = text_of(name).splitlines()
        starts = [number for number, line in enumerate(lines) if re.match(r"(export )?(async )?function ", line)]
        ends = [number for number, line in enumerate(lines) if line == "}"]
        longest = max((next(end for end in ends if end > start) - start + 1 for start in starts), default=0)
        assert len(lines) < 450, name
        assert longest <= 50, name


def test_every_module_is_used_and_no_two_have_a_name_in_common() -> None:
    names = [each for name in OURS for each in re.findall(
        r"^(?:export )?(?:async )?(?:function|const|let) (\w+)", text_of(name), re.MULTILINE)]  # fmt: skip

    assert sorted(modules()) == sorted(OURS)
    assert len(names) == len(set(names))


def test_one_script_has_no_import_left() -> None:
    assert not re.search(r"^\s*(import|export) ", script(), re.MULTILINE)


def test_nothing_makes_html_of_text() -> None:
    for name in OURS:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text_of(name)
        )
