"""The permission predicate, put on every pattern of a query.

Promises that each node pattern of the tree, named or not, in MATCH, OPTIONAL
MATCH, EXISTS, conditions and comprehensions, and each node a variable-length
path runs through, has to be in one of the asker's projects; and that labels,
relationship types, properties and directions are those of the schema.
Must never happen: a condition of the model's being evaluated on a node before
that node is known to be visible. The server may evaluate the parts of an AND in
any order, and its error messages quote values; so a condition that can fail
stands in a CASE behind the permission.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

from graphglot import ast
from graphglot.ast import cypher, functions

from retrieval.cypher_grammar import PERMISSION_PARAMETER, CypherRefused, bare, children, walk
from tickets.sections import ROOT_LABEL, SECTION_LABEL, UNDIRECTED, template

# Largest number of nodes of one class in one query.
_MOST = {
    ast.NodePattern: (24, "nodes in patterns"),
    cypher.CypherWithStatement: (5, "WITHs"),
    ast.ForStatement: (2, "UNWINDs"),
    # "x + x" in WITH after WITH would double a text each time.
    ast.ArithmeticValueExpression._SignedTerm: (8, "additions"),
}
# Properties whose value picks out one ticket or the sections of one ticket.
_KEYS = frozenset({"id", "key", "ticket"})
# Conditions made of nothing else never fail, whatever the values are.
_SAFE = frozenset(
    """BooleanValueExpression _OpBooleanTerm BooleanTerm BooleanFactor BooleanTest
    ParenthesizedBooleanValueExpression ComparisonPredicate ComparisonPredicatePart2 InPredicate
    CypherChainedComparison NullPredicate NullPredicatePart2 StringMatchPredicate LabeledPredicate
    LabeledPredicatePart2 IsLabeledOrColon _Colon LabelExpression LabelTerm LabelName
    ArithmeticValueExpression ArithmeticTerm ArithmeticFactor CharacterStringValueExpression
    PropertyReference PropertyName BindingVariableReference Identifier GeneralValueSpecification
    GeneralParameterReference CharacterStringLiteral UnsignedNumericLiteral BooleanLiteral
    NullLiteral ListValueExpression ListValueConstructorByEnumeration ListElementList""".split()
)
_PREDICATES = (
    ast.ParenthesizedBooleanValueExpression,
    ast.ComparisonPredicate,
    cypher.CypherChainedComparison,
    cypher.InPredicate,
    ast.NullPredicate,
    cypher.StringMatchPredicate,
    ast.LabeledPredicate,
    ast.ExistsPredicate,
    ast.BooleanLiteral,
    ast.BooleanValueExpression,
)
_LISTS = (ast.ListValueConstructorByEnumeration, ast.GeneralValueSpecification)
_EDGES = (
    ast.FullEdgePointingRight,
    ast.FullEdgePointingLeft,
    ast.FullEdgeAnyDirection,
    ast.AbbreviatedEdgePattern,
)
_RIGHT = ast.AbbreviatedEdgePattern.PatternType.RIGHT_ARROW
_LEFT = ast.AbbreviatedEdgePattern.PatternType.LEFT_ARROW
_EITHER = ast.AbbreviatedEdgePattern.PatternType.MINUS_SIGN


class Visible(NamedTuple):
    """A variable that must be permitted: a node, or a path with all its nodes."""

    variable: str
    is_path: bool = False


class Kind(NamedTuple):
    """What a variable stands for; ``names`` are labels or types, empty when any."""

    is_node: bool
    names: frozenset[str]


class Cover:
    """Checks one query against the schema and puts the permission into its tree."""

    def __init__(self, max_hops: int) -> None:
        self._max_hops = max_hops
        self._schema = template()
        self._fresh = (f"_{n}" for n in count(1))
        self._kinds: dict[str, Kind] = {}
        # Of the part since the last WITH: what MATCH has made visible, and the groups of
        # variables that hang together, with those that a key pins to few rows.
        self._seen: list[Visible] = []
        self._groups: list[set[str]] = []
        self._pinned: set[str] = set()

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
            self._seen += self._match(clause.graph_pattern_binding_table.graph_pattern)
        elif isinstance(clause, ast.OptionalMatchStatement):
            self._match(
                clause.optional_operand.optional_operand.graph_pattern_binding_table.graph_pattern
            )
        elif isinstance(clause, cypher.CypherWithStatement):
            self._with(clause)
        elif isinstance(clause, ast.ForStatement):
            self._expression(clause)
            self._kinds.pop(clause.for_item.for_item_alias.binding_variable.name, None)
        else:
            raise CypherRefused("CLAUSE", "A clause of the query is not allowed.")

    # -- Clauses and everything else that holds patterns ---------------------

    def _match(self, pattern: Any) -> list[Visible]:
        where = pattern.graph_pattern_where_clause
        visible, condition = self._patterns(
            pattern.path_pattern_list.list_path_pattern, where.search_condition if where else None
        )
        pattern.set(
            "graph_pattern_where_clause", ast.GraphPatternWhereClause(search_condition=condition)
        )
        return visible

    def _patterns(self, paths: list[Any], condition: Any) -> tuple[list[Visible], Any]:
        """What the paths make visible, and the condition that has to stand behind them."""
        visible = list(dict.fromkeys(v for path in paths for v in self._path(path)))
        self._connect(paths, condition)
        before = self._seen
        self._seen = list(dict.fromkeys([*before, *visible]))
        if condition is not None:
            condition = self._expression(condition)
        condition = _guarded(visible, self._seen, condition)
        self._seen = before
        return visible, condition

    def _with(self, clause: Any) -> None:
        items = clause.return_statement_body.return_statement_body.return_item_list.list_return_item
        kinds: dict[str, Kind] = {}
        names = set()
        for item in items:
            value = bare(item.aggregating_value_expression)
            is_variable = isinstance(value, ast.BindingVariableReference)
            alias = item.return_item_alias
            name = alias.identifier.name if alias else ""
            if is_variable:
                name = name or value.binding_variable.name
                if value.binding_variable.name in self._kinds:
                    kinds[name] = self._kinds[value.binding_variable.name]
            names.add(name)
            self._expression(item)
        is_one_row = all(any(isinstance(n, ast.AggregateFunction) for n in walk(i)) for i in items)
        is_pinned = all(group & self._pinned for group in self._groups)
        self._groups = [] if is_one_row else [{"", *names}]
        self._pinned = {""} if is_pinned else set()
        self._kinds, self._seen = kinds, []
        for part in (clause.order_by_and_page_statement, clause.where_clause):
            if part is not None:
                self._expression(part)

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """For patterns inside an expression: what they name ends with them."""
        before = self._kinds, self._groups, self._pinned
        self._kinds, self._pinned = dict(self._kinds), set(self._pinned)
        self._groups = [set(self._kinds).union(*self._groups)]
        yield
        self._kinds, self._groups, self._pinned = before

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
                where = node.where_clause
                with self._nested():
                    condition = self._patterns(
                        [node.pattern], where.search_condition if where else None
                    )[1]
                    node.set("where_clause", ast.WhereClause(search_condition=condition))
                    node.set("projection", self._expression(node.projection))
                return node
            case cypher.ListComprehension() | cypher.ListPredicateFunction():
                self._kinds.pop(node.variable.name, None)
            case ast.PropertyReference():
                source = bare(node.property_source)
                is_variable = isinstance(source, ast.BindingVariableReference)
                kind = self._kinds.get(source.binding_variable.name) if is_variable else None
                self._refuse_property(node.property_name[0].identifier.name, kind)
            case ast.LabeledPredicate():
                self._names(node.labeled_predicate_part_2, "LABEL")
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
                    ast.PathVariableDeclaration(path_variable=ast.Identifier(name=next(self._fresh))),
                )
            visible.append(Visible(path.path_variable_declaration.path_variable.name, True))
        return visible

    def _node(self, node: Any) -> str:
        filler = node.element_pattern_filler
        if filler.element_variable_declaration is None:
            filler.set(
                "element_variable_declaration",
                ast.ElementVariableDeclaration(element_variable=ast.Identifier(name=next(self._fresh))),
            )
        variable: str = filler.element_variable_declaration.element_variable.name
        labels = self._names(filler.is_label_expression, "LABEL")
        if labels or variable not in self._kinds:
            self._kinds[variable] = Kind(True, labels)
        if _KEYS & self._map(filler, self._kinds[variable]):
            self._pinned.add(variable)
        return variable

    def _edge(self, left: str, edge: Any, right: str) -> None:
        is_path = isinstance(edge, ast.QuantifiedPathPrimary)
        if is_path:
            self._refuse_hops(edge.graph_pattern_quantifier)
            edge = edge.path_primary
        if isinstance(edge, ast.AbbreviatedEdgePattern):
            if is_path or edge.pattern not in (_RIGHT, _LEFT, _EITHER):
                raise CypherRefused("CONSTRUCT", "Write the relationship as -[:TYPE]->.")
            return
        if not isinstance(edge, _EDGES):
            raise CypherRefused("CONSTRUCT", "Write the relationship as -[:TYPE]->.")
        filler = edge.element_pattern_filler
        types = self._names(filler.is_label_expression, "RELATIONSHIP")
        kind = Kind(False, types)
        if filler.element_variable_declaration is not None:
            self._kinds[filler.element_variable_declaration.element_variable.name] = kind
        self._map(filler, kind)
        if not is_path and types:
            self._refuse_direction(left, edge, types, right)

    def _refuse_hops(self, quantifier: Any) -> None:
        if isinstance(quantifier, ast.FixedQuantifier):
            upper = quantifier.unsigned_integer
        else:
            upper = quantifier.upper_bound
        if upper is None or upper.value > self._max_hops:
            raise CypherRefused(
                "VARIABLE_LENGTH",
                f"A path needs an upper bound of at most {self._max_hops}: -[:TYPE*1..{self._max_hops}]->.",
            )

    def _refuse_direction(self, left: str, edge: Any, types: frozenset[str], right: str) -> None:
        if isinstance(edge, ast.FullEdgeAnyDirection):
            directions = [(left, right), (right, left)]
        elif types & UNDIRECTED:
            name = min(types & UNDIRECTED)
            raise CypherRefused(
                "DIRECTION", f"{name} has no direction: write (a)-[:{name}]-(b) without an arrow."
            )
        elif isinstance(edge, ast.FullEdgePointingLeft):
            directions = [(right, left)]
        else:
            directions = [(left, right)]
        if any(self._fits(start, t, end) for t in types for start, end in directions):
            return
        start, end = directions[0]
        code = "DIRECTION" if any(self._fits(end, t, start) for t in types) else "PATTERN"
        drawn = ", ".join("(:{})-[:{}]->(:{})".format(a, t, b) for t, (a, b) in self._drawn(types))
        raise CypherRefused(code, f"The relationship does not run like this. It is: {drawn}.")

    def _drawn(self, types: frozenset[str]) -> list[tuple[str, tuple[str, str]]]:
        return [(t, self._schema.relationships[t]) for t in sorted(types)]

    def _fits(self, start: str, type_: str, end: str) -> bool:
        ends = self._schema.relationships[type_]
        for variable, label in zip((start, end), ends, strict=True):
            kind = self._kinds.get(variable)
            if kind is None or not kind.names or label in kind.names:
                continue
            if SECTION_LABEL not in kind.names or label == ROOT_LABEL:
                return False
        return True

    def _names(self, holder: Any, code: str) -> frozenset[str]:
        """The labels or types of a pattern or condition, all of them in the schema."""
        if holder is None:
            return frozenset()
        types, labels = self._schema.relationships, self._schema.labels
        known = [*types] if code == "RELATIONSHIP" else [*labels]
        if isinstance(holder, ast.LabeledPredicatePart2):
            known += [*types]
        names = set()
        for term in holder.label_expression.label_terms:
            if len(term.label_factors) != 1 or not isinstance(term.label_factors[0], ast.LabelName):
                raise CypherRefused(
                    "LABEL_EXPRESSION", "Write one label, or several with '|' between them."
                )
            names.add(term.label_factors[0].identifier.name)
        for name in sorted(names):
            if name not in known:
                raise CypherRefused(code, f"'{name}' does not exist. There are: {', '.join(known)}.")
        return frozenset(names)

    def _map(self, filler: Any, kind: Kind) -> set[str]:
        """The properties that the pattern itself asks for."""
        if filler.element_pattern_predicate is None:
            return set()
        pairs = filler.element_pattern_predicate.property_key_value_pair_list
        names = set()
        for pair in pairs.list_property_key_value_pair:
            name = pair.property_name.identifier.name
            self._refuse_property(name, kind)
            if not _is_safe(self._expression(pair.value_expression)):
                raise CypherRefused("CONSTRUCT", f"Put the condition on '{name}' into WHERE.")
            names.add(name)
        return names

    def _refuse_property(self, name: str, kind: Kind | None) -> None:
        labels, types = self._schema.labels, self._schema.relationships
        known: set[str] = set()
        if kind is None or kind.is_node:
            known.update(*(labels[n] for n in (kind.names if kind else ()) or labels))
        if kind is None or not kind.is_node:
            names = (kind.names if kind else ()) or types
            known.update(*(self._schema.relationship_properties(n) for n in names))
        if name not in known:
            of = f" of {'|'.join(sorted(kind.names))}" if kind and kind.names else ""
            raise CypherRefused(
                "PROPERTY",
                f"There is no property '{name}'. Properties{of}: {', '.join(sorted(known)) or 'none'}.",
            )

    # -- Patterns that hang together -----------------------------------------

    def _connect(self, paths: Iterable[Any], condition: Any) -> None:
        """Raises CROSS_PRODUCT when rows would be multiplied by unrelated rows."""
        for path in paths:
            self._join({n.name for n in _declared(path)})
        grouped = set().union(*self._groups)
        for part in _conjuncts(condition):
            test = bare(part)
            if isinstance(test, ast.ComparisonPredicate):
                right = test.comparison_predicate_part_2
                if right.comp_op is not ast.ComparisonPredicatePart2.CompOp.EQUALS:
                    continue
                sides = [bare(test.comparison_predicand), bare(right.comparison_predicand)]
            elif isinstance(test, cypher.InPredicate):
                sides = [bare(test.value), bare(test.list_expression)]
            else:
                continue
            used = [{v.binding_variable.name for v in _variables(s)} & grouped for s in sides]
            if all(used):
                self._join(used[0] | used[1])
            for side, mine, other in zip(sides, used, reversed(used), strict=True):
                is_key = isinstance(side, ast.PropertyReference) and not other
                if is_key and side.property_name[0].identifier.name in _KEYS:
                    self._pinned |= mine
        if sum(not group & self._pinned for group in self._groups) > 1:
            raise CypherRefused(
                "CROSS_PRODUCT",
                "The patterns have no variable in common. Connect them by a relationship, by an "
                "equality of properties, or name the ticket by its id or key.",
            )

    def _join(self, names: set[str]) -> None:
        apart = []
        for group in self._groups:
            if group & names:
                names = names | group
            else:
                apart.append(group)
        self._groups = [*apart, names]


def _only_pattern(inside: Any) -> Any:
    """The one graph pattern in EXISTS { }."""
    if isinstance(inside, ast.ExistsPredicate._ExistsGraphPattern):
        return inside.graph_pattern
    clauses = inside.match_statement_block.list_match_statement
    if len(clauses) != 1 or not isinstance(clauses[0], ast.SimpleMatchStatement):
        raise CypherRefused("CONSTRUCT", "EXISTS { } may hold one MATCH with one WHERE.")
    return clauses[0].graph_pattern_binding_table.graph_pattern


def _declared(path: Any) -> Iterator[Any]:
    for node in walk(path):
        if isinstance(node, ast.ElementVariableDeclaration):
            yield node.element_variable
        elif isinstance(node, ast.PathVariableDeclaration):
            yield node.path_variable


def _variables(node: Any) -> Iterator[Any]:
    return (n for n in walk(node) if isinstance(n, ast.BindingVariableReference))


# -- The condition ------------------------------------------------------------


def _conjuncts(condition: Any) -> list[Any]:
    """The parts of a condition that its outermost ANDs join."""
    if condition is None:
        return []
    if isinstance(condition, ast.BooleanValueExpression) and not condition.ops:
        return list(condition.boolean_term.list_boolean_factor)
    return [condition]


def _guarded(visible: list[Visible], seen: list[Visible], condition: Any) -> Any:
    """``visible AND (safe parts) AND CASE WHEN seen THEN (other parts) ELSE false END``.

    Brackets around everything of the model's: no OR of it may reach our AND.
    """
    parts = _conjuncts(condition)
    factors = [_permitted(v) for v in visible]
    factors += [_brackets(p) for p in parts if _is_safe(p)]
    risky = [_brackets(p) for p in parts if not _is_safe(p)]
    if risky:
        when = ast.SearchedWhenClause(
            search_condition=_all([_permitted(v) for v in seen]), result=_all(risky)
        )
        otherwise = ast.ElseClause(result=ast.BooleanLiteral(value=False))
        factors.append(
            _factor(ast.SearchedCase(list_searched_when_clause=[when], else_clause=otherwise))
        )
    return _all(factors)


def _is_safe(node: Any) -> bool:
    """Whether evaluating the condition can fail for no value of any property."""
    if isinstance(node, ast.ExistsPredicate):
        return True  # what is inside has its own guard
    if type(node).__name__ not in _SAFE:
        return False
    if isinstance(node, ast.BooleanTest) and not isinstance(node.boolean_primary, _PREDICATES):
        return False
    if isinstance(node, cypher.InPredicate):
        source = bare(node.list_expression)
        if not isinstance(source, _LISTS):
            return False
    return all(_is_safe(n) for _, value in children(node) for n in _as_list(value))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _permitted(item: Visible) -> Any:
    reference = ast.BindingVariableReference(binding_variable=ast.Identifier(name=item.variable))
    if not item.is_path:
        return _factor(_in_projects(reference))
    node = ast.Identifier(name="_n")
    return _factor(
        cypher.ListPredicateFunction(
            kind=cypher.ListPredicateFunction.Kind.ALL,
            variable=node,
            source=functions.Nodes(arguments=[reference]),
            predicate=_all(
                [_factor(_in_projects(ast.BindingVariableReference(binding_variable=node)))]
            ),
        )
    )


def _in_projects(reference: Any) -> Any:
    project = ast.PropertyName(identifier=ast.Identifier(name="project"))
    parameter = ast.GeneralParameterReference(
        parameter_name=ast.Identifier(name=PERMISSION_PARAMETER)
    )
    return cypher.InPredicate(
        value=ast.PropertyReference(property_source=reference, property_name=[project]),
        list_expression=ast.GeneralValueSpecification(general_value_specification=parameter),
    )


def _factor(primary: Any) -> Any:
    return ast.BooleanFactor(not_=False, boolean_test=ast.BooleanTest(boolean_primary=primary))


def _all(factors: list[Any]) -> Any:
    return ast.BooleanValueExpression(boolean_term=ast.BooleanTerm(list_boolean_factor=factors))


def _brackets(part: Any) -> Any:
    if isinstance(bare(part), ast.LabeledPredicate):
        return _factor(bare(part))  # "(a:Label)" in brackets would be a node of a pattern
    inner = part if isinstance(part, ast.BooleanValueExpression) else _all([part])
    return _factor(ast.ParenthesizedBooleanValueExpression(boolean_value_expression=inner))
