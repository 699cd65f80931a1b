"""The Cypher gate: every query, a template's or a model's, passes it before it runs.

Promises that what comes out reads nothing but what the asker may see: an
allow-listed, read-only query over the closed schema, with the permission put on
every node pattern and a LIMIT, printed anew from its tree.
Must never happen: a text reaching the graph that was not printed here, or a
decision made by looking for forbidden words. What is not known to be harmless is
refused, with a code.

The caller still asks the server for a plan and runs the query in a READ
transaction; this module talks to no database and remembers nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphglot import ast
from graphglot.ast import cypher as cypher_ast

from retrieval.cypher_cover import Cover
from retrieval.cypher_grammar import (
    PERMISSION_PARAMETER,
    REFUSALS,
    CypherRefused,
    bare,
    generate,
    parse,
    refuse_unknown,
    walk,
)

__all__ = ["REFUSALS", "CheckedCypher", "CypherRefused", "check", "extract"]

MAX_CHARACTERS = 4_000
MAX_DEPTH = 24
MAX_SKIP = 10_000

_STRING = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_FENCE = re.compile(r"```[ \t]*(\w*)[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_START = re.compile(r"(?im)^[ \t]*(?:[\w ]{0,20}:)?[ \t]*((?:MATCH|OPTIONAL|UNWIND|WITH|RETURN)\b)")


@dataclass(frozen=True)
class CheckedCypher:
    """A query that may run, with its parameters; ``original`` is what was asked for."""

    text: str
    parameters: dict[str, object]
    original: str


def extract(model_text: str) -> str:
    """The one statement in a model's reply, without fences, thinking, chatter and semicolon.

    A reply without a recognisable query comes back as it is: ``check`` refuses it.
    """
    text = _THINKING.sub("", model_text)
    text = re.sub(r"(?is)\A.*</(?:think|thinking|reasoning)>", "", text).strip()
    fences = _FENCE.findall(text)
    if fences:
        named = [body for name, body in fences if name.lower() in ("cypher", "neo4j")]
        text = (named or [body for _, body in fences])[0]
    start = _START.search(text)
    if start:
        text = text[start.start(1) :]
        if not fences:
            # Prose after an empty line is chatter; a clause after it is not.
            first, *rest = re.split(r"\n[ \t]*\r?\n", text)
            while rest and re.match(r"\s*(?:[A-Z]+\b|\))", rest[0]):
                first += "\n" + rest.pop(0)
            text = first
    return text.strip().removesuffix(";").strip().strip("`").strip()


def check(
    cypher: str,
    *,
    projects: Sequence[str],
    parameters: Mapping[str, object] | None = None,
    max_rows: int = 200,
    max_hops: int = 4,
) -> CheckedCypher:
    """Turn a query into one that reads only nodes of ``projects``.

    ``parameters`` are the caller's; ``projects`` may not be among them. ``max_rows``
    is the largest LIMIT, ``max_hops`` the longest variable-length path. Raises
    CypherRefused, and TypeError when ``projects`` is a single string.
    """
    if isinstance(projects, str):
        raise TypeError("projects is a list of project names, not one name")
    given = dict(parameters or {})
    if PERMISSION_PARAMETER in given:
        raise CypherRefused("RESERVED_PARAMETER", f"${PERMISSION_PARAMETER} is set by the gate.")
    tree = parse(_clean(cypher))
    try:
        refuse_unknown(tree, given)
        Cover(max_hops).statement(tree)
        _page(tree, max_rows)
        text = generate(tree)
    except RecursionError:
        raise CypherRefused("TOO_DEEP", "The query is nested too deeply.") from None
    if not is_covered(parse(text)):
        raise CypherRefused("UNCOVERED", "The permission could not be put on every pattern.")
    return CheckedCypher(text, {**given, PERMISSION_PARAMETER: list(projects)}, cypher)


def is_covered(tree: Any) -> bool:
    """Whether every node pattern, and every path of variable length, is permitted.

    The gate's second look at its own work, on the text it is about to hand out:
    it shares nothing with the code that put the permission in.
    """
    covered = 0
    for holder in walk(tree):
        if isinstance(holder, ast.GraphPattern):
            paths = holder.path_pattern_list.list_path_pattern
            where = holder.graph_pattern_where_clause
        elif isinstance(holder, cypher_ast.CypherPatternComprehension):
            paths, where = [holder.pattern], holder.where_clause
        else:
            continue
        condition = where.search_condition if where else None
        if condition is None or condition.ops:
            return False
        wanted, got = set(), set()
        for path in paths:
            for part in walk(path):
                if isinstance(part, ast.NodePattern):
                    covered += 1
                    declared = part.element_pattern_filler.element_variable_declaration
                    wanted.add(f"{generate(declared)}.project IN ${PERMISSION_PARAMETER}")
                elif isinstance(part, ast.QuantifiedPathPrimary):
                    name = path.path_variable_declaration.path_variable.name
                    inner = f"_n.project IN ${PERMISSION_PARAMETER}"
                    wanted.add(f"all(_n IN NODES({name}) WHERE {inner})")
        for factor in condition.boolean_term.list_boolean_factor:
            if not factor.not_:
                got.add(generate(factor))
        if wanted - got:
            return False
    return covered == sum(isinstance(n, ast.NodePattern) for n in walk(tree))


def _clean(cypher: str) -> str:
    """The text as plain characters: NFKC outside of strings, strings as they are."""
    if len(cypher) > MAX_CHARACTERS:
        raise CypherRefused("TOO_LONG", f"The query is longer than {MAX_CHARACTERS} characters.")
    if not cypher.strip():
        raise CypherRefused("EMPTY", "There is no query in the text.")
    for c in cypher:
        if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and c not in "\n\r\t":
            raise CypherRefused("CHARACTER", f"The character U+{ord(c):04X} has no place in a query.")
    pieces = _STRING.split(cypher.strip())
    for i, piece in enumerate(pieces):
        if i % 2:
            _refuse_escapes(piece)
        else:
            pieces[i] = unicodedata.normalize("NFKC", piece)
            _refuse_signs(pieces[i], before_string=i + 1 < len(pieces))
    depth = 0
    for c in "".join(pieces[::2]):
        depth += (c in "([{") - (c in ")]}")
        if depth > MAX_DEPTH:
            raise CypherRefused("TOO_DEEP", "Brackets are nested too deeply.")
    return "".join(pieces)


def _refuse_escapes(string: str) -> None:
    # The server resolves \uXXXX before it looks for the end of a string.
    strange = set(_ESCAPED.findall(string)) - set("\\'\"nrtbf")
    if strange or re.search(r"\\u", string, re.IGNORECASE):
        raise CypherRefused("ESCAPE", "Write characters as they are, not as an escape.")


def _refuse_signs(text: str, *, before_string: bool) -> None:
    """Raises CypherRefused for what may not stand outside of strings."""
    if "`" in text:
        raise CypherRefused("BACKTICK", "Write names without backticks.")
    if "\\" in text:
        raise CypherRefused("ESCAPE", "Write characters as they are, not as an escape.")
    if "//" in text or "/*" in text or "*/" in text:
        raise CypherRefused("COMMENT", "Write the query without comments.")
    if ";" in text:
        raise CypherRefused("SEVERAL_STATEMENTS", "Write one statement, without a semicolon.")
    for c in text:
        if not (c.isascii() and (c.isalnum() or c.isspace() or c in "_()[]{}<>=+-*/%.,:|$!&^~")):
            what = "A quote is not closed" if c in "'\"" else f"'{c}' has no place in a query"
            raise CypherRefused("SYNTAX" if c in "'\"" else "CHARACTER", f"{what}.")
    if before_string and re.search(r"[\w$]\Z", text) and not re.search(r"\b[a-zA-Z]{2,}\Z", text):
        raise CypherRefused("SYNTAX", "Leave a space before a quote.")


def _page(tree: Any, max_rows: int) -> None:
    """Check every SKIP and LIMIT, and see that the last LIMIT is there and low enough."""
    for node in walk(tree):
        if isinstance(node, ast.OffsetClause):
            if not 0 <= _number(node, "SKIP") <= MAX_SKIP:
                raise CypherRefused("SKIP", f"SKIP may be at most {MAX_SKIP}.")
        elif isinstance(node, ast.LimitClause):
            _number(node, "LIMIT")
    for node in walk(tree):
        if isinstance(node, ast.PrimitiveResultStatement):
            result = node.primitive_result_statement
            page = result.order_by_and_page_statement
            inner = page.order_by_and_page_statement if page else None
            limit = inner if isinstance(inner, ast.LimitClause) else None
            limit = limit or getattr(inner, "limit_clause", None)
            rows = min(_number(limit, "LIMIT"), max_rows) if limit else max_rows
            whole = ast.OrderByAndPageStatement._OrderByClauseOffsetClauseLimitClause(
                order_by_clause=getattr(inner, "order_by_clause", None),
                offset_clause=getattr(inner, "offset_clause", None),
                limit_clause=ast.LimitClause(
                    non_negative_integer_specification=ast.UnsignedNumericLiteral(value=rows)
                ),
            )
            result.set(
                "order_by_and_page_statement",
                ast.OrderByAndPageStatement(order_by_and_page_statement=whole),
            )


def _number(clause: Any, code: str) -> int:
    value = getattr(bare(clause.non_negative_integer_specification), "value", None)
    if type(value) is not int:
        raise CypherRefused(code, f"{code} takes a plain number.")
    return value
