from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tickets.importers import FileNote, RawLink, RawTicket, ReadOptions, Row, RowError, read

JIRA: dict[str, Any] = {
    "id": "SHOP-1",
    "project": "SHOP",
    "type": "Bug",
    "summary": " The basket ",
    "description": "h3. Steps\r\n# add",
    "environment": None,
    "priority": None,
    "components": ["Basket"],
    "labels": ["x", "x", ""],
    "affects_versions": ["2.1"],
    "fix_versions": [],
    "created": "2013-02-13T20:21:36.000+0100",
    "updated": "2013-02-14T20:21:36.000+0000",
    "resolved": None,
    "reporter": "ann",
    "assignee": None,
    "status": "Closed",
    "resolution": "Won't Fix",
    "parent": "SHOP-8",
    "subtasks": ["SHOP-3"],
    "epic": "SHOP-9",
    "comments": [
        {"author": "ann", "created": "2013-02-13T21:00:00.000+0000", "body": "more"},
        {"author": None, "created": "2013-02-13T22:00:00.000+0000", "body": ""},
    ],
    "comments_cut": 3,
    "links": [
        {"type": "Duplicate", "direction": "outward", "label": "duplicates", "target": "SHOP-2"},
        {"type": "Depends", "direction": "inward", "label": "is dependent of", "target": "OPS-1"},
        {"type": "Relates", "direction": "outward", "label": "relates to", "target": "OPS-7"},
        {"type": "Relates", "direction": "inward", "label": "relates to", "target": "OPS-7"},
        {"type": "Relates", "direction": "inward", "label": "relates to", "target": "SHOP-1"},
        {"type": "Not", "direction": "inward", "label": "has nothing to", "target": "SHOP-4"},
        {"type": "Gantt", "direction": "outward", "label": "is triggering", "target": "OPS-2"},
    ],
    "attachments": [{"filename": "a.zip", "mime": "application/zip", "size": 8}],
}
FORUM: dict[str, Any] = {
    "id": "TBQ-1",
    "project": "thunderbird",
    "type": "Question",
    "summary": "Mail is gone",
    "description": "All of it",
    "topic": "mail",
    "labels": ["lost"],
    "created": "2023-01-01 10:33:28 +0000",
    "reporter": "u1",
    "status": "solved",
    "comments": [
        {"id": "7", "author": "u1", "by_reporter": True, "body": "help", "is_solution": False},
        {"id": "8", "author": "u2", "by_reporter": False, "body": "do this", "is_solution": True},
    ],
    "links": [],
}


def rows(tmp_path: Path, records: Iterable[Any], **options: Any) -> list[Row]:
    path = tmp_path / "tickets.jsonl"
    lines = (r if isinstance(r, str) else json.dumps(r) for r in records)
    path.write_text("\n".join(lines), encoding="utf-8")
    return list(read(path, "benchmark", ReadOptions(**options)))


def one(tmp_path: Path, record: dict[str, Any], **options: Any) -> RawTicket:
    ticket = rows(tmp_path, [record], **options)[0]
    assert isinstance(ticket, RawTicket), ticket
    return ticket


def test_read_jira_excerpt(tmp_path: Path) -> None:
    ticket = one(tmp_path, JIRA)
    assert (ticket.key, ticket.project, ticket.type) == ("SHOP-1", "SHOP", "Bug")
    assert ticket.summary == "The basket"
    assert ticket.description == "h3. Steps\r\n# add"
    assert ticket.description_format == "wiki"
    assert (ticket.environment, ticket.priority, ticket.assignee.name) == ("", "", "")
    assert ticket.labels == ("x",)
    assert ticket.components == ("Basket",)
    assert ticket.created_at == datetime(2013, 2, 13, 19, 21, 36, tzinfo=UTC)
    assert ticket.resolved_at is None
    assert (ticket.status_category, ticket.resolution_category) == ("closed", "wontfix")
    assert [(c.role, c.author.name, c.body_format) for c in ticket.comments] == [
        ("customer", "ann", "wiki"),
        ("agent", "", "wiki"),
    ]
    assert ticket.custom == {"comments_cut": 3, "attachments": ["a.zip"]}
    assert ticket.line == 1
    assert RawTicket.from_json(json.loads(json.dumps(ticket.to_json()))).to_json() == (
        ticket.to_json()
    )


def test_read_links_in_canonical_direction(tmp_path: Path) -> None:
    assert one(tmp_path, JIRA).links == (
        RawLink("BLOCKS", "SHOP-1", "OPS-1", "Depends"),
        RawLink("DUPLICATE_OF", "SHOP-1", "SHOP-2", "Duplicate"),
        RawLink("PARENT_OF", "SHOP-1", "SHOP-3", "parent"),
        RawLink("PARENT_OF", "SHOP-8", "SHOP-1", "parent"),
        RawLink("PARENT_OF", "SHOP-9", "SHOP-1", "epic"),
        RawLink("RELATES_TO", "OPS-2", "SHOP-1", "Gantt"),
        RawLink("RELATES_TO", "OPS-7", "SHOP-1", "Relates"),
    )


def test_read_notes_a_link_to_itself(tmp_path: Path) -> None:
    notes = [row for row in rows(tmp_path, [JIRA]) if isinstance(row, FileNote)]
    assert [(n.count, n.line, n.example) for n in notes] == [(1, 1, "SHOP-1")]
    assert "itself" in notes[0].message


def test_read_gives_equal_links_from_both_ends(tmp_path: Path) -> None:
    ends = [
        ("duplicates", "is duplicated by"),
        ("depends on", "is dependent of"),
        ("is cloned from", "is cloned into"),
        ("includes", "is included by"),
        ("is triggering", "is triggered by"),
    ]
    for outward, inward in ends:
        near, far = (
            {**FORUM, "id": own, "links": [{"type": "T", "label": label, "target": other}]}
            for own, label, other in (("B-1", outward, "A-1"), ("A-1", inward, "B-1"))
        )
        first, second = (r for r in rows(tmp_path, [near, far]) if isinstance(r, RawTicket))
        assert first.links == second.links
        assert len(first.links) == 1


def test_read_forum_question(tmp_path: Path) -> None:
    ticket = one(tmp_path, FORUM)
    assert ticket.description_format == "plain"
    assert [(c.external_id, c.role, c.accepted) for c in ticket.comments] == [
        ("7", "customer", False),
        ("8", "agent", True),
    ]
    assert ticket.status_category == "solved"
    assert ticket.created_at == datetime(2023, 1, 1, 10, 33, 28, tzinfo=UTC)
    assert ticket.custom == {"topic": "mail"}


def test_read_goes_on_after_bad_lines(tmp_path: Path) -> None:
    bad = [
        "{not json",
        "[1]",
        "",
        {**FORUM, "id": None},
        {**FORUM, "id": "k" * 256},
        {**FORUM, "id": "a\tb"},
        {**FORUM, "description": ["x"]},
        {**FORUM, "comments": "none"},
        {**FORUM, "created": "yesterday"},
        "[" * 100_000,
        '{"id": "X-1", "summary": "", "description": "", "deep": ' + "[" * 50 + "]" * 50 + "}",
    ]
    found = rows(tmp_path, [*bad, FORUM])
    errors = [row for row in found if isinstance(row, RowError)]
    assert [(e.line, e.column) for e in errors] == [
        *((1, ""), (2, ""), (4, "key"), (5, "key"), (6, "key"), (7, "description")),
        *((8, "comments"), (9, "created"), (10, ""), (11, "")),
    ]
    assert errors[6].key == "TBQ-1"
    assert "yesterday" in str(errors[7])
    assert [row.key for row in found if isinstance(row, RawTicket)] == ["TBQ-1"]


def test_read_keeps_a_ticket_whose_other_dates_are_bad(tmp_path: Path) -> None:
    ticket, note = rows(tmp_path, [{**FORUM, "updated": "32.13.2020"}])
    assert isinstance(ticket, RawTicket)
    assert ticket.updated_at is None
    assert "column updated" in str(note)
    assert "32.13.2020" in str(note)


def test_read_replaces_what_postgresql_cannot_store(tmp_path: Path) -> None:
    odd = "a\x00b\ud800c\U0001f600"
    ticket, note = rows(tmp_path, [{**FORUM, "summary": odd, "topic": {"a\x00": [odd]}}])
    assert isinstance(ticket, RawTicket)
    assert ticket.summary == "a\ufffdb\ufffdc\U0001f600"
    assert ticket.custom["topic"] == {"a\ufffd": ["a\ufffdb\ufffdc\U0001f600"]}
    assert isinstance(note, FileNote)
    assert note.count == 5


def test_read_keeps_numbers_that_json_cannot_hold_as_text(tmp_path: Path) -> None:
    line = json.dumps(FORUM)[:-1] + ', "a": NaN, "b": 1e999, "c": 1.5}'
    ticket = rows(tmp_path, [line])[0]
    assert isinstance(ticket, RawTicket)
    assert ticket.custom == {"topic": "mail", "a": "nan", "b": "inf", "c": 1.5}


def test_read_marks_deleted_tickets_and_goes_on(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        [{"id": "A-1", "status": "deleted"}, {"id": "A-2", "deleted": True}, {**FORUM}],
    )
    assert [row.deleted for row in found if isinstance(row, RawTicket)] == [True, True, False]


def test_read_puts_tickets_in_a_project(tmp_path: Path) -> None:
    bare = {**FORUM, "project": None}
    assert one(tmp_path, bare).project == "TBQ"
    assert one(tmp_path, FORUM, project="help").project == "help"
    error = rows(tmp_path, [{**bare, "id": "17"}])[0]
    assert isinstance(error, RowError)
    assert error.column == "project"


def test_read_yields_a_key_that_comes_twice_both_times(tmp_path: Path) -> None:
    found = rows(tmp_path, [FORUM, {**FORUM, "summary": "later"}])
    assert [r.summary for r in found if isinstance(r, RawTicket)] == ["Mail is gone", "later"]


def test_read_streams(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(2000):
            big = {**FORUM, "id": f"A-{number}", "description": "x" * 10_000}
            file.write(json.dumps(big) + "\n")
    seen: list[int] = []
    tracemalloc.start()
    count = sum(isinstance(row, RawTicket) for row in read(path, on_progress=seen.append))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2000
    assert peak < 5_000_000 < path.stat().st_size
    assert seen == sorted(seen)
    assert seen[0] < path.stat().st_size == seen[-1]


def test_read_takes_a_description_of_20_megabytes(tmp_path: Path) -> None:
    assert len(one(tmp_path, {**FORUM, "description": "wörter " * 3_000_000}).description) == (
        21_000_000
    )
