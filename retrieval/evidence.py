"""Passages that an answer may quote, checked against the rows.

Promises that every piece of evidence is a section that the asker may see and
that holds this text today.
Must never happen: evidence that came out of the graph or an index and was not
looked up again in PostgreSQL.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from tickets.models import Section

# Kinds of section to quote from when no particular one is asked for, best first.
QUOTABLE = (
    "fix_solution",
    "workaround",
    "root_cause",
    "description",
    "steps_to_reproduce",
    "actual_result",
    "comment",
)

# Kinds that say how a problem was solved; a duplicate shares them with its original.
SOLVING = frozenset({"fix_solution", "workaround", "root_cause"})

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evidence:
    """One section, and the place (from 0) of the ranked ticket that led to it."""

    section: Section
    rank: int


@dataclass(frozen=True)
class Found:
    """A section as the graph names it: ticket node id, section anchor, rank of the ticket."""

    ticket: str
    anchor: str
    rank: int


def verify(found: Sequence[Found], projects: Sequence[int]) -> list[Evidence]:
    """The sections that exist and may be seen, in the order given; one query.

    What does not pass is dropped and logged: the graph and the rows disagree, or
    the permission predicate failed.
    """
    wanted = {(f.ticket, f.anchor) for f in found}
    keys = {ticket.partition("/")[2] for ticket, _ in wanted}
    kinds = {anchor.rpartition("-")[0] or anchor for _, anchor in wanted}
    kinds |= {anchor for _, anchor in wanted}
    rows = Section.objects.filter(
        ticket__key__in=keys,
        kind__in=kinds,
        ticket__project__in=projects,
        ticket__deleted_at=None,
    )
    rows = rows.select_related("ticket", "ticket__project").defer("ticket__raw")
    by_name = {(row.ticket.graph_id, row.anchor): row for row in rows}
    evidence = []
    for f in found:
        section = by_name.get((f.ticket, f.anchor))
        if section is None:
            log.warning("evidence dropped: %s#%s is not in the asker's rows", f.ticket, f.anchor)
        elif section.text:
            evidence.append(Evidence(section, f.rank))
    return evidence
