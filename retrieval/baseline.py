"""Plain text retrieval: chunks, one vector index. The arm the paper compares with.

Promises an order and passages that need PostgreSQL alone, so that it also
serves as the last rung before declining when the graph is away.
Must never happen: a use of sections, links or comments in its order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickets.models import Section, Ticket

from .evidence import Evidence
from .query import QueryAnalysis
from .ranking import RankedTicket, Ranking, RankingConfig, rank

PLAIN_TEXT = RankingConfig("baseline", {"plain": 1.0}, standardise=False)
_READ = ("fix_solution", "workaround", "description", "comment")


def retrieve(analysis: QueryAnalysis, projects: Sequence[int]) -> Ranking:
    """Tickets by the best cosine of their chunks to the question as a whole."""
    return rank(analysis, projects, PLAIN_TEXT)


def passages(ranked: Sequence[RankedTicket], projects: Sequence[int]) -> list[Evidence]:
    """The texts of ranked tickets to quote from, best ticket first; one query."""
    places = {ticket.ticket_id: place for place, ticket in enumerate(ranked)}
    rows = Section.objects.filter(
        ticket__in=Ticket.objects.live().filter(pk__in=places, project__in=projects),
        kind__in=_READ,
    ).select_related("ticket", "ticket__project")
    found = [Evidence(row, places[row.ticket_id]) for row in rows if row.text]
    order = {kind: place for place, kind in enumerate(_READ)}
    return sorted(found, key=lambda e: (e.rank, order[e.section.kind], e.section.ordinal))
