"""The walk over a query that puts the permission on every pattern.

Promises that each node pattern, named or not, in MATCH, OPTIONAL MATCH, EXISTS,
conditions and comprehensions, and each node a variable-length path runs through,
has to be in one of the asker's projects, and that patterns hang together.

The server may evaluate a condition of the model's on a hidden node before the
permission, but drops an error of one part of an AND when another part is false:
tests/retrieval/test_cypher_permissions.py holds it to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from graphglot import ast
from graphglot.ast import cypher

from retrieval.cypher.grammar import bare, children, walk
from retrieval.cypher.groups import KEYS, Groups
from retrieval.cypher.permission import Visible, require
from retrieval.cypher.refusals import CypherRefused
from retrieval.cypher.schema import Kind, names, refuse_direction, refuse_property

# Largest number of nodes of one class in one query.
_MOST = {
    ast.NodePattern: (24, "nodes in patterns"),
    cypher.CypherWithStatement: (5, "WITHs"),
    ast.ForStatement: (2, "UNWINDs"),
    # "x + x" in WITH after WITH would double a text each time.
    ast.ArithmeticValueExpression._SignedTerm: (8, "additions"),
}
_EDGES = (ast.FullEdgePointingRight, ast.FullEdgePointingLeft, ast.FullEdgeAnyDirection)
# -->, <-- and --
_SHORT = {
    ast.AbbreviatedEdgePattern.PatternType.RIGHT_ARROW,
    ast.AbbreviatedEdgePattern.PatternType.LEFT_ARROW,
    ast.AbbreviatedEdgePattern.PatternType.MINUS_SIGN,
}


class Cover:
    """Checks one query against the schema and puts the permission into its tree."""

    def __init__(self, max_hops: int) -> None:
        self._max_hops = max_hops
        self._fresh = (f"_{n}" for n in count(1))
        self._kinds: dict[str, Kind] = {}
        self._groups = Groups()

    def statement(self, tree: ast.Expression) -> None:
        """Change ``tree`` in place. Raises CypherRefused."""
        nodes = list(walk(tree))
        for kind, (most, what) in _MOST.items():
            if sum(isinstance(n, kind) for n in nodes) > most:
                raise CypherRefused("TOO_COMPLEX", f"More than {most} {what} in one query.")
        for node in nodes:
            if isinstance(node, ast.SimpleLinearQueryStatement):
                for clause in node.list_simple_query_statement:
                    self._clause(clause)
        for node in nodes:
            if isinstance(node, ast.PrimitiveResultStatement):
                self._expression(node)

    def _clause(self, clause: Any) -> None:
        if isinstance(clause, ast.SimpleMatchStatement):
            self._match(clause.graph_pattern_binding_table.graph_pattern)
        elif isinstance(clause, ast.OptionalMatchStatement):
            self._clause(clause.optional_operand.optional_operand)
        elif isinstance(clause, cypher.CypherWithStatement):
            self._with(clause)
        elif isinstance(clause, ast.ForStatement):
            self._expression(clause)
            self._kinds.pop(clause.for_item.for_item_alias.binding_variable.name, None)
        else:
            raise CypherRefused("CLAUSE", "A clause of the query is not allowed.")

    # -- Clauses and everything else that holds patterns ---------------------

    def _match(self, pattern: Any) -> None:
        where = pattern.graph_pattern_where_clause
        condition = self._patterns(pattern.path_pattern_list.list_path_pattern, where)
        pattern.set(
            "graph_pattern_where_clause", ast.GraphPatternWhereClause(search_condition=condition)
        )

    def _patterns(self, paths: list[Any], where: Any) -> Any:
        """The condition that has to stand behind the paths: permission AND (what was there)."""
        visible = list(dict.fromkeys(v for path in paths for v in self._path(path)))
        condition = where.search_condition if where else None
        self._groups.connect(paths, condition)
        if condition is not None:
            condition = self._expression(condition)
        return require(visible, condition)

    def _with(self, clause: Any) -> None:
        items = clause.return_statement_body.return_statement_body.return_item_list.list_return_item
        kinds: dict[str, Kind] = {}
        carried = set()
        for item in items:
            value = bare(item.aggregating_value_expression)
            is_variable = isinstance(value, ast.BindingVariableReference)
            alias = item.return_item_alias
            name = alias.identifier.name if alias else ""
            if is_variable:
                name = name or value.binding_variable.name
                if value.binding_variable.name in self._kinds:
                    kinds[name] = self._kinds[value.binding_variable.name]
            carried.add(name)
            self._expression(item)
        is_one_row = all(any(isinstance(n, ast.AggregateFunction) for n in walk(i)) for i in items)
        self._groups = self._groups.after_with(carried, is_one_row=is_one_row)
        self._kinds = kinds
        for part in (clause.order_by_and_page_statement, clause.where_clause):
            if part is not None:
                self._expression(part)

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """For patterns inside an expression: what they name ends with them."""
        before = self._kinds, self._groups
        self._kinds, self._groups = dict(self._kinds), self._groups.inside(self._kinds)
        yield
        self._kinds, self._groups = before

    def _expression(self, node: Any) -> Any:
        """The expression with its patterns covered and its names checked."""
        match node:
            case cypher.CypherPatternPredicate():
                # As a bare pattern it could not name the nodes that it needs to name.
                inside = ast.GraphPattern(
                    path_pattern_list=ast.PathPatternList(list_path_pattern=[node.pattern])
                )
                node = ast.ExistsPredicate(
                    exists_predicate=ast.ExistsPredicate._ExistsGraphPattern(graph_pattern=inside)
                )
                return self._expression(node)
            case ast.ExistsPredicate():
                with self._nested():
                    self._match(_only_pattern(node.exists_predicate))
                return node
            case cypher.CypherPatternComprehension():
                with self._nested():
                    condition = self._patterns([node.pattern], node.where_clause)
                    node.set("where_clause", ast.WhereClause(search_condition=condition))
                    node.set("projection", self._expression(node.projection))
                return node
            case cypher.ListComprehension() | cypher.ListPredicateFunction():
                self._kinds.pop(node.variable.name, None)
            case ast.PropertyReference():
                source = bare(node.property_source)
                is_variable = isinstance(source, ast.BindingVariableReference)
                kind = self._kinds.get(source.binding_variable.name) if is_variable else None
                refuse_property(node.property_name[0].identifier.name, kind)
            case ast.LabeledPredicate():
                names(node.labeled_predicate_part_2, "LABEL")
        for name, value in children(node):
            if isinstance(value, list):
                node.set(name, [self._expression(v) for v in value])
            else:
                node.set(name, self._expression(value))
        return node

    # -- Patterns against the schema -----------------------------------------

    def _path(self, path: Any) -> list[Visible]:
        factors = path.path_pattern_expression.factors
        nodes, edges = factors[::2], factors[1::2]
        if len(nodes) != len(edges) + 1 or not all(isinstance(n, ast.NodePattern) for n in nodes):
            raise CypherRefused("SYNTAX", "A pattern is nodes with one relationship between two.")
        visible = [Visible(self._node(node)) for node in nodes]
        for left, edge, right in zip(visible, edges, visible[1:], strict=False):
            self._edge(left.variable, edge, right.variable)
        if any(isinstance(edge, ast.QuantifiedPathPrimary) for edge in edges):
            if path.path_variable_declaration is None:
                path.set(
                    "path_variable_declaration",
                    ast.PathVariableDeclaration(
                        path_variable=ast.Identifier(name=next(self._fresh))
                    ),
                )
            visible.append(Visible(path.path_variable_declaration.path_variable.name, True))
        return visible

    def _node(self, node: Any) -> str:
        filler = node.element_pattern_filler
        if filler.element_variable_declaration is None:
            filler.set(
                "element_variable_declaration",
                ast.ElementVariableDeclaration(
                    element_variable=ast.Identifier(name=next(self._fresh))
                ),
            )
        variable: str = filler.element_variable_declaration.element_variable.name
        labels = names(filler.is_label_expression, "LABEL")
        if labels or variable not in self._kinds:
            self._kinds[variable] = Kind(True, labels)
        if KEYS & self._map(filler, self._kinds[variable]):
            self._groups.pin(variable)
        return variable

    def _edge(self, left: str, edge: Any, right: str) -> None:
        is_path = isinstance(edge, ast.QuantifiedPathPrimary)
        if is_path:
            self._refuse_hops(edge.graph_pattern_quantifier)
            edge = edge.path_primary
        if isinstance(edge, ast.AbbreviatedEdgePattern) and edge.pattern in _SHORT and not is_path:
            return
        if not isinstance(edge, _EDGES):
            raise CypherRefused("CONSTRUCT", "Write the relationship as -[:TYPE]->.")
        filler = edge.element_pattern_filler
        types = names(filler.is_label_expression, "RELATIONSHIP")
        kind = Kind(False, types)
        if filler.element_variable_declaration is not None:
            self._kinds[filler.element_variable_declaration.element_variable.name] = kind
        self._map(filler, kind)
        if not is_path and types:
            refuse_direction(self._kinds[left], edge, types, self._kinds[right])

    def _refuse_hops(self, quantifier: Any) -> None:
        if isinstance(quantifier, ast.FixedQuantifier):
            upper = quantifier.unsigned_integer
        else:
            upper = quantifier.upper_bound
        if upper is None or upper.value > self._max_hops:
            raise CypherRefused(
                "VARIABLE_LENGTH",
                f"A path needs an upper bound: -[:TYPE*1..{self._max_hops}]-> at most.",
            )

    def _map(self, filler: Any, kind: Kind) -> set[str]:
        """The properties that the pattern itself asks for."""
        if filler.element_pattern_predicate is None:
            return set()
        pairs = filler.element_pattern_predicate.property_key_value_pair_list
        asked = set()
        for pair in pairs.list_property_key_value_pair:
            name = pair.property_name.identifier.name
            refuse_property(name, kind)
            pair.set("value_expression", self._expression(pair.value_expression))
            asked.add(name)
        return asked


def _only_pattern(inside: Any) -> Any:
    """The one graph pattern in EXISTS { }."""
    if isinstance(inside, ast.ExistsPredicate._ExistsGraphPattern):
        return inside.graph_pattern
    clauses = inside.match_statement_block.list_match_statement
    if len(clauses) != 1 or not isinstance(clauses[0], ast.SimpleMatchStatement):
        raise CypherRefused("CONSTRUCT", "EXISTS { } may hold one MATCH with one WHERE.")
    return clauses[0].graph_pattern_binding_table.graph_pattern
