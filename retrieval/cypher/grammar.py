"""Cypher as a tree: parsing, printing, walking.

Promises that what ``generate`` prints is made of the tree alone. Must never
happen: a crash or an endless search of the parser on any text; what it cannot
read is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum
from typing import Any

from graphglot import ast
from graphglot.dialect.cypher import CypherDialect
from graphglot.dialect.neo4j import Neo4j
from graphglot.error import GraphGlotError
from graphglot.lexer import TokenType

from retrieval.cypher.refusals import CypherRefused

# What the grammar puts around a single value.
_WRAPPERS = frozenset(
    {
        "ArithmeticValueExpression",
        "ArithmeticTerm",
        "ArithmeticFactor",
        "NumericValueExpression",
        "Term",
        "Factor",
        "BooleanValueExpression",
        "BooleanTerm",
        "BooleanFactor",
        "BooleanTest",
        "CharacterStringValueExpression",
        "ListValueExpression",
    }
)


def _value(parser: Any) -> Any:
    """Read a value; after IN without AND and OR, which the parser would take into the list."""
    previous = parser._prev
    if previous is not None and previous.token_type is TokenType.IN:
        return parser.get_parser(ast.CommonValueExpression)(parser)
    return Neo4j.Parser.PARSERS[ast.ValueExpression](parser)


class _Parser(Neo4j.Parser):
    """The Neo4j parser with a memory for what it tried where.

    Without it every level of brackets in a condition multiplies the time by three.
    """

    PARSERS = {**Neo4j.Parser.PARSERS, ast.ValueExpression: _value}

    def reset(self) -> None:
        super().reset()
        self._tried: dict[tuple[Callable[..., Any], int], tuple[Any, int, Any]] = {}
        self._pending_varlen_quantifier = None

    def try_parse(self, parser: Callable[..., Any], retreat: bool = False) -> Any:
        if self._curr is None or retreat:
            return super().try_parse(parser, retreat)
        key = (parser, self._index)
        if key in self._tried:
            result, end, self._pending_varlen_quantifier = self._tried[key]
            self._retreat(end)
            return result
        result = super().try_parse(parser)
        self._tried[key] = (result, self._index, self._pending_varlen_quantifier)
        return result


class _Generator(Neo4j.Generator):
    """Prints ``*1..3``, which unlike ``{1,3}`` may stand in every kind of pattern."""

    GENERATORS = {
        **Neo4j.Generator.GENERATORS,
        ast.QuantifiedPathPrimary: CypherDialect.Generator.GENERATORS[ast.QuantifiedPathPrimary],
    }


_DIALECT = Neo4j()


def parse(text: str) -> ast.Expression:
    """The tree of one statement. Raises CypherRefused SYNTAX, TOO_DEEP or SEVERAL_STATEMENTS."""
    try:
        trees = _Parser(dialect=_DIALECT).parse(_DIALECT.tokenize(text), text)
    except RecursionError:
        raise CypherRefused("TOO_DEEP", "The query is nested too deeply.") from None
    except GraphGlotError as error:
        raise CypherRefused("SYNTAX", f"This is not a query: {_plain(error)}") from None
    except Exception as error:
        # Whatever else the parser stumbles over is no query either.
        raise CypherRefused("SYNTAX", f"This is not a query ({type(error).__name__}).") from error
    if len(trees) != 1 or not isinstance(trees[0], ast.Expression):
        raise CypherRefused("SEVERAL_STATEMENTS", "Write exactly one statement.")
    return trees[0]


def generate(tree: ast.Expression) -> str:
    """The text of a tree that holds allowed nodes only."""
    return _Generator(dialect=_DIALECT).generate(tree)


def children(node: ast.Expression) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields that hold trees or lists of trees."""
    for name in node.ast_fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.Expression | list):
            yield name, value
        elif not isinstance(value, str | int | float | Decimal | Enum | None):
            raise CypherRefused("CONSTRUCT", "A part of the query is not allowed.")


def walk(node: Any) -> Iterator[ast.Expression]:
    """The node and everything below it, from the top down."""
    if isinstance(node, list):
        for item in node:
            yield from walk(item)
    elif isinstance(node, ast.Expression):
        yield node
        for _, value in children(node):
            yield from walk(value)


def bare(node: Any) -> Any:
    """The node inside the wrappers that the grammar puts around a single value."""
    while isinstance(node, ast.Expression) and type(node).__qualname__ in _WRAPPERS:
        inner = [v for _, v in children(node) if v]
        signs = {getattr(node, name, None) for name in ("sign", "not_", "truth_value")}
        if len(inner) != 1 or signs - {None, False, ast.Sign.PLUS_SIGN}:
            return node
        node = inner[0]
        if isinstance(node, list):
            if len(node) != 1:
                return None
            node = node[0]
    return node


def _plain(error: Exception) -> str:
    """The parser's message in one line, without the colours it prints for a terminal."""
    text = " ".join(re.sub(r"\x1b\[\d+m", "", str(error)).split())
    return re.sub(r"Expected one of \[[^\]]*\]\.?", "unexpected text.", text)[:300]
