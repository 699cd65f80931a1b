"""Cypher as a tree: parsing, the allow-list of tree nodes, printing.

Promises that a tree which passed ``refuse_unknown`` holds nothing but the node
classes, functions and names listed here, whatever else the parser understands.
Must never happen: a construct getting through because nobody thought of it. New
kinds of tree nodes, of this or a later version of the parser, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from graphglot import ast
from graphglot.ast import cypher
from graphglot.ast.functions import Anonymous, Func
from graphglot.dialect.cypher import CypherDialect
from graphglot.dialect.neo4j import Neo4j
from graphglot.error import GraphGlotError
from graphglot.lexer import TokenType

PERMISSION_PARAMETER = "projects"

REFUSALS = {
    "EMPTY": "There is no query in the text.",
    "TOO_LONG": "The query is longer than the limit.",
    "TOO_DEEP": "Brackets or operators are nested too deeply.",
    "TOO_COMPLEX": "Too many patterns, WITHs, UNWINDs or additions.",
    "CHARACTER": "A character that has no place in a query.",
    "ESCAPE": "A backslash escape that could hide a character.",
    "BACKTICK": "A quoted name; every name of the schema can be written plainly.",
    "COMMENT": "A comment.",
    "SEVERAL_STATEMENTS": "More than one statement, or a semicolon.",
    "SYNTAX": "The text is not a Cypher query.",
    "WRITE": "A clause that changes the graph.",
    "CALL": "A procedure or a subquery.",
    "UNION": "Several queries joined into one.",
    "CLAUSE": "A clause that is not on the list.",
    "NO_RETURN": "The query returns nothing.",
    "STAR": "'*' instead of named columns.",
    "CONSTRUCT": "Something else that is not on the list.",
    "FUNCTION": "A function that is not on the list.",
    "OPERATOR": "An operator that is not on the list.",
    "NAME": "A variable, alias or parameter with a name that could be misread.",
    "PARAMETER": "A parameter that nobody gave a value for.",
    "RESERVED_PARAMETER": "The parameter that carries the permission.",
    "LABEL": "A label that the schema does not have.",
    "LABEL_EXPRESSION": "Labels combined in a way that is not on the list.",
    "RELATIONSHIP": "A relationship type that the schema does not have.",
    "PROPERTY": "A property that the label or relationship type does not have.",
    "DIRECTION": "A relationship drawn against its direction.",
    "PATTERN": "A relationship between labels that it does not connect.",
    "VARIABLE_LENGTH": "A path without an upper bound, or with one over the limit.",
    "CROSS_PRODUCT": "Patterns that have nothing to do with each other.",
    "LIMIT": "A LIMIT that is not a plain number.",
    "SKIP": "A SKIP that is not a plain number, or over the limit.",
    "UNCOVERED": "A pattern that the permission could not be put on.",
}


class CypherRefused(Exception):
    """The query does not pass the gate. ``code`` is a key of REFUSALS.

    ``str()`` is for people, and fit to be shown to a model for one repair.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


# Tree nodes that are let through, by the name of their class.
_ALLOWED = frozenset(
    """
    GqlProgram GqlProgram._ProgramActivitySessionCloseCommand TransactionActivity
    TransactionActivity._ProcedureSpecificationEndTransactionCommand ProcedureBody StatementBlock
    CompositeQueryExpression AmbientLinearQueryStatement SimpleLinearQueryStatement
    AmbientLinearQueryStatement._SimpleLinearQueryStatementPrimitiveResultStatement

    SimpleMatchStatement OptionalMatchStatement OptionalOperand GraphPatternBindingTable
    GraphPattern GraphPatternWhereClause PathPatternList PathPattern PathVariableDeclaration
    PathTerm NodePattern ElementPatternFiller ElementVariableDeclaration IsLabelExpression
    LabelExpression LabelTerm LabelName ElementPropertySpecification PropertyKeyValuePairList
    PropertyKeyValuePair FullEdgePointingRight FullEdgePointingLeft FullEdgeAnyDirection
    AbbreviatedEdgePattern QuantifiedPathPrimary GeneralQuantifier FixedQuantifier UnsignedInteger

    CypherWithStatement ForStatement ForItem ForItemAlias WhereClause PrimitiveResultStatement
    PrimitiveResultStatement._ReturnStatementOrderByAndPageStatement ReturnStatement
    ReturnStatementBody ReturnStatementBody._SetQuantifierReturnItemListGroupByClause
    ReturnItemList ReturnItem ReturnItemAlias SetQuantifier OrderByAndPageStatement OrderByClause
    OrderByAndPageStatement._OrderByClauseOffsetClauseLimitClause
    OrderByAndPageStatement._OffsetClauseLimitClause OffsetClause LimitClause
    SortSpecificationList SortSpecification OrderingSpecification

    BooleanValueExpression BooleanValueExpression._OpBooleanTerm BooleanTerm BooleanFactor
    BooleanTest ParenthesizedBooleanValueExpression ComparisonPredicate ComparisonPredicatePart2
    CypherChainedComparison InPredicate NullPredicate NullPredicatePart2 StringMatchPredicate
    LabeledPredicate LabeledPredicatePart2 IsLabeledOrColon IsLabeledOrColon._Colon
    CypherPatternPredicate ExistsPredicate ExistsPredicate._ExistsGraphPattern
    ExistsPredicate._ExistsMatchStatementBlock MatchStatementBlock ListPredicateFunction

    ArithmeticValueExpression ArithmeticValueExpression._SignedTerm ArithmeticTerm ArithmeticFactor
    ArithmeticTerm._MultiplicativeFactor
    NumericValueExpression NumericValueExpression._SignedTerm Term Term._MultiplicativeFactor Factor
    ModulusExpression CharacterStringValueExpression ConcatenationValueExpression
    DatetimeValueExpression DatetimeValueExpression._SignedDurationTerm
    DurationValueExpression DurationTerm DurationFactor ParenthesizedValueExpression
    PropertyReference PropertyName BindingVariableReference Identifier
    GeneralValueSpecification GeneralParameterReference
    CharacterStringLiteral UnsignedNumericLiteral BooleanLiteral NullLiteral
    ListValueExpression ListValueConstructorByEnumeration ListElementList
    ListComprehension CypherPatternComprehension CypherSubscriptExpression CypherSliceExpression
    RecordConstructor FieldsSpecification FieldList Field
    SearchedCase SearchedWhenClause SimpleCase SimpleWhenClause WhenOperandList ElseClause

    AggregateFunction AggregateFunction._CountAsterisk GeneralSetFunction GeneralSetFunctionType
    GeneralSetFunctionType._Avg GeneralSetFunctionType._Count GeneralSetFunctionType._Max
    GeneralSetFunctionType._Min GeneralSetFunctionType._Sum GeneralSetFunctionType._CollectList
    ToLower ToUpper Fold Fold._Mode Substring SubstringFunction Split Size Head Last Tail
    CharLengthExpression SingleCharacterTrimFunction MultiCharacterTrimFunction TrimOperands
    Labels TypeFunc Nodes Relationships StartNode EndNode PathLengthExpression PathValueExpression
    CaseAbbreviation CaseAbbreviation._CoalesceLeftParenListValueExpressionRightParen
    ArithmeticAbsoluteValueFunction Round CeilingFunction FloorFunction
    CastSpecification SignedBinaryExactNumericType SignedBinaryExactNumericType._Int
    ApproximateNumericType ApproximateNumericType._Float CharacterStringType
    CharacterStringType._String DateType
    DateFunction DateFunction._DateLeftParenDateFunctionParametersRightParen
    DatetimeFunction
    DatetimeFunction._ZonedDatetimeLeftParenDatetimeFunctionParametersRightParen
    DurationFunction
    """.split()
)

_FUNCTIONS = (
    "count collect min max avg sum size head last tail labels type nodes relationships length "
    "startNode endNode toLower toUpper trim left right substring split coalesce toString "
    "toInteger toFloat abs round ceil floor date datetime duration"
)

_LISTED = "Only MATCH, OPTIONAL MATCH, WHERE, WITH, UNWIND, RETURN, ORDER BY, SKIP and LIMIT are."
_SPECIFIC = {
    **dict.fromkeys(
        "SetStatement CreateClause InsertStatement MergeClause DeleteStatement RemoveStatement "
        "CreateIndex DropIndex CreateConstraint DropConstraint CreateSchemaStatement "
        "CreateGraphStatement DropGraphStatement DropSchemaStatement".split(),
        ("WRITE", f"The query would change the graph, which is not allowed. {_LISTED}"),
    ),
    "CallProcedureStatement": (
        "CALL",
        f"CALL is not allowed, neither for a procedure nor for a subquery. {_LISTED}",
    ),
    **dict.fromkeys(
        ["QueryConjunction", "SetOperator"],
        ("UNION", "UNION is not allowed. Use OR, IN, several labels, or ask one of the two."),
    ),
    **dict.fromkeys(
        "QueryPrefix UseGraphClause FilterStatement LetStatement NextStatement".split(),
        ("CLAUSE", f"A clause of the query is not allowed. {_LISTED}"),
    ),
    **dict.fromkeys(
        ["LabelNegation", "WildcardLabel"],
        ("LABEL_EXPRESSION", "Write one label, or several with '|' between them."),
    ),
    "Asterisk": ("STAR", "Name the columns instead of '*'."),
    "RegexMatchPredicate": (
        "OPERATOR",
        "=~ is not allowed. Use CONTAINS, STARTS WITH or ENDS WITH, with toLower() where the "
        "case does not matter.",
    ),
    "PowerFunction": ("OPERATOR", "^ is not allowed."),
    "PrimitiveResultStatement._Finish": ("NO_RETURN", "End the query with RETURN."),
}
# What a query without RETURN is read as; the same node stands above every write.
_WITHOUT_RETURN = "AmbientLinearDataModifyingStatementBody"

# A name of the model's may not begin with "_": such names are for the gate.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Names that a server could take for the beginning of a clause.
_RESERVED = frozenset(
    "all and as call case create delete detach distinct drop else end ends exists explain finish "
    "for foreach in insert is let limit load match merge next not null offset on optional or order "
    "profile remove return set show skip starts then union unwind use when where with xor "
    "yield".split()
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

    PARSERS = {**Neo4j.Parser.PARSERS, ast.ValueExpression: _value}  # noqa: RUF012

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

    GENERATORS = {  # noqa: RUF012
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
    except Exception as error:  # noqa: BLE001 - whatever the parser stumbles over is no query
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


def refuse_unknown(tree: ast.Expression, parameters: Mapping[str, object]) -> None:
    """Raises CypherRefused for node classes, functions, names and parameters not allowed."""
    nodes = list(walk(tree))
    strange = [n for n in nodes if type(n).__qualname__ not in _ALLOWED]
    for node in strange:
        if type(node).__qualname__ in _SPECIFIC:
            raise CypherRefused(*_SPECIFIC[type(node).__qualname__])
    for node in strange:
        if isinstance(node, Func):
            name = node.name if isinstance(node, Anonymous) else node.func_name
            raise CypherRefused(
                "FUNCTION", f"The function {name}() is not allowed. Allowed are: {_FUNCTIONS}."
            )
        if type(node).__qualname__ == _WITHOUT_RETURN:
            raise CypherRefused("NO_RETURN", f"End the query with RETURN. {_LISTED}")
        raise CypherRefused("CONSTRUCT", f"Not allowed: {_excerpt(node)}. {_LISTED}")
    for node in nodes:
        if isinstance(node, ast.GeneralParameterReference):
            _refuse_parameter(node.parameter_name.name, parameters)
        elif isinstance(node, ast.PropertyReference) and len(node.property_name) != 1:
            raise CypherRefused("PROPERTY", "A property of a property does not exist.")
        elif isinstance(node, ast.ParenthesizedValueExpression):
            # "(a)" in an expression could be read as a node of a pattern.
            if isinstance(bare(node.value_expression), ast.BindingVariableReference):
                raise CypherRefused("CONSTRUCT", "Write a variable without brackets around it.")
        elif isinstance(node, cypher.CypherSubscriptExpression):
            if not isinstance(bare(node.index), ast.UnsignedNumericLiteral):
                raise CypherRefused("CONSTRUCT", "Only a plain number may stand in [ ].")
        elif isinstance(node, ast.Identifier):
            _refuse_name(node.name)


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


_WRAPPERS = frozenset(
    """ArithmeticValueExpression ArithmeticTerm ArithmeticFactor NumericValueExpression Term Factor
    BooleanValueExpression BooleanTerm BooleanFactor BooleanTest CharacterStringValueExpression
    ListValueExpression""".split()
)


def _refuse_parameter(name: str, parameters: Mapping[str, object]) -> None:
    if name == PERMISSION_PARAMETER:
        raise CypherRefused("RESERVED_PARAMETER", f"${name} may not be used; leave it out.")
    if name not in parameters:
        known = ", ".join(f"${p}" for p in parameters) or "none"
        raise CypherRefused("PARAMETER", f"${name} has no value. Parameters are: {known}.")


def _refuse_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise CypherRefused(
            "NAME", f"'{name}' is no name: write a letter, then letters, digits or '_'."
        )
    if name.lower() in _RESERVED:
        raise CypherRefused("NAME", f"'{name}' is a word of the language; take another name.")


def _excerpt(node: ast.Expression) -> str:
    try:
        return generate(node)[:60]
    except Exception:  # noqa: BLE001 - the node is refused already, this is only for the message
        return type(node).__qualname__


def _plain(error: Exception) -> str:
    """The parser's message in one line, without the colours it prints for a terminal."""
    text = " ".join(re.sub(r"\x1b\[\d+m", "", str(error)).split())
    return re.sub(r"Expected one of \[[^\]]*\]\.?", "unexpected text.", text)[:300]
