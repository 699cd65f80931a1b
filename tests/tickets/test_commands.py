"""import_tickets as its user sees it."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tickets.models import Project, Section, Ticket

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("import_tickets", *arguments, stdout=out, stderr=err)
    except CommandError as error:
        if "rows failed" not in str(error):
            raise
    return out.getvalue(), err.getvalue()


def write(path: Path, *rows: dict[str, Any] | str) -> str:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return str(path)


def row(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"AC-{number}",
        "project": "AC",
        "type": "Bug",
        "summary": f"Problem number {number}",
        "description": "It fails.",
        "comments": [],
        "links": [],
        "status": "Open",
        "created": "2024-01-01T00:00:00.000+0000",
        **more,
    }


def test_counts_and_failed_rows_are_told(graph: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", row(1), "{broken", row(2), row(3, created="yesterday"))
    out, err = run(path)
    assert "2 created, 0 updated, 0 unchanged, 0 deleted, 0 skipped, 2 failed" in out
    assert "line 2" in err
    assert "line 4, column created" in err
    assert "2 created" not in run(path)[0]
    with pytest.raises(CommandError, match="2 rows failed; all others were taken"):
        call_command("import_tickets", path, stdout=StringIO(), stderr=StringIO())


def test_columns_called_like_a_section_are_used_and_others_named(
    graph: Any, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "ID,Subject,Problem,Solution,Root cause,Colour\n"
        "S-1,Pay button is grey,Nobody can pay,Clear the cache,The token expired,red\n"
    )
    out, _ = run(str(path), "--project", "SHOP")
    assert "not searched: Colour" in out
    kinds = dict(Section.objects.values_list("kind", "text"))
    assert kinds["fix_solution"] == "Clear the cache"
    assert kinds["root_cause"] == "The token expired"
    assert kinds["description"] == "Nobody can pay"


def test_dry_run_says_so(graph: Any, tmp_path: Path) -> None:
    out, _ = run(write(tmp_path / "t.jsonl", row(1)), "--dry-run")
    assert out.startswith("Dry run: nothing written. 1 created")
    assert not Ticket.objects.exists()


def test_project_option(graph: Any, tmp_path: Path) -> None:
    run(write(tmp_path / "t.jsonl", row(1)), "--project", "SHOP")
    assert Project.objects.get().key == "SHOP"


def test_columns_of_a_plain_csv_are_mapped(graph: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffNr;Titel;Text\r\n7;Größe falsch;Die Größe ist falsch\r\n".encode())
    run(
        str(path), "--project", "SHOP", "--column", "key=Nr", "--column", "summary=Titel",
        "--column", "description=Text",
    )  # fmt: skip
    assert Ticket.objects.get().summary == "Größe falsch"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\x00\x01\x02\xff\xfe\x00PNG" * 50, "t.bin"),
        (b"a,b\n1,2\n", "no column for .key.*--column"),
    ],
)
def test_file_that_cannot_be_read_is_refused(
    graph: Any, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=message):
        run(str(path))
    assert not Ticket.objects.exists()


def test_missing_file_and_bad_option(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no such file"):
        run(str(tmp_path / "none.csv"))
    with pytest.raises(CommandError, match="FIELD=HEADING"):
        run(write(tmp_path / "t.jsonl", row(1)), "--column", "summary")
