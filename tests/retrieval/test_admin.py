"""Answers in the admin: looked at, erased, never changed."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from retrieval.models import Answer, Citation
from tests.factories import World, make_answer, make_ticket


@pytest.mark.parametrize("model", ["answer", "citation"])
def test_list_costs_the_same_for_one_and_for_many(
    world: World, root: Client, model: str, django_assert_max_num_queries: Any
) -> None:
    path = reverse(f"admin:retrieval_{model}_changelist")
    make_answer(world.alice, make_ticket(world.alpha).sections.get())
    with django_assert_max_num_queries(12) as one:
        assert "What fixed it?" in root.get(path).content.decode()
    for _ in range(4):
        make_answer(world.bob, make_ticket(world.alpha).sections.get())
    with django_assert_max_num_queries(len(one)) as many:
        root.get(path)
    assert not any('"raw"' in query["sql"] for query in many)


def test_answer_is_shown_with_its_sources_and_cannot_be_changed(world: World, root: Client) -> None:
    ticket = make_ticket(world.alpha, "ALPHA-1")
    answer = make_answer(world.alice, ticket.sections.get())
    path = reverse("admin:retrieval_answer_change", args=[answer.pk])
    html = root.get(path).content.decode()
    assert "ALPHA-1" in html
    assert answer.get_absolute_url() in html
    assert 'name="_save"' not in html
    assert root.post(path, {"text": "changed"}).status_code == 403


def test_answer_erased_takes_its_citations_along(world: World, root: Client) -> None:
    answer = make_answer(world.alice, make_ticket(world.alpha).sections.get())
    root.post(reverse("admin:retrieval_answer_delete", args=[answer.pk]), {"post": "yes"})
    assert not Answer.objects.exists()
    assert not Citation.objects.exists()
