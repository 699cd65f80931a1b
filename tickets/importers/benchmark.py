"""The common shape of the benchmarks: JSON Lines, one ticket a line.

Keys that are always there: id, project, type, summary, description, comments,
links, status, created. What is not one of ours is kept in ``custom``.
Must never happen: more than one line of the file in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tickets.importers import links, states
from tickets.importers.glance import Glance, json_lines
from tickets.importers.raw import PersonRef, RawComment, RawLink, RawTicket, RowError, TextFormat
from tickets.importers.source import BadRowError, Row, Source

# Only an excerpt of a Jira has this key, and Jira's texts are wiki markup.
_JIRA_ONLY = "affects_versions"
_OURS = frozenset(
    (
        *("id", "project", "type", "summary", "description", "environment", "priority", "labels"),
        *("components", "affects_versions", "fix_versions", "created", "updated", "resolved"),
        *("reporter", "assignee", "status", "resolution", "parent", "subtasks", "epic", "comments"),
        *("links", "attachments", "deleted"),
    )
)


def sniff(glance: Glance) -> bool:
    """Whether the first record is a ticket of this shape."""
    first = glance.first
    return isinstance(first, dict) and {"summary", "description"} <= first.keys()


def read(source: Source) -> Iterator[Row]:
    """Every line of the file; one that cannot be read becomes a RowError."""
    for number, record in json_lines(source):
        if isinstance(record, RowError):
            yield record
        elif not isinstance(record, dict):
            yield RowError(number, "", "the line is not a JSON object")
        else:
            yield source.row(number, record.get("id"), partial(_ticket, source, record))


def _ticket(source: Source, record: dict[str, Any]) -> RawTicket:
    def text(column: str) -> str:
        return source.text(record.get(column), column)

    key, status, resolution = text("id").strip(), text("status"), text("resolution")
    markup: TextFormat = "wiki" if _JIRA_ONLY in record else "plain"
    return source.ticket(
        key,
        text("project"),
        _links(source, key, record),
        summary=text("summary").strip(),
        description=text("description"),
        description_format=markup,
        type=text("type"),
        environment=text("environment"),
        status=status,
        status_category=states.status_category(status, resolution),
        resolution=resolution,
        resolution_category=states.resolution_category(resolution),
        priority=text("priority"),
        labels=source.words(record.get("labels"), "labels"),
        components=source.words(record.get("components"), "components"),
        affects_versions=source.words(record.get("affects_versions"), "affects_versions"),
        fix_versions=source.words(record.get("fix_versions"), "fix_versions"),
        reporter=PersonRef(name=text("reporter")),
        assignee=PersonRef(name=text("assignee")),
        created_at=source.time(record.get("created"), "created", must=True),
        updated_at=source.time(record.get("updated"), "updated"),
        resolved_at=source.time(record.get("resolved"), "resolved"),
        comments=tuple(
            _comment(source, each, text("reporter"), markup)
            for each in _objects(record, "comments")
        ),
        custom=_custom(source, record),
        deleted=status.casefold() == "deleted" or record.get("deleted") is True,
    )


def _comment(
    source: Source, record: dict[str, Any], reporter: str, markup: TextFormat
) -> RawComment:
    author = source.text(record.get("author"), "comments.author")
    by_reporter = record.get("by_reporter", bool(author) and author == reporter)
    return RawComment(
        body=source.text(record.get("body"), "comments.body"),
        author=PersonRef(name=author),
        role="customer" if by_reporter else "agent",
        created_at=source.time(record.get("created"), "comments.created"),
        external_id=source.text(record.get("id"), "comments.id"),
        public=record.get("public") is not False,
        body_format=markup,
        accepted=record.get("is_solution") is True,
    )


def _links(source: Source, key: str, record: dict[str, Any]) -> Iterator[RawLink | None]:
    for each in _objects(record, "links"):
        target = source.text(each.get("target"), "links.target").strip()
        name = source.text(each.get("type"), "links.type")
        wording = source.text(each.get("label"), "links.label")
        yield links.link(key, wording or name, target, name)
    for child in source.words(record.get("subtasks"), "subtasks"):
        yield links.parent(child, key)
    for label in ("parent", "epic"):
        for above in source.words(record.get(label), label):
            yield links.parent(key, above, label)


def _custom(source: Source, record: dict[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in record.items() if k not in _OURS and v not in (None, "", [], {}, 0)}
    custom: dict[str, Any] = source.json(rest)
    names = [source.text(a.get("filename"), "attachments") for a in _objects(record, "attachments")]
    return custom | ({"attachments": names} if names else {})


def _objects(record: dict[str, Any], column: str) -> list[dict[str, Any]]:
    values = record.get(column) or []
    if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
        raise BadRowError(column, "not a list of objects")
    return values
