"""The projection of ticket rows into Neo4j: both layers of the graph.

Promises that the nodes and relationships of a ticket are a pure function of
its rows, that a ticket is written as a whole or not at all, and that writing
it again changes nothing.
Must never happen: a label or type in Cypher that is not from the template; a
relationship whose rows are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db.models import Q

from supportkg.lib import graph

from .models import Link, Section, SimilarLink, Ticket
from .sections import ROOT, ROOT_LABEL, SECTION_LABEL, SIMILAR_TO, SectionKind, template

Properties = dict[str, Any]


@dataclass(frozen=True)
class Edge:
    """A relationship between two nodes, named by their property ``id``."""

    start: str
    type: str
    end: str
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True)
class TicketNodes:
    """Layer one of a ticket: its node, and its section nodes by kind, parents first."""

    ticket: Properties
    sections: dict[str, list[Properties]]

    def tree(self) -> Iterator[Edge]:
        for kind, nodes in self.sections.items():
            for node in nodes:
                yield Edge(
                    parent_id(self.ticket["id"], template().kinds[kind]),
                    template().kinds[kind].relationship,
                    node["id"],
                )


def node_id(ticket_id: str, anchor: str) -> str:
    """The property ``id`` of a section node; ``anchor`` is the section's."""
    return f"{ticket_id}#{anchor}"


def parent_id(ticket_id: str, kind: SectionKind) -> str:
    return ticket_id if kind.parent == ROOT else node_id(ticket_id, kind.parent)


def nodes_of(tickets: Sequence[Ticket]) -> list[TicketNodes]:
    """Layer one of these tickets, from rows (one query for all sections)."""
    by_ticket: dict[int, list[Section]] = defaultdict(list)
    for section in Section.objects.filter(ticket__in=tickets).order_by("id"):
        by_ticket[section.ticket_id].append(section)
    return [_nodes(ticket, by_ticket[ticket.pk]) for ticket in tickets]


def edges_of(ids: Sequence[int]) -> list[Edge]:
    """Layer two: every relationship with at least one end among these live tickets.

    The same link stated by both ends is one edge. A key found in the text makes
    an edge only where the tracker has none for the pair.
    """
    stated: dict[tuple[str, str], dict[tuple[str, str, str], Link]] = defaultdict(dict)
    links = Link.objects.filter(Q(ticket__in=ids) | Q(other__in=ids)).exclude(other=None)
    for link in links.filter(other__deleted_at=None, ticket__deleted_at=None).order_by(
        "-origin", "label", "id"
    ):
        pair = min(link.from_key, link.to_key), max(link.from_key, link.to_key)
        stated[pair].setdefault((link.type, link.from_key, link.to_key), link)
    edges = []
    for statements in stated.values():
        tracker = any(link.origin == Link.Origin.TRACKER for link in statements.values())
        for link in statements.values():
            if tracker and link.origin == Link.Origin.MENTION:
                continue
            start, end = f"{link.source}/{link.from_key}", f"{link.source}/{link.to_key}"
            properties = _present(origin=link.origin, label=link.label)
            edges.append(Edge(start, link.type, end, properties))
    similar = SimilarLink.objects.of(ids).filter(
        first__deleted_at=None, second__deleted_at=None, model=settings.EMBEDDING_MODEL
    )
    ends = similar.select_related("first", "second").defer("first__raw", "second__raw")
    for row in ends:
        properties = {"score": row.score, "model": row.model, "state": row.state}
        # By name: row ids depend on the order of arrival.
        start, end = sorted((row.first.graph_id, row.second.graph_id))
        edges.append(Edge(start, SIMILAR_TO, end, properties))
    return edges


def write(tickets: Sequence[Ticket]) -> None:
    """Make the graph hold exactly the rows of these tickets, in one transaction.

    A relationship to a ticket that is not in the graph yet is left out; it is
    made when that ticket is written.
    """
    every = nodes_of(tickets)
    ids = [nodes.ticket["id"] for nodes in every]
    statements: list[tuple[str, Properties]] = [
        (f"MATCH (s:{SECTION_LABEL}) WHERE s.ticket IN $ids DETACH DELETE s", {"ids": ids}),
        (
            f"UNWIND $rows AS row MERGE (t:{ROOT_LABEL} {{id: row.id}}) SET t = row",
            {"rows": [nodes.ticket for nodes in every]},
        ),
    ]
    by_kind: dict[str, list[Properties]] = defaultdict(list)
    for nodes in every:
        for kind, sections in nodes.sections.items():
            kind_ = template().kinds[kind]
            by_kind[kind] += [
                {"parent": parent_id(node["ticket"], kind_), "node": node} for node in sections
            ]
    for kind_ in template().kinds.values():
        if rows := by_kind[kind_.kind]:
            parent = ROOT_LABEL if kind_.parent == ROOT else SECTION_LABEL
            create = (
                f"UNWIND $rows AS row MATCH (p:{parent} {{id: row.parent}}) "
                f"CREATE (p)-[:{kind_.relationship}]->(s:{SECTION_LABEL}:{kind_.label}) "
                "SET s = row.node"
            )
            statements.append((create, {"rows": rows}))
    statements += _edge_statements(ids, edges_of([ticket.pk for ticket in tickets]))
    graph.write(statements)


def delete(ids: Sequence[str]) -> None:
    """Remove tickets (by node id), their sections and every relationship of theirs."""
    graph.write(
        [
            (f"MATCH (s:{SECTION_LABEL}) WHERE s.ticket IN $ids DETACH DELETE s", {"ids": ids}),
            (f"MATCH (t:{ROOT_LABEL}) WHERE t.id IN $ids DETACH DELETE t", {"ids": ids}),
        ]
    )


def delete_all() -> None:
    """Remove both layers; nodes of others in the same database stay."""
    for label in (SECTION_LABEL, ROOT_LABEL):
        graph.write_alone(
            f"MATCH (n:{label}) CALL (n) {{ DETACH DELETE n }} IN TRANSACTIONS OF 5000 ROWS"
        )


def prepare() -> None:
    """Constraints and indexes, derived from the template; doing it again is harmless."""
    for label in (ROOT_LABEL, SECTION_LABEL):
        graph.write_alone(
            f"CREATE CONSTRAINT {label.lower()}_id IF NOT EXISTS "
            f"FOR (n:{label}) REQUIRE n.id IS UNIQUE"
        )
    graph.write_alone(
        f"CREATE INDEX section_ticket IF NOT EXISTS FOR (n:{SECTION_LABEL}) ON (n.ticket)"
    )
    graph.write_alone(f"CREATE INDEX ticket_key IF NOT EXISTS FOR (n:{ROOT_LABEL}) ON (n.key)")
    graph.write_alone("CALL db.awaitIndexes(60)")


def _nodes(ticket: Ticket, sections: Iterable[Section]) -> TicketNodes:
    project = ticket.project.graph_id
    root = _present(
        id=ticket.graph_id,
        key=ticket.key,
        project=project,
        source=ticket.source,
        status_category=ticket.status_category,
        created_at=ticket.created_at,
        updated_at=ticket.updated_at,
        resolved_at=ticket.resolved_at,
    )
    by_kind: dict[str, list[Properties]] = {kind: [] for kind in template().kinds}
    for section in sections:
        by_kind[section.kind].append(
            _present(
                id=node_id(ticket.graph_id, section.anchor),
                ticket=ticket.graph_id,
                project=project,
                kind=section.kind,
                ordinal=section.ordinal,
                text=section.text,
                public=section.public,
                author=section.author,
                role=section.role,
                created_at=section.created_at,
            )
        )
    return TicketNodes(root, {kind: nodes for kind, nodes in by_kind.items() if nodes})


def _edge_statements(ids: list[str], edges: list[Edge]) -> Iterator[tuple[str, Properties]]:
    yield (
        f"MATCH (t:{ROOT_LABEL})-[r]-(:{ROOT_LABEL}) WHERE t.id IN $ids DELETE r",
        {"ids": ids},
    )
    by_type: dict[str, list[Properties]] = defaultdict(list)
    for edge in edges:
        by_type[edge.type].append({"a": edge.start, "b": edge.end, "p": edge.properties})
    for type_, rows in by_type.items():
        yield (
            f"UNWIND $rows AS row MATCH (a:{ROOT_LABEL} {{id: row.a}}) "
            f"MATCH (b:{ROOT_LABEL} {{id: row.b}}) CREATE (a)-[r:{type_}]->(b) SET r = row.p",
            {"rows": rows},
        )


def _present(**values: Any) -> Properties:
    """Without empty values (Neo4j has no null) and with times in UTC."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None and value != ""
    }
