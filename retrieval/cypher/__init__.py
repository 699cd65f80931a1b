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

from retrieval.cypher.allowed import PERMISSION_PARAMETER, refuse_unknown
from retrieval.cypher.cover import Cover
from retrieval.cypher.grammar import bare, generate, parse, walk
from retrieval.cypher.permission import is_covered
from retrieval.cypher.refusals import REFUSALS, CypherRefused

__all__ = ["REFUSALS", "CheckedCypher", "CypherRefused", "check", "extract"]

# Both bound the time a check takes: at most about a second for the worst text.
MAX_CHARACTERS = 2_000
MAX_DEPTH = 12
MAX_SKIP = 10_000

_STRING = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_FENCE = re.compile(r"```[ \t]*(\w*)[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
_THINKING = re.compile(
    r"(?is)<(think|thinking|reasoning)>.*?(?:</\1>|\Z)|\A.*</(?:think|thinking)>"
)
# A line that begins like a query (and not like a sentence with "Match ...").
_START = re.compile(
    r"(?im)^(?:[\w ]{0,20}:)?[ \t]*("
    r"(?:(?:OPTIONAL\s+)?MATCH\s*(?:\w+\s*=\s*)?|CREATE\s*|MERGE\s*)\("
    r"|UNWIND\s+[\[$]|CALL\s+[\w.]+\(|LOAD\s+CSV\b)"
)
_CLAUSE = re.compile(
    r"\s*(?:OPTIONAL|MATCH|WHERE|WITH|UNWIND|RETURN|ORDER|SKIP|LIMIT|UNION|CALL)\b"
)


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
    fences = _FENCE.findall(text)
    start = _START.search(text)
    if fences:
        named = [body for name, body in fences if name.lower() in ("cypher", "neo4j")]
        text = (named or [body for _, body in fences])[0]
    elif start:
        # After an empty line only another clause belongs to the query.
        text, *rest = re.split(r"\n[ \t]*\r?\n", text[start.start(1) :])
        for paragraph in rest:
            if not _CLAUSE.match(paragraph):
                break
            text += f"\n{paragraph}"
    return text.strip().strip("`").strip().removesuffix(";").strip()


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


def _clean(cypher: str) -> str:
    """The text as plain characters: NFKC outside of strings, strings as they are."""
    if len(cypher) > MAX_CHARACTERS:
        raise CypherRefused("TOO_LONG", f"The query is longer than {MAX_CHARACTERS} characters.")
    if not cypher.strip():
        raise CypherRefused("EMPTY", "There is no query in the text.")
    for c in cypher:
        if (
            unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
            and c not in "\n\r\t"
        ):
            raise CypherRefused(
                "CHARACTER", f"The character U+{ord(c):04X} has no place in a query."
            )
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
    if before_string and re.search(r"[\w$]\Z", text):
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
