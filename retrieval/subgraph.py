"""From ranked tickets and an intent to a subgraph, by Cypher over the closed schema.

Promises that every query, ours too, passes the gate on its way to the
database, and that what ran is handed on with what it gave.
Must never happen: a query that reaches the graph without ``cypher.check``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from supportkg.lib import graph
from tickets.models import Project, Ticket
from tickets.sections import SIMILAR_TO, template

from . import cypher, evidence
from .query import Intent

ROWS = 60


@dataclass(frozen=True)
class Subgraph:
    """The evidence of one intent, the queries that ran for it, and whether rows were cut."""

    evidence: tuple[evidence.Evidence, ...]
    queries: tuple[cypher.CheckedCypher, ...]
    cut: bool = False


def extract(intent: Intent, tickets: Sequence[Ticket], projects: Sequence[Project]) -> Subgraph:
    """Read what an intent asks for around ``tickets``, best ranked first.

    The question has become one that names tickets ("how to reproduce ENT-22970",
    RAG-KG section 2.2.2), and that becomes Cypher. Of an intent's sections each
    ticket gives the first kind that it has. Raises CypherRefused,
    GraphQueryError or GraphUnavailable.
    """
    if intent.relationship:
        return _run([_relationship_query(intent)], tickets, projects)
    found = _run([_section_query(kind) for kind in intent.sections], tickets, projects)
    best: dict[int, str] = {}
    for kind in intent.sections:
        for e in found.evidence:
            if e.section.kind == kind:
                best.setdefault(e.rank, kind)
    kept = tuple(e for e in found.evidence if best[e.rank] == e.section.kind)
    return replace(found, evidence=kept)


def whole(tickets: Sequence[Ticket], projects: Sequence[Project]) -> Subgraph:
    """The fixed read: the texts of ``tickets`` to quote from, whatever was asked."""
    return _run([_section_query(kind) for kind in evidence.QUOTABLE], tickets, projects)


def _section_query(kind: str) -> str:
    """The path from the ticket down to one kind of section, as the template declares it."""
    *above, last = template().path(kind)
    steps = "".join(f"-[:{step.relationship}]->(:{step.label})" for step in above)
    return (
        f"MATCH (t:Ticket){steps}-[:{last.relationship}]->(s:{last.label}) "
        "WHERE t.id IN $tickets "
        "RETURN t.id AS ticket, t.id AS asked, s.id AS section ORDER BY ticket, s.ordinal"
    )


def _relationship_query(intent: Intent) -> str:
    arrow = {"out": ("-", "->"), "in": ("<-", "-"), "both": ("-", "-")}[intent.direction]
    condition, order = "", "o.id"
    if intent.relationship == SIMILAR_TO:
        condition, order = "AND r.state <> 'rejected' ", "r.score DESC, o.id"
    return (
        f"MATCH (t:Ticket){arrow[0]}[r:{intent.relationship}]{arrow[1]}"
        "(o:Ticket)-[:HAS_SUMMARY]->(s:Summary) "
        f"WHERE t.id IN $tickets {condition}"
        f"RETURN o.id AS ticket, t.id AS asked, s.id AS section ORDER BY {order}"
    )


def _run(texts: Sequence[str], tickets: Sequence[Ticket], projects: Sequence[Project]) -> Subgraph:
    ranks = {ticket.graph_id: rank for rank, ticket in enumerate(tickets)}
    found: list[evidence.Found] = []
    queries = []
    cut = False
    for text in texts:
        checked = cypher.check(
            text,
            projects=[project.graph_id for project in projects],
            parameters={"tickets": list(ranks)},
            max_rows=ROWS,
        )
        graph.explain(checked.text, checked.parameters)
        result = graph.read(checked.text, checked.parameters, max_rows=ROWS)
        queries.append(checked)
        cut = cut or result.cut or len(result.rows) == ROWS
        for row in result.rows:
            anchor = row["section"].partition("#")[2]
            found.append(evidence.Found(row["ticket"], anchor, ranks[row["asked"]]))
    found.sort(key=lambda f: f.rank)
    scope = [project.pk for project in projects]
    return Subgraph(tuple(evidence.verify(found, scope)), tuple(queries), cut)
