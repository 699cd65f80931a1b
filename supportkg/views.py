"""Health of the process and of what it needs, and the error pages.

Must never happen: an address, a password or a traceback in a reply.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import KombuError

from . import problems
from .celery import app
from .lib import graph

API = "/api/"


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Each service, asked now. Without PostgreSQL nothing works: 503. Without graph or
    broker answers come from plain text and curation waits: “degraded”, 200."""
    services = {name: _answers(ask) for name, ask in _SERVICES.items()}
    if not services["postgres"]:
        state = "unavailable"
    else:
        state = "ready" if all(services.values()) else "degraded"
    body = {
        "status": state,
        "services": {name: "ok" if up else "down" for name, up in services.items()},
    }
    return JsonResponse(body, status=503 if state == "unavailable" else 200)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _error(request, 400, "bad_request", "The request cannot be read.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _error(request, 403, "permission_denied", "You may not do this.")


def not_found(
    request: HttpRequest, exception: Exception | None = None, target: str = ""
) -> HttpResponse:
    return _error(request, 404, "not_found", "There is no such page, or it is not yours to see.")


def crashed(request: HttpRequest) -> HttpResponse:
    """Called while the exception is handled; the database may be what failed."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        response = _error(
            request, 503, "service_unavailable", problems.ServiceDown.default_detail, plain=True
        )
        response["Retry-After"] = str(problems.ServiceDown.wait)
        return response
    return _error(
        request, 500, "error", "Something broke on our side. It has been logged.", plain=True
    )


def _error(
    request: HttpRequest, status: int, code: str, detail: str, *, plain: bool = False
) -> HttpResponse:
    """``plain``: without session and user, which may need what has just failed."""
    if request.path.startswith(API):
        return problems.page(request, status, code, detail)
    context: dict[str, Any] = {"status": status, "detail": detail}
    if plain:
        return HttpResponse(render_to_string("error.html", context), status=status)
    return render(request, "error.html", context, status=status)


def _postgres() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _broker() -> None:
    with app.connection_for_write() as broker:
        broker.ensure_connection(max_retries=1, timeout=3)


_SERVICES: dict[str, Callable[[], None]] = {
    "postgres": _postgres,
    "graph": graph.check_connection,
    "broker": _broker,
}
_FAILURES = (
    DatabaseError, graph.GraphUnavailable, graph.GraphQueryError, KombuError, OSError,
)  # fmt: skip


def _answers(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except _FAILURES:
        return False
    return True
