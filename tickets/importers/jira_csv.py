"""Jira's CSV export of all fields: one column for each value, so headings repeat.

Promises every value of a repeated heading, and comment bodies whole.
Must never happen: a field read by its place in another Jira's export; a value
that changes with every export (last viewed, votes) in a ticket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from tickets.importers import links, states, times
from tickets.importers.glance import Glance, Heading, Record, read_heading, records
from tickets.importers.raw import FileError, PersonRef, RawComment, RawLink, RawTicket, RowError
from tickets.importers.source import BadRowError, Row, Source

# Jira's user interface gives no more rows than this.
_CAP = 1000
_LINK = re.compile(r"(inward|outward) issue link \((.+)\)", re.IGNORECASE)
_CUSTOM = re.compile(r"custom field \((.+)\)", re.IGNORECASE)
_KEY = re.compile(r"[A-Z][A-Z0-9_]*-\d+")
_EPIC = "custom field (epic link)"
# The file has the name of a link's type and no wording: (outward, inward) of the usual types.
# A name that is not here is taken for its outward wording.
_WORDINGS = {
    "blocks": ("blocks", "is blocked by"),
    "blocker": ("blocks", "is blocked by"),
    "cloners": ("clones", "is cloned by"),
    "duplicate": ("duplicates", "is duplicated by"),
    "relates": ("relates to", "relates to"),
    "reference": ("relates to", "relates to"),
    "problem/incident": ("causes", "is caused by"),
    "causes": ("causes", "is caused by"),
    "depends": ("depends on", "is depended on by"),
    "dependent": ("depends on", "is depended on by"),
    "required": ("requires", "is required by"),
    "includes": ("includes", "is included in"),
    "container": ("contains", "is contained in"),
    "incorporates": ("includes", "is part of"),
    "parent": ("is parent of", "is child of"),
    "parent-child": ("is parent of", "is child of"),
    "child-issue": ("is parent of", "is child of"),
    "issue split": ("split to", "split from"),
    "gantt: finish-start": ("has to be done before", "depends on"),
    "not related": ("is not related to", "is not related to"),
}
_DONE = {"done": True, "to do": False, "in progress": False}
_OURS = frozenset(
    (
        *("issue key", "key", "issue id", "parent", "parent id", "parent key", "issue type"),
        *("status", "status category", "project key", "priority", "resolution", "assignee"),
        *("reporter", "reporter id", "created", "updated", "resolved", "affects version/s"),
        *("affects versions", "fix version/s", "fix versions", "component/s", "components"),
        *("labels", "summary", "description", "environment", "attachment", "comment", _EPIC),
    )
)
_LEFT_OUT = frozenset(
    (
        *("last viewed", "votes", "watchers", "watchers id", "project name", "project type"),
        *("project lead", "project lead id", "project description", "project url", "assignee id"),
        *("creator", "creator id", "parent summary", "status category changed"),
    )
)


def sniff(glance: Glance) -> bool:
    """Whether the headings are those of Jira."""
    names = {name.casefold() for name in glance.headings}
    return "issue key" in names or {"key", "issue type"} <= names


def read(source: Source) -> Iterator[Row]:
    """Every row of the file. Raises FileError when it has no column of keys."""
    heading = read_heading(source)
    if not {"issue key", "key"} & heading.places.keys():
        raise FileError(
            f"{source.path.name}: no column 'Issue key'; the headings are {heading.listed()}."
            " For other names use the format csv and map it: key=HEADING"
        )
    keys = _keys_by_id(source, heading)
    rows = 0
    for record in records(source, heading):
        rows += 1
        if isinstance(record, RowError):
            yield record
        else:
            key = record.one("issue key", "key")
            yield source.row(record.line, key, partial(_ticket, source, heading, record, keys))
    if rows == _CAP:
        source.note(f"exactly {_CAP} rows: Jira's export stops there, so this looks truncated")


def _keys_by_id(source: Source, heading: Heading) -> dict[str, str]:
    """Internal id → key, which takes a pass of its own: a parent may stand below its child."""
    places = heading.places
    if "parent key" in places or not {"parent", "parent id"} & places.keys():
        return {}
    rows = (r for r in records(source, heading) if isinstance(r, Record))
    return {r.one("issue id"): r.one("issue key", "key").strip() for r in rows}


def _ticket(source: Source, heading: Heading, record: Record, keys: dict[str, str]) -> RawTicket:
    def text(*names: str) -> str:
        return source.clean(record.one(*names))

    key = text("issue key", "key").strip()
    if not key:
        raise BadRowError("Issue key", "the cell is empty")
    status, resolution = text("status"), text("resolution")
    people = {text("reporter"), text("reporter id")} - {""}
    # Nothing in the file tells an internal comment of a service project from a public one.
    internal = text("project type").casefold() == "service_desk"
    if internal and record.all("comment"):
        source.note("comments of service projects are read as internal: the CSV does not tell")
    return source.ticket(
        key,
        text("project key"),
        _links(source, heading, key, record, keys),
        external_id=text("issue id"),
        summary=text("summary").strip(),
        description=text("description"),
        description_format="wiki",
        type=text("issue type"),
        environment=text("environment"),
        status=status,
        status_category=states.status_category(
            status, resolution, _DONE.get(text("status category").casefold())
        ),
        resolution=resolution,
        resolution_category=states.resolution_category(resolution),
        priority=text("priority"),
        labels=source.words(record.all("labels"), "Labels"),
        components=source.words(
            record.all("component/s") + record.all("components"), "Component/s"
        ),
        affects_versions=source.words(
            record.all("affects version/s") + record.all("affects versions"), "Affects Version/s"
        ),
        fix_versions=source.words(
            record.all("fix version/s") + record.all("fix versions"), "Fix Version/s"
        ),
        reporter=PersonRef(name=text("reporter")),
        assignee=PersonRef(name=text("assignee")),
        created_at=source.time(record.one("created"), "Created", must=True),
        updated_at=source.time(record.one("updated"), "Updated"),
        resolved_at=source.time(record.one("resolved"), "Resolved"),
        comments=tuple(
            _comment(source, cell, people, not internal) for cell in record.all("comment")
        ),
        custom=_custom(source, heading, record),
        deleted=status.casefold() == "deleted",
    )


def _comment(source: Source, cell: str, reporter: set[str], public: bool) -> RawComment:
    """``date;author;body``; the body may hold semicolons, so only the first two divide."""
    date, *rest = source.clean(cell).split(";", 2)
    try:
        times.parse(date, source.zone)
    except (ValueError, OverflowError):
        rest = []
    if len(rest) < 2:
        source.note("a comment is not in the form date;author;body and is kept whole", cell)
        return RawComment(source.clean(cell), public=public, body_format="wiki")
    author, body = rest
    return RawComment(
        body=body,
        author=PersonRef(name=author),
        role="customer" if author in reporter else "agent",
        created_at=source.time(date, "Comment"),
        public=public,
        body_format="wiki",
    )


def _links(
    source: Source, heading: Heading, key: str, record: Record, keys: dict[str, str]
) -> Iterator[RawLink | None]:
    for column in dict.fromkeys(heading.names):
        if match := _LINK.fullmatch(column):
            for other in record.all(column.casefold()):
                outward = match[1].casefold() == "outward"
                yield _link(key, outward, match[2], source.clean(other).strip())
    above = record.one("parent key", "parent id", "parent").strip()
    if above:
        found = above if _KEY.fullmatch(above) else keys.get(above)
        if found:
            yield links.parent(key, found)
        else:
            source.note("a parent is not in the file, which names it by an internal id only", above)
    epic = record.one(_EPIC).strip()
    if _KEY.fullmatch(epic):
        yield links.parent(key, epic, "epic")


def _link(own: str, outward: bool, name: str, other: str) -> RawLink | None:
    wording, inverse = _WORDINGS.get(name.casefold(), (name, ""))
    if outward:
        return links.link(own, wording, other, name)
    # Without an inverse the other ticket says the outward wording of us.
    return (
        links.link(own, inverse, other, name) if inverse else links.link(other, wording, own, name)
    )


def _custom(source: Source, heading: Heading, record: Record) -> dict[str, Any]:
    custom: dict[str, Any] = {}
    for column in dict.fromkeys(heading.names):
        name = column.casefold()
        if not column or name in _OURS or name in _LEFT_OUT or _LINK.fullmatch(column):
            continue
        values = [source.clean(value) for value in record.all(name)]
        if values:
            inner = _CUSTOM.fullmatch(column)
            custom[inner[1] if inner else column] = values[0] if len(values) == 1 else values
    files = [_file_name(source.clean(cell)) for cell in record.all("attachment")]
    return custom | ({"attachments": files} if files else {})


def _file_name(cell: str) -> str:
    """The name in ``date;author;file name;address``; the name itself may hold semicolons."""
    rest = cell.split(";", 2)[-1]
    return rest.rpartition(";")[0] or rest
