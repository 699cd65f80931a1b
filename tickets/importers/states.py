"""What a tracker's words for status and resolution mean.

Promises one of the categories of ``raw`` for every word; a word nobody knows
is an open status or an "other" resolution.
Must never happen: a ticket that was turned down counted as solved.
"""

from __future__ import annotations

from tickets.importers.raw import ResolutionCategory, StatusCategory

_RESOLUTIONS: dict[ResolutionCategory, set[str]] = {
    "": {"", "unresolved", "nicht erledigt", "non résolu", "none"},
    "fixed": {
        *("fixed", "done", "resolved", "solved", "complete", "completed", "implemented"),
        *("delivered", "answered", "erledigt", "fertig", "behoben", "gelöst", "corrigé", "résolu"),
    },
    "duplicate": {"duplicate", "duplikat", "doublon"},
    "wontfix": {
        "won't fix",
        "wont fix",
        "wontfix",
        "won't do",
        "not planned",
        "wird nicht behoben",
    },
    "cannot_reproduce": {
        *("cannot reproduce", "can't reproduce", "could not reproduce", "not reproducible"),
        *("works for me", "nicht reproduzierbar", "non reproductible"),
    },
}
# Resolutions of no category of their own with which a ticket ends unsolved.
_UNSOLVED = {
    *("incomplete", "invalid", "not a bug", "not our bug", "not a problem", "needs more info"),
    *("needs more information", "rejected", "declined", "canceled", "cancelled", "abandoned"),
    *("hold", "later", "remind", "auto closed", "expired", "obsolete"),
}
_DONE = {
    *("closed", "resolved", "done", "solved", "fixed", "complete", "completed", "delivered"),
    *("erledigt", "fertig", "gelöst", "geschlossen", "fermé", "résolu", "terminé"),
}
_TURNED_DOWN = {"rejected", "declined", "canceled", "cancelled", "won't do", "won't fix", "merged"}
_CLOSED = {"closed", "geschlossen", "fermé"}
_PENDING = ("waiting", "awaiting", "pending", "hold", "snoozed")


def resolution_category(resolution: str) -> ResolutionCategory:
    """The category of a resolution's name; a name nobody knows is "other"."""
    name = _name(resolution)
    return next((c for c, names in _RESOLUTIONS.items() if name in names), "other")


def status_category(status: str, resolution: str, done: bool | None = None) -> StatusCategory:
    """The category of a status; ``done`` is what the tracker itself says, if it does.

    A finished ticket is solved, unless its resolution or its status says that
    it was turned down, or it was just closed without any resolution.
    """
    name = _name(status)
    if done is None:
        done = name in _DONE or name in _TURNED_DOWN
    if not done:
        return "pending" if any(word in name for word in _PENDING) else "open"
    category = resolution_category(resolution)
    turned_down = (
        category in ("duplicate", "wontfix", "cannot_reproduce")
        or _name(resolution) in _UNSOLVED
        or name in _TURNED_DOWN
        or (category == "" and name in _CLOSED)
    )
    return "closed" if turned_down else "solved"


def _name(text: str) -> str:
    return " ".join(text.casefold().replace("\u2019", "'").split())
