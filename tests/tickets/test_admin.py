"""Curation: edits reach rows, vectors and graph, and the lists stay quick."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from kombu.exceptions import OperationalError as BrokerError

from supportkg.lib.graph import GraphUnavailable
from tests.factories import (
    World,
    make_chunk,
    make_link,
    make_posting,
    make_section,
    make_similar,
    make_ticket,
    make_user,
)
from tickets import drift, ingest, tasks
from tickets.importers.raw import RawTicket
from tickets.models import Chunk, Section, SimilarLink, Ticket

TICKETS = [
    RawTicket(
        key="WEB-1", project="WEB", summary="Upload of a file fails", description="It stops."
    ),
    RawTicket(key="WEB-2", project="WEB", summary="Upload of a file fails now", description="Hm."),
]


@pytest.fixture
def imported(graph: Any, root: Client) -> Any:
    """Two tickets with similar titles, in rows, vectors and graph."""
    ingest.ingest(replace(ticket) for ticket in TICKETS)
    assert SimilarLink.objects.count() == 1
    return graph


def change(model: str, pk: Any) -> str:
    return reverse(f"admin:tickets_{model}_change", args=[pk])


def changelist(model: str) -> str:
    return reverse(f"admin:tickets_{model}_changelist")


def judge(client: Client, link: SimilarLink, action: str) -> str:
    data = {"action": action, "_selected_action": [link.pk]}
    response = client.post(changelist("similarlink"), data, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def edit(client: Client, section: Section, text: str) -> str:
    data = {"text": text, "public": "on"}
    response = client.post(change("section", section.pk), data, follow=True)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What was sent to the worker."""
    sent: list[int] = []
    monkeypatch.setattr(tasks.refresh_ticket, "delay", sent.append)
    return sent


@pytest.fixture
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(pk: int) -> None:
        raise BrokerError("no broker")

    monkeypatch.setattr(tasks.refresh_ticket, "delay", gone)


def graph_text(graph: Any, anchor: str) -> str:
    rows = graph.read("MATCH (s:Section {id: $id}) RETURN s.text AS text", {"id": anchor}).rows
    return str(rows[0]["text"])


def test_edited_section_reaches_vectors_and_graph_through_the_worker(
    imported: Any, root: Client, queue: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    section = Section.objects.get(ticket__key="WEB-1", kind="description")
    with django_capture_on_commit_callbacks(execute=True):
        edit(root, section, "The disk was full.")
    assert queue == [section.ticket_id]
    assert Ticket.objects.get(key="WEB-1").synced_at is None
    assert not drift.check().clean
    for _ in range(2):  # a task may come twice
        tasks.refresh_ticket(section.ticket_id)
        assert drift.check().clean
        assert graph_text(imported, "default/WEB-1#description") == "The disk was full."
        assert Chunk.objects.filter(section=section, text__contains="disk was full").count() == 1
    assert Ticket.objects.get(key="WEB-1").synced_at is not None


def test_section_saved_unchanged_costs_nothing(
    world: World, root: Client, queue: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    section = make_ticket(world.alpha, sections={"description": "As it was"}).sections.get(
        kind="description"
    )
    with django_capture_on_commit_callbacks(execute=True):
        edit(root, section, "As it was")
    assert queue == []


@pytest.mark.usefixtures("_no_broker")
def test_edit_without_broker_is_carried_out_at_once(
    imported: Any, root: Client, django_capture_on_commit_callbacks: Any
) -> None:
    section = Section.objects.get(ticket__key="WEB-1", kind="description")
    with django_capture_on_commit_callbacks(execute=True):
        edit(root, section, "The disk was full.")
    assert graph_text(imported, "default/WEB-1#description") == "The disk was full."
    assert drift.check().clean


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_no_broker")
def test_edit_without_broker_and_graph_is_kept_and_said(
    imported: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any) -> None:
        raise GraphUnavailable("gone")

    section = Section.objects.get(ticket__key="WEB-1", kind="description")
    with monkeypatch.context() as patch:
        patch.setattr("tickets.projection.write", gone)
        html = edit(root, section, "Disk full.")
    assert "manage.py sync_graph" in html
    section.refresh_from_db()
    assert section.text == "Disk full."
    assert Chunk.objects.filter(section=section, text__contains="Disk full.").exists()
    drift.sync()
    assert drift.check().clean


def test_judged_link_reaches_the_graph_and_survives_the_next_import(
    imported: Any, root: Client, django_capture_on_commit_callbacks: Any, queue: list[int]
) -> None:
    link = SimilarLink.objects.get()
    state = "MATCH (:Ticket)-[r:SIMILAR_TO]->(:Ticket) RETURN r.state AS state"
    for action, said in (("accept", "accepted"), ("propose", "proposed"), ("reject", "rejected")):
        queue.clear()
        with django_capture_on_commit_callbacks(execute=True):
            assert f"1 links are now {said}." in judge(root, link, action)
        assert sorted(queue) == [link.first_id, link.second_id]
        for pk in queue:
            tasks.refresh_ticket(pk)
        states = [row["state"] for row in imported.read(state).rows]
        assert states == [] or states == [said]
        assert drift.check().clean
    ingest.ingest([replace(TICKETS[0], description="It stops again.")])
    link.refresh_from_db()
    assert link.state == "rejected"


def test_link_judged_by_somebody_without_permission_stays(
    world: World, client: Client, queue: list[int]
) -> None:
    link = make_similar(make_ticket(world.alpha), make_ticket(world.alpha))
    viewer = make_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_similarlink"))
    world.alpha.members.add(viewer)
    client.force_login(viewer)
    assert f">{link.first.key} ~" in client.get(changelist("similarlink")).content.decode()
    judge(client, link, "accept")
    link.refresh_from_db()
    assert link.state == "proposed"
    assert queue == []


def test_ticket_deleted_in_the_admin_leaves_nothing(
    imported: Any, root: Client, django_capture_on_commit_callbacks: Any
) -> None:
    ticket = Ticket.objects.get(key="WEB-1")
    path = reverse("admin:tickets_ticket_delete", args=[ticket.pk])
    asked = root.get(path).content.decode()
    assert "WEB-1 Upload of a file fails" in asked
    with django_capture_on_commit_callbacks(execute=True):
        root.post(path, {"post": "yes"})
    assert not Ticket.objects.filter(key="WEB-1").exists()
    assert not Chunk.objects.filter(ticket=ticket.pk).exists()
    assert imported.read("MATCH (t:Ticket) RETURN t.key AS key").rows == ({"key": "WEB-2"},)
    assert drift.check().clean


@pytest.mark.django_db(transaction=True)
def test_tickets_deleted_without_graph_are_hidden_and_finished_later(
    imported: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any) -> None:
        raise GraphUnavailable("gone")

    pks = list(Ticket.objects.values_list("pk", flat=True))
    data = {"action": "delete_selected", "_selected_action": pks, "post": "yes"}
    with monkeypatch.context() as patch:
        patch.setattr("tickets.projection.delete", gone)
        html = root.post(changelist("ticket"), data, follow=True).content.decode()
    assert "finishes the removal" in html
    assert "WEB-" not in html
    drift.sync()
    assert not Ticket.objects.exists()


def test_project_with_tickets_cannot_be_deleted(world: World, root: Client) -> None:
    make_ticket(world.alpha)
    path = reverse("admin:tickets_project_delete", args=[world.alpha.pk])
    assert "ALPHA: 1 tickets" in root.get(path).content.decode()
    root.post(path, {"post": "yes"})
    world.alpha.refresh_from_db()


def test_project_members_are_chosen_by_search(world: World, root: Client) -> None:
    html = root.get(change("project", world.alpha.pk)).content.decode()
    assert "admin-autocomplete" in html
    assert "charlie" not in html


@pytest.mark.parametrize("model", ["ticket", "chunk", "posting", "link", "similarlink"])
def test_derived_rows_cannot_be_typed(world: World, root: Client, model: str) -> None:
    ticket = make_ticket(world.alpha)
    rows = {
        "ticket": ticket,
        "chunk": make_chunk(ticket),
        "posting": make_posting(ticket),
        "link": make_link(ticket, "ALPHA-99"),
        "similarlink": make_similar(ticket, make_ticket(world.alpha)),
    }
    html = root.get(change(model, rows[model].pk)).content.decode()
    assert "<select" not in html
    assert 'name="_save"' not in html
    assert root.get(reverse(f"admin:tickets_{model}_add")).status_code == 403
    assert root.post(change(model, rows[model].pk), {"state": "accepted"}).status_code == 403


def test_section_form_has_no_choice_of_all_tickets(world: World, root: Client) -> None:
    section = make_section(make_ticket(world.alpha), "workaround", "Wait")
    html = root.get(change("section", section.pk)).content.decode()
    assert "<select" not in html
    assert '<textarea name="text"' in html


@pytest.mark.parametrize("kind", ["summary", "priority", "comments"])
def test_section_that_mirrors_the_source_cannot_be_edited(
    world: World, root: Client, kind: str
) -> None:
    ticket = make_ticket(world.alpha, sections={"priority": "Major", "comments": ""})
    section = ticket.sections.get(kind=kind)
    assert "<textarea" not in root.get(change("section", section.pk)).content.decode()
    assert root.post(change("section", section.pk), {"text": "new"}).status_code == 403


@pytest.mark.parametrize(
    ("model", "search"),
    [
        ("project", "alpha"),
        ("ticket", "summary"),
        ("section", "summary"),
        ("chunk", "ALPHA-1"),
        ("posting", "crash"),
        ("link", "ALPHA-1"),
        ("similarlink", "ALPHA-1"),
    ],
)
def test_list_costs_the_same_for_one_and_for_many(
    world: World, root: Client, model: str, search: str, django_assert_max_num_queries: Any
) -> None:
    def more(key: str) -> None:
        ticket = make_ticket(world.alpha, key, raw={"size": "large"})
        make_section(ticket, "description", "Text")
        make_chunk(ticket)
        make_posting(ticket)
        make_link(ticket, "ALPHA-99")
        make_similar(ticket, make_ticket(world.beta))

    def rows() -> str:
        response = root.get(changelist(model), {"q": search})
        assert response.status_code == 200
        return str(response.content.decode())

    more("ALPHA-1")
    with django_assert_max_num_queries(12) as one:
        assert "ALPHA" in rows()
    for number in range(2, 6):
        more(f"ALPHA-{number}")
    with django_assert_max_num_queries(len(one)) as many:
        rows()
    assert not any('"raw"' in query["sql"] or '"vector"' in query["sql"] for query in many)


def test_ticket_page_links_to_its_rows(world: World, root: Client) -> None:
    ticket = make_ticket(world.alpha, "ALPHA-1")
    make_ticket(world.alpha, "ALPHA-2")
    html = root.get(change("ticket", ticket.pk)).content.decode()
    path = f"{changelist('section')}?ticket__id__exact={ticket.pk}"
    assert path in html
    listed = root.get(path).content.decode()
    assert "ALPHA-1 summary" in listed
    assert "ALPHA-2 summary" not in listed
