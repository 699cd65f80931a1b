"""Ranking: contributions add up, the paper's formula holds, permission holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retrieval.query import analyze
from retrieval.ranking import FUSION, PAPER, RankingConfig, rank, to_json
from supportkg.lib import embeddings
from tests.retrieval.conftest import Desk
from tickets.models import Chunk, Project, Ticket

pytestmark = pytest.mark.django_db

QUESTION = "How do I reproduce the failing csv upload after an address change?"


def key(ticket_id: int) -> str:
    return Ticket.objects.get(pk=ticket_id).key


def test_closest_tickets_come_first(desk: Desk) -> None:
    ranking = rank(analyze(QUESTION), desk.projects)
    assert {key(t.ticket_id) for t in ranking.tickets[:2]} == {"WEB-1", "WEB-2"}


@pytest.mark.parametrize("config", [FUSION, PAPER])
def test_contributions_add_up_to_the_score_and_scores_fall(
    desk: Desk, config: RankingConfig
) -> None:
    ranking = rank(analyze(QUESTION), desk.projects, config)
    assert len(ranking.tickets) == 6
    for ticket in ranking.tickets:
        assert set(ticket.contributions) == set(config.weights)
        assert sum(ticket.contributions.values()) == pytest.approx(ticket.score)
    scores = [ticket.score for ticket in ranking.tickets]
    assert scores == sorted(scores, reverse=True)


def test_paper_score_is_the_sum_of_cosines_by_section(desk: Desk) -> None:
    analysis = analyze(QUESTION)
    ticket = Ticket.objects.get(key="WEB-1")
    ranked = {t.ticket_id: t for t in rank(analysis, desk.projects, PAPER).tickets}[ticket.pk]
    expected = 0.0
    for kind, value in analysis.entities:
        vector = embeddings.embed([value])[0]
        chunks = Chunk.objects.filter(ticket=ticket, kind=kind)
        expected += max(float(np.dot(vector, chunk.vector)) for chunk in chunks)
    assert ranked.score == pytest.approx(expected, abs=1e-5)


def test_sum_of_chunks_favours_a_section_in_more_pieces(desk: Desk) -> None:
    chunk = Chunk.objects.get(ticket__key="WEB-4", kind="description")
    chunk.pk, chunk.ordinal = None, 1
    chunk.save()
    analysis = analyze("colours are fixed values")

    def score(config: RankingConfig) -> float:
        ranked = rank(analysis, desk.projects, config).tickets
        return next(t.values["section:description"] for t in ranked if key(t.ticket_id) == "WEB-4")

    assert score(replace(PAPER, chunks="sum")) == pytest.approx(2 * score(PAPER))


def test_fusion_is_the_sum_of_z_scores(desk: Desk) -> None:
    ranked = rank(analyze(QUESTION), desk.projects).tickets
    raw = np.array([t.values["plain"] for t in ranked])
    z = (raw - raw.mean()) / raw.std()
    assert [t.contributions["plain"] for t in ranked] == pytest.approx(z.tolist())


def test_tickets_of_other_projects_are_not_ranked(desk: Desk) -> None:
    web = [Project.objects.get(key="WEB").pk]
    ranked = rank(analyze("Invoice shows the wrong tax rate"), web).tickets
    assert ranked
    assert all(key(t.ticket_id).startswith("WEB-") for t in ranked)
    assert rank(analyze("Invoice"), []).tickets == ()


def test_named_ticket_comes_first_and_strangers_are_told(desk: Desk) -> None:
    ranking = rank(analyze("status of PAY-1, WEB-77"), desk.projects)
    assert key(ranking.tickets[0].ticket_id) == "PAY-1"
    assert ranking.tickets[0].named
    assert ranking.unknown_keys == ("WEB-77",)


def test_identifier_in_the_text_is_an_exact_hit(desk: Desk) -> None:
    ranking = rank(analyze("ERR-4711"), desk.projects)
    assert [key(t.ticket_id) for t in ranking.tickets if t.exact] == ["WEB-1"]
    assert ranking.tickets[0].exact


def test_ranking_is_stable(desk: Desk) -> None:
    first = rank(analyze(QUESTION), desk.projects)
    assert [t.ticket_id for t in rank(analyze(QUESTION), desk.projects).tickets] == [
        t.ticket_id for t in first.tickets
    ]


def test_vectors_of_another_model_are_not_compared(desk: Desk) -> None:
    Chunk.objects.update(model="another")
    ranked = rank(analyze(QUESTION), desk.projects).tickets
    assert ranked
    assert all(set(t.values) == {"lexical"} for t in ranked)


def test_json_names_tickets(desk: Desk) -> None:
    rows = to_json(rank(analyze(QUESTION), desk.projects))
    assert rows[0]["key"] in {"WEB-1", "WEB-2"}
    assert sum(rows[0]["contributions"].values()) == pytest.approx(rows[0]["score"], abs=1e-3)


def test_number_of_queries_does_not_grow_with_tickets(desk: Desk) -> None:
    rank(analyze(QUESTION), desk.projects)

    def count(projects: list[int]) -> int:
        with CaptureQueriesContext(connection) as queries:
            rank(analyze(QUESTION), projects)
        return len(queries)

    # Fewer when no term of the question stands in the project.
    assert count([Project.objects.get(key="PAY").pk]) <= count(desk.projects) <= 25
