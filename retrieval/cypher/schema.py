"""The closed schema, held against the labels, types, properties and arrows of a query.

Promises that a name that is not in ``ticket_template.yaml`` is refused with the
names that are, and an arrow that no relationship of the graph can follow is
refused with the way it does run, so that a model can repair its query.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from graphglot import ast

from retrieval.cypher.refusals import CypherRefused
from tickets.sections import ROOT_LABEL, SECTION_LABEL, UNDIRECTED, template


class Kind(NamedTuple):
    """What a variable stands for; ``names`` are labels or types, empty when any."""

    is_node: bool
    names: frozenset[str]


def names(holder: Any, code: str) -> frozenset[str]:
    """The labels (code LABEL) or types (RELATIONSHIP) of a pattern or condition.

    Empty when it has none. Raises CypherRefused when one is not in the schema.
    """
    if holder is None:
        return frozenset()
    labels, types = [*template().labels], [*template().relationships]
    known = types if code == "RELATIONSHIP" else labels
    if isinstance(holder, ast.LabeledPredicatePart2):
        known = [*labels, *types]  # "r:BLOCKS" is a condition too
    found = set()
    for term in holder.label_expression.label_terms:
        if len(term.label_factors) != 1 or not isinstance(term.label_factors[0], ast.LabelName):
            raise CypherRefused(
                "LABEL_EXPRESSION", "Write one label, or several with '|' between them."
            )
        found.add(term.label_factors[0].identifier.name)
    for name in sorted(found.difference(known)):
        raise CypherRefused(code, f"'{name}' does not exist. There are: {', '.join(known)}.")
    return frozenset(found)


def refuse_property(name: str, kind: Kind | None) -> None:
    """Raises CypherRefused unless one of the labels or types has the property.

    Without a kind every property of the schema may be asked for.
    """
    schema = template()
    known: set[str] = set()
    if kind is None or kind.is_node:
        labels = (kind.names if kind else ()) or schema.labels
        known.update(*(schema.labels[label] for label in labels))
    if kind is None or not kind.is_node:
        types = (kind.names if kind else ()) or schema.relationships
        known.update(*(schema.relationship_properties(t) for t in types))
    if name not in known:
        of = f" of {'|'.join(sorted(kind.names))}" if kind and kind.names else ""
        there = ", ".join(sorted(known)) or "none"
        raise CypherRefused("PROPERTY", f"There is no property '{name}'. Properties{of}: {there}.")


def refuse_direction(
    left: Kind | None, edge: Any, types: frozenset[str], right: Kind | None
) -> None:
    """Raises CypherRefused when no type can run between the two nodes as it is drawn."""
    directions = [(left, right)]
    if isinstance(edge, ast.FullEdgeAnyDirection):
        directions.append((right, left))
    elif types & UNDIRECTED:
        name = min(types & UNDIRECTED)
        raise CypherRefused(
            "DIRECTION", f"{name} has no direction: write (a)-[:{name}]-(b) without an arrow."
        )
    elif isinstance(edge, ast.FullEdgePointingLeft):
        directions = [(right, left)]
    if any(_fits(start, t, end) for t in types for start, end in directions):
        return
    start, end = directions[0]
    code = "DIRECTION" if any(_fits(end, t, start) for t in types) else "PATTERN"
    ends = template().relationships
    ways = ", ".join(f"(:{ends[t][0]})-[:{t}]->(:{ends[t][1]})" for t in sorted(types))
    raise CypherRefused(code, f"The relationship does not run like this, but so: {ways}.")


def _fits(start: Kind | None, type_: str, end: Kind | None) -> bool:
    for kind, label in zip((start, end), template().relationships[type_], strict=True):
        if kind is None or not kind.names or label in kind.names:
            continue
        if SECTION_LABEL not in kind.names or label == ROOT_LABEL:
            return False
    return True
