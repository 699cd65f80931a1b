"""A stored answer as its asker may read it now, with its path in words.

Promises that console and API show the same, and that access which was taken
away since the question was asked is gone here too.
Must never happen: an answer that quotes a ticket which its reader may not see;
a server's address or an error text of the graph on the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Prefetch, QuerySet

from tickets.models import Ticket
from tickets.reading import LINE

from .models import Answer, Citation

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractUser, AnonymousUser

    Reader = AbstractUser | AnonymousUser

RUNGS = {
    "graph": "Graph query",
    "subgraph": "Whole tickets from the graph",
    "baseline": "Plain text",
}
PARTS = {
    "section:summary": "title",
    "section:description": "description",
    "plain": "whole text",
    "lexical": "words",
}
STAGES = ("rank", "extract", "compose", "total")
_REASONS = {
    "NO_TICKETS": "There are no tickets that you may see.",
    "NOTHING_CLOSE": "No ticket is close enough to the question.",
    "UNKNOWN_TICKET": "The ticket it names is not among those that you may see.",
    "NO_LINKS": "No such link is on record.",
    "NO_ROWS": "The query found nothing in the closest tickets.",
    "GRAPH_UNAVAILABLE": "The graph does not answer.",
    "GRAPH_TIMEOUT": "The graph took too long and was stopped.",
}


@dataclass(frozen=True)
class Rung:
    """One rung that was tried; ``reason`` is its code and ``words`` says why it was left."""

    rung: str
    name: str
    answered: bool
    reason: str
    words: str


@dataclass(frozen=True)
class Segment:
    """A contribution as a piece of a bar; ``x`` and ``width`` are per cent of the whole bar."""

    part: str
    name: str
    contribution: float
    value: float | None
    x: float
    width: float


@dataclass(frozen=True)
class Ranked:
    """A ranked ticket that is still there to see; its segments add up to ``score``."""

    ticket: Ticket
    score: float
    segments: tuple[Segment, ...]
    closeness: float
    exact: bool
    named: bool


def readable(reader: Reader) -> QuerySet[Answer]:
    """The reader's answers, without those that quote what they may no longer see."""
    hidden = Citation.objects.filter(answer=OuterRef("pk")).exclude(
        ticket__in=Ticket.objects.visible_to(reader)
    )
    return Answer.objects.visible_to(reader).exclude(Exists(hidden))


def with_citations(answers: QuerySet[Answer]) -> QuerySet[Answer]:
    """Answers with citations, their tickets and sections, in one more query."""
    citations = Citation.objects.select_related("ticket", "section").defer(
        "ticket__raw", "section__text"
    )
    return answers.prefetch_related(Prefetch("citations", citations.order_by("number")))


def rungs(answer: Answer) -> list[Rung]:
    """The path down the rungs, in words."""
    found: list[Rung] = []
    for row in answer.rungs:
        reason = row["reason"]
        words = _words(reason, row["detail"])
        if found and reason and found[-1].reason == reason:
            words = "For the same reason."
        name = RUNGS.get(row["rung"], row["rung"])
        found.append(Rung(row["rung"], name, row["outcome"] == "answered", reason, words))
    return found


def ranked(answer: Answer, reader: Reader) -> list[Ranked]:
    """The ranking, as far as the reader may see it now, with bars on one common scale."""
    rows = answer.ranking
    keys = [row["key"] for row in rows]
    tickets = {
        (ticket.source, ticket.key): ticket
        for ticket in Ticket.objects.visible_to(reader).filter(key__in=keys).only(*LINE)
    }
    sums = [_sums(row["contributions"]) for row in rows]
    left = max((negative for negative, _ in sums), default=0.0)
    scale = 100 / ((left + max((positive for _, positive in sums), default=0.0)) or 1)
    return [
        Ranked(
            ticket=tickets[row["source"], row["key"]],
            score=row["score"],
            segments=_segments(row, left, scale),
            closeness=row["closeness"],
            exact=row["exact"],
            named=row["named"],
        )
        for row in rows
        if (row["source"], row["key"]) in tickets
    ]


def times(answer: Answer) -> list[tuple[str, float]]:
    """Seconds by stage, in the order in which they were spent."""
    return sorted(answer.seconds.items(), key=lambda item: _place(STAGES, item[0]))


def _place(order: Iterable[str], name: str) -> tuple[int, str]:
    """Sorts what is in ``order`` first, and the rest by name."""
    known = list(order)
    return (known.index(name) if name in known else len(known), name)


def _words(reason: str, detail: str) -> str:
    if reason.startswith("CYPHER_"):
        return f"The query did not pass the gate. {detail}".strip()
    if reason.startswith("GRAPH_"):
        # The detail may hold an address or the data of a hidden ticket.
        return _REASONS.get(reason, "The graph refused the query.")
    return detail or _REASONS.get(reason, "")


def _sums(contributions: dict[str, float]) -> tuple[float, float]:
    """How far a bar reaches to the left and to the right of zero."""
    values = contributions.values()
    return -sum(v for v in values if v < 0), sum(v for v in values if v > 0)


def _segments(row: dict[str, Any], left: float, scale: float) -> tuple[Segment, ...]:
    negative = positive = left * scale
    segments = []
    # The database does not keep the order of keys.
    parts = sorted(row["contributions"].items(), key=lambda item: _place(PARTS, item[0]))
    for part, contribution in parts:
        width = abs(contribution) * scale
        if contribution < 0:
            negative -= width
        start = negative if contribution < 0 else positive
        if contribution >= 0:
            positive += width
        value = row["values"].get(part)
        name = PARTS.get(part, part)
        segments.append(Segment(part, name, contribution, value, round(start, 2), round(width, 2)))
    return tuple(segments)
