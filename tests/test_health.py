"""Health of the process and its services, and the error pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory, override_settings

from supportkg import csp, views
from supportkg.lib.graph import GraphUnavailable
from tests.factories import make_user


def gone(*args: Any) -> None:
    raise OperationalError('connection to "10.1.2.3" failed')


@pytest.mark.django_db
@pytest.mark.usefixtures("graph")
def test_ready_when_every_service_answers(client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "services": {"postgres": "ok", "graph": "ok", "broker": "ok"},
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("service", "error", "status", "state"),
    [
        ("graph", GraphUnavailable("at bolt://10.1.2.3"), 200, "degraded"),
        ("broker", OSError("10.1.2.3"), 200, "degraded"),
        ("postgres", OperationalError("10.1.2.3"), 503, "unavailable"),
    ],
)
def test_service_that_is_down_is_named_without_its_address(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    error: Exception,
    status: int,
    state: str,
) -> None:
    def down() -> None:
        raise error

    monkeypatch.setattr(views, "_SERVICES", {**dict.fromkeys(views._SERVICES, int), service: down})
    response = client.get("/readyz")
    assert response.status_code == status
    body = response.json()
    assert body["status"] == state
    assert body["services"][service] == "down"
    assert b"10.1.2.3" not in response.content


def test_process_is_alive_without_any_service(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "status"), [("/", 503), ("/api/v1/tickets", 503)])
def test_page_without_database_says_so_without_asking_it(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    client.force_login(make_user("alice"))
    client.raise_request_exception = False
    monkeypatch.setattr("django.db.backends.utils.CursorWrapper.execute", gone)
    response = client.get(path, headers={"authorization": "Bearer skg_x"})
    assert response.status_code == status
    assert response["Retry-After"] == "10"
    assert b"10.1.2.3" not in response.content
    assert b"does not answer" in response.content


def test_crash_gives_a_page_without_its_reason() -> None:
    response = views.crashed(RequestFactory().get("/tickets/"))
    assert response.status_code == 500
    assert b"It has been logged" in response.content


@pytest.mark.django_db
@override_settings(MIDDLEWARE=["supportkg.csp.middleware"])
def test_pages_allow_only_our_own_files(client: Client) -> None:
    policy = client.get("/healthz")["Content-Security-Policy"]
    assert policy == csp.POLICY.format("")
    assert "unsafe" not in policy
