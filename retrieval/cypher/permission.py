"""The permission predicate as a tree, and the proof that a query carries it.

Promises that ``is_covered`` knows nothing of how the predicate was put in: it
reads a finished query and says whether every node pattern is permitted.
Must never happen: an OR of the model's reaching the AND of the permission. Its
conditions stand in brackets, whatever the parser took their structure to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from graphglot import ast
from graphglot.ast import cypher, functions

from retrieval.cypher.allowed import PERMISSION_PARAMETER
from retrieval.cypher.grammar import bare, generate, walk


class Visible(NamedTuple):
    """A variable that must be permitted: a node, or a path with all its nodes."""

    variable: str
    is_path: bool = False


def require(visible: list[Visible], condition: Any) -> Any:
    """The condition ``<every variable is permitted> AND (condition)``."""
    factors = [_permitted(v) for v in visible]
    if condition is not None:
        factors.append(_in_brackets(condition))
    return _all(factors)


def is_covered(tree: Any) -> bool:
    """Whether every node pattern, and every path of variable length, is permitted.

    The gate's second look at its own work, on the text it is about to hand out.
    """
    nodes = 0
    for holder in walk(tree):
        if isinstance(holder, ast.GraphPattern):
            paths = holder.path_pattern_list.list_path_pattern
            where = holder.graph_pattern_where_clause
        elif isinstance(holder, cypher.CypherPatternComprehension):
            paths, where = [holder.pattern], holder.where_clause
        else:
            continue
        needed = [text for path in paths for text in _needed(path)]
        if where is None or where.search_condition.ops:
            return False
        parts = where.search_condition.boolean_term.list_boolean_factor
        if not set(needed) <= {generate(part) for part in parts}:
            return False
        nodes += sum(isinstance(n, ast.NodePattern) for path in paths for n in walk(path))
    # A node pattern in any other place would not have been counted.
    return nodes == sum(isinstance(n, ast.NodePattern) for n in walk(tree))


def _needed(path: Any) -> Iterator[str]:
    for part in walk(path):
        if isinstance(part, ast.NodePattern):
            variable = part.element_pattern_filler.element_variable_declaration
            yield f"{generate(variable) if variable else ''}.project IN ${PERMISSION_PARAMETER}"
        elif isinstance(part, ast.QuantifiedPathPrimary):
            variable = path.path_variable_declaration
            name = variable.path_variable.name if variable else ""
            yield f"all(_n IN NODES({name}) WHERE _n.project IN ${PERMISSION_PARAMETER})"


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


def _in_brackets(condition: Any) -> Any:
    label = bare(condition)
    if isinstance(label, ast.LabeledPredicate):
        return _factor(label)  # "(a:Label)" would be a node of a pattern
    inner = (
        condition
        if isinstance(condition, ast.BooleanValueExpression)
        else _all([_factor(condition)])
    )
    return _factor(ast.ParenthesizedBooleanValueExpression(boolean_value_expression=inner))
