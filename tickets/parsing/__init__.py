"""From a ticket as its source tells it to the sections of the tree, by rule.

Promises that every value is text of the ticket, line for line, and that no line
of the description is lost or told twice: headings that the template knows become
the kind of a section, everything else stays in exactly one section.
Must never happen: an invented value, or a time that grows faster than the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from tickets import sections
from tickets.importers.raw import NOBODY, PersonRef, RawComment, RawTicket
from tickets.text import markup

from . import headings, solutions

# Part of the content hash: a change of the rules parses every ticket again.
PARSER_VERSION = 2
MAX_SECTION_CHARS = 100_000
# A ticket of nothing but fences must not become a hundred thousand nodes.
MAX_CODE_BLOCKS = 200

# Look like keys and stand in real tickets often enough to fill the list of pending links.
_NO_PROJECTS = frozenset({"UTF", "MPEG", "SHA", "ISO", "ECMA", "GMT"})
_KEY = re.compile(r"(?<![\w-])[A-Z][A-Z0-9_]{1,19}-[1-9]\d{0,8}(?![\w]|-\w|\.\d)")


@dataclass(frozen=True)
class ParsedSection:
    """One node of layer one; ``ordinal`` counts from 1 where the kind is ``many``, else 0.

    ``name`` is the source's id of a comment; ``level`` the restriction on the
    comment that it was found in.
    """

    kind: str
    text: str
    ordinal: int = 0
    author: PersonRef = NOBODY
    role: str = ""
    public: bool = True
    created_at: datetime | None = None
    name: str = ""
    level: str = ""


@dataclass(frozen=True)
class ParsedTicket:
    """Sections in template order; a parent of others is there even without text.

    ``mentions`` are the ticket keys found in the text that the tracker does not
    link yet; ``cut`` counts the characters that the cap of a section took away.
    """

    sections: tuple[ParsedSection, ...]
    mentions: tuple[str, ...] = ()
    cut: int = 0


def parse(raw: RawTicket) -> ParsedTicket:
    """The section tree of one ticket."""
    description = markup.to_text(raw.description, raw.description_format)
    comments = [(c, markup.to_text(c.body, c.body_format).strip()) for c in raw.comments]
    comments = [(c, text) for c, text in comments if text]
    found = _fields(raw)
    for kind, text in (*headings.divide(description), *_custom(raw)):
        found.setdefault(kind, []).append(ParsedSection(kind, text))
    for finding in solutions.find(raw, comments, set(found)):
        found[finding.kind] = [_said(finding.kind, finding.text, finding.comment)]
    found["comment"] = [_said("comment", text, comment) for comment, text in comments]
    texts = [raw.summary, description, *(text for _, text in comments)]
    ordered, cut = _arranged(found)
    return ParsedTicket(ordered, _mentions(raw, texts), cut)


def _said(kind: str, text: str, comment: RawComment) -> ParsedSection:
    return ParsedSection(
        kind,
        text,
        author=comment.author,
        role=comment.role,
        public=comment.public,
        created_at=comment.created_at,
        name=comment.external_id if kind == "comment" else "",
        level=comment.level,
    )


def _fields(raw: RawTicket) -> dict[str, list[ParsedSection]]:
    """One section for each value of the tracker's structured fields."""
    found: dict[str, list[ParsedSection]] = {}
    for kind in sections.template().kinds.values():
        if not kind.field:
            continue
        value = getattr(raw, kind.field)
        if kind.field == "environment":
            # Trackers give it the same markup as the description.
            value = markup.to_text(value, raw.description_format)
        values = value if kind.many else (value,)
        texts = [text.strip() for text in values if text.strip()]
        if texts:
            found[kind.kind] = [ParsedSection(kind.kind, text) for text in texts]
    return found


def _custom(raw: RawTicket) -> Iterator[tuple[str, str]]:
    """Custom fields and columns that are called like a section, such as "Root Cause"."""
    for name, value in raw.custom.items():
        kind = sections.template().by_heading.get(headings.normalize(name))
        for text in value if isinstance(value, list) else [value]:
            if kind and isinstance(text, str) and text.strip():
                yield kind, markup.to_text(text, raw.description_format).strip()


def _arranged(found: dict[str, list[ParsedSection]]) -> tuple[tuple[ParsedSection, ...], int]:
    """All sections in template order, capped, numbered, and under their parents."""
    kinds = sections.template().kinds
    needed = {
        step.kind
        for kind, values in found.items()
        if values
        for step in sections.template().path(kind)
    }
    ordered: list[ParsedSection] = []
    cut = 0
    for kind in kinds.values():
        values = found.get(kind.kind, [])
        if kind.kind == "code_block":
            cut += sum(len(value.text) for value in values[MAX_CODE_BLOCKS:])
            values = values[:MAX_CODE_BLOCKS]
        if not kind.many and len(values) > 1:
            values = [replace(values[0], text="\n\n".join(v.text for v in values))]
        if not values and kind.kind in needed:
            values = [ParsedSection(kind.kind, "")]
        for ordinal, value in enumerate(values, start=1):
            text, lost = _capped(value.text)
            cut += lost
            changed = lost or kind.many
            number = ordinal if kind.many else 0
            ordered.append(replace(value, text=text, ordinal=number) if changed else value)
    return tuple(ordered), cut


def _capped(text: str) -> tuple[str, int]:
    if len(text) <= MAX_SECTION_CHARS:
        return text, 0
    lost = len(text) - MAX_SECTION_CHARS
    return f"{text[:MAX_SECTION_CHARS]}\n[… {lost} characters cut …]", lost


def _mentions(raw: RawTicket, texts: Iterable[str]) -> tuple[str, ...]:
    """Ticket keys in the text, without the ticket's own and those it is linked to."""
    keys = {key for text in texts for key in _KEY.findall(text)}
    keys = {key for key in keys if key.split("-")[0] not in _NO_PROJECTS}
    linked = {key for link in raw.links for key in (link.from_key, link.to_key)}
    return tuple(sorted(keys - linked - {raw.key}))
