"""``manage.py evaluate`` from files to figures, on a help desk small enough to know by heart."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from retrieval.evaluation import runs
from retrieval.ranking import FUSION
from tickets import ingest
from tickets.importers.raw import RawTicket
from tickets.models import Ticket

pytestmark = pytest.mark.django_db

TITLES = [
    "Printer on the second floor prints blank pages",
    "Printer driver cannot be installed on new laptops",
    "Scans arrive upside down in the shared folder",
    "VPN disconnects every ten minutes",
    "VPN client asks for the password again and again",
    "Wireless network is not found in the meeting room",
    "Network drive is read-only after the move",
    "Mail with large attachments is not delivered",
    "Calendar invitations show the wrong time zone",
    "Out of office reply is sent twice",
    "Mailbox is full although messages were deleted",
    "Password reset link has expired",
    "Account is locked after the holidays",
    "Two-factor code never arrives by text message",
    "Laptop does not charge on the docking station",
    "Second screen stays black on the docking station",
    "Keyboard types letters twice",
    "Fan of the laptop is loud",
    "Spreadsheet crashes when a pivot table is refreshed",
    "Text editor loses changes after a crash",
    "Fonts look blurred on the large screen",
    "Video call has no sound",
    "Camera is not recognised in video calls",
    "Screen sharing shows a black picture",
    "Browser shows a certificate warning for the intranet",
    "Intranet search finds nothing since the update",
    "Travel expenses cannot be submitted",
    "Time sheet does not save overtime",
    "Payroll export fails with error PAY-77",
    "Badge does not open the garage door",
]
# A question, the number of the right ticket, and whether it repeats the ticket's words.
QUESTIONS = [
    ("The printer gives me empty sheets of paper\nOn floor two, since this morning.", 0, False),
    ("VPN connection drops all the time\nAfter about ten minutes it is gone.", 3, False),
    ("Nobody hears me in video calls\nThere is no audio at all.", 21, False),
    ("Payroll export fails with error PAY-77", 28, True),
    ("I do not get the sign-in code on my phone\nThe text message is missing.", 13, False),
    ("Garage does not open with my badge", 29, False),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    def write(name: str, rows: list[dict[str, Any]]) -> None:
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    common = {"project": "IT", "type": "Incident", "status": "Closed", "created": "2024-05-01"}
    write(
        "tickets.jsonl",
        [
            {"id": f"IT-{number}", "summary": title, "description": "", **common}
            | {"comments": [], "links": []}
            for number, title in enumerate(TITLES)
        ],
    )
    write(
        "queries.jsonl",
        [{"query_id": f"q{i}", "text": text} for i, (text, *_) in enumerate(QUESTIONS)],
    )
    write(
        "qrels.jsonl",
        [
            {"query_id": f"q{i}", "relevant": [f"IT-{right}"], "near_copy": near}
            for i, (_, right, near) in enumerate(QUESTIONS)
        ],
    )
    return tmp_path


def evaluate(corpus: Path, **options: Any) -> str:
    out = StringIO()
    call_command("evaluate", corpus=corpus, stdout=out, **options)
    return out.getvalue()


def test_evaluate_prints_both_modes_and_writes_json(graph: object, corpus: Path) -> None:
    target = corpus / "figures.json"
    out = evaluate(corpus, json=target)
    assert "30 created" in out
    assert "all queries (n = 6)" in out
    assert "without near copies (n = 5)" in out
    data = json.loads(target.read_text())
    assert data["tickets"] == 30
    assert data["settings"]["embedding_model"] == "all-MiniLM-L6-v2"
    assert set(data["seconds"]) == {"baseline", "graph"}
    for mode in ("baseline", "graph"):
        places = [query["places"][mode] for query in data["queries"]]
        everything, far = (c["runs"][mode]["MRR"]["mean"] for c in data["comparisons"])
        # From the places, by hand: the mean of 1 / place, and the same without the near copy.
        reciprocal = [1 / found[0] for found in places]
        assert everything == pytest.approx(sum(reciprocal) / 6, abs=1e-5)
        assert far == pytest.approx((sum(reciprocal) - reciprocal[3]) / 5, abs=1e-5)
        assert places[3] == [1]
        assert everything > 0.8
    assert list(data["comparisons"][0]["differences"]) == ["graph − baseline"]
    # The same again: nothing is imported, and the figures are the same.
    again = evaluate(corpus, json=corpus / "again.json")
    assert "30 unchanged" in again
    repeated = json.loads((corpus / "again.json").read_text())
    assert repeated["comparisons"] == data["comparisons"]


def test_evaluate_existing_file_is_kept(graph: object, corpus: Path) -> None:
    target = corpus / "figures.json"
    target.write_text("mine")
    with pytest.raises(CommandError, match="exists"):
        evaluate(corpus, json=target)
    assert target.read_text() == "mine"
    assert not Ticket.objects.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"json": Path("nowhere/figures.json")}, "nowhere: no such folder"),
        ({"limit": 0}, "--limit must be at least 1"),
        ({"limit": -2}, "--limit must be at least 1"),
        ({"queries": "gone.jsonl"}, r"gone\.jsonl: no such file"),
    ],
)
def test_evaluate_wrong_option_stops_before_the_import(
    corpus: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(CommandError, match=message):
        evaluate(corpus, **options)
    assert not Ticket.objects.exists()


def test_evaluate_ticket_that_is_not_imported_is_an_error(graph: object, corpus: Path) -> None:
    tickets = (corpus / "tickets.jsonl").read_text()
    (corpus / "tickets.jsonl").write_text(tickets.replace('"Closed"', '"Deleted"', 1))
    with pytest.raises(CommandError, match=r"1 tickets of tickets\.jsonl could not be imported"):
        evaluate(corpus)


def test_evaluate_unknown_ticket_stops_before_the_import(corpus: Path) -> None:
    lines = (corpus / "qrels.jsonl").read_text().splitlines()
    (corpus / "qrels.jsonl").write_text(
        "\n".join([*lines[:2], lines[2].replace("IT-21", "IT-99"), *lines[3:]])
    )
    with pytest.raises(CommandError, match=r"^qrels\.jsonl line 3: q2 names IT-99, which is not"):
        evaluate(corpus)
    assert not Ticket.objects.exists()


def test_evaluate_leaves_other_tickets_out_and_says_so(graph: object, corpus: Path) -> None:
    copies = [
        RawTicket(key=f"IT-{900 + i}", project="IT", summary=q[0]) for i, q in enumerate(QUESTIONS)
    ]
    ingest.ingest(copies)
    out = evaluate(corpus, mode=["graph"], json=corpus / "figures.json")
    assert "6 tickets more than the benchmark" in out
    data = json.loads((corpus / "figures.json").read_text())
    assert data["foreign_tickets"] == 6
    assert data["comparisons"][0]["differences"] == {}
    assert data["comparisons"][0]["runs"]["graph"]["MRR"]["mean"] > 0.8


def test_evaluate_part_and_limit_choose_queries(graph: object, corpus: Path) -> None:
    target = corpus / "figures.json"
    out = evaluate(corpus, mode=["baseline"], part="test", limit=2, json=target)
    assert "2 queries (test part, limited)" in out
    assert [query["id"] for query in json.loads(target.read_text())["queries"]] == ["q3", "q4"]


def test_evaluate_ablation_covers_every_part(graph: object, corpus: Path) -> None:
    target = corpus / "figures.json"
    out = evaluate(corpus, ablation=True, json=target)
    assert "parts of graph mode (n = 6)" in out
    data = json.loads(target.read_text())
    parts = data["ablation"]["runs"]
    expected = {"all parts", "lexical without comments", "paper: sum of section cosines"}
    expected |= {f"{word} {part}" for word in ("only", "without") for part in FUSION.weights}
    assert set(parts) == expected
    # Adding all contributions up again is the ranking itself.
    assert parts["all parts"] == data["comparisons"][0]["runs"]["graph"]


def test_run_of_plain_part_alone_is_the_order_of_the_baseline(graph: object, corpus: Path) -> None:
    ingest.ingest(
        RawTicket(key=f"IT-{i}", project="IT", summary=title) for i, title in enumerate(TITLES)
    )
    within = runs.corpus("default", [f"IT-{i}" for i in range(len(TITLES))])
    queries = [runs.Query(f"q{i}", text, frozenset()) for i, (text, *_) in enumerate(QUESTIONS)]
    alone = next(r for r in runs.ablation(queries, within) if r.name == "only plain")
    baseline = runs.run("baseline", runs.MODES["baseline"], queries, within)
    assert alone.ranked == baseline.ranked
