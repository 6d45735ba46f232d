"""AgentV's own example suites, carried out by AgentV and by us, and compared test by test.

The examples are not part of this repository. A checkout of AgentV (with its packages installed and built) is named by
the caller; its examples are copied, every target and grader that needs a network becomes a model of a local server
with known answers, and both commands run each eval file.
`python -m eval_pipeline_tests.conformance.agentv_examples CHECKOUT` prints every disagreement.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import yaml

from eval_pipeline.cli.main import main as eval_pipeline

UV = """\
#!/bin/sh
while [ "$1" = run ] || [ "$1" = --quiet ] || [ "$1" = --project ]; do [ "$1" = --project ] && shift; shift; done
case "$1" in *.py) exec python3 "$@" ;; python) shift; exec python3 "$@" ;; *) exec "$@" ;; esac
"""
ANSWERS, GRADES = "stub", "stub-grader"
"""The models of the local server, and the targets of these names."""
OFFLINE = frozenset({"cli", "mock", "replay", "transcript"})
EVAL_FILE = re.compile(r"(.*\.)?eval\.ya?ml\Z|evals\.json\Z", re.IGNORECASE)
ID = re.compile(r"^\s*-?\s*id:\s*[\"']?([\w.-]+)", re.MULTILINE)
SHOWN = re.compile(r"\[([a-z][\w.-]*)\]")
TARGET = re.compile(r"\b\"?target\"?:\s*[\"']?([A-Za-z][\w.-]*)")
PROJECT = "suites: []\n"
"""Our project file: the defaults as shipped."""
_SKIPPED = frozenset({"node_modules", ".git", "dist"})
_VARIABLES = {
    "AGENT_TARGET": ANSWERS,
    "LLM_TARGET": ANSWERS,
    "GRADER_TARGET": GRADES,
    "STUB_KEY": "none",
    "STUB_ANSWERS": ANSWERS,
    "STUB_GRADES": GRADES,
    "EVAL_CRITERIA": "placeholder",
    "CUSTOM_SYSTEM_PROMPT": "placeholder",
}
_TIMEOUT_S = 180


@dataclass(frozen=True, slots=True)
class TestResult:
    """The outcome of one test of an eval file. `score` is None where the execution is an error."""

    __test__ = False

    status: str
    score: float | None

    def agrees(self, other: TestResult) -> bool:
        """Return whether status and score are equal."""
        if self.status != other.status:
            return False
        return self.score is None or other.score is None or abs(self.score - other.score) < 0.002


@dataclass(frozen=True, slots=True)
class Examples:
    """A copy of the examples of a checkout, with offline targets."""

    checkout: Path
    root: Path
    address: str

    @property
    def eval_files(self) -> list[str]:
        """The eval files, relative to the copy."""
        return [
            str(path.relative_to(self.root)) for path in _files(self.root / "examples") if EVAL_FILE.match(path.name)
        ]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of both commands."""
        path = os.pathsep.join((str(self.root / ".stubs"), str(Path(sys.executable).parent), os.environ["PATH"]))
        return {
            **os.environ,
            **_VARIABLES,
            "STUB_URL": self.address,
            "PATH": path,
            "AGENTV_HOME": str(self.root.parent / "home"),
            "NO_COLOR": "1",
        }


class _Models(BaseHTTPRequestHandler):
    """Chat completions: `stub` repeats the last message, `stub-grader` grades each criterion by its id."""

    ids: ClassVar[Sequence[str]] = ()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [_text(message["content"]) for message in request["messages"]]
        answer = _grades("\n".join(texts), self.ids) if request["model"] == GRADES else f"Answer to: {texts[-1]}\n"
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        said = {"role": "assistant", "content": answer}
        choice = {"index": 0, "finish_reason": "stop"}
        head = {"id": "1", "created": 0, "model": request["model"], "usage": usage}
        if request.get("stream"):
            chunk = {**head, "object": "chat.completion.chunk", "choices": [{**choice, "delta": said}]}
            self._send("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
        else:
            whole = {**head, "object": "chat.completion", "choices": [{**choice, "message": said}]}
            self._send("application/json", json.dumps(whole))

    def _send(self, type_: str, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _grades(prompt: str, ids: Sequence[str]) -> str:
    known = {name for name in ids if name in prompt}
    numbers = {name: zlib.crc32(name.encode()) for name in known} | dict.fromkeys(set(SHOWN.findall(prompt)) - known, 7)
    checks = [
        {"id": name, "satisfied": number % 3 != 0, "score": number % 11, "reasoning": "-"}
        for name, number in numbers.items()
    ]
    assertions = [{"text": "good", "passed": True}]
    return json.dumps({"score": 0.85, "assertions": assertions, "checks": checks, "overall_reasoning": "-"})


@contextlib.contextmanager
def offline_examples(checkout: Path, folder: Path) -> Iterator[Examples]:
    """Copy the examples of a checkout into a new repository, with a server for their targets and graders."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield copy_examples(checkout, folder, f"http://127.0.0.1:{server.server_port}/v1")
    finally:
        server.shutdown()
        server.server_close()


def copy_examples(checkout: Path, folder: Path, address: str) -> Examples:
    """Copy the examples of a checkout into a new repository and make their targets offline."""
    root = folder / "repository"
    for name in ("examples", ".agentv"):
        shutil.copytree(checkout / name, root / name, symlinks=True, ignore=shutil.ignore_patterns("node_modules"))
    for name in ("node_modules", "packages", "apps"):
        (root / name).symlink_to(checkout / name)
    shutil.copy(checkout / "package.json", root)
    (root / ".gitignore").write_text("node_modules\n.stubs\n/packages\n/apps\n")
    (root / "eval-pipeline.yaml").write_text(PROJECT)
    (root / ".stubs").mkdir()
    (root / ".stubs" / "uv").write_text(UV)
    (root / ".stubs" / "uv").chmod(0o755)
    files = list(_files(root / "examples"))
    texts = [path.read_text(errors="replace") for path in files if path.suffix in (".yaml", ".yml", ".jsonl")]
    _Models.ids = sorted({name for text in texts for name in ID.findall(text)} | {f"rubric-{n}" for n in range(1, 13)})
    named = {name for text in texts for name in TARGET.findall(text)}
    for path in [*_files(root / ".agentv"), *files]:
        if re.fullmatch(r"targets\.ya?ml", path.name):
            _make_offline(path, named)
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "Examples"]):
        subprocess.run([*git, *command], check=True)
    return Examples(checkout, root, address)


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not (Path(parent) / name).is_symlink())
        yield from (Path(parent) / name for name in sorted(names))


def _make_offline(path: Path, named: Set[str]) -> None:
    """Give a targets file the local server's models, also under the names that suites have and no file explains."""
    document = yaml.safe_load(path.read_text())
    if not isinstance(document, dict) or not isinstance(document.get("targets"), list):
        return
    targets = {target["name"]: _offline(target) for target in document["targets"]}
    for name in sorted({ANSWERS, GRADES, "grader", *named} - targets.keys()):
        targets[name] = _model(name, GRADES if "grader" in name else ANSWERS)
    path.write_text(yaml.safe_dump({**document, "targets": list(targets.values())}, sort_keys=False))


def _offline(target: dict[str, Any]) -> dict[str, Any]:
    if "use_target" in target:
        return target
    if target.get("provider") in OFFLINE:
        return {"grader_target": "grader", **target}
    return _model(target["name"], ANSWERS)


def _model(name: str, model: str) -> dict[str, Any]:
    grader = {"grader_target": "grader"} if model == ANSWERS else {}
    settings = {"api_key": "${{ STUB_KEY }}", "model": "${{ STUB_ANSWERS }}" if grader else "${{ STUB_GRADES }}"}
    return {"name": name, "provider": "openai", "base_url": "${{ STUB_URL }}", **settings, **grader}


def results_of_agentv(examples: Examples, eval_file: str, output: Path) -> dict[str, list[TestResult]]:
    """Run AgentV on an eval file. Tests without a row are absent."""
    cli = str(examples.checkout / "apps" / "cli" / "src" / "cli.ts")
    command = ["bun", cli, "eval", "run", eval_file, "--output", str(output), "--workers", "1"]
    try:
        finished = subprocess.run(
            command,
            cwd=examples.root,
            env=examples.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        (output.parent / f"{output.name}.log").write_text(finished.stdout + finished.stderr)
    except subprocess.TimeoutExpired as error:
        (output.parent / f"{output.name}.log").write_text(f"{error}\n")
    return _rows(output / "index.jsonl")


def results_of_ours(examples: Examples, eval_file: str, output: Path) -> dict[str, list[TestResult]]:
    """Run our command on an eval file, and export AgentV's rows."""
    data = str(output.parent / f"{output.name}-data")
    log = _ours(examples, "run", eval_file, "--data", data, "--quiet")
    log += _ours(examples, "export", "--data", data, "--format", "agentv", "--output", str(output))
    (output.parent / f"{output.name}.log").write_text(log)
    return _rows(output / "index.jsonl")


def _ours(examples: Examples, *arguments: str) -> str:
    text = io.StringIO()
    with (
        _in_folder(examples.root, examples.environment),
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(text),
    ):
        try:
            eval_pipeline(list(arguments))
        except SystemExit as end:
            print(f"exit {end.code}", file=text)
    return text.getvalue()


@contextlib.contextmanager
def _in_folder(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _rows(index: Path) -> dict[str, list[TestResult]]:
    """Return the results of each test, one per target: of several repetitions the best."""
    results: dict[tuple[str, str], TestResult] = {}
    for line in index.read_text().splitlines() if index.is_file() else ():
        row = json.loads(line)
        status = row["execution_status"]
        result = TestResult(status, None if status == "execution_error" else round(row["score"], 3))
        key = (str(row["test_id"]), row["target"])
        results[key] = max(result, results.get(key, result), key=lambda each: each.score or 0.0)
    tests: dict[str, list[TestResult]] = {}
    for (test, _), result in results.items():
        tests.setdefault(test, []).append(result)
    return {test: sorted(rows, key=lambda row: (row.status, row.score or 0.0)) for test, rows in tests.items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of one test of an eval file: AgentV's and ours; empty where there is no row."""

    eval_file: str
    test: str
    agentv: tuple[TestResult, ...]
    ours: tuple[TestResult, ...]

    @property
    def name(self) -> str:
        """The test's name in the list of differences."""
        return f"{self.eval_file.removeprefix('examples/')}::{self.test}"

    @property
    def agrees(self) -> bool:
        """Return whether both have the same rows."""
        pairs = zip(self.agentv, self.ours, strict=False)
        return len(self.agentv) == len(self.ours) and all(theirs.agrees(ours) for theirs, ours in pairs)


def compare(examples: Examples, eval_files: Sequence[str], folder: Path, *, keep: bool = False) -> Iterator[Comparison]:
    """Run both commands on these eval files and yield a comparison per test. `keep` reads AgentV's earlier rows."""
    for eval_file in eval_files:
        name = re.sub(r"\W+", "-", eval_file.removeprefix("examples/"))
        theirs_folder, ours_folder = folder / "agentv" / name, folder / "ours" / name
        for path in (theirs_folder, ours_folder):
            path.parent.mkdir(parents=True, exist_ok=True)
        if keep and theirs_folder.with_name(f"{name}.log").exists():
            theirs = _rows(theirs_folder / "index.jsonl")
        else:
            theirs = results_of_agentv(examples, eval_file, theirs_folder)
            _tidy(examples)
        for old in (ours_folder, ours_folder.with_name(f"{name}-data")):
            shutil.rmtree(old, ignore_errors=True)
        ours = results_of_ours(examples, eval_file, ours_folder)
        _tidy(examples)
        for test in sorted({*theirs, *ours}):
            yield Comparison(eval_file, test, tuple(theirs.get(test, ())), tuple(ours.get(test, ())))


def false_alarms(examples: Examples) -> set[str]:
    """Return the places that `validate` calls errors in any of the examples, without line numbers."""
    findings = json.loads(_ours(examples, "validate", "--json", *examples.eval_files).partition("\n")[0])
    return {f"{each['file']}: {each['field']}" for each in findings if each["severity"] == "error"}


def _tidy(examples: Examples) -> None:
    """Remove what a run left in the repository."""
    git = ["git", "-C", str(examples.root)]
    subprocess.run([*git, "reset", "--quiet", "--hard"], check=True)
    subprocess.run([*git, "clean", "-fdq"], check=True)


def _shown(results: Iterable[TestResult]) -> str:
    return ", ".join(f"{result.status} {result.score}" for result in results) or "no row"


def main() -> None:
    """Print the disagreements of a checkout's examples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--folder", type=Path, help="keep everything here, and AgentV's rows for the next call")
    parser.add_argument("--only", default="", help="eval files whose path contains this")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    shutil.rmtree(folder / "repository", ignore_errors=True)
    agreed = total = 0
    with offline_examples(options.checkout, folder) as examples:
        eval_files = [name for name in examples.eval_files if options.only in name]
        for comparison in compare(examples, eval_files, folder, keep=True):
            total += 1
            agreed += comparison.agrees
            if not comparison.agrees:
                shown = f"AgentV {_shown(comparison.agentv)}; ours {_shown(comparison.ours)}"
                print(f"{comparison.name}: {shown}", flush=True)
    print(f"{agreed} of {total} agree")


if __name__ == "__main__":
    main()
