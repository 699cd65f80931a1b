"""Why the gate refuses a query: the codes, and the exception that carries one.

Promises that every refusal has a code out of REFUSALS and a sentence that says
what to write instead. Must never happen: a message that holds anything but the
query's own text, names of the schema and these sentences.
"""

from __future__ import annotations

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
