"""Ticket pages: what they show, to whom, and at what price in queries."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from tests.factories import (
    World,
    make_link,
    make_section,
    make_similar,
    make_ticket,
)

LIST = "/tickets/"


def page(client: Client, path: str, **query: Any) -> str:
    response = client.get(path, query)
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def keys(html: str) -> list[str]:
    return re.findall(r'<a class="key" href="[^"]+">([^<]+)</a>', html)


def test_list_shows_own_projects_only(world: World, alice: Client) -> None:
    make_ticket(world.alpha, "ALPHA-1")
    make_ticket(world.beta, "BETA-1")
    html = page(alice, LIST)
    assert keys(html) == ["ALPHA-1"]
    assert "BETA" not in html


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "ALPHA-1"}, ["ALPHA-10", "ALPHA-1"]),
        ({"q": "alpha-10"}, ["ALPHA-10"]),
        ({"q": "menu dark"}, ["ALPHA-2"]),
        ({"q": "100%"}, []),
        ({"status": "open"}, ["ALPHA-2"]),
        ({"status": "nonsense"}, ["ALPHA-10", "ALPHA-2", "ALPHA-1"]),
        ({"q": "\x00"}, ["ALPHA-10", "ALPHA-2", "ALPHA-1"]),
        ({"page": "9999"}, ["ALPHA-10", "ALPHA-2", "ALPHA-1"]),
    ],
)
def test_list_narrowed_finds_the_right_tickets(
    world: World, alice: Client, query: dict[str, str], found: list[str]
) -> None:
    make_ticket(world.alpha, "ALPHA-1", summary="Upload of 100 files")
    make_ticket(
        world.alpha, "ALPHA-2", summary="Dark mode, unreadable menu", status_category="open"
    )
    make_ticket(world.alpha, "ALPHA-10", summary="Login")
    assert keys(page(alice, LIST, **query)) == found


def test_list_filtered_by_foreign_project_is_refused(world: World, alice: Client) -> None:
    make_ticket(world.beta, "BETA-1")
    html = page(alice, LIST, project=world.beta.pk)
    assert "BETA-1" not in html
    assert "not one of the available choices" in html


def test_list_pages_keep_the_search(world: World, alice: Client) -> None:
    for number in range(30):
        make_ticket(world.alpha, summary=f"Crash {number}")
    html = page(alice, LIST, q="crash")
    assert len(keys(html)) == 25
    assert 'href="?q=crash&amp;page=2"' in html
    assert len(keys(page(alice, LIST, q="crash", page="2"))) == 5


def test_list_costs_the_same_for_one_and_for_many(
    world: World, alice: Client, django_assert_max_num_queries: Any
) -> None:
    make_ticket(world.alpha)
    with django_assert_max_num_queries(6) as one:
        page(alice, LIST)
    for _ in range(4):
        make_ticket(world.alpha)
    with django_assert_max_num_queries(len(one)):
        page(alice, LIST)


def test_ticket_shows_the_tree_with_an_anchor_for_each_section(world: World, alice: Client) -> None:
    ticket = make_ticket(
        world.alpha,
        "ALPHA-1",
        sections={
            "description": "It stops.",
            "steps_to_reproduce": "1. Open it",
            "code_block-1": "x = <b>1</b>",
            "fields": "",
            "priority": "Major",
            "comments": "",
            "comment-1": "I see it too",
        },
    )
    make_section(ticket, "comment-2", "Secret", author="devi", role="agent", public=False)
    html = page(alice, ticket.get_absolute_url())
    for section in ticket.sections.all():
        assert html.count(f'id="{section.anchor}"') == 1, section.anchor
    inside = html[html.index('id="description"') : html.index('id="fields"')]
    assert 'id="steps_to_reproduce"' in inside
    assert "x = &lt;b&gt;1&lt;/b&gt;" in inside
    assert html.count("internal note") == 1
    assert "devi" in html


def test_ticket_text_cannot_become_markup(world: World, alice: Client) -> None:
    evil = '<img src=http://evil.example/x onerror=alert(1)> ![a](http://evil.example) "><script>'
    ticket = make_ticket(world.alpha, summary=evil, sections={"description": evil})
    make_section(ticket, "comments")
    make_section(ticket, "comment-1", f"```\n{evil}\n```", author=evil, role="agent")
    html = page(alice, ticket.get_absolute_url())
    assert "<img src=http" not in html
    assert html.count("<script") == 2
    assert 'href="http://evil' not in html


def test_ticket_tells_links_apart(world: World, alice: Client) -> None:
    ticket = make_ticket(world.alpha, "ALPHA-1")
    blocked = make_ticket(world.alpha, "ALPHA-2", summary="The blocked one")
    blocker = make_ticket(world.alpha, "ALPHA-3", summary="The blocker")
    alike = make_ticket(world.alpha, "ALPHA-4", summary="The look-alike")
    unlike = make_ticket(world.alpha, "ALPHA-5", summary="The rejected one")
    make_link(ticket, blocked)
    make_link(blocker, ticket)
    make_link(ticket, "ALPHA-99", "RELATES_TO", origin="mention")
    make_similar(ticket, alike, 0.912)
    make_similar(ticket, unlike, state="rejected")
    html = page(alice, ticket.get_absolute_url())
    explicit, implicit = html.split("Similar titles")
    text = re.sub(r"<[^>]+>|\s+", " ", explicit)
    text = re.sub(r"\s+", " ", text)
    assert "blocks ALPHA-2 The blocked one" in text
    assert "is blocked by ALPHA-3 The blocker" in text or "required by" in text
    assert "relates to ALPHA-99 not here yet" in text
    assert "ALPHA-4" not in explicit
    assert "ALPHA-4" in implicit
    assert "0.91" in implicit
    assert "ALPHA-5" not in html


def test_ticket_hides_what_is_linked_but_not_visible(world: World, alice: Client) -> None:
    ticket = make_ticket(world.alpha, "ALPHA-1")
    hidden = make_ticket(world.beta, "BETA-1", summary="Top secret")
    shy = make_ticket(world.beta, "BETA-2", summary="Hush hush")
    make_link(ticket, hidden)
    make_link(shy, ticket)
    make_similar(ticket, hidden)
    html = page(alice, ticket.get_absolute_url())
    assert "Top secret" not in html
    assert "BETA-2" not in html
    assert "not here yet" in html
    assert hidden.get_absolute_url() not in html


def test_ticket_stated_twice_is_linked_once(world: World, alice: Client) -> None:
    one = make_ticket(world.alpha, "ALPHA-1")
    two = make_ticket(world.alpha, "ALPHA-2")
    ends = {"from_key": "ALPHA-1", "to_key": "ALPHA-2"}
    make_link(one, two, "RELATES_TO", origin="mention", **ends)
    make_link(two, one, "RELATES_TO", label="Relates", **ends)
    html = page(alice, one.get_absolute_url())
    assert html.count('class="explicit"') == 1
    assert "tracker: Relates" in html


@pytest.mark.parametrize("key", ["ALPHA-1/é #?&", "owner/repo#12", "a b"])
def test_ticket_with_an_odd_key_opens(world: World, alice: Client, key: str) -> None:
    ticket = make_ticket(world.alpha, key)
    page(alice, ticket.get_absolute_url())
    raw = alice.get(page_raw := ticket.get_absolute_url().replace("/tickets/", "/raw/", 1))
    assert raw.json()["key"] == key, page_raw


@pytest.mark.parametrize("path", ["/tickets/default/A%00B/", "/raw/default/A%00B/"])
def test_ticket_with_a_nul_in_the_address_is_not_found(alice: Client, path: str) -> None:
    assert alice.get(path).status_code == 404


def test_ticket_page_costs_the_same_however_many_links(
    world: World, alice: Client, django_assert_max_num_queries: Any
) -> None:
    ticket = make_ticket(world.alpha, sections={"comments": "", "comment-1": "One"})
    make_link(ticket, make_ticket(world.alpha))
    make_similar(ticket, make_ticket(world.alpha))
    with django_assert_max_num_queries(9) as one:
        page(alice, ticket.get_absolute_url())
    for number in range(2, 6):
        make_section(ticket, f"comment-{number}", "More")
        make_link(ticket, make_ticket(world.alpha))
        make_similar(ticket, make_ticket(world.alpha))
    with django_assert_max_num_queries(len(one)):
        page(alice, ticket.get_absolute_url())
