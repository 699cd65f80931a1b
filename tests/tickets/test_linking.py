"""Links between tickets: one edge for two statements, decisions kept, forms bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supportkg.lib.embeddings import get_model
from tickets import ingest, linking
from tickets.importers.raw import RawLink, RawTicket
from tickets.models import SimilarLink, Ticket

pytestmark = pytest.mark.django_db

A = RawTicket(key="AX-1", project="A", summary="The printer does not print")
B = RawTicket(key="AX-2", project="A", summary="The printer doesn't print")
C = RawTicket(key="AX-3", project="A", summary="Holiday calendar shows last year")

EDGES = (
    "MATCH (a:Ticket)-[r]->(b:Ticket) "
    "RETURN a.key AS a, type(r) AS type, b.key AS b, r.origin AS origin, r.label AS label"
)


def edges(graph: Any) -> set[tuple[str, ...]]:
    rows = graph.read(EDGES).rows
    return {(r["a"], r["type"], r["b"]) for r in rows if r["type"] != "SIMILAR_TO"}


def test_link_stated_by_both_ends_is_one_edge(graph: Any) -> None:
    link = RawLink("BLOCKS", "AX-1", "AX-3", "Blocks")
    ingest.ingest([replace(A, links=(link,)), replace(C, links=(link,))])
    rows = [row for row in graph.read(EDGES).rows if row["type"] == "BLOCKS"]
    assert rows == [
        {"a": "AX-1", "type": "BLOCKS", "b": "AX-3", "origin": "tracker", "label": "Blocks"}
    ]
    ingest.ingest([replace(A, links=())])
    assert edges(graph) == {("AX-1", "BLOCKS", "AX-3")}, "the other end still states it"
    ingest.ingest([replace(C, links=())])
    assert edges(graph) == set()


def test_mention_gives_way_to_a_tracker_link(graph: Any) -> None:
    ingest.ingest([replace(A, description="See AX-3."), C])
    assert edges(graph) == {("AX-1", "RELATES_TO", "AX-3")}
    ingest.ingest([replace(C, links=(RawLink("CAUSED_BY", "AX-3", "AX-1", "Cause"),))])
    assert edges(graph) == {("AX-3", "CAUSED_BY", "AX-1")}


def test_close_titles_are_linked_and_far_ones_not(graph: Any) -> None:
    ingest.ingest([A, B, C])
    link = SimilarLink.objects.get()
    assert {link.first.key, link.second.key} == {"AX-1", "AX-2"}
    assert get_model().implicit_link_min_cosine <= link.score <= 1
    assert link.state == SimilarLink.State.PROPOSED
    rows = graph.read("MATCH (:Ticket)-[r:SIMILAR_TO]-(:Ticket) RETURN DISTINCT r.score AS s").rows
    assert rows == ({"s": link.score},)


def test_titles_that_name_different_codes_share_a_form_only(graph: Any) -> None:
    ingest.ingest(
        [
            replace(A, summary="Please confirm the fix of TIMOB-3312"),
            replace(B, summary="Please confirm the fix of TIMOB-4471"),
            replace(C, summary="Please confirm the fix of TIMOB-3312 again"),
        ]
    )
    link = SimilarLink.objects.get()
    assert {link.first.key, link.second.key} == {"AX-1", "AX-3"}


def test_similar_link_changes_no_status(graph: Any) -> None:
    ingest.ingest(
        [replace(A, status="Open"), replace(B, status="Closed", status_category="closed")]
    )
    assert list(Ticket.objects.order_by("key").values_list("status_category", flat=True)) == [
        "open",
        "closed",
    ]


def test_decision_survives_another_import(graph: Any) -> None:
    ingest.ingest([A, B])
    SimilarLink.objects.update(state=SimilarLink.State.REJECTED)
    ingest.ingest([replace(A, description="More words."), B])
    assert SimilarLink.objects.get().state == SimilarLink.State.REJECTED
    ingest.ingest([replace(A, summary="Something else entirely"), B])
    assert SimilarLink.objects.get().state == SimilarLink.State.REJECTED


def test_proposal_goes_when_the_titles_part(graph: Any) -> None:
    ingest.ingest([A, B])
    ingest.ingest([replace(A, summary="Holiday calendar is wrong"), B])
    assert not SimilarLink.objects.exists()


def test_one_form_filed_many_times_stays_bounded(graph: Any) -> None:
    count = linking.MAX_SIMILAR + 15
    ingest.ingest(replace(A, key=f"AX-{n}") for n in range(1, count + 1))
    assert count <= SimilarLink.objects.count() <= count * linking.MAX_SIMILAR


def test_contradictions_are_named(graph: Any) -> None:
    ingest.ingest(
        [
            replace(A, links=(RawLink("DUPLICATE_OF", "AX-1", "AX-2", "Duplicate"),)),
            replace(
                B,
                links=(
                    RawLink("DUPLICATE_OF", "AX-2", "AX-1", "Duplicate"),
                    RawLink("DUPLICATE_OF", "AX-2", "AX-3", "Duplicate"),
                ),
            ),
            C,
        ]
    )
    assert linking.faults() == {
        "duplicate cycle": ["AX-1 and AX-2 are each called a duplicate of the other"],
        "two originals": ["AX-2 is called a duplicate of 2 tickets"],
    }


def test_number_of_queries_does_not_grow_with_the_batch(
    graph: Any, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(50):
        ingest.ingest(replace(A, key=f"AX-{n}", summary=f"Topic {n}") for n in range(1, 60))
