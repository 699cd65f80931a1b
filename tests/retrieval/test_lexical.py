"""BM25 in PostgreSQL."""

from __future__ import annotations

import math

import pytest

from retrieval import lexical
from tests.retrieval.conftest import Desk
from tickets.models import Project, Ticket

pytestmark = pytest.mark.django_db


def keys(scores: dict[int, float]) -> list[str]:
    names = dict(Ticket.objects.values_list("pk", "key"))
    return [names[pk] for pk in sorted(scores, key=lambda pk: -scores[pk])]


def found(text: str, projects: list[int]) -> list[str]:
    return keys(lexical.search(lexical.prepare(text, projects), projects, 10))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("ERR-4711", "WEB-1"),
        ("err-4711", "WEB-1"),
        ("uploads of csv files", "WEB-2"),
        ("ログイン", "PAY-2"),
        ("表示", "PAY-2"),
        ("9f2c1", "PAY-1"),
    ],
)
def test_search_finds(desk: Desk, text: str, first: str) -> None:
    assert found(text, desk.projects)[0] == first


def test_search_stays_inside_the_projects(desk: Desk) -> None:
    web = [Project.objects.get(key="WEB").pk]
    assert found("invoice tax Switzerland", web) == []
    assert found("invoice tax Switzerland", desk.projects) == ["PAY-1"]


def test_score_is_bm25(desk: Desk) -> None:
    query = lexical.prepare("invoice", desk.projects)
    ticket = Ticket.objects.get(key="PAY-1")
    lengths = list(Ticket.objects.values_list("all_terms", flat=True))
    mean = sum(lengths) / len(lengths)
    # "invoice" stands twice in PAY-1 (title and description) and in no other of 6 tickets.
    idf = math.log(1 + (6 - 1 + 0.5) / (1 + 0.5))
    tf = 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * ticket.all_terms / mean))
    assert lexical.score(query, [ticket.pk]) == {ticket.pk: pytest.approx(idf * tf)}


def test_own_field_leaves_comments_out(desk: Desk) -> None:
    projects = desk.projects
    every = lexical.prepare("tax table commit", projects)
    own = lexical.prepare("tax table commit", projects, field="own")
    pk = Ticket.objects.get(key="PAY-1").pk
    assert lexical.score(every, [pk])[pk] > lexical.score(own, [pk])[pk] > 0
    assert lexical.search(lexical.prepare("9f2c1", projects, "own"), projects, 5) == {}


@pytest.mark.parametrize("text", ["", "?!", "'; DROP TABLE tickets_ticket; --", "NORD OR NOT", "%"])
def test_odd_query_is_harmless(desk: Desk, text: str) -> None:
    found(text, desk.projects)
    assert Ticket.objects.count() == 6
