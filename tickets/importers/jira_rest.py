"""Jira's REST API, version 2: an issue, a search page, an array, or lines of those.

Promises the direction of a link from its wording, and true line numbers even
inside a page. Version 3 (texts as objects, "ADF") is refused row by row.
Must never happen: an internal comment that comes out as public.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from tickets.importers import links, states
from tickets.importers.glance import Glance, json_lines
from tickets.importers.raw import (
    FileError,
    PersonRef,
    RawComment,
    RawLink,
    RawTicket,
    Role,
    RowError,
)
from tickets.importers.source import BadRowError, Row, Source

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_PAGE = re.compile(r'"issues"\s*:\s*\[')


def sniff(glance: Glance) -> bool:
    """Whether the file begins like an issue or a page of them."""
    first = glance.first[0] if isinstance(glance.first, list) and glance.first else glance.first
    if isinstance(first, dict):
        return "issues" in first or {"key", "fields"} <= first.keys()
    one = all(f'"{name}"' in glance.text for name in ("key", "fields", "summary"))
    return first is None and (one or _PAGE.search(glance.text) is not None)


def read(source: Source) -> Iterator[Row]:
    """Every issue of the file. Raises FileError when a page is not JSON."""
    for line, issue, names in _issues(source):
        if isinstance(issue, RowError):
            yield issue
        elif not isinstance(issue, dict) or not isinstance(issue.get("fields"), dict):
            yield RowError(line, "fields", "not an issue: it has no fields")
        else:
            yield source.row(line, issue.get("key"), partial(_ticket, source, issue, names))


def _issues(source: Source) -> Iterator[tuple[int, Any, dict[str, str]]]:
    """(line, issue or RowError, names of the custom fields)."""
    with source.open(newline="\n") as file:
        first = next((line for line in file if line.strip()), "").strip()
    if first.endswith(("}", "]")):  # a whole value on a line: read line by line
        for line, value in json_lines(source):
            issues = value.get("issues", [value]) if isinstance(value, dict) else value
            for issue in issues if isinstance(issues, list) else [issues]:
                yield line, issue, _names(source, value)
        return
    with source.open(newline="\n") as file:
        text = file.read()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:  # "...: line 3 column 7 (char 40)"
        raise FileError(f"{source.path.name}: not JSON: {error}") from None
    names = _names(source, document)
    del document  # the issues are read again, one at a time, for the sake of their lines
    line, counted = 1, 0
    for at, issue in _positions(text):
        line += text.count("\n", counted, at)
        counted = at
        yield line, issue, names


def _positions(text: str) -> Iterator[tuple[int, Any]]:
    """(offset, issue) for a text that is known to be JSON."""
    at = _skip(text, 0)
    if text[at] != "[":
        found = _find_issues(text, at) if text[at] == "{" else None
        if found is None:
            yield at, _DECODER.raw_decode(text, at)[0]
            return
        at = found
    at = _skip(text, at + 1)
    while text[at] != "]":
        issue, end = _DECODER.raw_decode(text, at)
        yield at, issue
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _find_issues(text: str, at: int) -> int | None:
    """Where the array below "issues" opens, in the object that opens at ``at``."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if name == "issues" and text[at] == "[":
            return at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
    return None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _names(source: Source, page: Any) -> dict[str, str]:
    if not isinstance(page, dict) or not isinstance(page.get("issues"), list):
        return {}
    total, start = page.get("total"), page.get("startAt")
    held = len(page["issues"]) + (start if isinstance(start, int) else 0)
    if page.get("isLast") is False or (isinstance(total, int) and total > held):
        source.note("a search page is not the last one: there are more issues than it holds")
    names = page.get("names")
    return names if isinstance(names, dict) else {}


def _ticket(source: Source, issue: dict[str, Any], names: dict[str, str]) -> RawTicket:
    fields: dict[str, Any] = issue["fields"]
    key = source.text(issue.get("key"), "key").strip()
    status, resolution = _name(source, fields, "status"), _name(source, fields, "resolution")
    stage = _object(_object(fields.get("status")).get("statusCategory")).get("key")
    comments = _object(fields.get("comment"))
    written = _objects(comments.get("comments"))
    if isinstance(comments.get("total"), int) and comments["total"] > len(written):
        source.note("an issue has more comments than the file holds", key)
    custom, epic = _custom(source, fields, names)
    return source.ticket(
        key,
        source.text(_object(fields.get("project")).get("key"), "project"),
        _links(source, key, fields, epic),
        external_id=source.text(issue.get("id"), "id"),
        summary=_text(source, fields, "summary").strip(),
        description=_text(source, fields, "description"),
        description_format="wiki",
        type=_name(source, fields, "issuetype"),
        environment=_text(source, fields, "environment"),
        status=status,
        status_category=states.status_category(status, resolution, stage and stage == "done"),
        resolution=resolution,
        resolution_category=states.resolution_category(resolution),
        priority=_name(source, fields, "priority"),
        labels=source.words(fields.get("labels"), "labels"),
        components=_name_list(source, fields, "components"),
        affects_versions=_name_list(source, fields, "versions"),
        fix_versions=_name_list(source, fields, "fixVersions"),
        reporter=PersonRef(name=_shown(source, fields.get("reporter"))),
        assignee=PersonRef(name=_shown(source, fields.get("assignee"))),
        created_at=source.time(fields.get("created"), "created", must=True),
        updated_at=source.time(fields.get("updated"), "updated"),
        resolved_at=source.time(fields.get("resolutiondate"), "resolutiondate"),
        comments=tuple(_comment(source, each, fields.get("reporter")) for each in written),
        custom=custom,
        deleted=status.casefold() == "deleted",
    )


def _comment(source: Source, comment: dict[str, Any], reporter: Any) -> RawComment:
    author = comment.get("author")
    return RawComment(
        body=_text(source, comment, "body"),
        author=PersonRef(name=_shown(source, author)),
        role=_role(author, reporter),
        created_at=source.time(comment.get("created"), "comment.created"),
        external_id=source.text(comment.get("id"), "comment.id"),
        public=comment.get("jsdPublic") is not False and not comment.get("visibility"),
        body_format="wiki",
    )


def _links(source: Source, key: str, fields: dict[str, Any], epic: str) -> Iterator[RawLink | None]:
    for each in _objects(fields.get("issuelinks")):
        kind = _object(each.get("type"))
        for end in ("inward", "outward"):
            other = source.text(_object(each.get(f"{end}Issue")).get("key"), "issuelinks").strip()
            if other:
                name = source.text(kind.get("name"), "issuelinks")
                wording = source.text(kind.get(end), "issuelinks")
                yield links.link(key, wording or name, other, name)
    for child in _objects(fields.get("subtasks")):
        yield links.parent(source.text(child.get("key"), "subtasks"), key)
    parent = source.text(_object(fields.get("parent")).get("key"), "parent")
    if parent:
        yield links.parent(key, parent)
    epic = source.text(_object(fields.get("epic")).get("key"), "epic") or epic
    if epic and epic != parent:
        yield links.parent(key, epic, "epic")


def _custom(
    source: Source, fields: dict[str, Any], names: dict[str, str]
) -> tuple[dict[str, Any], str]:
    """The fields we have no place for, and the key of the epic if one of them has it."""
    custom: dict[str, Any] = {}
    for field, value in fields.items():
        known = field.startswith("customfield_") or field in ("security", "duedate")
        if known and value not in (None, "", [], {}):
            custom[str(names.get(field, field))] = source.json(_short(value))
    files = _objects(fields.get("attachment"))
    if files:
        custom["attachments"] = [source.text(f.get("filename"), "attachment") for f in files]
    epic = custom.pop("Epic Link", "")
    return custom, epic if isinstance(epic, str) else ""


def _short(value: Any) -> Any:
    """An option, user or version as its name; anything else as it is."""
    if isinstance(value, list):
        return [_short(each) for each in value]
    if isinstance(value, dict):
        texts = (value.get(name) for name in ("value", "name", "displayName", "key"))
        return next((text for text in texts if isinstance(text, str)), value)
    return value


def _text(source: Source, fields: dict[str, Any], column: str) -> str:
    value = fields.get(column)
    if isinstance(value, dict) and value.get("type") == "doc":
        raise BadRowError(
            column, "REST v3 text (ADF) is not supported yet; export with /rest/api/2"
        )
    return source.text(value, column)


def _name(source: Source, fields: dict[str, Any], column: str) -> str:
    return source.text(_object(fields.get(column)).get("name"), column)


def _name_list(source: Source, fields: dict[str, Any], column: str) -> tuple[str, ...]:
    return source.words([each.get("name") for each in _objects(fields.get(column))], column)


def _shown(source: Source, user: Any) -> str:
    user = _object(user)
    return source.text(user.get("name") or user.get("displayName") or user.get("accountId"), "user")


def _role(author: Any, reporter: Any) -> Role:
    kind = _object(author).get("accountType")
    if kind == "app":
        return "system"
    who = _identity(author)
    return "customer" if kind == "customer" or (who and who == _identity(reporter)) else "agent"


def _identity(user: Any) -> str:
    user = _object(user)
    return str(user.get("accountId") or user.get("key") or user.get("name") or "")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
