"""The allow-list: which tree nodes, functions, names and parameters may be in a query.

Promises that a tree which passed ``refuse_unknown`` holds nothing but what is
listed here, whatever else the parser understands. Must never happen: a construct
getting through because nobody thought of it. Kinds of tree nodes that are new, in
this or a later version of the parser, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphglot import ast
from graphglot.ast import cypher
from graphglot.ast.functions import Anonymous, Func

from retrieval.cypher.grammar import bare, generate, walk
from retrieval.cypher.refusals import CypherRefused

PERMISSION_PARAMETER = "projects"

# Tree nodes that are let through, by the name of their class.
_NODES = """
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
"""
_ALLOWED = frozenset(_NODES.split())

_FUNCTIONS = (
    "count collect min max avg sum size head last tail labels type nodes relationships length "
    "startNode endNode toLower toUpper trim left right substring split coalesce toString "
    "toInteger toFloat abs round ceil floor date datetime duration"
)

_LISTED = "Only MATCH, OPTIONAL MATCH, WHERE, WITH, UNWIND, RETURN, ORDER BY, SKIP and LIMIT are."
_WRITES = """
    SetStatement CreateClause InsertStatement MergeClause DeleteStatement RemoveStatement
    CreateIndex DropIndex CreateConstraint DropConstraint CreateSchemaStatement
    DropSchemaStatement CreateGraphStatement DropGraphStatement
"""
_OTHER_CLAUSES = "QueryPrefix UseGraphClause FilterStatement LetStatement NextStatement"
# What to say of some of the others. The rest is refused all the same, as CONSTRUCT.
_SPECIFIC = {
    **dict.fromkeys(
        _WRITES.split(),
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
        _OTHER_CLAUSES.split(), ("CLAUSE", f"A clause of the query is not allowed. {_LISTED}")
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
    "ElementIdFunction": ("FUNCTION", "elementId() is not allowed; nodes have a property 'id'."),
    "PrimitiveResultStatement._Finish": ("NO_RETURN", "End the query with RETURN."),
}
# What a query without RETURN is read as; the same node stands above every write.
_WITHOUT_RETURN = "AmbientLinearDataModifyingStatementBody"

# A name of the model's may not begin with "_": such names are for the gate.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Names that a server could take for the beginning of a clause.
_CLAUSE_WORDS = (
    "all and as call case create delete detach distinct drop else end ends exists explain finish "
    "for foreach in insert is let limit load match merge next not null offset on optional or order "
    "profile remove return set show skip starts then union unwind use when where with xor "
    "yield"
)
_RESERVED = frozenset(_CLAUSE_WORDS.split())


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
