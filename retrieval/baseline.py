"""Plain text retrieval: chunks, one vector index. The arm the paper compares with.

Promises an order and passages that need PostgreSQL alone, so that it also
serves as the last rung before declining when the graph is away.
Must never happen: a use of sections, links or comments in its order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickets.models import Section, Ticket

from .evidence import QUOTABLE, Evidence
from .query import QueryAnalysis
from .ranking import Ranking, RankingConfig, rank

PLAIN_TEXT = RankingConfig("baseline", {"plain": 1.0}, standardise=False)


def retrieve(analysis: QueryAnalysis, projects: Sequence[int]) -> Ranking:
    """Tickets by the best cosine of their chunks to the question as a whole."""
    return rank(analysis, projects, PLAIN_TEXT)


def passages(tickets: Sequence[Ticket]) -> list[Evidence]:
    """The texts of ranked tickets to quote from, best ticket first; one query.

    ``tickets`` come from ``retrieve``, which has seen to it that they may be shown.
    """
    places = {ticket.pk: place for place, ticket in enumerate(tickets)}
    order = {kind: place for place, kind in enumerate(QUOTABLE)}
    rows = Section.objects.filter(ticket__in=places, kind__in=QUOTABLE)
    found = [
        Evidence(row, places[row.ticket_id])
        for row in rows.select_related("ticket", "ticket__project").defer("ticket__raw")
        if row.text
    ]
    return sorted(found, key=lambda e: (e.rank, order[e.section.kind], e.section.ordinal))
