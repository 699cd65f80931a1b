"""Layer two: links between tickets, stated or implied.

Promises that the same set of tickets gives the same links in whatever order
they arrive (of a title with more than MAX_SIMILAR close ones, which then are
linked may depend on the order), that a link waits as pending until its other
end arrives, and that a curator's decision on an implicit link is kept.
Must never happen: all pairs compared in Python; an implicit link that changes
a ticket's status; cosines of two models compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import connection, transaction
from django.db.models import Count

from supportkg.lib.embeddings import EmbeddingModel

from .importers.raw import RawTicket
from .models import Link, SimilarLink, Ticket

# A title with more close neighbours than this is a form, not a topic.
MAX_SIMILAR = 50
# Titles that name different keys or codes ("Confirm ABC-1", "Confirm ABC-2") share a form only.
_CODE = "[A-Z][A-Z0-9_]+-[0-9]+"


def explicit(raw: RawTicket, mentions: Sequence[str], ticket: Ticket) -> list[Link]:
    """The unsaved statements of one ticket: its tracker links and the keys in its text."""
    statements = {(link.type, link.from_key, link.to_key): link.label for link in raw.links}
    links = [
        _statement(ticket, *ends, Link.Origin.TRACKER, label[:200])
        for ends, label in statements.items()
        if ticket.key in ends[1:]
    ]
    stated = {link.other_key for link in links}
    return links + [
        _statement(ticket, "RELATES_TO", min(key, raw.key), max(key, raw.key), Link.Origin.MENTION)
        for key in mentions
        if key not in stated
    ]


def connect(tickets: Sequence[Ticket]) -> None:
    """Fill in the other end of statements, in both directions, now that ``tickets`` exist."""
    by_source: dict[str, list[Ticket]] = {}
    for ticket in tickets:
        by_source.setdefault(ticket.source, []).append(ticket)
    with connection.cursor() as cursor:
        for source, rows in by_source.items():
            cursor.execute(
                "UPDATE tickets_link l SET other_id = t.id FROM tickets_ticket t "
                "WHERE l.other_id IS NULL AND t.deleted_at IS NULL AND t.source = l.source "
                "AND t.key = l.other_key AND l.source = %s "
                "AND (l.ticket_id = ANY(%s) OR l.other_key = ANY(%s))",
                [source, [t.pk for t in rows], [t.key for t in rows]],
            )


def implicit(tickets: Sequence[Ticket], model: EmbeddingModel) -> None:
    """Propose SIMILAR_TO between each of ``tickets`` and the titles close to its own.

    Two tickets are similar when the cosine of their titles (-1 to 1) is at least
    the model's ``implicit_link_min_cosine``, unless they name different codes.
    The vector index finds the neighbours; links that no longer hold go away
    unless a curator judged them.
    """
    ids = [ticket.pk for ticket in tickets]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL hnsw.ef_search = 200")
        cursor.execute("SET LOCAL hnsw.iterative_scan = strict_order")
        cursor.execute(
            "SELECT least(a.ticket_id, n.ticket_id), greatest(a.ticket_id, n.ticket_id), "
            "  max(n.score) "
            "FROM tickets_chunk a "
            "JOIN tickets_ticket ta ON ta.id = a.ticket_id "
            "CROSS JOIN LATERAL ("
            "  SELECT b.ticket_id, b.text, 1 - (b.vector <=> a.vector) AS score "
            "  FROM tickets_chunk b JOIN tickets_ticket tb ON tb.id = b.ticket_id "
            "  WHERE b.kind = 'summary' AND b.model = a.model AND b.ticket_id <> a.ticket_id "
            "    AND tb.source = ta.source AND tb.deleted_at IS NULL "
            "  ORDER BY b.vector <=> a.vector LIMIT %s"
            ") n "
            "WHERE a.kind = 'summary' AND a.model = %s AND a.ticket_id = ANY(%s) "
            "  AND n.score >= %s "
            "  AND (substring(a.text FROM %s) = substring(n.text FROM %s)) IS NOT FALSE "
            "GROUP BY 1, 2",
            [MAX_SIMILAR, model.name, ids, model.implicit_link_min_cosine, _CODE, _CODE],
        )
        found = {(first, second): round(score, 3) for first, second, score in cursor.fetchall()}
        proposed = SimilarLink.objects.of(ids).filter(state=SimilarLink.State.PROPOSED)
        ends = proposed.values_list("pk", "first_id", "second_id")
        gone = [pk for pk, first, second in ends if (first, second) not in found]
        SimilarLink.objects.filter(pk__in=gone).delete()
        SimilarLink.objects.bulk_create(
            [
                SimilarLink(first_id=first, second_id=second, score=score, model=model.name)
                for (first, second), score in found.items()
            ],
            update_conflicts=True,
            unique_fields=["first", "second"],
            update_fields=["score", "model"],
        )


def faults() -> Mapping[str, list[str]]:
    """Explicit links that contradict each other, named for a curator: duplicates in a ring,
    and tickets that are said to duplicate two different ones."""
    duplicates = Link.objects.filter(type="DUPLICATE_OF", origin=Link.Origin.TRACKER)
    edges = duplicates.values_list("source", "from_key", "to_key").distinct()
    backwards = {(source, to, start) for source, start, to in edges}
    rings = sorted(
        f"{start} and {to} are each called a duplicate of the other"
        for source, start, to in edges
        if (source, start, to) in backwards and start < to
    )
    several = (
        duplicates.values("source", "from_key")
        .annotate(targets=Count("to_key", distinct=True))
        .filter(targets__gt=1)
        .order_by("from_key")
    )
    return {
        "duplicate cycle": rings,
        "two originals": [
            f"{row['from_key']} is called a duplicate of {row['targets']} tickets"
            for row in several
        ],
    }


def pending() -> int:
    """Number of tracker links whose other end has not arrived."""
    return Link.objects.pending().filter(origin=Link.Origin.TRACKER).count()


def _statement(
    ticket: Ticket, type_: str, from_key: str, to_key: str, origin: Link.Origin, label: str = ""
) -> Link:
    return Link(
        ticket=ticket,
        type=type_,
        source=ticket.source,
        from_key=from_key,
        to_key=to_key,
        other_key=to_key if from_key == ticket.key else from_key,
        origin=origin,
        label=label,
    )
