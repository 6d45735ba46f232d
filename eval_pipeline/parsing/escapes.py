"""The forms in which a text appears where it was escaped: in JSON, addresses, HTML, shells, Python and base64."""

from __future__ import annotations

import base64
import html
import json
import shlex
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

SHORTEST_LINE = 16
"""A line of a secret of several lines is a secret of its own from this length."""


def forms_of(text: str) -> list[str]:
    """Return every form of a text, its own first, each once."""
    parts = [text, *_lines(text)]
    return list(dict.fromkeys(form for part in parts for form in _forms(part) if form))


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()] if "\n" in text else []
    crlf = [text.replace("\r\n", "\n").replace("\n", "\r\n"), text.replace("\r\n", "\n"), text.strip()] if lines else []
    return [*crlf, *(line for line in lines if len(line) >= SHORTEST_LINE and not line.startswith("-----"))]


def _forms(text: str) -> Iterator[str]:
    yield text
    yield from _base64(text)
    plain = {text}
    for escape in ESCAPES:
        plain.add(escaped := escape(text))
        yield escaped
    for escaped in sorted(plain - {text}):  # JSON within JSON, HTML within JSON, an argument within a quoted line
        yield from (_json(escaped), _json_ascii(escaped), html.escape(escaped), escaped.replace("'", "'\"'\"'"))
    if plain != {text}:
        yield _json(_json(_json(text)))
        yield _json_ascii(_json_ascii(_json_ascii(text)))


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _json_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _json_of_go(text: str) -> str:
    """As Go and some JavaScript libraries write JSON: safe inside HTML."""
    safe = _json(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _url(safe: str, *, lower: bool = False) -> Callable[[str], str]:
    def escape(text: str) -> str:
        quoted = quote(text.encode("utf-8", "surrogatepass"), safe=safe)
        return _lower_escapes(quoted) if lower else quoted

    return escape


def _lower_escapes(text: str) -> str:
    head, *parts = text.split("%")
    return head + "".join(f"%{part[:2].lower()}{part[2:]}" for part in parts)


def _form(text: str) -> str:
    return quote_plus(text.encode("utf-8", "surrogatepass"))


def _html_decimal(text: str) -> str:
    return html.escape(text, quote=False).replace('"', "&#34;").replace("'", "&#39;")


def _html_named(text: str) -> str:
    return html.escape(text, quote=False).replace('"', "&quot;").replace("'", "&apos;")


def _xml_attribute(text: str) -> str:
    escaped = html.escape(text, quote=False).replace('"', "&quot;")
    return escaped.replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")


def _shell(text: str) -> str:
    return shlex.quote(text).removeprefix("'").removesuffix("'")


def _shell_backslash(text: str) -> str:
    return text.replace("'", "'\\''")


def _shell_double(text: str) -> str:
    return "".join(f"\\{char}" if char in '"\\$`' else char for char in text)


def _shell_bare(text: str) -> str:
    return "".join(char if char.isalnum() or char in "_@%+=:,./-" else f"\\{char}" for char in text)


def _shell_ansi(text: str) -> str:
    """As `$'…'`, how bash prints a value with control characters."""
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")


def _python(text: str) -> str:
    return repr(text)[1:-1]


def _python_ascii(text: str) -> str:
    return ascii(text)[1:-1]


def _python_bytes(text: str) -> str:
    return repr(text.encode("utf-8", "surrogatepass"))[2:-1]


ESCAPES: tuple[Callable[[str], str], ...] = (
    _json, _json_ascii, _json_of_go, lambda text: _json(text).replace("/", "\\/"),
    lambda text: _json_ascii(text).replace("/", "\\/"), _url(""), _url("/"), _url("!~*'()"), _url("", lower=True),
    _form,
    lambda text: html.escape(text), lambda text: html.escape(text, quote=False), _html_decimal, _html_named,
    _xml_attribute, _shell, _shell_backslash, _shell_double, _shell_bare, _shell_ansi, _python, _python_ascii,
    _python_bytes,
)  # fmt: skip


def _base64(text: str) -> Iterator[str]:
    """The characters of base64 that a text determines, at each of the three positions where it may begin."""
    content = text.encode("utf-8", "surrogatepass")
    for before in range(3):
        first, end = -(-8 * before // 6), 8 * (before + len(content)) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * before + content)[first:end].decode("ascii")
