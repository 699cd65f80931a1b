from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tickets.importers import FileError, FileNote, RawTicket, ReadOptions, Row, RowError, read

HEAD = "id,summary\n"


def rows(tmp_path: Path, content: str | bytes, columns: dict[str, str] | None = None) -> list[Row]:
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read(path, "csv", ReadOptions(project="P", columns=columns or {}))
    return [row for row in found if not str(row).startswith(("there is no column", "columns kept"))]


def tickets(found: list[Row]) -> list[RawTicket]:
    return [row for row in found if isinstance(row, RawTicket)]


def test_read_usual_headings_without_mapping(tmp_path: Path) -> None:
    text = (
        "Ticket ID,Subject,Body,State,Tags,Tags,Requester,Created At,Channel\n"
        "17,Printer,It burns,Pending,a; b,c,ann,6/21/2025 16:14,galaxy\n"
    )
    ticket = tickets(rows(tmp_path, text))[0]
    assert (ticket.key, ticket.project, ticket.summary) == ("17", "P", "Printer")
    assert (ticket.description, ticket.description_format) == ("It burns", "plain")
    assert ticket.status_category == "pending"
    assert ticket.labels == ("a", "b", "c")
    assert ticket.reporter.name == "ann"
    assert ticket.created_at == datetime(2025, 6, 21, 16, 14, tzinfo=UTC)
    assert ticket.custom == {"Channel": "galaxy"}


def test_read_mapped_headings(tmp_path: Path) -> None:
    text = "Vorgang,Titel,Id\nA-1,Drucker,9\n"
    ticket = tickets(rows(tmp_path, text, {"key": "vorgang", "summary": "Titel"}))[0]
    assert (ticket.key, ticket.summary, ticket.custom) == ("A-1", "Drucker", {"Id": "9"})


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("Nr,Subject\n", {}, r"no column for 'key'; the headings are Nr, Subject\. .*key=Number"),
        (
            "id,status\n",
            {},
            "no column for 'summary' or 'description'; the headings are id, status",
        ),
        (HEAD, {"summary": "Titel"}, "no column 'Titel'; the headings are id, summary"),
        (HEAD, {"colour": "id"}, "no field 'colour'; there are key, project"),
    ],
)
def test_read_refuses_a_missing_column(
    tmp_path: Path, text: str, columns: dict[str, str], message: str
) -> None:
    with pytest.raises(FileError, match=rf"table\.csv: {message}"):
        rows(tmp_path, text + "1,a\n", columns)


def test_read_takes_the_first_line_of_the_description_for_a_summary(tmp_path: Path) -> None:
    ticket = tickets(rows(tmp_path, 'id,description\n1,"Printer burns\nsince noon"\n'))[0]
    assert ticket.summary == "Printer burns"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("start", ["", "\n", "sep={}\r\n", '"sep={}"\r\n'])
def test_read_any_delimiter(tmp_path: Path, delimiter: str, start: str) -> None:
    text = start.format(delimiter) + f'"id"{delimiter}"summary"\r\n1{delimiter}"a,;|b"\r\n'
    assert [(t.key, t.summary) for t in tickets(rows(tmp_path, text))] == [("1", "a,;|b")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_read_unicode_encodings(tmp_path: Path, encoding: str) -> None:
    found = rows(tmp_path, (HEAD + "1,Größe\n").encode(encoding))
    assert [(t.key, t.summary) for t in tickets(found)] == [("1", "Größe")]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Die Tür klemmt – bitte prüfen"),
        ("cp1251", "Принтер не печатает, помогите пожалуйста"),
        ("cp1250", "Drukarka nie działa, proszę o pomoc. Żółć gęślą jaźń"),
        ("cp932", "プリンターが動きません。助けてください"),
    ],
)
def test_read_guesses_an_old_encoding_and_says_so(tmp_path: Path, encoding: str, text: str) -> None:
    ticket, note = rows(tmp_path, f'{HEAD}1,"{text}"\n'.encode(encoding))
    assert isinstance(ticket, RawTicket)
    assert ticket.summary == text
    assert f"guessed {encoding}" in str(note)


def test_read_does_not_take_a_torn_character_for_another_encoding(tmp_path: Path) -> None:
    content = (HEAD + "1,Größe äöü éè\n2,").encode() + b"\xc3\n"
    first, second, note = rows(tmp_path, content)
    assert isinstance(first, RawTicket)
    assert first.summary == "Größe äöü éè"
    assert isinstance(second, RawTicket)
    assert second.summary == "\ufffd"
    assert isinstance(note, FileNote)


def test_read_replaces_nul_and_counts_it(tmp_path: Path) -> None:
    ticket, note = rows(tmp_path, HEAD + "1,a\0b\0\n")
    assert isinstance(ticket, RawTicket)
    assert ticket.summary == "a\ufffdb\ufffd"
    assert isinstance(note, FileNote)
    assert (note.count, note.line) == (2, 2)


def test_read_goes_on_after_bad_rows(tmp_path: Path) -> None:
    text = (
        'id,summary,created\n1,"two\nlines",\n\n2,x\n3,a,,b\n4,a,soon\n,a,\n5,fine,,,\n,,\n6,"open,\n'
        "7,a,\n"
    )
    found = rows(tmp_path, text)
    assert [t.key for t in tickets(found)] == ["1", "5"]
    errors = [row for row in found if isinstance(row, RowError)]
    assert [(e.line, e.column, e.key) for e in errors] == [
        (5, "", "2"),
        (6, "", "3"),
        (7, "created", "4"),
        (8, "id", ""),
        (11, "", ""),
    ]
    assert "never closed" in errors[-1].message


def test_read_takes_a_cell_of_20_megabytes(tmp_path: Path) -> None:
    found = rows(tmp_path, "id,summary,description\n1,s," + "x" * 20_000_000 + "\n2,t,\n")
    assert [len(t.description) for t in tickets(found)] == [20_000_000, 0]


def test_read_comments_from_a_json_array(tmp_path: Path) -> None:
    array = (
        '"[{""author"": ""ann"", ""created_at"": ""2025-01-01T00:00:00Z"", ""body"": ""hi""},'
        ' {""author"": ""bob"", ""public"": false, ""body"": ""psst""}]"'
    )
    ticket = tickets(rows(tmp_path, f"id,summary,reporter,comments\n1,s,ann,{array}\n"))[0]
    assert [(c.author.name, c.role, c.public, c.body) for c in ticket.comments] == [
        ("ann", "customer", True, "hi"),
        ("bob", "agent", False, "psst"),
    ]
    assert ticket.comments[0].created_at == datetime(2025, 1, 1, tzinfo=UTC)


def test_read_comments_as_text_or_refuses_a_broken_array(tmp_path: Path) -> None:
    text = 'id,summary,comment,comment\n1,s,one,two\n2,s,"[{broken",\n'
    ticket, error = rows(tmp_path, text)
    assert isinstance(ticket, RawTicket)
    assert [c.body for c in ticket.comments] == ["one", "two"]
    assert isinstance(error, RowError)
    assert (error.line, error.column) == (3, "comments")


def test_read_marks_deleted_rows(tmp_path: Path) -> None:
    text = "id,summary,status,deleted\n1,a,deleted,\n2,b,open,TRUE\n3,c,open,no\n"
    assert [t.deleted for t in tickets(rows(tmp_path, text))] == [True, True, False]


def test_read_says_how_dates_of_numbers_are_read(tmp_path: Path) -> None:
    found = rows(tmp_path, "id,summary,created\n1,a,6/7/2025\n2,b,7/8/2025\n")
    assert tickets(found)[0].created_at == datetime(2025, 6, 7, tzinfo=UTC)
    note = next(row for row in found if isinstance(row, FileNote) and "month" in row.message)
    assert (note.count, note.example) == (2, "6/7/2025")
