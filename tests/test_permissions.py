"""Every route, asked by everybody: what is not yours is not there.

Alice is a member of ALPHA, Bob of BETA, Charlie of nothing. A route that is not
in the table fails the test, so that no side door is forgotten.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.cache import cache
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from retrieval.models import Answer, Citation
from tests.factories import (
    World,
    make_answer,
    make_chunk,
    make_link,
    make_posting,
    make_similar,
    make_ticket,
    make_token,
    make_world,
)
from tickets.models import Ticket

# Routes that show one object of Alice's, with the arguments that name it and those
# that name nothing.
OBJECTS = ["retrieval:answer", "tickets:ticket", "tickets:raw", "api:answer", "api:ticket"]
# Routes that show whatever the asker may see.
LISTS = ["retrieval:ask", "retrieval:answers", "tickets:tickets", "api:tickets"]
# Asking is tested with the pipeline; here it must only refuse strangers.
ACTIONS = ["api:answers"]
# Routes about nobody's data.
OPEN = ["login", "logout", "healthz", "readyz", "shortcut", "api:schema", "api:docs"]
SECRET = "zirconium"


@dataclass(frozen=True)
class Secrets:
    world: World
    ticket: Ticket
    answer: Answer

    def arguments(self, route: str, *, missing: bool = False) -> list[Any]:
        answer = uuid.uuid4() if missing else self.answer.pk
        key = "ALPHA-404" if missing else self.ticket.key
        named: dict[str, list[Any]] = {
            "retrieval:answer": [answer],
            "api:answer": [answer],
            "tickets:ticket": ["default", key],
            "tickets:raw": ["default", key],
            "api:ticket": [key],
        }
        return named.get(route, [])


@pytest.fixture
def secrets(db: None) -> Secrets:
    cache.clear()
    world = make_world()
    ticket = make_ticket(world.alpha, "ALPHA-1", summary=f"All about {SECRET}")
    alike = make_ticket(world.alpha, "ALPHA-2", summary=f"More about {SECRET}")
    make_link(ticket, alike)
    make_similar(ticket, alike)
    make_chunk(ticket, SECRET)
    make_posting(ticket, SECRET)
    answer = make_answer(world.alice, ticket.sections.get(), question=f"What fixed {SECRET}?")
    return Secrets(world, ticket, answer)


def routes(patterns: Any = None, namespace: str = "") -> Iterator[str]:
    """The names of all routes but the admin's."""
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(entry, URLResolver):
            inner = ":".join(filter(None, [namespace, entry.namespace]))
            if inner != "admin":
                yield from routes(entry.url_patterns, inner)
        elif isinstance(entry, URLPattern):
            assert entry.name, f"{entry.pattern} has no name"
            yield ":".join(filter(None, [namespace, entry.name]))


def get(route: str, user: User | None, arguments: list[Any]) -> Any:
    client = Client()
    if user is not None and route.startswith("api:"):
        client = Client(headers={"authorization": f"Bearer {make_token(user)}"})
    elif user is not None:
        client.force_login(user)
    return client.get(reverse(route, args=arguments))


def test_every_route_is_in_the_table() -> None:
    assert sorted(routes()) == sorted([*OBJECTS, *LISTS, *ACTIONS, *OPEN])


@pytest.mark.parametrize("route", OBJECTS)
def test_object_is_shown_to_its_people(secrets: Secrets, route: str) -> None:
    for user in (secrets.world.alice, secrets.world.root):
        response = get(route, user, secrets.arguments(route))
        assert response.status_code == 200
        assert SECRET in response.content.decode()


@pytest.mark.parametrize("route", OBJECTS)
def test_object_of_others_is_as_if_it_were_not_there(secrets: Secrets, route: str) -> None:
    for user in (secrets.world.bob, secrets.world.charlie):
        foreign = get(route, user, secrets.arguments(route))
        absent = get(route, user, secrets.arguments(route, missing=True))
        assert foreign.status_code == absent.status_code == 404
        assert SECRET not in foreign.content.decode()
        if route.startswith("api:"):
            # All but the path is equal.
            assert {**foreign.json(), "instance": ""} == {**absent.json(), "instance": ""}


@pytest.mark.parametrize("route", LISTS)
def test_list_holds_what_the_asker_may_see(secrets: Secrets, route: str) -> None:
    assert SECRET in get(route, secrets.world.alice, []).content.decode()
    for user in (secrets.world.bob, secrets.world.charlie):
        response = get(route, user, [])
        assert response.status_code == 200
        assert SECRET not in response.content.decode()


@pytest.mark.parametrize("route", [*OBJECTS, *LISTS, *ACTIONS])
def test_stranger_is_sent_away(secrets: Secrets, route: str) -> None:
    response = get(route, None, secrets.arguments(route))
    if route.startswith("api:"):
        assert response.status_code == 401
    else:
        assert response.status_code == 302
        assert response["Location"].startswith("/sign-in/?next=")
    assert SECRET not in response.content.decode()


OURS = [
    model for model in admin.site._registry if model._meta.app_label in ("tickets", "retrieval")
]


def test_every_model_is_in_the_admin() -> None:
    names = {model.__name__ for model in OURS}
    assert names == {
        "Project", "Ticket", "Section", "Chunk", "Posting", "Link", "SimilarLink", "Answer",
        "Citation",
    }  # fmt: skip


@pytest.mark.parametrize("model", OURS, ids=lambda model: model.__name__)
def test_admin_shows_a_curator_the_rows_of_own_projects_only(secrets: Secrets, model: Any) -> None:
    """Bob may do everything in the admin, and is a member of BETA."""
    bob, root = secrets.world.bob, secrets.world.root
    bob.is_staff = True
    bob.save()
    bob.user_permissions.set(Permission.objects.all())
    row = model._default_manager.order_by("pk").first()
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    client = Client()
    client.force_login(root)
    assert client.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200
    client.force_login(bob)
    for path in ("change", "delete", "history"):
        response = client.get(reverse(f"{name}_{path}", args=[row.pk]))
        assert response.status_code in (302, 403, 404), path
        assert SECRET not in response.content.decode()
    listed = client.get(reverse(f"{name}_changelist"))
    assert listed.status_code == 200
    assert SECRET not in listed.content.decode()
    assert "ALPHA" not in listed.content.decode()


def test_admin_shortcut_tells_no_address(secrets: Secrets) -> None:
    kind = ContentType.objects.get_for_model(Ticket)
    client = Client()
    client.force_login(secrets.world.root)
    response = client.get(f"/admin/r/{kind.pk}/{secrets.ticket.pk}/")
    assert response.status_code == 404
    assert "ALPHA" not in str(response.headers)


def test_deleted_ticket_is_gone_for_its_people_too(secrets: Secrets) -> None:
    Ticket.objects.filter(pk=secrets.ticket.pk).update(deleted_at="2024-05-01T00:00:00Z")
    for route in OBJECTS:
        response = get(route, secrets.world.alice, secrets.arguments(route))
        assert response.status_code == 404, route
    assert Citation.objects.filter(answer=secrets.answer).exists()
