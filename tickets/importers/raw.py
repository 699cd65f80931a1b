"""A ticket as its source system tells it, in one common shape.

Promises that every importer hands over the same plain values, whatever the
file was, and that the source's own words (status, link label, text with its
markup) are kept beside their common meaning.
Must never happen: a NUL or a lone surrogate in any text (PostgreSQL refuses
them), a time without a zone, a link whose two ends are the same ticket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

TextFormat = Literal["plain", "wiki", "markdown", "html"]
Form = Literal["ticket", "article"]
PersonKind = Literal["", "customer", "agent", "bot"]
Role = Literal["customer", "agent", "ai", "system"]
StatusCategory = Literal["open", "pending", "solved", "closed"]
ResolutionCategory = Literal["", "fixed", "duplicate", "wontfix", "cannot_reproduce", "other"]


@dataclass(frozen=True)
class PersonRef:
    """Somebody as the source names them; ``external_id`` is empty where it has no ids.

    Nobody has neither; ``kind`` is empty where the source does not say.
    """

    external_id: str = ""
    name: str = ""
    email: str = ""
    kind: PersonKind = ""

    def __bool__(self) -> bool:
        return bool(self.external_id or self.name)

    def __str__(self) -> str:
        return self.name or self.external_id


NOBODY = PersonRef()


@dataclass(frozen=True)
class RawComment:
    """One contribution to the thread; ``accepted`` marks the answer the asker took.

    ``level`` names the restriction that the source puts on it, such as a role.
    """

    body: str
    author: PersonRef = NOBODY
    role: Role = "agent"
    created_at: datetime | None = None
    external_id: str = ""
    public: bool = True
    level: str = ""
    body_format: TextFormat = "plain"
    accepted: bool = False


@dataclass(frozen=True)
class RawLink:
    """An explicit link in canonical direction; one of the keys is the ticket's own."""

    type: str
    from_key: str
    to_key: str
    label: str = ""


@dataclass(frozen=True)
class RawTicket:
    """One ticket or article. ``line`` is where it began in the file, counted from 1.

    ``security_level`` names the restriction that the source puts on all of it;
    ``old_keys`` are those it had before it was moved.
    """

    key: str
    project: str
    summary: str
    form: Form = "ticket"
    description: str = ""
    description_format: TextFormat = "plain"
    external_id: str = ""
    type: str = ""
    environment: str = ""
    status: str = ""
    status_category: StatusCategory = "open"
    resolution: str = ""
    resolution_category: ResolutionCategory = ""
    priority: str = ""
    labels: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    affects_versions: tuple[str, ...] = ()
    fix_versions: tuple[str, ...] = ()
    reporter: PersonRef = NOBODY
    assignee: PersonRef = NOBODY
    security_level: str = ""
    old_keys: tuple[str, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    resolved_at: datetime | None = None
    comments: tuple[RawComment, ...] = ()
    links: tuple[RawLink, ...] = ()
    custom: dict[str, Any] = field(default_factory=dict)
    deleted: bool = False
    line: int = 0

    def to_json(self) -> dict[str, Any]:
        """Everything but the line, as JSON values; equal tickets give equal JSON."""
        # Not dataclasses.asdict: it deep-copies every value, and an import does this for all rows.
        data = {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}
        del data["line"]
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RawTicket:
        """The inverse of :meth:`to_json`."""
        values = dict(data)
        for name in ("created_at", "updated_at", "resolved_at"):
            values[name] = _time(values[name])
        for name in ("labels", "components", "affects_versions", "fix_versions", "old_keys"):
            values[name] = tuple(values[name])
        for name in ("reporter", "assignee"):
            values[name] = PersonRef(**values[name])
        values["comments"] = tuple(_comment(c) for c in values["comments"])
        values["links"] = tuple(RawLink(**link) for link in values["links"])
        return cls(**values)


@dataclass(frozen=True)
class RowError:
    """A row that could not be read; the rest of the file goes on."""

    line: int
    column: str
    message: str
    key: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}" + (f", column {self.column}" if self.column else "")
        return f"{where}{f' ({self.key})' if self.key else ''}: {self.message}"


class FileError(ValueError):
    """The file as a whole cannot be read; the message says why and what to do."""


def _comment(data: dict[str, Any]) -> RawComment:
    author = PersonRef(**data["author"])
    return RawComment(**{**data, "author": author, "created_at": _time(data["created_at"])})


def _time(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def _plain(value: Any) -> Any:
    if isinstance(value, RawComment | RawLink | PersonRef):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value.isoformat() if isinstance(value, datetime) else value
