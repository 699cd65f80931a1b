"""The Content-Security-Policy of every page.

Promises that a page loads nothing from elsewhere and runs no script but our
files, whatever text a ticket or a model put into it.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self'{}; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Puts the policy on each response."""

    def respond(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        # Swagger UI sets style attributes of its own.
        styles = " 'unsafe-inline'" if request.path == "/api/v1/docs" else ""
        response["Content-Security-Policy"] = POLICY.format(styles)
        return response

    return respond
