"""The ticket API: following by cursor, filters, one ticket, and errors as problems."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from tests.factories import (
    World,
    make_link,
    make_project,
    make_section,
    make_similar,
    make_ticket,
    make_token,
)
from tickets.api import ReadThrottle
from tickets.models import Ticket

LIST = "/api/v1/tickets"


@pytest.fixture
def alice(world: World) -> Client:
    return Client(headers={"authorization": f"Bearer {make_token(world.alice)}"})


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"] == f"urn:supportkg:problem:{code}"
    assert body["status"] == status
    assert body["instance"] == response.wsgi_request.path
    return body


def follow(client: Client, **query: Any) -> list[str]:
    """All keys, page by page."""
    found: list[str] = []
    while True:
        body = client.get(LIST, query).json()
        found += [row["key"] for row in body["results"]]
        if not body["has_more"]:
            return found
        query["cursor"] = body["next_cursor"]


def test_list_is_followed_by_cursor_without_loss_or_repetition(world: World, alice: Client) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    expected = []
    for number in range(7):
        # Pairs share a time; the last tickets have none.
        at = start + timedelta(days=number // 2) if number < 5 else None
        expected.append(make_ticket(world.alpha, updated_at=at).key)
    make_ticket(world.beta)
    for limit in (1, 2, 3, 100):
        assert follow(alice, limit=limit) == expected


def test_list_continued_later_gives_what_changed_since(world: World, alice: Client) -> None:
    ticket = make_ticket(world.alpha, "ALPHA-1")
    make_ticket(world.alpha, "ALPHA-2")
    body = alice.get(LIST).json()
    assert body["has_more"] is False
    Ticket.objects.filter(pk=ticket.pk).mark_changed()
    later = alice.get(LIST, {"cursor": body["next_cursor"]}).json()
    assert [row["key"] for row in later["results"]] == ["ALPHA-1"]
    idle = alice.get(LIST, {"cursor": later["next_cursor"]}).json()
    assert idle == {"results": [], "has_more": False, "next_cursor": later["next_cursor"]}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"project": "ALPHA"}, ["ALPHA-1", "ALPHA-2"]),
        ({"project": "BETA"}, []),
        ({"status": "open"}, ["ALPHA-2"]),
        ({"q": "menu"}, ["ALPHA-2"]),
        ({"q": "alpha-1"}, ["ALPHA-1"]),
        ({"source": "other"}, []),
        ({"updated_since": "2024-06-01T00:00:00Z"}, ["ALPHA-2"]),
    ],
)
def test_list_filtered_gives_the_right_tickets(
    world: World, alice: Client, query: dict[str, str], found: list[str]
) -> None:
    make_ticket(world.alpha, "ALPHA-1")
    make_ticket(
        world.alpha,
        "ALPHA-2",
        summary="Dark menu",
        status_category="open",
        updated_at=datetime(2024, 7, 1, tzinfo=UTC),
    )
    make_ticket(world.beta, "BETA-1")
    assert follow(alice, **query) == found


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=many", "limit"),
        ("status=nonsense", "status"),
        ("updated_since=yesterday", "updated_since"),
        ("cursor=made-up", "cursor"),
        ("offset=3", "offset"),
        ("limit=1&limit=2", "limit"),
        ("q=%00", "q"),
    ],
)
def test_list_with_a_wrong_parameter_says_which(alice: Client, query: str, parameter: str) -> None:
    body = problem(alice.get(f"{LIST}?{query}"), 400, "invalid")
    assert [error["parameter"] for error in body["errors"]] == [parameter]
    assert body["errors"][0]["detail"]


def test_list_costs_the_same_for_one_and_for_many(
    world: World, alice: Client, django_assert_max_num_queries: Any
) -> None:
    make_ticket(world.alpha)
    with django_assert_max_num_queries(4) as one:
        alice.get(LIST)
    for _ in range(4):
        make_ticket(world.alpha)
    with django_assert_max_num_queries(len(one)):
        assert len(alice.get(LIST).json()["results"]) == 5


def test_ticket_has_tree_and_links_with_addresses(world: World, alice: Client) -> None:
    ticket = make_ticket(
        world.alpha,
        "ALPHA-1",
        sections={"description": "It stops.", "steps_to_reproduce": "1. Open", "comments": ""},
    )
    make_section(ticket, "comment-1", "Hush", public=False)
    other = make_ticket(world.alpha, "ALPHA-2")
    make_link(ticket, other)
    make_link(ticket, make_ticket(world.beta, "BETA-1", summary="Top secret"), "RELATES_TO")
    make_similar(ticket, other, 0.9)
    response = alice.get(f"{LIST}/ALPHA-1")
    body = response.json()
    assert body["project"] == "ALPHA"
    tree = {node["section"]["anchor"]: node["children"] for node in body["sections"]}
    assert list(tree) == ["summary", "description", "comments"]
    assert tree["description"][0]["section"]["text"] == "1. Open"
    assert tree["comments"][0]["section"]["public"] is False
    there, hidden = body["explicit_links"]
    assert (there["words"], there["outward"], there["key"]) == ("blocks", True, "ALPHA-2")
    assert there["ticket"]["html_url"] == f"http://testserver{other.get_absolute_url()}"
    assert alice.get(there["ticket"]["url"]).json()["key"] == "ALPHA-2"
    assert hidden["ticket"] is None
    assert "Top secret" not in response.content.decode()
    (alike,) = body["implicit_links"]
    assert (alike["score"], alike["state"], alike["ticket"]["key"]) == (0.9, "proposed", "ALPHA-2")


def test_ticket_whose_key_two_help_desks_use_needs_the_source(world: World, alice: Client) -> None:
    make_ticket(world.alpha, "SAME-1", summary="One")
    make_ticket(make_project("GAMMA", world.alice, source="other"), "SAME-1", summary="Two")
    body = problem(alice.get(f"{LIST}/SAME-1"), 400, "invalid")
    assert body["errors"][0]["parameter"] == "source"
    assert alice.get(f"{LIST}/SAME-1", {"source": "other"}).json()["summary"] == "Two"


@pytest.mark.parametrize("key", ["owner/repo#12", "A B", "é?&"])
def test_ticket_with_an_odd_key_is_found_by_its_url(world: World, alice: Client, key: str) -> None:
    make_ticket(world.alpha, key)
    (row,) = alice.get(LIST).json()["results"]
    assert alice.get(row["url"]).json()["key"] == key


@pytest.mark.parametrize("key", ["NONE-1", "A%00B"])
def test_ticket_that_is_not_there_is_a_problem(alice: Client, key: str) -> None:
    problem(alice.get(f"{LIST}/{key}"), 404, "not_found")


def test_route_that_is_not_there_is_a_problem(client: Client) -> None:
    problem(client.get("/api/v1/nothing"), 404, "not_found")


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer skg_wrong"}])
def test_request_without_a_good_token_is_refused(world: World, header: dict[str, str]) -> None:
    response = Client(headers=header).get(LIST)
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == "Bearer"
    assert response["Content-Type"] == "application/problem+json"


def test_session_of_the_console_is_no_token(world: World, client: Client) -> None:
    client.force_login(world.alice)
    problem(client.get(LIST), 401, "not_authenticated")


def test_token_of_a_person_who_left_is_refused(world: World, alice: Client) -> None:
    world.alice.is_active = False
    world.alice.save()
    problem(alice.get(LIST), 401, "authentication_failed")


def test_wrong_method_is_a_problem(alice: Client) -> None:
    problem(alice.delete(LIST), 405, "method_not_allowed")


def test_too_many_requests_are_told_when_to_come_back(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadThrottle, "rate", "2/min")
    assert [alice.get(LIST).status_code for _ in range(2)] == [200, 200]
    response = alice.get(LIST)
    problem(response, 429, "throttled")
    assert 0 < int(response["Retry-After"]) <= 60


def test_schema_in_the_docs_is_current(tmp_path: Any) -> None:
    made = tmp_path / "openapi.yaml"
    call_command("spectacular", file=str(made), validate=True, fail_on_warn=True)
    kept = settings.BASE_DIR / "docs" / "openapi.yaml"
    assert made.read_text() == kept.read_text(), (
        "run: manage.py spectacular --file docs/openapi.yaml"
    )


@pytest.mark.django_db
def test_schema_and_its_page_open_without_a_token(client: Client) -> None:
    assert client.get("/api/v1/schema").status_code == 200
    html = client.get("/api/v1/docs").content.decode()
    assert "/static/drf_spectacular_sidecar/" in html
    assert "https://" not in html
