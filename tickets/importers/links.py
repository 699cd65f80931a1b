"""Links in the one direction their type reads, the same from both ends.

Promises that a ticket and the ticket it is linked to yield equal links.
Must never happen: a direction taken from the place where a link stood instead
of from its wording.
"""

from __future__ import annotations

from tickets.importers.raw import RawLink
from tickets.sections import UNDIRECTED, template


def link(own: str, wording: str, other: str, label: str) -> RawLink | None:
    """What ``own`` says of ``other``, in canonical direction; None when unrelated.

    ``label`` is the tracker's name for the type of link. It is kept, and not
    the wording, because only the name is the same at both ends.
    """
    found = template().link(wording)
    if found is None:
        return None
    kind, forward = found
    start, end = (own, other) if forward else (other, own)
    if kind in UNDIRECTED:
        start, end = min(own, other), max(own, other)
    return RawLink(kind, start, end, label or wording)


def parent(child: str, key: str, label: str = "parent") -> RawLink:
    """``key`` is the parent of ``child``."""
    return RawLink("PARENT_OF", key, child, label)
