"""Ingest: idempotent, atomic, resumable; and the graph is what the rows say."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db.models import F

from supportkg.lib import embeddings
from supportkg.lib.graph import GraphUnavailable
from tests.conftest import DEMO_TICKETS
from tickets import drift, index, ingest
from tickets.importers import read
from tickets.importers.raw import PersonRef, RawComment, RawLink, RawTicket, RowError
from tickets.models import Chunk, Link, Posting, Project, Section, SimilarLink, Ticket

pytestmark = pytest.mark.django_db

LOGIN = RawTicket(
    key="AC-1",
    project="AC",
    summary="Login fails after the password was changed",
    description=(
        "The mobile app does not let me in.\n\n## Steps to reproduce\n1. Change the password.\n"
        "2. Log in.\n\nActual result: ERR-4711 is shown\nExpected result: the start page"
    ),
    status="Closed",
    status_category="solved",
    resolution="Fixed",
    resolution_category="fixed",
    priority="High",
    components=("Auth",),
    reporter=PersonRef(name="anna"),
    created_at=datetime(2024, 1, 1, tzinfo=UTC),
    updated_at=datetime(2024, 1, 3, tzinfo=UTC),
    resolved_at=datetime(2024, 1, 3, tzinfo=UTC),
    comments=(
        RawComment(
            "Same as AC-2?",
            author=PersonRef(name="bert"),
            created_at=datetime(2024, 1, 2, tzinfo=UTC),
        ),
        RawComment(
            "Fixed by clearing the token cache, see pull request 12.",
            author=PersonRef(name="bert"),
            created_at=datetime(2024, 1, 3, tzinfo=UTC),
        ),
    ),
    links=(RawLink("BLOCKS", "AC-1", "AC-3", "blocks"),),
)
LOGIN_AGAIN = RawTicket(
    key="AC-2",
    project="AC",
    summary="Login fails after password was changed",
    reporter=PersonRef(name="carl"),
)
EXPORT = RawTicket(
    key="AC-3", project="AC", summary="Export to PDF is empty", reporter=PersonRef(name="anna")
)


def sample(count: int) -> list[RawTicket]:
    rows = [row for row in read(DEMO_TICKETS) if isinstance(row, RawTicket)]
    return sorted(rows, key=lambda row: len(row.to_json()["description"]))[20 : 20 + count]


def run(rows: Iterable[Any], **options: Any) -> ingest.Report:
    return ingest.ingest(rows, **options)


def test_ticket_becomes_rows_and_nodes(graph: Any) -> None:
    report = run([LOGIN])
    assert (report.created, report.failed, report.seen) == (1, 0, 1)
    ticket = Ticket.objects.get()
    assert (ticket.key, ticket.project.key, ticket.status_category) == ("AC-1", "AC", "solved")
    kinds = set(Section.objects.values_list("kind", flat=True))
    assert {"summary", "steps_to_reproduce", "actual_result", "fix_solution", "comment"} <= kinds
    rows = graph.read(
        "MATCH (t:Ticket {key: 'AC-1'})-[:HAS_DESCRIPTION]->(:Description)"
        "-[:HAS_STEPS_TO_REPRODUCE]->(s:StepsToReproduce) RETURN s.text AS text, s.id AS id"
    ).rows
    assert rows == (
        {
            "text": "1. Change the password.\n2. Log in.",
            "id": "default/AC-1#steps_to_reproduce",
        },
    )
    assert drift.check().clean


def test_same_file_again_writes_nothing_and_embeds_nothing(
    graph: Any, django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sample(10)
    run(rows)
    before = list(Chunk.objects.order_by("pk").values_list("pk", flat=True))
    monkeypatch.setattr(embeddings, "embed", lambda *a, **k: pytest.fail("embedded again"))
    with django_assert_max_num_queries(10):
        report = run(rows)
    assert (report.unchanged, report.seen) == (10, 10)
    assert list(Chunk.objects.order_by("pk").values_list("pk", flat=True)) == before


def test_checksum_is_the_same_at_once_in_parts_in_any_order_and_rebuilt(graph: Any) -> None:
    rows = sample(40)
    run(rows)
    at_once = graph.checksum()
    assert Ticket.objects.count() == 40

    ingest.delete(Ticket.objects.all())
    assert graph.read("MATCH (n:Ticket) RETURN n.id AS id").rows == ()
    shuffled = random.Random(7).sample(rows, len(rows))
    run(shuffled[:13])
    run(shuffled[13:])
    run(rows)
    assert graph.checksum() == at_once

    assert drift.rebuild() == 40
    assert graph.checksum() == at_once == drift.check().expected


def test_edit_reaches_rows_vectors_terms_and_graph(graph: Any) -> None:
    run([LOGIN, LOGIN_AGAIN, EXPORT])
    steps = Section.objects.get(kind="steps_to_reproduce")
    description = LOGIN.description.replace("Change the password", "Reset the PIN")
    edited = replace(LOGIN, description=description, summary="PIN is refused")
    report = run([edited, LOGIN_AGAIN, EXPORT])
    assert (report.updated, report.unchanged) == (1, 2)
    changed = Section.objects.get(kind="steps_to_reproduce")
    assert changed.pk == steps.pk, "a citation must keep leading to its section"
    assert changed.text.startswith("1. Reset the PIN")
    assert not Chunk.objects.filter(ticket__key="AC-1", text__contains="Change the pass").exists()
    assert Posting.objects.filter(ticket__key="AC-1", term="pin").exists()
    assert not SimilarLink.objects.exists(), "the titles are no longer close"
    after_edit = graph.checksum()
    drift.rebuild()
    assert graph.checksum() == after_edit


def test_removed_section_leaves_rows_and_graph(graph: Any) -> None:
    run([LOGIN])
    run([replace(LOGIN, description="Only prose is left.")])
    assert not Section.objects.filter(kind="steps_to_reproduce").exists()
    assert graph.read("MATCH (s:StepsToReproduce) RETURN s.id AS id").rows == ()
    assert drift.check().clean


def test_deletion_leaves_nothing(graph: Any) -> None:
    run([LOGIN, LOGIN_AGAIN, EXPORT])
    assert ingest.delete(Ticket.objects.filter(key="AC-1")) == 1
    assert not Section.objects.filter(ticket__key="AC-1").exists()
    assert not Chunk.objects.filter(text__contains="token cache").exists()
    assert not Posting.objects.filter(term="err-4711").exists()
    assert not SimilarLink.objects.exists()
    for row in graph.stream("MATCH (n) WHERE NOT n:TestDatabase RETURN properties(n) AS p"):
        assert "AC-1" not in str(row)
    assert drift.check().clean


def test_deleted_row_in_a_file_removes_the_ticket(graph: Any) -> None:
    run([LOGIN, EXPORT])
    report = run([replace(LOGIN, deleted=True), EXPORT, replace(LOGIN_AGAIN, deleted=True)])
    assert (report.deleted, report.unchanged, report.skipped) == (1, 1, 1)
    assert list(Ticket.objects.values_list("key", flat=True)) == ["AC-3"]


def test_failed_rows_are_reported_and_the_rest_goes_on(graph: Any) -> None:
    error = RowError(7, "created", "not a date")
    report = run([LOGIN, error, EXPORT])
    assert (report.created, report.failed) == (2, 1)
    assert report.errors == [error]


def test_row_that_the_database_refuses_is_isolated(
    graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = ingest._fill

    def too_wide(ticket: Ticket, raw: RawTicket) -> None:
        fill(ticket, raw)
        if raw.key == "AC-2":
            ticket.resolution_category = "x" * 21

    monkeypatch.setattr(ingest, "_fill", too_wide)
    report = run([LOGIN, replace(LOGIN_AGAIN, line=2), EXPORT])
    assert (report.created, report.failed) == (2, 1)
    assert str(report.errors[0]).startswith("line 2 (AC-2): value too long")
    assert set(Ticket.objects.values_list("key", flat=True)) == {"AC-1", "AC-3"}
    assert drift.check().clean


def test_graph_away_keeps_rows_and_the_next_import_completes(
    graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **options: Any) -> None:
        raise GraphUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(drift.projection, "write", away)
        with pytest.raises(GraphUnavailable):
            run([LOGIN, EXPORT])
    assert Ticket.objects.unsynced().count() == 2
    report = run([LOGIN, EXPORT])
    assert (report.unchanged, report.resumed, report.embedded) == (2, 2, 0)
    assert drift.check().clean


def test_killed_between_rows_and_links_leaves_no_half_ticket(
    graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ingest.linking, "implicit", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run([LOGIN])
    assert not Ticket.objects.exists()
    assert not Section.objects.exists()


def test_dry_run_counts_and_writes_nothing(graph: Any) -> None:
    run([LOGIN])
    report = run([replace(LOGIN, summary="New title"), EXPORT, LOGIN_AGAIN], dry_run=True)
    assert (report.updated, report.created) == (1, 2)
    assert Ticket.objects.get().summary == LOGIN.summary


def test_project_option_refuses_to_move_a_foreign_ticket(graph: Any) -> None:
    run([LOGIN])
    report = run([replace(LOGIN, summary="Mine now")], project="OTHER")
    assert report.failed == 1
    assert "already belongs to project AC" in str(report.errors[0])
    assert Ticket.objects.get().summary == LOGIN.summary


def test_same_key_in_two_sources_is_two_tickets_without_a_path(graph: Any) -> None:
    run([LOGIN, LOGIN_AGAIN], source="one")
    run([LOGIN, LOGIN_AGAIN], source="two")
    assert Project.objects.count() == 2
    query = (
        "MATCH (a:Ticket {source: 'one'}), (b:Ticket {source: 'two'}) "
        "RETURN count(*) AS pairs, sum(CASE WHEN (a)--(b) THEN 1 ELSE 0 END) AS linked"
    )
    assert graph.read(query).rows == ({"pairs": 4, "linked": 0},)
    assert not SimilarLink.objects.exclude(first__source=F("second__source")).exists()
    assert SimilarLink.objects.count() == 2


def test_key_twice_in_a_file_counts_once_and_the_file_again_changes_nothing(
    graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BATCH", 2)
    rows = [LOGIN, *sample(4), replace(LOGIN, summary="Later", line=2)]
    report = run(rows)
    assert (report.updated, report.skipped) == (0, 1)
    assert Ticket.objects.get(key="AC-1").summary == LOGIN.summary
    assert run(rows).unchanged == report.created


def test_correction_of_a_curator_survives_another_import(graph: Any) -> None:
    run([LOGIN])
    note = Section.objects.get(kind="comment", ordinal=1)
    note.text, note.public, note.corrected = "Nothing to see.", False, True
    note.save()
    steps = Section.objects.filter(kind="steps_to_reproduce")
    steps.update(text="1. Corrected step", corrected=True)
    earlier = RawComment(
        "Before all", author=PersonRef(name="x"), created_at=datetime(2023, 1, 1, tzinfo=UTC)
    )
    run([replace(LOGIN, description="", summary="Refused", comments=(earlier, *LOGIN.comments))])
    kept = Section.objects.get(kind="comment", corrected=True)
    assert (kept.ordinal, kept.text, kept.public) == (2, "Nothing to see.", False)
    assert Section.objects.get(kind="comment", ordinal=1).text == "Before all"
    assert steps.get().text == "1. Corrected step"
    assert drift.check().clean
    run([replace(LOGIN, comments=())])
    assert not Section.objects.filter(text="Nothing to see.").exists()
    assert drift.check().clean


def test_correction_made_while_an_import_embeds_is_kept(
    graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run([LOGIN])
    embed = index.embed

    def meanwhile(entries: Any) -> Any:
        made = embed(entries)
        Section.objects.filter(kind="steps_to_reproduce").update(text="redacted", corrected=True)
        return made

    monkeypatch.setattr(index, "embed", meanwhile)
    run([replace(LOGIN, summary="Another title")])
    assert Section.objects.get(kind="steps_to_reproduce").text == "redacted"
    assert drift.check().clean


def test_deleted_row_of_another_project_is_refused(graph: Any) -> None:
    run([LOGIN])
    assert run([replace(LOGIN, deleted=True)], project="OTHER").failed == 1
    assert Ticket.objects.live().count() == 1


@pytest.mark.parametrize("source", ["My Desk", "a/b", "x" * 61, ""])
def test_source_that_cannot_stand_in_an_address_is_refused(graph: Any, source: str) -> None:
    with pytest.raises(ValueError, match="source"):
        run([LOGIN], source=source)


def test_equal_texts_are_embedded_once(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    embed = embeddings.embed

    def spy(batch: list[str], **options: Any) -> Any:
        texts.extend(batch)
        return embed(batch, **options)

    monkeypatch.setattr(embeddings, "embed", spy)
    run([replace(EXPORT, key=f"AC-{n}") for n in range(1, 6)])
    assert texts == ["Export to PDF is empty"]


def test_huge_and_hostile_text_is_stored(graph: Any) -> None:
    text = "`x`) DETACH DELETE n // {{ }} <script>" + "\n" * 1000 + "y" * 3_000_000
    report = run([replace(EXPORT, description=text)])
    assert report.created == 1
    assert Ticket.objects.get().raw["description"] == text
    assert Chunk.objects.count() <= 2 * index.MAX_CHUNKS + 1
    assert drift.check().clean


def test_pending_link_is_made_when_its_target_arrives(graph: Any) -> None:
    run([LOGIN])
    pending = Link.objects.pending()
    assert set(pending.filter(origin="tracker").values_list("other_key", flat=True)) == {"AC-3"}
    assert set(pending.filter(origin="mention").values_list("other_key", flat=True)) == {
        "AC-2",
        "ERR-4711",
    }
    blocks = "MATCH (a:Ticket)-[:BLOCKS]->(b:Ticket) RETURN a.key AS a, b.key AS b"
    assert graph.read(blocks).rows == ()
    run([EXPORT])
    assert graph.read(blocks).rows == ({"a": "AC-1", "b": "AC-3"},)
    ingest.delete(Ticket.objects.filter(key="AC-3"))
    assert Link.objects.pending().filter(other_key="AC-3").count() == 1
    run([EXPORT])
    assert graph.read(blocks).rows == ({"a": "AC-1", "b": "AC-3"},)
