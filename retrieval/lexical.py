"""BM25 over the postings in PostgreSQL.

Promises that identifiers and words of any script are found by the same terms
that were indexed, in one pass over the postings of the query's terms.
Must never happen: a ticket outside the given projects in the result.

Okapi BM25 with Lucene's idf: sum over terms of
ln(1 + (N - df + 0.5) / (df + 0.5)) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average)).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from django.db import connection
from django.db.models import Avg, Count

from tickets.models import Ticket
from tickets.text.terms import terms

K1 = 1.2
B = 0.75
# Rarest terms of the question that are looked up; a pasted log has thousands.
MAX_TERMS = 128

Field = Literal["own", "every"]


@dataclass(frozen=True)
class LexicalQuery:
    """A question ready to be scored: its terms, their weights, and the mean length."""

    terms: tuple[str, ...]
    weights: tuple[float, ...]
    mean_length: float
    field: Field


def prepare(text: str, projects: Sequence[int], field: Field = "every") -> LexicalQuery:
    """``field`` "every" searches summary, description and comments; "own" leaves comments out."""
    length = "all_terms" if field == "every" else "own_terms"
    # Within the asker's projects: a score tells nothing about words in others.
    scope = Ticket.objects.live().filter(project__in=projects)
    stats = scope.aggregate(n=Count("id"), mean=Avg(length))
    counts = terms(text)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.term, count(*) FROM tickets_posting p "
            "JOIN tickets_ticket t ON t.id = p.ticket_id "
            f"WHERE p.term = ANY(%s) AND p.{field} > 0 AND t.deleted_at IS NULL "
            "AND t.project_id = ANY(%s) GROUP BY p.term",
            [list(counts), list(projects)],
        )
        frequency: dict[str, int] = dict(cursor.fetchall())
    n = max(stats["n"], 1)
    idf = {t: math.log(1 + max(n - df + 0.5, 0.5) / (df + 0.5)) for t, df in frequency.items()}
    rarest = sorted(idf, key=lambda t: (-idf[t], t))[:MAX_TERMS]
    weights = tuple(idf[t] * counts[t] * (K1 + 1) for t in rarest)
    return LexicalQuery(tuple(rarest), weights, float(stats["mean"] or 1) or 1.0, field)


def search(query: LexicalQuery, projects: Sequence[int], limit: int) -> dict[int, float]:
    """The best tickets (row ids) with their BM25 score, 0 and up."""
    return _score(query, "AND t.project_id = ANY(%s)", list(projects), limit)


def score(query: LexicalQuery, tickets: Collection[int]) -> dict[int, float]:
    """The BM25 score of the given tickets; those that share no term are left out."""
    return _score(query, "AND p.ticket_id = ANY(%s)", list(tickets), len(tickets))


def _score(query: LexicalQuery, where: str, ids: list[int], limit: int) -> dict[int, float]:
    if not query.terms:
        return {}
    tf, length = query.field, "all_terms" if query.field == "every" else "own_terms"
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH q AS (SELECT unnest(%s::text[]) AS term, unnest(%s::float8[]) AS weight) "
            f"SELECT p.ticket_id, sum(q.weight * p.{tf} / (p.{tf} + %s * (%s + %s * t.{length}"
            " / %s))) AS score "
            "FROM q JOIN tickets_posting p ON p.term = q.term "
            "JOIN tickets_ticket t ON t.id = p.ticket_id "
            f"WHERE t.deleted_at IS NULL AND p.{tf} > 0 {where} "
            "GROUP BY p.ticket_id ORDER BY score DESC, p.ticket_id LIMIT %s",
            [
                list(query.terms), list(query.weights), K1, 1 - B, B, query.mean_length,
                ids, limit,
            ],
        )  # fmt: skip
        return dict(cursor.fetchall())
