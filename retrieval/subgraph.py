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

# Rows of a query, in the order of the ranking: what is cut belongs to the last tickets.
ROWS = 200
_ORIGINAL = "-[:DUPLICATE_OF]->(o:Ticket)"
_RANKED = "UNWIND $tickets AS place "  # [ticket id, rank]


@dataclass(frozen=True)
class Subgraph:
    """The evidence of one intent, and the queries that ran for it."""

    evidence: tuple[evidence.Evidence, ...]
    queries: tuple[cypher.CheckedCypher, ...]


def extract(intent: Intent, tickets: Sequence[Ticket], projects: Sequence[Project]) -> Subgraph:
    """Read what an intent asks for around ``tickets``, best ranked first.

    The question has become one that names tickets ("how to reproduce ENT-22970",
    RAG-KG section 2.2.2), and that becomes Cypher. Of an intent's sections each
    ticket gives the first kind that it has; a duplicate without a solution gives
    that of its original. Raises CypherRefused,
    GraphQueryError or GraphUnavailable.
    """
    if intent.relationship:
        return _run([_relationship_query(intent)], tickets, projects)
    found = _run([_section_query(kind) for kind in intent.sections], tickets, projects)
    best = _best_kinds(intent.sections, found.evidence)
    solving = [kind for kind in intent.sections if kind in evidence.SOLVING]
    if solving and any(best.get(rank) not in solving for rank in range(len(tickets))):
        # What solved a duplicate stands in the ticket that it duplicates.
        originals = _run([_section_query(k, _ORIGINAL) for k in solving], tickets, projects)
        lacking = {e.rank for e in originals.evidence if best.get(e.rank) not in solving}
        best |= {r: k for r, k in _best_kinds(solving, originals.evidence).items() if r in lacking}
        found = Subgraph(
            tuple(e for e in found.evidence if e.rank not in lacking)
            + tuple(e for e in originals.evidence if e.rank in lacking),
            found.queries + originals.queries,
        )
    kept = [e for e in found.evidence if best[e.rank] == e.section.kind]
    return replace(found, evidence=tuple(sorted(kept, key=lambda e: e.rank)))


def _best_kinds(kinds: Sequence[str], found: Sequence[evidence.Evidence]) -> dict[int, str]:
    """The first of ``kinds`` that each ranked ticket has, by its place."""
    best: dict[int, str] = {}
    for kind in kinds:
        for e in found:
            if e.section.kind == kind:
                best.setdefault(e.rank, kind)
    return best


def whole(tickets: Sequence[Ticket], projects: Sequence[Project]) -> Subgraph:
    """The fixed read: the texts of ``tickets`` to quote from, whatever was asked."""
    return _run([_section_query(kind) for kind in evidence.QUOTABLE], tickets, projects)


def _section_query(kind: str, hop: str = "") -> str:
    """The path from the ticket down to one kind of section, as the template declares it;
    with ``hop``, from the ticket at its other end."""
    *above, last = template().path(kind)
    steps = "".join(f"-[:{step.relationship}]->(:{step.label})" for step in above)
    return (
        f"{_RANKED}MATCH (t:Ticket){hop}{steps}-[:{last.relationship}]->(s:{last.label}) "
        f"WHERE t.id = place[0] RETURN place[1] AS rank, {'o' if hop else 't'}.id AS ticket, "
        "s.id AS section ORDER BY rank, s.ordinal"
    )


def _relationship_query(intent: Intent) -> str:
    arrow = {"out": ("-", "->"), "in": ("<-", "-"), "both": ("-", "-")}[intent.direction]
    condition, order = "", "rank, o.id"
    if intent.relationship == SIMILAR_TO:
        condition, order = "AND r.state <> 'rejected' ", "rank, r.score DESC, o.id"
    return (
        f"{_RANKED}MATCH (t:Ticket){arrow[0]}[r:{intent.relationship}]{arrow[1]}"
        "(o:Ticket)-[:HAS_SUMMARY]->(s:Summary) "
        f"WHERE t.id = place[0] {condition}"
        f"RETURN place[1] AS rank, o.id AS ticket, s.id AS section ORDER BY {order}"
    )


def _run(texts: Sequence[str], tickets: Sequence[Ticket], projects: Sequence[Project]) -> Subgraph:
    places = [[ticket.graph_id, rank] for rank, ticket in enumerate(tickets)]
    found: list[evidence.Found] = []
    queries = []
    for text in texts:
        checked = cypher.check(
            text,
            projects=[project.graph_id for project in projects],
            parameters={"tickets": places},
            max_rows=ROWS,
        )
        graph.explain(checked.text, checked.parameters)
        result = graph.read(checked.text, checked.parameters, max_rows=ROWS)
        queries.append(checked)
        for row in result.rows:
            anchor = row["section"].rpartition("#")[2]
            found.append(evidence.Found(row["ticket"], anchor, row["rank"]))
    found.sort(key=lambda f: f.rank)
    scope = [project.pk for project in projects]
    return Subgraph(tuple(evidence.verify(found, scope)), tuple(queries))
