"""Which variables of a query hang together: the check against cross products.

Promises that rows are not multiplied by unrelated rows. Variables are in one group
when a pattern, an equality or a WITH ties them together; one group may range over
the whole graph, every other must be pinned by an id or a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from graphglot import ast
from graphglot.ast import cypher

from retrieval.cypher.grammar import bare, walk
from retrieval.cypher.refusals import CypherRefused

# Properties whose value picks out one ticket or the sections of one ticket.
KEYS = frozenset({"id", "key", "ticket"})


class Groups:
    """The groups of one part of a query, from one WITH to the next."""

    def __init__(self, *groups: set[str], pinned: Iterable[str] = ()) -> None:
        self._groups = [g for g in groups if g]
        self._pinned = set(pinned)

    def pin(self, variable: str) -> None:
        """The variable stands for few rows, by a key in its pattern."""
        self._pinned.add(variable)

    def connect(self, paths: list[Any], condition: Any) -> None:
        """Take in the patterns of one clause. Raises CypherRefused CROSS_PRODUCT."""
        for path in paths:
            self._join({v.name for v in _declared(path)})
        for left, right in _equalities(condition):
            grouped = set().union(*self._groups)
            used = [{v.binding_variable.name for v in _variables(s)} for s in (left, right)]
            mine, other = used[0] & grouped, used[1] & grouped
            if mine and other:
                self._join(mine | other)
            elif isinstance(left if mine else right, ast.PropertyReference):
                prop = (left if mine else right).property_name[0].identifier.name
                self._pinned |= (mine | other) if prop in KEYS else set()
        if sum(not g & self._pinned for g in self._groups) > 1:
            raise CypherRefused(
                "CROSS_PRODUCT",
                "The patterns have no variable in common. Connect them by a relationship, by an "
                "equality of properties, or name the ticket by its id or key.",
            )

    def after_with(self, names: set[str], *, is_one_row: bool) -> Groups:
        """The groups of the next part, to which the names were carried over."""
        if is_one_row:
            return Groups()
        is_pinned = all(g & self._pinned for g in self._groups)
        return Groups({"", *names}, pinned={""} if is_pinned else ())

    def inside(self, names: Iterable[str]) -> Groups:
        """The groups of a pattern in an expression, where everything outside is one."""
        return Groups(set(names).union(*self._groups), pinned=self._pinned)

    def _join(self, names: set[str]) -> None:
        apart = []
        for group in self._groups:
            if group & names:
                names = names | group
            else:
                apart.append(group)
        self._groups = [*apart, names]


def _equalities(condition: Any) -> Iterator[tuple[Any, Any]]:
    """Both sides of the ``=`` and IN that the outermost ANDs of a condition join."""
    parts = [] if condition is None else [condition]
    if isinstance(condition, ast.BooleanValueExpression) and not condition.ops:
        parts = condition.boolean_term.list_boolean_factor
    for part in parts:
        test = bare(part)
        if isinstance(test, cypher.InPredicate):
            yield bare(test.value), bare(test.list_expression)
        elif isinstance(test, ast.ComparisonPredicate):
            right = test.comparison_predicate_part_2
            if right.comp_op is ast.ComparisonPredicatePart2.CompOp.EQUALS:
                yield bare(test.comparison_predicand), bare(right.comparison_predicand)


def _declared(path: Any) -> Iterator[Any]:
    for node in walk(path):
        if isinstance(node, ast.ElementVariableDeclaration):
            yield node.element_variable
        elif isinstance(node, ast.PathVariableDeclaration):
            yield node.path_variable


def _variables(node: Any) -> Iterator[Any]:
    return (n for n in walk(node) if isinstance(n, ast.BindingVariableReference))
