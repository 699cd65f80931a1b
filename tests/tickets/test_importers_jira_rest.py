from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tickets.importers import FileError, FileNote, RawLink, RawTicket, Row, RowError, detect, read

PAGE = Path(__file__).parent.parent / "data" / "imports" / "jira_search_page.json"
ISSUE: dict[str, Any] = {
    "id": "1",
    "key": "SHOP-1",
    "fields": {"summary": "s", "project": {"key": "SHOP"}, "comment": {"comments": []}},
}


def rows(tmp_path: Path, text: str) -> list[Row]:
    path = tmp_path / "issues.json"
    path.write_text(text, encoding="utf-8")
    assert detect(path) == "jira-rest"
    return list(read(path))


def with_fields(**fields: Any) -> dict[str, Any]:
    return {**ISSUE, "fields": {**ISSUE["fields"], **fields}}


@pytest.fixture(scope="module")
def page() -> list[Row]:
    return list(read(PAGE))


@pytest.fixture(scope="module")
def first(page: list[Row]) -> RawTicket:
    assert isinstance(page[0], RawTicket)
    return page[0]


def test_read_fields(first: RawTicket) -> None:
    assert (first.key, first.external_id, first.project) == ("SHOP-1", "10001", "SHOP")
    assert (first.type, first.priority, first.environment) == ("Bug", "High", "Firefox 120")
    assert (first.status, first.status_category) == ("Waiting for customer", "pending")
    assert (first.resolution, first.resolution_category) == ("", "")
    assert first.description_format == "wiki"
    assert first.description.startswith("h3. Steps to Reproduce\r\n")
    assert first.labels == ("basket", "regression")
    assert (first.components, first.affects_versions, first.fix_versions) == (
        ("Basket",),
        ("2.1",),
        (),
    )
    assert (str(first.reporter), str(first.assignee)) == ("ann", "")
    assert first.created_at == datetime(2013, 2, 13, 20, 21, 36, tzinfo=UTC)
    assert first.updated_at == datetime(2013, 2, 14, 20, 21, 36, tzinfo=UTC)


def test_read_comments_with_role_and_visibility(first: RawTicket) -> None:
    assert [(c.external_id, str(c.author), c.role, c.public) for c in first.comments] == [
        ("1", "ann", "customer", True),
        ("2", "bob", "agent", False),
        ("3", "bob", "agent", False),
    ]


def test_read_links_by_their_wording(first: RawTicket) -> None:
    assert first.links == (
        RawLink("DUPLICATE_OF", "SHOP-1", "SHOP-2", "Duplicate"),
        RawLink("PARENT_OF", "SHOP-1", "SHOP-3", "parent"),
        RawLink("PARENT_OF", "SHOP-9", "SHOP-1", "epic"),
        RawLink("RELATES_TO", "OPS-7", "SHOP-1", "Relates"),
        RawLink("RELATES_TO", "SHOP-1", "SHOP-2", "WBSGantt"),
    )


def test_read_gives_equal_links_from_both_ends(page: list[Row], first: RawTicket) -> None:
    second = page[1]
    assert isinstance(second, RawTicket)
    assert set(second.links) & set(first.links) == {
        link for link in first.links if "SHOP-2" in (link.from_key, link.to_key)
    }


def test_read_custom_fields_by_name(first: RawTicket) -> None:
    assert first.custom == {"Colours": ["red", "blue"], "attachments": ["basket.png"]}


def test_read_lines_of_issues_in_a_page(page: list[Row]) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    tickets = [row for row in page if isinstance(row, RawTicket)]
    assert len(tickets) == 2
    for ticket in tickets:
        assert lines[ticket.line - 1].strip() == "{"
        assert ticket.key in lines[ticket.line + 1]


def test_read_notes_what_the_page_leaves_out(page: list[Row]) -> None:
    notes = [str(row) for row in page if isinstance(row, FileNote)]
    assert any("more issues" in note for note in notes)
    assert any("more comments" in note and "SHOP-1" in note for note in notes)
    assert any("itself" in note for note in notes)


def test_read_a_closed_issue(page: list[Row]) -> None:
    second = page[1]
    assert isinstance(second, RawTicket)
    assert (second.status_category, second.resolution_category) == ("closed", "wontfix")
    assert (second.description, str(second.reporter)) == ("", "")


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("shape", ["issue", "page", "array"])
def test_read_every_shape(tmp_path: Path, shape: str, indent: int | None) -> None:
    document = {"issue": ISSUE, "page": {"total": 1, "issues": [ISSUE]}, "array": [ISSUE]}[shape]
    found = rows(tmp_path, json.dumps(document, indent=indent))
    assert [row.key for row in found if isinstance(row, RawTicket)] == ["SHOP-1"]
    assert len(found) == 1


def test_read_lines_goes_on_after_a_bad_one(tmp_path: Path) -> None:
    lines = [json.dumps(ISSUE), '{"key": "SHOP-2", ', '{"key": "SHOP-3"}', json.dumps(ISSUE)]
    found = rows(tmp_path, "\n".join(lines))
    assert [type(row) for row in found] == [RawTicket, RowError, RowError, RawTicket]
    assert [row.line for row in found if isinstance(row, RowError)] == [2, 3]


def test_read_refuses_adf_text_by_row(tmp_path: Path) -> None:
    adf = {"type": "doc", "version": 1, "content": []}
    bad = with_fields(description=adf)
    worse = with_fields(comment={"comments": [{"id": "1", "body": adf}]})
    found = rows(tmp_path, "\n".join(json.dumps(i) for i in (bad, worse, ISSUE)))
    assert [type(row) for row in found] == [RowError, RowError, RawTicket]
    assert all("ADF" in str(row) and "not supported yet" in str(row) for row in found[:2])
    assert [row.column for row in found if isinstance(row, RowError)] == ["description", "body"]


def test_read_tells_people_by_account_on_cloud(tmp_path: Path) -> None:
    ann = {"accountId": "1:a", "displayName": "Ann", "accountType": "atlassian"}
    namesake = {"accountId": "1:b", "displayName": "Ann", "accountType": "atlassian"}
    customer = {"accountId": "1:c", "displayName": "Cy", "accountType": "customer"}
    robot = {"accountId": "1:d", "displayName": "Robot", "accountType": "app"}
    comments = [{"author": who, "body": "b"} for who in (ann, namesake, customer, robot, None)]
    issue = with_fields(reporter=ann, comment={"comments": comments})
    ticket = rows(tmp_path, json.dumps(issue))[0]
    assert isinstance(ticket, RawTicket)
    assert [c.role for c in ticket.comments] == [
        *("customer", "agent", "customer", "system", "agent"),
    ]
    assert ticket.reporter.name == "Ann"


def test_read_survives_fields_of_the_wrong_shape(tmp_path: Path) -> None:
    odd = with_fields(status="Open", issuelinks={"a": 1}, components=[None, "x"], comment=[])
    ticket = rows(tmp_path, json.dumps(odd))[0]
    assert isinstance(ticket, RawTicket)
    assert (ticket.status, ticket.links, ticket.components, ticket.comments) == ("", (), (), ())


def test_read_refuses_a_broken_page_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "page.json"
    path.write_text('{\n "issues": [\n  {"key": "A-1",, }\n ]\n}', encoding="utf-8")
    with pytest.raises(FileError, match=r"page\.json: not JSON: .* line 3 column 17"):
        list(read(path))


def test_read_reports_progress_to_the_end_of_a_page(tmp_path: Path) -> None:
    path = tmp_path / "page.json"
    path.write_text(json.dumps([ISSUE], indent=1), encoding="utf-8")
    seen: list[int] = []
    list(read(path, on_progress=seen.append))
    assert seen == [path.stat().st_size]
