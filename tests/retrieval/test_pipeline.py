"""Questions end to end: the right section, through the gate, with citations; or a reason."""

from __future__ import annotations

import re
from typing import Any

import pytest

from retrieval import pipeline, subgraph
from retrieval.models import Answer
from supportkg.lib.graph import GraphQueryError, GraphUnavailable
from tests.retrieval.conftest import Desk
from tickets import ingest
from tickets.models import Project, Section, Ticket

pytestmark = pytest.mark.django_db

REPRODUCE = "How do I reproduce the csv upload error after the email address is changed?"


def anchors(answer: Answer) -> list[tuple[str, str]]:
    return [(c.ticket.key, c.anchor) for c in answer.citations.all()]


def check_citations(answer: Answer) -> None:
    """Every paragraph carries a mark, every mark has a citation, every quote stands there."""
    for paragraph in answer.text.split("\n\n"):
        is_lead_of_quote = paragraph.endswith(":")
        assert re.search(r"\[\d+\]", paragraph) or paragraph.startswith(">") or is_lead_of_quote
    marks = {int(n) for n in re.findall(r"\[(\d+)\]", answer.text)}
    assert marks == {c.number for c in answer.citations.all()}
    for citation in answer.citations.all():
        assert citation.section is not None
        assert citation.quote in citation.section.text


@pytest.mark.parametrize(
    ("question", "ticket", "anchor", "label"),
    [
        (REPRODUCE, "WEB-1", "steps_to_reproduce", "StepsToReproduce"),
        ("What fixed the csv upload that fails?", "WEB-1", "fix_solution", "FixSolution"),
        ("What is the priority of the csv upload failure?", "WEB-1", "priority", "Priority"),
        ("Which tickets block WEB-3?", "WEB-4", "summary", "BLOCKS"),
        ("Duplicates of WEB-1", "WEB-2", "summary", "DUPLICATE_OF"),
        ("tickets similar to WEB-2", "WEB-1", "summary", "SIMILAR_TO"),
        ("What should happen with ERR-4711?", "WEB-1", "expected_result", "ExpectedResult"),
        ("ログイン画面のエラーの再現手順は？", "PAY-2", "steps_to_reproduce", "StepsToReproduce"),
    ],
)
def test_question_returns_the_section_through_checked_cypher(
    desk: Desk, question: str, ticket: str, anchor: str, label: str
) -> None:
    answer = pipeline.answer(question)
    assert answer.route == "graph", answer.rungs
    assert (ticket, anchor) in anchors(answer)
    assert label in answer.cypher
    assert "project IN $projects" in answer.cypher
    check_citations(answer)


def test_answer_quotes_the_steps(desk: Desk) -> None:
    answer = pipeline.answer(REPRODUCE)
    assert "> 1. Change the email address of a user\n> 2. Upload users.csv" in answer.text
    assert answer.ranking[0]["contributions"]
    assert answer.seconds["total"] > 0


def test_closest_ticket_without_the_section_is_named(desk: Desk) -> None:
    answer = pipeline.answer(
        "How do I reproduce: Upload of a CSV file fails after changing the email address of a user"
    )
    assert answer.route == "graph"
    assert answer.text.startswith("The closest ticket, WEB-2")
    assert "no steps to reproduce on record" in answer.text
    assert ("WEB-1", "steps_to_reproduce") in anchors(answer)
    check_citations(answer)


def test_duplicate_gives_the_fix_of_its_original(desk: Desk) -> None:
    answer = pipeline.answer("What fixed WEB-2?")
    assert answer.route == "graph"
    assert "WEB-2" in answer.text
    assert "is a duplicate of WEB-1" in answer.text
    assert ("WEB-1", "fix_solution") in anchors(answer)
    assert "DUPLICATE_OF" in answer.cypher
    check_citations(answer)


def test_links_are_not_made_up_when_the_graph_is_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **options: Any) -> None:
        raise GraphUnavailable("gone")

    monkeypatch.setattr(subgraph.graph, "explain", away)
    answer = pipeline.answer("Which tickets block WEB-3?")
    assert answer.route == "declined"
    assert answer.rungs[-1]["reason"] == "LINKS_NEED_GRAPH"


def test_graph_away_falls_back_to_text_with_the_reason(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **options: Any) -> None:
        raise GraphUnavailable("Neo4j does not answer.")

    monkeypatch.setattr(subgraph.graph, "explain", away)
    answer = pipeline.answer(REPRODUCE)
    assert answer.route == "baseline"
    assert [r["reason"] for r in answer.rungs] == ["GRAPH_UNAVAILABLE", "GRAPH_UNAVAILABLE", ""]
    assert {ticket for ticket, _ in anchors(answer)} <= {"WEB-1", "WEB-2"}
    check_citations(answer)


def test_slow_query_falls_back_with_the_reason(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*args: Any, **options: Any) -> None:
        raise GraphQueryError("TIMEOUT", "too slow")

    monkeypatch.setattr(subgraph.graph, "read", slow)
    answer = pipeline.answer(REPRODUCE)
    assert answer.route == "baseline"
    assert answer.rungs[0]["reason"] == "GRAPH_TIMEOUT"


def test_section_that_no_ticket_has_falls_to_the_fixed_read(desk: Desk) -> None:
    answer = pipeline.answer("What is the root cause of the unreadable menu in dark mode?")
    assert answer.route == "subgraph"
    assert answer.rungs[0]["reason"] == "NO_ROWS"
    assert anchors(answer)[0][0] == "WEB-3"
    assert "has no root cause on record" in answer.text
    check_citations(answer)


def test_baseline_mode_does_not_touch_the_graph(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subgraph.graph, "read", lambda *a, **k: pytest.fail("read the graph"))
    answer = pipeline.answer(REPRODUCE, mode="baseline")
    assert answer.route == "baseline"
    assert answer.cypher == ""
    check_citations(answer)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("How long do I boil potatoes?", "NOTHING_CLOSE"),
        ("What is the status of WEB-999?", "UNKNOWN_TICKET"),
        ("Which tickets block PAY-1?", "NO_LINKS"),
    ],
)
def test_declines_with_a_reason(desk: Desk, question: str, reason: str) -> None:
    answer = pipeline.answer(question)
    assert answer.route == "declined"
    assert answer.rungs[-1]["reason"] == reason
    assert anchors(answer) == []
    assert answer.text


def test_tickets_of_other_projects_are_never_quoted(desk: Desk) -> None:
    for question in (
        "What fixed the wrong tax rate on invoices for Switzerland?",
        "status of PAY-1",
    ):
        for mode in ("graph", "baseline"):
            answer = pipeline.answer(question, user=desk.web, mode=mode)
            assert all(ticket.startswith("WEB-") for ticket, _ in anchors(answer))
            assert "tax table" not in answer.text
            assert "PAY-" not in str(answer.ranking)
    nobody = pipeline.answer(REPRODUCE, user=desk.nobody)
    assert nobody.rungs[-1]["reason"] == "NO_TICKETS"


def test_graph_that_lies_about_a_project_is_caught(desk: Desk) -> None:
    desk.graph.write(
        [("MATCH (n) WHERE n.project = 'default/PAY' SET n.project = 'default/WEB'", {})]
    )
    ticket = Ticket.objects.get(key="PAY-1")
    web = list(Project.objects.filter(key="WEB"))
    intent = pipeline.query.analyze("what fixed PAY-1").intents[0]
    assert subgraph.extract(intent, [ticket], web).evidence == ()


def test_internal_note_is_marked(desk: Desk) -> None:
    answer = pipeline.answer("What did they say about customer Meyer in WEB-1?")
    assert answer.contains_internal == any(c.anchor == "comment-3" for c in answer.citations.all())
    assert ("WEB-1", "comment-3") in anchors(answer)
    assert "(internal note)" in answer.text


@pytest.mark.parametrize("question", ["", "  \n", "x" * 20_001])
def test_question_that_cannot_be_asked(desk: Desk, question: str) -> None:
    with pytest.raises(pipeline.QuestionError):
        pipeline.answer(question)
    assert not Answer.objects.exists()


def test_answer_that_names_a_deleted_ticket_goes_with_it(desk: Desk) -> None:
    pipeline.answer("Which tickets block WEB-3?")
    pipeline.answer(REPRODUCE)
    ingest.delete(Ticket.objects.filter(key="WEB-3"))
    assert not Answer.objects.filter(text__contains="Dark mode").exists()
    assert Answer.objects.count() == 1


def test_text_of_a_ticket_cannot_pass_for_a_mark_or_a_quote(desk: Desk) -> None:
    Ticket.objects.filter(key="WEB-3").update(
        summary="Dark ” mode [7]\n\n> The vendor promises a refund [1]", status="Open [1] **x**"
    )
    Section.objects.filter(ticket__key="WEB-3", kind="priority").delete()
    answer = pipeline.answer("How do I reproduce the unreadable menu text in WEB-3?")
    lead = answer.text.partition(":")[0]
    assert "\n" not in lead
    assert '“Dark " mode [7] > The vendor promises a refund [1]” (Open 1 x)' in lead


def test_deleted_ticket_leaves_answers(desk: Desk) -> None:
    ingest.delete(Ticket.objects.filter(key="WEB-1"))
    answer = pipeline.answer("ERR-4711 refreshing the address cache")
    assert "WEB-1" not in answer.text
    assert "address cache" not in answer.text
