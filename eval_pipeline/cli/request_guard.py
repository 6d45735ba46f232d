"""What the guard in front of Dagster's web server refuses beside foreign hosts and origins: mutations in an address.

The UI has no password, so every request that reaches it may start runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl

from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse

from eval_pipeline.pages.request_guard import App, RequestGuard, Scope, allow_hosts, headers_of


def guarded(app: App, listening: str, named: Iterable[str]) -> RequestGuard:
    """Return Dagster's web server, which listens on an address, behind the guard."""
    return RequestGuard(app, allow_hosts(listening, named, "eval-pipeline dev"), refused_mutation)


def refused_mutation(scope: Scope) -> str | None:
    """Return why a request is refused that has a mutation in its address, None for any other."""
    if _shows_page(scope, headers_of(scope)):
        return None
    return _refuse_mutation(scope.get("query_string", b""))


def _shows_page(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether the answer is a page; that of `/graphql` shows the query of its address and does not execute it."""
    return scope.get("method") == "GET" and "text/html" in headers.get("accept", "")


def _refuse_mutation(query_string: bytes) -> str | None:
    """Refuse an address that has a GraphQL operation other than a query, by whatever method it is requested."""
    documents = [text for name, text in parse_qsl(query_string.decode("latin-1")) if name == "query"]
    if any(map(_changes_something, documents)):
        return "an address must not have a mutation; send it by POST as application/json"
    return None


def _changes_something(document: str) -> bool:
    """Whether a document has, or may have, a mutation or subscription.

    The web server has the same parser and reports what cannot be parsed; one that is too deep here may not be so there.
    """
    try:
        definitions = parse(document).definitions
    except GraphQLError:
        return False
    except RecursionError:
        return True
    operations = [each.operation for each in definitions if isinstance(each, OperationDefinitionNode)]
    return any(operation is not OperationType.QUERY for operation in operations)
