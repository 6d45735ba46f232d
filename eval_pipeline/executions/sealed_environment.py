"""Which variables programs get that must not see the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

HARMLESS = (
    "PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR", "SHELL", "USER", "LOGNAME",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHASHSEED", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
"""Variables that every such program gets: where programs are, language, terminal, proxies and certificates."""


def chosen_variables(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the variables of an environment whose names are among these names and patterns."""
    return {key: value for key, value in environment.items() if any(fnmatchcase(key, name) for name in names)}
