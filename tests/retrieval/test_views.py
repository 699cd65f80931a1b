"""The answer desk: asking, the answer page and the history."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from retrieval import markdown
from retrieval.models import Answer
from supportkg.lib.graph import GraphUnavailable
from tests.factories import World, make_answer, make_section, make_ticket
from tests.retrieval.conftest import Desk

QUESTION = "How do I reproduce the csv upload error after the email address is changed?"


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_question_is_answered_with_marks_that_open_the_section(desk: Desk, client: Client) -> None:
    client.force_login(desk.web)
    response = client.post("/", {"question": QUESTION, "mode": "graph"}, follow=True)
    answer = Answer.objects.get()
    assert response.redirect_chain == [(answer.get_absolute_url(), 302)]
    html = response.content.decode()
    marks = re.findall(r'<a class="mark" href="([^"]+)"', html)
    assert "/tickets/default/WEB-1/#steps_to_reproduce" in marks
    target = client.get(marks[0].partition("#")[0]).content.decode()
    for mark in marks:
        path, _, anchor = mark.partition("#")
        assert f'id="{anchor}"' in client.get(path).content.decode()
    assert 'id="steps_to_reproduce"' in target
    assert "graph query" in html
    assert "HAS_STEPS_TO_REPRODUCE" in html
    assert "default/WEB" in html


def test_question_without_graph_names_the_fallback(
    desk: Desk, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any, **kwargs: Any) -> None:
        raise GraphUnavailable("Neo4j does not answer at bolt://10.1.2.3:7687 (OSError).")

    monkeypatch.setattr("supportkg.lib.graph.explain", gone)
    client.force_login(desk.web)
    html = client.post("/", {"question": QUESTION}, follow=True).content.decode()
    text = words(html)
    assert "Graph query gave no answer: The graph does not answer. GRAPH_UNAVAILABLE" in text
    assert "Whole tickets from the graph gave no answer: For the same reason." in text
    assert "Plain text answered" in text
    assert "10.1.2.3" not in html


def test_question_about_nothing_known_offers_the_nearest_tickets(
    desk: Desk, client: Client
) -> None:
    client.force_login(desk.web)
    data = {"question": "zebra knitting patterns", "mode": "baseline"}
    html = client.post("/", data, follow=True).content.decode()
    assert "No answer" in html
    assert "NOTHING_CLOSE" in html
    nearest = html[html.index("The nearest tickets") : html.index('class="rungs"')]
    assert "/tickets/default/WEB-" in nearest
    assert "PAY-" not in html
    assert "Sources" not in html


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("", "Write a question first."),
        ("   \n ", "Write a question first."),
        ("x" * 20_001, "The question has 20001 characters; at most 20000 are read."),
        ("a\x00b", "Null characters are not allowed."),
    ],
)
def test_question_that_cannot_be_asked_says_why_and_is_kept(
    alice: Client, question: str, message: str
) -> None:
    response = alice.post("/", {"question": question})
    assert response.status_code == 422
    assert message in response.content.decode()
    assert not Answer.objects.exists()


def test_question_with_an_unknown_mode_is_refused(alice: Client) -> None:
    assert alice.post("/", {"question": "Why?", "mode": "magic"}).status_code == 422
    assert not Answer.objects.exists()


def test_form_without_its_token_is_refused(world: World) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(world.alice)
    response = strict.post("/", {"question": "Why?"})
    assert response.status_code == 403
    assert "Open the page again" in response.content.decode()


def test_desk_offers_questions_about_tickets_that_are_there(world: World, alice: Client) -> None:
    fix = {"fix_solution": "Restart it"}
    make_ticket(world.alpha, "ALPHA-1", summary="Upload of a large file fails", sections=fix)
    make_ticket(world.beta, "BETA-1", summary="A secret that is long enough", sections=fix)
    html = alice.get("/").content.decode()
    assert "What fixed “Upload of a large file fails”?" in html
    assert "secret" not in html
    assert "1 ticket to answer from" in html


def test_desk_of_somebody_without_project_says_what_to_do(world: World, client: Client) -> None:
    client.force_login(world.charlie)
    assert "add you to a project" in client.get("/").content.decode()


def test_answer_shows_internal_notes_as_such(world: World, alice: Client) -> None:
    ticket = make_ticket(world.alpha, "ALPHA-1")
    note = make_section(ticket, "comment-1", "Between us", public=False)
    html = alice.get(make_answer(world.alice, note).get_absolute_url()).content.decode()
    assert "quotes an internal note" in html
    assert "Do not send it to a customer" in html
    assert 'class="mark internal"' in html


def test_answer_contributions_add_up_to_the_score(world: World, alice: Client) -> None:
    section = make_ticket(world.alpha, "ALPHA-1").sections.get()
    html = alice.get(make_answer(world.alice, section).get_absolute_url()).content.decode()
    row = re.search(r"<tbody>(.*?)</tbody>", html, re.DOTALL)
    assert row is not None
    numbers = re.findall(r'class="number"[^>]*>(-?[\d.]+)<', row[1])
    assert numbers == ["1.50", "2.00", "-0.50"]
    bars = [
        (float(x), float(w)) for x, w in re.findall(r'x="([\d.]+)" y="0" width="([\d.]+)"', html)
    ]
    assert bars == [(20.0, 80.0), (0.0, 20.0)]


def test_answer_is_hidden_when_access_to_its_tickets_was_taken_away(
    world: World, alice: Client
) -> None:
    section = make_ticket(world.alpha, "ALPHA-1").sections.get()
    answer = make_answer(world.alice, section, question="Do I still see this?")
    assert alice.get(answer.get_absolute_url()).status_code == 200
    world.alpha.members.remove(world.alice)
    assert alice.get(answer.get_absolute_url()).status_code == 404
    assert "Do I still see this?" not in alice.get("/answers/").content.decode()
    assert "Do I still see this?" not in alice.get("/").content.decode()


def test_answer_ranking_leaves_out_what_is_no_longer_visible(world: World, alice: Client) -> None:
    seen = make_ticket(world.alpha, "ALPHA-1").sections.get()
    hidden = make_ticket(world.beta, "BETA-1", summary="Top secret").sections.get()
    answer = make_answer(world.alice, seen, hidden)
    answer.citations.filter(number=2).delete()
    html = alice.get(answer.get_absolute_url()).content.decode()
    assert "ALPHA-1" in html
    assert "Top secret" not in html


def test_answer_costs_the_same_however_many_sources(
    world: World, alice: Client, django_assert_max_num_queries: Any
) -> None:
    def sections(n: int) -> list[Any]:
        return [make_ticket(world.alpha).sections.get() for _ in range(n)]

    one = make_answer(world.alice, *sections(1))
    many = make_answer(world.alice, *sections(5))
    with django_assert_max_num_queries(6) as price:
        alice.get(one.get_absolute_url())
    with django_assert_max_num_queries(len(price)):
        alice.get(many.get_absolute_url())


def test_history_is_paged_and_ones_own(
    world: World, alice: Client, django_assert_max_num_queries: Any
) -> None:
    make_answer(world.bob, question="Bob's question")
    for number in range(30):
        make_answer(world.alice, question=f"Question {number}")
    with django_assert_max_num_queries(4):
        html = alice.get("/answers/").content.decode()
    assert "Question 29" in html
    assert "Question 4<" not in html
    assert "Bob" not in html
    assert "Question 4<" in alice.get("/answers/?page=2").content.decode()


def test_history_of_a_superuser_is_their_own_too(world: World, client: Client) -> None:
    make_answer(world.bob, question="Bob's question")
    client.force_login(world.root)
    assert "Bob" not in client.get("/answers/").content.decode()


def test_pages_hold_no_inline_script_or_style(world: World, alice: Client) -> None:
    section = make_ticket(world.alpha, "ALPHA-1").sections.get()
    answer = make_answer(world.alice, section)
    for path in ("/", answer.get_absolute_url(), "/answers/", "/tickets/", "/nothing/"):
        html = alice.get(path).content.decode()
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=|javascript:", html)
        sources = re.findall(r'(?:src|href)="([^"]+)"', html)
        assert all(source[0] in "/?#" for source in sources), sources


@pytest.fixture
def cited(world: World) -> dict[int, Any]:
    section = make_ticket(world.alpha, "ALPHA-1", summary='Quote "me" <b>').sections.get()
    return {c.number: c for c in make_answer(world.alice, section).citations.all()}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Plain.", "<p>Plain.</p>"),
        ("One.\n\nTwo.", "<p>One.</p><p>Two.</p>"),
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
        ("![a](http://x)", "<p>![a](http://x)</p>"),
        ("[a](javascript:b)", "<p>[a](javascript:b)</p>"),
        ("**bold** `<code>`", "<p><strong>bold</strong> <code>&lt;code&gt;</code></p>"),
        ("No source [7].", "<p>No source [7].</p>"),
        ("X “title [1] **x**” y", "<p>X “title [1] **x**” y</p>"),
        ("> a[1] = 2", "<blockquote><p>a[1] = 2</p></blockquote>"),
        (
            "> ```\n> x < 1\n> ```",
            '<blockquote><pre tabindex="0"><code>x &lt; 1</code></pre></blockquote>',
        ),
        ("> mid ```\n> ```\n> x", "<blockquote><p>mid ```\n```\nx</p></blockquote>"),
    ],
)
def test_answer_text_is_rendered_by_allow_list(cited: Any, text: str, html: str) -> None:
    assert markdown.to_html(text, cited) == html


def test_answer_mark_is_a_link_with_the_quote_as_title(cited: Any) -> None:
    mark = (
        '<a class="mark" href="/tickets/default/ALPHA-1/#summary" '
        'title="Quote &quot;me&quot; &lt;b&gt;" aria-label="Source 1: ALPHA-1">1</a>'
    )
    assert markdown.to_html("So [1].", cited) == f"<p>So {mark}.</p>"
    quotation = f"<blockquote><p>said</p><footer>{mark}</footer></blockquote>"
    assert markdown.to_html("> said [1]", cited) == quotation
