"""Hostile suites: what expands without end, blocks, leads elsewhere, hides others, or is no text.

Every project has a good suite beside the hostile one. `validate` ends in time with exit code 0 or 2 and no stack trace,
still counts the good suite, names the hostile file where it is an error, and never shows what lies outside the project.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from eval_pipeline_tests.attacks.command_line import Printed, run_command, within_limits, write_files
from eval_pipeline_tests.attacks.findings import Attack, Findings, carry_out

GOOD = "tests: [{id: g, input: x, assertions: [{type: contains, value: x}]}]\n"
PLAIN = {
    "eval-pipeline.yaml": "suites: [suites]\n",
    "runners.yaml": "runners: [{name: echo, adapter: mock, response: x}]\n",
    "suites/good.yaml": GOOD,
}
MARKER = "content-of-an-outside-file"
Make = Callable[[Path, random.Random], None]


@dataclass(frozen=True, slots=True)
class Hostile:
    """Files of a suite, what else is made in the folder `suites`, and whether the suite must be refused."""

    files: Mapping[str, str | bytes]
    make: Make | None = None
    refused: bool = True
    names: str = "bad"
    hides_good: bool = False


def attack(seconds: float, seed: str, folder: Path) -> Findings:
    """Carry out every kind of hostile suite, then again with other random values, until the time is over."""
    return carry_out(ATTACKS, seconds, seed, folder)


def _validated(make: Callable[[random.Random], Hostile], folder: Path, rng: random.Random) -> str | None:
    hostile, project = make(rng), folder / "project"
    write_files(project, {**PLAIN, **{f"suites/{name}": content for name, content in hostile.files.items()}})
    _write_outside(folder)
    if hostile.make is not None:
        hostile.make(project / "suites", rng)
    problems: list[str] = []
    with within_limits(problems):
        printed = run_command(project, "validate")
    return "; ".join([*problems, *_broken_promises(hostile, printed)]) or None


def _broken_promises(hostile: Hostile, printed: Printed) -> Iterator[str]:
    if "Traceback" in printed.text:
        yield printed.text[-2_000:]
    if MARKER in printed.text:
        yield f"shows a file outside of the project: {_around(printed.text, MARKER)}"
    if printed.code not in ((2,) if hostile.refused else (0, 2)):
        yield f"exit code {printed.code}: {printed.text[-500:]}"
    if hostile.refused and hostile.names not in printed.text:
        yield f"no error names {hostile.names}: {printed.text[-500:]}"
    if not hostile.hides_good and "good: 1 case" not in printed.text:
        yield f"the good suite is missing: {printed.text[-500:]}"


def _around(text: str, word: str) -> str:
    at = text.index(word)
    return repr(text[max(0, at - 100) : at + 100])


def _write_outside(folder: Path) -> None:
    write_files(folder / "outside", {
        "cases.yaml": f"- {{id: o, input: {MARKER}, criteria: c}}\n",
        "cases.jsonl": json.dumps({"id": "o", "input": MARKER, "criteria": "c"}) + "\n",
        "notes.md": MARKER,
        "workspace.yaml": f"template: {MARKER}\n",
        "check.py": f"raise RuntimeError('{MARKER}')\n",
        "check.js": f"throw new Error('{MARKER}')\n",
        "template/file.txt": MARKER,
    })  # fmt: skip


def _case(**fields: object) -> str:
    return json.dumps({"tests": [{"id": "a", "input": "x", "criteria": "c", **fields}]})


def _evaluator(**fields: object) -> str:
    return _case(assertions=[fields])


# The fields of a suite that name files: each with the outside file that it is led to, and the text of the suite.
_NAMING: dict[str, tuple[str, Callable[[str], str]]] = {
    "tests": ("cases.yaml", lambda name: f"tests: {json.dumps(f'file://{name}')}\n"),
    "a test": ("cases.jsonl", lambda name: f"tests: [{json.dumps(f'file://{name}')}]\n"),
    "a file of a message": (
        "notes.md",
        lambda name: _case(input=[{"role": "user", "content": [{"type": "file", "value": name}]}]),
    ),
    "a grader's prompt": ("notes.md", lambda name: _evaluator(type="llm-grader", prompt=f"file://{name}")),
    "a python check": ("check.py", lambda name: _evaluator(type="python", value=f"file://{name}")),
    "a template": ("template", lambda name: _case(workspace={"template": name})),
    "a workspace's file": ("notes.md", lambda name: _case(workspace={"files": [name]})),
}
_LEADING: dict[str, Callable[[Path, str], str]] = {
    "..": lambda suites, name: f"../../outside/{name}",
    "an absolute path": lambda suites, name: str(suites.parents[1] / "outside" / name),
    "a link": lambda suites, name: _linked(suites / f"link-{name}", suites.parents[1] / "outside" / name).name,
    "a linked folder": lambda suites, name: f"{_linked(suites / 'inner', suites.parents[1] / 'outside').name}/{name}",
}


def _linked(link: Path, target: Path) -> Path:
    link.symlink_to(target)
    return link


def _way_out(field: str, way: str, _rng: random.Random) -> Hostile:
    def make(suites: Path, _rng: random.Random) -> None:
        name, text = _NAMING[field]
        (suites / "bad.yaml").write_text(text(_LEADING[way](suites, name)))

    return Hostile({}, make)


def _alias_bomb(rng: random.Random) -> Hostile:
    levels, width = rng.randint(8, 30), rng.randint(5, 12)
    lines = ["a0: &a0 [x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return Hostile({"bad.yaml": "\n".join([*lines, f"tests: *a{levels - 1}\n"])})


def _merge_bomb(rng: random.Random) -> Hostile:
    levels = rng.randint(15, 40)
    lines = ["m0: &m0 {id: a, input: x}"]
    lines += [f"m{n}: &m{n} {{b{n}: [*m{n - 1}, *m{n - 1}], <<: [*m{n - 1}, *m{n - 1}]}}" for n in range(1, levels)]
    return Hostile({"bad.yaml": "\n".join([*lines, f"tests: [*m{levels - 1}]\n"])})


def _deep(opening: str, closing: str, suffix: str, rng: random.Random) -> Hostile:
    depth = rng.choice([1_000, 100_000])
    return Hostile({f"bad.{suffix}": f'{{"tests": {opening * depth}{closing * depth}}}'})


def _link_loop(suites: Path, _rng: random.Random) -> None:
    (suites / "odd.yaml").symlink_to("odd.yaml")


def _pipe(suites: Path, _rng: random.Random) -> None:
    os.mkfifo(suites / "odd.yaml")


def _folder(suites: Path, _rng: random.Random) -> None:
    (suites / "odd.yaml").mkdir()


def _device(suites: Path, _rng: random.Random) -> None:
    (suites / "odd.yaml").symlink_to("/dev/zero")


_ODD_FILES = {"a pipe": _pipe, "a loop of links": _link_loop, "a folder": _folder, "an endless device": _device}
_ODDLY_NAMED = {
    "tests": "tests: file://odd.yaml\n",
    "a pattern": "tests: file://od*.yaml\n",
    "a message": '{"tests": [{"id": "a", "criteria": "c", "input": [{"role": "user", "content": '
    '[{"type": "file", "value": "odd.yaml"}]}]}]}',
    "a workspace's file": _case(workspace={"files": ["odd.yaml"]}),
}


def _odd_file(make: Make, text: str, _rng: random.Random) -> Hostile:
    return Hostile({"bad.yaml": text}, make, refused=False)


def _long_name(rng: random.Random) -> Hostile:
    name = rng.choice(["n" * 300, "n/" * 3_000, "n" * 100_000, "é" * 200])
    return Hostile({"bad.yaml": f"tests: file://{name}\n"})


def _equal_ids(rng: random.Random) -> Hostile:
    row = json.dumps({"id": "same", "input": "x", "criteria": "c"}) + "\n"
    return Hostile({"bad.jsonl": row * rng.choice([20_000, 100_000])})


def _other_encoding(rng: random.Random) -> Hostile:
    encoding = rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
    return Hostile({"bad.yaml": GOOD.encode(encoding)})


def _latin(_rng: random.Random) -> Hostile:
    return Hostile({"bad.yaml": GOOD.replace("input: x", "input: é").encode("latin-1")})


def _late_tests(rng: random.Random) -> Hostile:
    padding = "x" * rng.randint(65_000, 2_000_000)
    return Hostile({"late.yaml": f"description: |\n  {padding}\n{GOOD.replace('id: g', 'id: l')}"}, refused=False)


def _null_bytes(rng: random.Random) -> Hostile:
    at = rng.randrange(len(GOOD))
    return Hostile({"bad.yaml": "tests: " + GOOD[:at] + "\0" + GOOD[at:]})


def _hiding(_rng: random.Random) -> Hostile:
    return Hostile({"bad.yaml": "tests: file://*.yaml\n", "worse.yaml": "tests: file://*.yaml\n"})


def _huge_numbers(rng: random.Random) -> Hostile:
    number = rng.choice(["9" * 100_000, "1e400", "-1e400", ".nan", "0x" + "f" * 10_000, "1e1000000000"])
    return Hostile({"bad.yaml": GOOD.replace("id: g", f"id: g, weight: {number}, threshold: {number}")}, refused=False)


def _lone_surrogate(_rng: random.Random) -> Hostile:
    return Hostile({"bad.json": '{"tests": [{"id": "\\ud800", "input": "x", "criteria": "\\udfff"}]}'})


def _a_python_object(rng: random.Random) -> Hostile:
    tag = rng.choice(["!!python/object/apply:os.system", "!!python/name:os.system", "!!python/module:os", "!include"])
    return Hostile({"bad.yaml": f"tests: {tag} [touch made]\n"})


def _endless_pattern(_rng: random.Random) -> Hostile:
    return Hostile({"bad.yaml": "tests: file:///**/*.yaml\n"})


def _random_bytes(rng: random.Random) -> Hostile:
    return Hostile({"bad.yaml": b"tests: [" + rng.randbytes(rng.randint(1, 2_000))}, refused=False)


KINDS: dict[str, Callable[[random.Random], Hostile]] = {
    **{f"out by {way}: {field}": partial(_way_out, field, way) for field in _NAMING for way in _LEADING},
    **{
        f"{kind} named by {field}": partial(_odd_file, make, text)
        for kind, make in _ODD_FILES.items()
        for field, text in _ODDLY_NAMED.items()
    },
    "aliases that multiply": _alias_bomb,
    "merged mappings that multiply": _merge_bomb,
    "deep lists in YAML": partial(_deep, "[", "]", "yaml"),
    "deep lists in JSON": partial(_deep, "[", "]", "json"),
    "deep mappings in JSON": partial(_deep, '{"a":', "}", "json"),
    "a name of thousands of characters": _long_name,
    "equal ids by the thousand": _equal_ids,
    "UTF-16 and UTF-32": _other_encoding,
    "Latin-1": _latin,
    "tests after 64 KiB": _late_tests,
    "null bytes": _null_bytes,
    "suites that name each other": _hiding,
    "numbers without bounds": _huge_numbers,
    "lone surrogates": _lone_surrogate,
    "tags of Python objects": _a_python_object,
    "a pattern of the whole disk": _endless_pattern,
    "random bytes": _random_bytes,
}
ATTACKS: dict[str, Attack] = {kind: partial(_validated, make) for kind, make in KINDS.items()}
