"""The default export of a module of JavaScript or TypeScript, which node runs.

`import … from "skillgym"` works without that package, and so do relative imports without their suffix.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.source import show_path

_READ_LIMIT_S = 20
_STUB = """
const any = new Proxy(function () {}, { get: (_, name) => (name === Symbol.toPrimitive ? () => "" : any),
  apply: () => any, construct: () => any });
export const assert = any, commandMatcher = any, CommandMatcherBuilder = any, loadConfig = any, parseConfig = any,
  loadReporter = any, BUILT_IN_REPORTER_NAMES = [];
export default any;
"""
_HOOKS = f"""
const stub = "data:text/javascript,{quote(_STUB)}";
const suffixes = [".ts", ".mts", ".js", ".mjs", "/index.ts", "/index.js"];
export async function resolve(name, context, next) {{
  try {{ return await next(name, context); }} catch (error) {{
    if (name === "skillgym") return {{ url: stub, shortCircuit: true }};
    if (!name.startsWith(".")) throw error;
    const names = [...suffixes.map((suffix) => name + suffix), name.replace(/\\.([cm]?)js$/, ".$1ts")];
    for (const other of names) {{ try {{ return await next(other, context); }} catch {{}} }}
    throw error;
  }}
}}
"""
_PROGRAM = f"""
import {{ register }} from "node:module";
register("data:text/javascript,{quote(_HOOKS)}");
const m = await import(process.argv[1]);
const d = m.default ?? m;
console.log(JSON.stringify(d?.default ?? d));
"""
_NO_TYPES = "ERR_UNKNOWN_FILE_EXTENSION"
_NOT_STRIPPED = "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX"
_STRIP_TYPES = "--experimental-strip-types"
"""A flag of node 22.6 and newer; from 22.18 it is not needed."""
_TRANSFORM_TYPES = "--experimental-transform-types"
"""A flag of node 22.7 and newer, for enums and what else is no mere type."""


def default_export(path: Path) -> Any:
    """Return what a module exports by default, as JSON has it. Raises InputError with the file."""
    place = SourceLocation(show_path(path))
    node = shutil.which("node")
    if node is None:
        raise InputError("needs node, which is not installed; write the configuration as JSON", place)
    done = _run_node(node, [], path, place)
    if _NO_TYPES in done.stderr:
        done = _run_node(node, [_STRIP_TYPES], path, place)
        if _NO_TYPES in done.stderr or _STRIP_TYPES in done.stderr:
            raise InputError(_typescript_problem(node, path), place)
    cure = ""
    if _NOT_STRIPPED in done.stderr:
        transformed = _run_node(node, [_TRANSFORM_TYPES], path, place)
        done = done if _TRANSFORM_TYPES in transformed.stderr else transformed
        cure = f"; node 22.7 and newer can, or write it without types as {_plain(path)} or skillgym.config.json"
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "Error" in line] or ["node failed"]
        raise InputError(f"cannot be read: {lines[0].strip()}{cure if _NOT_STRIPPED in done.stderr else ''}", place)
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise InputError("exports no configuration", place) from None


def _run_node(node: str, flags: list[str], path: Path, place: SourceLocation) -> subprocess.CompletedProcess[str]:
    command = [node, *flags, "--no-warnings", "--input-type=module", "-e", _PROGRAM, str(path.absolute())]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_READ_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(f"took longer than {_READ_LIMIT_S} s to read", place) from None


def _typescript_problem(node: str, path: Path) -> str:
    asked = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=_READ_LIMIT_S, check=False)
    return (
        f"is TypeScript, which node {asked.stdout.strip()} cannot read: use node 22.6 or newer, "
        f"or write it without types as {_plain(path)} or skillgym.config.json"
    )


def _plain(path: Path) -> str:
    return path.with_suffix({".mts": ".mjs", ".cts": ".cjs"}.get(path.suffix, ".mjs")).name
