"""An answer's text as safe HTML: escaped, with its [n] as links to what they cite.

Promises that a number without a citation stays text, and that nothing inside a
quotation of a ticket becomes a link.
Must never happen: an element that is not made here; an address in the text that
the browser would fetch or follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from tickets.text import prose

from .models import Citation

_BLANK = re.compile(r"\n[ \t]*\n")
_LAST_MARK = re.compile(r"[ \t]*\[(\d{1,4})\][ \t]*\Z")
# Titles stand between “ and ”; they may hold brackets of their own.
_INLINE = re.compile(r"(“[^“”\n]*”)|\*\*([^*\n]+)\*\*|`([^`\n]+)`|\[(\d{1,4})\]")
TOOLTIP = 300  # characters


def to_html(text: str, citations: Mapping[int, Citation]) -> SafeString:
    """Paragraphs and quotations of an answer; ``citations`` by number."""
    return mark_safe("".join(_blocks(text, citations)))  # noqa: S308 - parts are safe


def _blocks(text: str, citations: Mapping[int, Citation]) -> Iterator[SafeString]:
    for block in _BLANK.split(text.strip()):
        lines = block.split("\n")
        if all(line == ">" or line.startswith("> ") for line in lines):
            yield _quotation("\n".join(line[2:] for line in lines), citations)
        else:
            yield format_html("<p>{}</p>", _inline(block, citations))


def _quotation(text: str, citations: Mapping[int, Citation]) -> SafeString:
    match = _LAST_MARK.search(text)
    if match is None:
        return format_html("<blockquote>{}</blockquote>", prose.to_html(text))
    mark = _mark(int(match[1]), citations)
    return format_html(
        "<blockquote>{}<footer>{}</footer></blockquote>", prose.to_html(text[: match.start()]), mark
    )


def _inline(text: str, citations: Mapping[int, Citation]) -> SafeString:
    parts = []
    last = 0
    for match in _INLINE.finditer(text):
        parts.append(escape(text[last : match.start()]))
        last = match.end()
        title, strong, code, number = match.groups()
        if number:
            parts.append(_mark(int(number), citations))
        elif strong:
            parts.append(format_html("<strong>{}</strong>", strong))
        elif code:
            parts.append(format_html("<code>{}</code>", code))
        else:
            parts.append(escape(title))
    parts.append(escape(text[last:]))
    return mark_safe("".join(parts))  # noqa: S308 - every part is escaped


def _mark(number: int, citations: Mapping[int, Citation]) -> SafeString:
    citation = citations.get(number)
    if citation is None:
        return escape(f"[{number}]")
    return format_html(
        '<a class="mark{}" href="{}" title="{}" aria-label="Source {}: {}">{}</a>',
        "" if citation.public else " internal",
        citation.get_absolute_url(),
        citation.quote[:TOOLTIP],
        number,
        citation.ticket.key,
        number,
    )
