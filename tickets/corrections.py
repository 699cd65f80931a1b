"""What curators corrected in sections, kept through imports.

Promises that a corrected text and visibility survive whatever the source says
later, also when other comments come before the corrected one.
Must never happen: a redacted comment shown again because its number changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from .models import Section, Ticket
from .sections import template

Corrections = dict[int, dict[tuple[object, ...], tuple[str, int, str, bool]]]


def read(tickets: Sequence[Ticket], *, lock: bool = False) -> Corrections:
    """What curators corrected, by ticket and identity; with ``lock`` nobody corrects more now."""
    rows = Section.objects.filter(ticket__in=[ticket.pk for ticket in tickets if ticket.pk])
    if lock:
        list(rows.order_by("pk").select_for_update().values_list("pk"))
    found: Corrections = {}
    for row in rows.filter(corrected=True).order_by("pk"):
        kept = (row.kind, row.ordinal, row.text, row.public)
        found.setdefault(row.ticket_id, {})[_identity(row)] = kept
    return found


def _identity(section: Section) -> tuple[object, ...]:
    """What makes a section the same one after an import: for comments who wrote it when,
    because others may come before it."""
    if section.created_at and template().kinds[section.kind].many:
        return section.kind, section.author, section.created_at
    return section.kind, section.ordinal


def keep(
    tickets: Sequence[Ticket], sections: Sequence[list[Section]], corrected: Corrections
) -> None:
    """What a curator corrected stays as it is, whatever the source says now."""
    for ticket, own in zip(tickets, sections, strict=True):
        mine = dict(corrected.get(ticket.pk, {}))
        for section in own:
            if kept := mine.pop(_identity(section), None):
                _, _, section.text, section.public = kept
                section.corrected = True
        for kind, ordinal, text, public in mine.values():
            if ordinal:
                continue  # one of many, and the source no longer has it
            # The source no longer has it: it stays, below the parents that it needs.
            own.append(Section(ticket=ticket, kind=kind, text=text, public=public, corrected=True))
            there = {section.kind for section in own}
            own += [
                Section(ticket=ticket, kind=step.kind)
                for step in template().path(kind)
                if step.kind not in there
            ]
