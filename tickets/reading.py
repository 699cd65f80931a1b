"""A ticket as one person may read it: the tree of its sections, and its links.

Promises that console and API show the same. A link whose other end is not there
and one whose other end this person may not see look alike.
Must never happen: the title, status or existence of a ticket of a project that
the reader may not see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.db.models import Q, QuerySet

from .models import Link, Section, SimilarLink, Ticket
from .sections import ROOT, UNDIRECTED, template

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractUser, AnonymousUser

    Reader = AbstractUser | AnonymousUser

# Columns that a line about a ticket needs; ``raw`` can be megabytes.
LINE = ("source", "key", "summary", "status", "status_category", "resolution")


@dataclass
class Branch:
    """A section with what hangs from it, in the order of the template."""

    section: Section
    children: list[Branch] = field(default_factory=list)


@dataclass(frozen=True)
class Relation:
    """An explicit link seen from one ticket; ``other`` is empty when it is not there to see."""

    type: str
    words: str
    outward: bool
    key: str
    origin: str
    label: str
    other: Ticket | None


@dataclass(frozen=True)
class Likeness:
    """An implicit link seen from one ticket; ``score`` is a cosine, -1 to 1."""

    other: Ticket
    score: float
    model: str
    state: str


def tree(ticket: Ticket) -> list[Branch]:
    """The section tree of a ticket, one query. Empty branches are left out."""
    by_parent: dict[str, list[Branch]] = defaultdict(list)
    order = list(template().kinds)
    sections = sorted(ticket.sections.all(), key=lambda s: (order.index(s.kind), s.ordinal))
    present = {section.kind for section in sections}
    for section in sections:
        above = [step.kind for step in template().path(section.kind)[:-1] if step.kind in present]
        by_parent[above[-1] if above else ROOT].append(Branch(section))
    for branches in by_parent.values():
        for branch in branches:
            branch.children = by_parent.get(branch.section.kind, [])
    return [b for b in by_parent[ROOT] if b.section.text or b.children]


def relations(ticket: Ticket, reader: Reader) -> list[Relation]:
    """Explicit links that ``ticket`` states, or that a visible ticket states about it."""
    rows = list(Link.objects.filter(Q(ticket=ticket) | Q(other=ticket)).order_by("id"))
    others = _visible({end for row in rows if (end := _far_end(row, ticket))}, reader)
    found: dict[tuple[str, str, str], Relation] = {}
    for link in rows:
        other = others.get(_far_end(link, ticket) or 0)
        if other is None and link.ticket_id != ticket.pk:
            continue  # only a ticket that the reader may not see says so
        relation = _relation(ticket, link, other)
        ends = (link.from_key, link.to_key)
        identity = (link.type, *(sorted(ends) if link.type in UNDIRECTED else ends))
        known = found.get(identity)
        # Both ends may state a link; the tracker's word goes before a mention.
        if known is None or known.origin == Link.Origin.MENTION:
            found[identity] = relation
    return list(found.values())


def likenesses(ticket: Ticket, reader: Reader) -> list[Likeness]:
    """Implicit links that stand, to tickets that ``reader`` may see, closest first."""
    links = list(SimilarLink.objects.of([ticket.pk]).standing())
    others = _visible((_other_end(link, ticket) for link in links), reader)
    return [
        Likeness(others[end], link.score, link.model, link.state)
        for link in links
        if (end := _other_end(link, ticket)) in others
    ]


def find(reader: Reader, key: str, source: str = "") -> QuerySet[Ticket]:
    """The tickets of that key that ``reader`` may see: one in each help desk at most."""
    if "\x00" in key:  # PostgreSQL cannot be asked for it
        return Ticket.objects.none()
    found = Ticket.objects.visible_to(reader).filter(key=key).select_related("project")
    return found.filter(source=source) if source else found


def search(tickets: QuerySet[Ticket], text: str) -> QuerySet[Ticket]:
    """Those whose key begins with ``text``, or whose title holds all of its words."""
    words = Q()
    for word in text.split():
        words &= Q(summary__icontains=word)
    return tickets.filter(Q(key__istartswith=text.strip()) | words) if words else tickets


def _relation(ticket: Ticket, link: Link, other: Ticket | None) -> Relation:
    outward = link.from_key == ticket.key
    kind = template().links[link.type]
    wordings = kind.forward if outward or link.type in UNDIRECTED else kind.backward
    return Relation(
        type=link.type,
        words=wordings[0],
        outward=outward,
        key=link.to_key if outward else link.from_key,
        origin=link.origin,
        label=link.label,
        other=other,
    )


def _far_end(link: Link, ticket: Ticket) -> int | None:
    return link.other_id if link.ticket_id == ticket.pk else link.ticket_id


def _other_end(link: SimilarLink, ticket: Ticket) -> int:
    return link.second_id if link.first_id == ticket.pk else link.first_id


def _visible(ids: Iterable[int], reader: Reader) -> dict[int, Ticket]:
    return Ticket.objects.visible_to(reader).only(*LINE).in_bulk(list(ids))
