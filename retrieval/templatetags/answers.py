"""Template filters for answers."""

from __future__ import annotations

import json
import re
from typing import Any

from django import template
from django.utils.safestring import SafeString

from retrieval import markdown
from retrieval.models import Answer

register = template.Library()
_CLAUSE = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)"""
    r"""|\s(OPTIONAL MATCH|(?<!OPTIONAL )MATCH|WHERE|WITH|UNWIND|RETURN|ORDER BY|SKIP|LIMIT)\b"""
)


@register.filter
def answer_html(answer: Answer) -> SafeString:
    """The text with its numbers as links."""
    return markdown.to_html(answer.text, {c.number: c for c in answer.citations.all()})


@register.filter
def cypher_lines(cypher: str) -> str:
    """A query with a line for each clause; what stands in quotes is left alone."""
    return _CLAUSE.sub(lambda match: match[1] or f"\n{match[2]}", cypher)


@register.filter
def parameter_lines(parameters: dict[str, Any]) -> str:
    """A line of JSON for each parameter, to be escaped by the template."""
    lines = (f"${k} = {json.dumps(v, ensure_ascii=False)}" for k, v in parameters.items())
    return "\n".join(lines)
