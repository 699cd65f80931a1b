"""Every error of the REST API as problem+json (RFC 9457).

Promises one shape: type, title, status, detail, instance, with ``errors`` naming
the field (a JSON pointer) or the query parameter at fault.
Must never happen: an HTML page, a traceback or the address of a server as the
answer to an API client.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions, serializers, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

CONTENT_TYPE = "application/problem+json"
log = logging.getLogger(__name__)


class ServiceDown(exceptions.APIException):
    """A server that the request needs does not answer; the same request may work later."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = "A service that this request needs does not answer. Try again later."
    default_code = "service_unavailable"
    wait = 10


class ParameterError(exceptions.ValidationError):
    """A query parameter is wrong; the detail is keyed by its name."""


class ProblemErrorSerializer(serializers.Serializer[Any]):
    pointer = serializers.CharField(required=False, help_text="JSON pointer into the body.")
    parameter = serializers.CharField(required=False, help_text="Name of the query parameter.")
    code = serializers.CharField()
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """An error, as RFC 9457 describes it."""

    type = serializers.CharField(help_text="urn:supportkg:problem:CODE; branch on this.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField(help_text="Path of the request.")
    errors = ProblemErrorSerializer(many=True, required=False)  # type: ignore[assignment]
    request_id = serializers.CharField(
        required=False, help_text="For 5xx: the id under which the server logged it."
    )


def responses(*codes: int) -> dict[tuple[int, str], type[ProblemSerializer]]:
    """The error responses of an operation, for the schema."""
    return {(code, CONTENT_TYPE): ProblemSerializer for code in codes}


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler. What it does not know goes on to ``handler500``."""
    if isinstance(error, OperationalError | InterfaceError):
        log.error("The database does not answer", exc_info=error)
        error = ServiceDown()
    response = exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, ServiceDown):
        response["Retry-After"] = str(error.wait)
    parameters = isinstance(error, ParameterError)
    request = context["request"]
    if isinstance(error, exceptions.ValidationError):
        code, text, errors = (
            "invalid",
            "The request is not valid.",
            list(_errors(error, parameters)),
        )
    else:
        code, text, errors = _code(error), _text(response.data), []
    response.data = problem(request, response.status_code, code, text, errors)
    response.content_type = CONTENT_TYPE
    return response


def page(request: HttpRequest, status_code: int, code: str, detail: str) -> JsonResponse:
    """A problem outside of any API view: no such route, or a crash."""
    data = problem(request, status_code, code, detail, [])
    return JsonResponse(data, status=status_code, content_type=CONTENT_TYPE)


def problem(
    request: Any, status_code: int, code: str, detail: str, errors: list[dict[str, str]]
) -> dict[str, Any]:
    """The members of RFC 9457 with ours."""
    data: dict[str, Any] = {
        "type": f"urn:supportkg:problem:{code}",
        "title": HTTPStatus(status_code).phrase,
        "status": status_code,
        "detail": detail,
        "instance": request.path,
    }
    if errors:
        data["errors"] = errors
    if status_code >= status.HTTP_500_INTERNAL_SERVER_ERROR:
        data["request_id"] = uuid.uuid4().hex
        log.error(
            "%s %s: %s, request_id %s", request.method, request.path, code, data["request_id"]
        )
    return data


def _code(error: Exception) -> str:
    if isinstance(error, Http404):
        return "not_found"
    if isinstance(error, PermissionDenied):
        return "permission_denied"
    return str(getattr(error, "default_code", "error"))


def _text(data: Any) -> str:
    return str(data.get("detail", "")) if isinstance(data, dict) else str(data)


def _errors(error: exceptions.ValidationError, parameters: bool) -> Iterator[dict[str, str]]:
    for path, detail in _leaves(error.detail, ()):
        place = {"parameter": path[0]} if parameters and path else {"pointer": _pointer(path)}
        yield {**place, "code": detail.code, "detail": str(detail)}


def _leaves(detail: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(detail, dict):
        for key, value in detail.items():
            yield from _leaves(value, path if key == "non_field_errors" else (*path, str(key)))
    elif isinstance(detail, list):
        for place, value in enumerate(detail):
            # A list of messages is about its field; a list of objects about its items.
            leaf = isinstance(value, exceptions.ErrorDetail)
            yield from _leaves(value, path if leaf else (*path, str(place)))
    else:
        yield path, detail


def _pointer(path: tuple[str, ...]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
