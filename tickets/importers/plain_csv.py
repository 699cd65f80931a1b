"""A table of tickets with any headings: CSV with column mapping.

Promises that a heading is found by the name the operator gives or by a usual
name, and that every column without a place of ours is kept in ``custom``.
Must never happen: a missing column found out at the last row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from tickets.importers import states
from tickets.importers.glance import Glance, Heading, Record, read_heading, records
from tickets.importers.raw import FileError, PersonRef, RawComment, RawTicket, RowError
from tickets.importers.source import BadRowError, Row, Source
from tickets.parsing.headings import normalize
from tickets.sections import template

# Row counts at which known exporters stop: Jira and ServiceNow.
_CAPS = (1000, 10_000)
# Our field → the headings it usually has, lower case, letters and digits only.
_USUAL = {
    "key": "key|issue key|ticket|ticket id|ticket number|ticket key|number|case number|case id|id",
    "project": "project|project key|queue",
    "type": "type|issue type|ticket type|kind",
    "summary": "summary|subject|title|short description|headline",
    "description": "description|body|details|text|content|question|message",
    "environment": "environment",
    "status": "status|state",
    "resolution": "resolution|close code",
    "priority": "priority",
    "labels": "labels|label|tags|tag",
    "components": "components|component|category",
    "affects_versions": "affects versions|affects version|version",
    "fix_versions": "fix versions|fix version",
    "reporter": "reporter|requester|customer|caller|caller id|author|created by|opened by",
    "assignee": "assignee|assigned to|agent|owner",
    "created": "created|created at|created on|creation date|date|opened|opened at",
    "updated": "updated|updated at|updated on|last updated|modified",
    "resolved": "resolved|resolved at|closed|closed at|resolution date",
    "comments": "comments|comment",
    "deleted": "deleted",
}
_YES = ("true", "yes", "1")


def sniff(glance: Glance) -> bool:
    """Whether there is a row of headings at all."""
    return len(glance.headings) > 1


def read(source: Source) -> Iterator[Row]:
    """Every row. Raises FileError when a column that is needed cannot be found."""
    heading = read_heading(source)
    columns = _columns(source, heading)
    _tell_what_is_left(source, heading, columns)
    rows = 0
    for record in records(source, heading):
        rows += 1
        if isinstance(record, RowError):
            yield record
        else:
            key = record.one(columns["key"])
            yield source.row(record.line, key, partial(_ticket, source, heading, columns, record))
    if rows in _CAPS:
        source.note(f"exactly {rows} rows: exports often stop there, so this looks truncated")


def _columns(source: Source, heading: Heading) -> dict[str, str]:
    """Our field → their heading in lower case, for the fields that the table has."""
    places = heading.places
    mapped = {field: name.strip().casefold() for field, name in source.options.columns.items()}
    for field, name in mapped.items():
        if field not in _USUAL:
            raise _refusal(source, heading, f"no field '{field}'; there are {', '.join(_USUAL)}")
        if name not in places:
            raise _refusal(source, heading, f"no column '{source.options.columns[field]}'")
    plain = {" ".join(re.findall(r"[^\W_]+", name)): name for name in places}
    taken = set(mapped.values())
    for field, names in _USUAL.items():
        found = next(
            (plain[n] for n in names.split("|") if plain.get(n, "") not in {"", *taken}), ""
        )
        if field not in mapped and found:
            mapped[field] = found
            taken.add(found)
    if "key" not in mapped:
        raise _refusal(source, heading, "no column for 'key'")
    if not {"summary", "description"} & mapped.keys():
        raise _refusal(source, heading, "no column for 'summary' or 'description'")
    return mapped


def _tell_what_is_left(source: Source, heading: Heading, columns: dict[str, str]) -> None:
    """Columns that are kept and not used, and fields that this file leaves empty."""
    sections = template().by_heading
    unused = [
        name
        for name in dict.fromkeys(heading.names)
        if name and name.casefold() not in columns.values() and normalize(name) not in sections
    ]
    if unused:
        source.note(f"columns kept with the ticket but not searched: {', '.join(unused)}")
    if absent := [name for name in ("description", "status", "comments") if name not in columns]:
        source.note(f"there is no column for {', '.join(absent)}: these are empty in its tickets")


def _refusal(source: Source, heading: Heading, problem: str) -> FileError:
    return FileError(
        f"{source.path.name}: {problem}; the headings are {heading.listed()}."
        " Map a column with --column FIELD=HEADING, such as --column key=Number"
    )


def _ticket(source: Source, heading: Heading, columns: dict[str, str], record: Record) -> RawTicket:
    def text(field: str) -> str:
        return source.clean(record.one(columns[field])) if field in columns else ""

    def words(field: str) -> tuple[str, ...]:
        cells = record.all(columns[field]) if field in columns else []
        return source.words([w for cell in cells for w in re.split("[,;]", cell)], field)

    if not text("key").strip():
        raise BadRowError(_shown(heading, columns["key"]), "the cell is empty")
    description, status, resolution = text("description"), text("status"), text("resolution")
    first_line = description.strip().partition("\n")[0].strip()
    return source.ticket(
        text("key"),
        text("project"),
        summary=text("summary").strip() or first_line[:200],
        description=description,
        type=text("type"),
        environment=text("environment"),
        status=status,
        status_category=states.status_category(status, resolution),
        resolution=resolution,
        resolution_category=states.resolution_category(resolution),
        priority=text("priority"),
        labels=words("labels"),
        components=words("components"),
        affects_versions=words("affects_versions"),
        fix_versions=words("fix_versions"),
        reporter=PersonRef(name=text("reporter")),
        assignee=PersonRef(name=text("assignee")),
        created_at=source.time(text("created"), _shown(heading, columns.get("created")), must=True),
        updated_at=source.time(text("updated"), _shown(heading, columns.get("updated"))),
        resolved_at=source.time(text("resolved"), _shown(heading, columns.get("resolved"))),
        comments=tuple(_comments(source, columns, record, text("reporter"))),
        custom=_custom(source, heading, columns, record),
        deleted=status.casefold() == "deleted" or text("deleted").casefold() in _YES,
    )


def _comments(
    source: Source, columns: dict[str, str], record: Record, reporter: str
) -> Iterator[RawComment]:
    """A cell is one comment, or a JSON array of {author, created_at, public, body}."""
    for cell in record.all(columns["comments"]) if "comments" in columns else []:
        if not cell.lstrip().startswith("[{"):
            yield RawComment(source.clean(cell))
            continue
        try:
            values = json.loads(cell)
        except ValueError as error:
            raise BadRowError("comments", f"the array is not JSON: {error}") from None
        for value in values:
            if not isinstance(value, dict):
                raise BadRowError("comments", "the array holds something that is no object")
            author = source.text(value.get("author"), "comments")
            yield RawComment(
                body=source.text(value.get("body"), "comments"),
                author=PersonRef(name=author),
                role="customer" if author and author == reporter else "agent",
                created_at=source.time(value.get("created_at"), "comments"),
                public=value.get("public") is not False,
            )


def _custom(
    source: Source, heading: Heading, columns: dict[str, str], record: Record
) -> dict[str, Any]:
    custom: dict[str, Any] = {}
    for column in dict.fromkeys(heading.names):
        if not column or column.casefold() in columns.values():
            continue
        values = [source.clean(value) for value in record.all(column.casefold())]
        if values:
            custom[column] = values[0] if len(values) == 1 else values
    return custom


def _shown(heading: Heading, column: str | None) -> str:
    return next((name for name in heading.names if name.casefold() == column), "")
