from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tickets.importers import (
    FileError,
    FileNote,
    RawLink,
    RawTicket,
    ReadOptions,
    Row,
    RowError,
    detect,
    read,
)

EXPORT = Path(__file__).parent.parent / "data" / "imports" / "jira_export.csv"


@pytest.fixture(scope="module")
def export() -> list[Row]:
    assert detect(EXPORT) == "jira-csv"
    return list(read(EXPORT, options=ReadOptions(timezone="America/Vancouver")))


@pytest.fixture(scope="module")
def first(export: list[Row]) -> RawTicket:
    assert isinstance(export[0], RawTicket)
    return export[0]


def rows(tmp_path: Path, text: str) -> list[Row]:
    path = tmp_path / "export.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return list(read(path))


def only(found: list[Row]) -> RawTicket:
    ticket = found[0]
    assert isinstance(ticket, RawTicket), ticket
    return ticket


def test_read_every_value_of_a_repeated_heading(first: RawTicket) -> None:
    assert first.labels == ("a", "b", "c", "d")
    assert len(first.comments) == 6
    assert first.custom == {
        "Sprint": ["S1", "S2"],
        "Colour": "red",
        "attachments": ["log;old.txt"],
    }


def test_read_comments_at_the_first_two_semicolons(first: RawTicket) -> None:
    assert [(c.author.name, c.role, c.body) for c in first.comments] == [
        ("bob", "agent", "first; with; semicolons"),
        ("ann", "customer", "second"),
        ("bob", "agent", "third"),
        ("bob", "agent", "fourth"),
        ("bob", "agent", "fifth"),
        ("", "agent", "sixth, without a head"),
    ]


def test_read_dates_in_the_given_zone(first: RawTicket, export: list[Row]) -> None:
    zone = ZoneInfo("America/Vancouver")
    assert first.created_at == datetime(2017, 6, 1, tzinfo=zone)
    assert first.created_at.astimezone(zone).date().isoformat() == "2017-06-01"
    assert first.updated_at == datetime(2017, 6, 2, 16, 38, tzinfo=zone)
    assert any("America/Vancouver" in str(row) for row in export if isinstance(row, FileNote))


def test_read_text_and_states(first: RawTicket) -> None:
    assert first.summary == "Basket, empty"
    assert first.description == "h3. Steps\n# add three items\n# reload"
    assert first.description_format == "wiki"
    assert (first.status_category, first.resolution_category) == ("closed", "wontfix")
    assert first.external_id == "10002"


def test_read_links_by_type_and_direction(first: RawTicket) -> None:
    assert first.links == (
        RawLink("BLOCKS", "SHOP-1", "SHOP-2", "Blocks"),
        RawLink("DUPLICATE_OF", "SHOP-2", "SHOP-1", "Duplicate"),
        # The parent is named by its internal id and stands further down in the file.
        RawLink("PARENT_OF", "SHOP-1", "SHOP-2", "parent"),
        RawLink("PARENT_OF", "SHOP-9", "SHOP-2", "epic"),
        RawLink("RELATES_TO", "OPS-7", "SHOP-2", "Relates"),
        RawLink("RELATES_TO", "SHOP-1", "SHOP-2", "Relates"),
        RawLink("RELATES_TO", "SHOP-1", "SHOP-2", "WBSGantt"),
    )


def test_read_goes_on_after_a_ragged_row(export: list[Row]) -> None:
    error, after = export[1], export[2]
    assert isinstance(error, RowError)
    # The first record holds two line ends, so the second begins on line 5.
    assert error.line == 5
    assert "2 cells where the heading has 36" in str(error)
    assert isinstance(after, RawTicket)
    assert (after.key, after.line, after.status_category) == ("SHOP-1", 6, "open")


@pytest.mark.parametrize(
    ("name", "outward", "inward"),
    [
        ("Cloners", ("CLONE_OF", "A-1", "B-1"), ("CLONE_OF", "B-1", "A-1")),
        ("Problem/Incident", ("CAUSED_BY", "B-1", "A-1"), ("CAUSED_BY", "A-1", "B-1")),
        ("Depends", ("BLOCKS", "B-1", "A-1"), ("BLOCKS", "A-1", "B-1")),
        ("Includes", ("PARENT_OF", "A-1", "B-1"), ("PARENT_OF", "B-1", "A-1")),
        ("Issue split", ("SPLIT_FROM", "B-1", "A-1"), ("SPLIT_FROM", "A-1", "B-1")),
        # No name of a type that is known, but a wording that is.
        ("Is caused by", ("CAUSED_BY", "A-1", "B-1"), ("CAUSED_BY", "B-1", "A-1")),
        ("Defect", ("RELATES_TO", "A-1", "B-1"), ("RELATES_TO", "A-1", "B-1")),
    ],
)
def test_read_link_columns(
    tmp_path: Path, name: str, outward: tuple[str, str, str], inward: tuple[str, str, str]
) -> None:
    for column, expected in (("Outward", outward), ("Inward", inward)):
        text = f"Issue key,Summary,{column} issue link ({name})\nA-1,s,B-1\n"
        assert only(rows(tmp_path, text)).links == (RawLink(*expected, label=name),)


def test_read_says_when_a_parent_is_outside_the_file(tmp_path: Path) -> None:
    ticket, note = rows(tmp_path, "Issue key,Issue id,Summary,Parent id\nA-1,1,s,77\n")
    assert isinstance(ticket, RawTicket)
    assert ticket.links == ()
    assert "'77'" in str(note)
    # Where Jira gives the key as well, nothing is lost.
    text = "Issue key,Issue id,Summary,Parent,Parent key\nA-1,1,s,77,A-9\n"
    assert only(rows(tmp_path, text)).links == (RawLink("PARENT_OF", "A-9", "A-1", "parent"),)


def test_read_leaves_out_what_changes_with_every_export(tmp_path: Path) -> None:
    head = "Issue key,Summary,Last Viewed,Votes,Watchers\n"
    before, after = (
        only(rows(tmp_path, f"{head}A-1,s,{seen}\n"))
        for seen in ("01/Jun/17 1:00 AM,1,ann", "02/Jun/17 1:00 AM,2,bob")
    )
    assert before.to_json() == after.to_json()


def test_read_takes_comments_of_service_projects_for_internal(tmp_path: Path) -> None:
    head = "Issue key,Summary,Project type,Comment\n"
    for kind, public in (("service_desk", False), ("software", True)):
        ticket = only(rows(tmp_path, f"{head}A-1,s,{kind},01/Jun/17 1:00 AM;ann;b\n"))
        assert [c.public for c in ticket.comments] == [public]


def test_read_notes_an_export_that_is_cut_off(tmp_path: Path) -> None:
    def text(count: int) -> str:
        return "Issue key,Summary\n" + "".join(f"A-{n},s\n" for n in range(count))

    assert "truncated" in str(rows(tmp_path, text(1000))[-1])
    assert isinstance(rows(tmp_path, text(999))[-1], RawTicket)


def test_read_refuses_a_row_without_key_and_goes_on(tmp_path: Path) -> None:
    error, ticket = rows(tmp_path, "Issue key,Summary\n,s\nA-1,t\n")
    assert isinstance(error, RowError)
    assert (error.line, error.column) == (2, "Issue key")
    assert isinstance(ticket, RawTicket)


def test_read_refuses_a_table_without_keys(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("Summary,Status\na,b\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"export\.csv: no column 'Issue key'.*Summary, Status"):
        list(read(path, "jira-csv"))
