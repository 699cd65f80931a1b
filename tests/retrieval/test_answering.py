"""Quotes: whole when short, the closest span when long, never inside a fence."""

from __future__ import annotations

import pytest

from retrieval.answering import QUOTE, best_passage, closest_section, sentences
from supportkg.lib import embeddings
from tests.retrieval.conftest import Desk
from tickets.models import Section


def section(text: str, kind: str = "description") -> Section:
    return Section(kind=kind, text=text)


def quote(question: str, one: Section) -> str:
    return best_passage(embeddings.embed([question], query=True)[0], one)


def parts(text: str) -> list[str]:
    return [text[start:end].strip() for start, end in sentences(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        (
            "See version 3.1.0 at a.b.c now. Then go.",
            ["See version 3.1.0 at a.b.c now.", "Then go."],
        ),
        ("一つ。二つ。", ["一つ。", "二つ。"]),
        ("line\n\nline two", ["line", "line two"]),
        ("Look:\n```\na. b.\nc\n```\nDone.", ["Look:", "```\na. b.\nc\n```", "Done."]),
        ("", []),
    ],
)
def test_sentences(text: str, wanted: list[str]) -> None:
    assert parts(text) == wanted


def test_sentences_lose_nothing_but_blanks() -> None:
    text = "A b. C\nd! e.f g…\n\n  h? i。j"
    assert "".join("".join(parts(text)).split()) == "".join(text.split())


def test_short_section_is_quoted_whole() -> None:
    assert quote("anything", section("First. Second.")) == "First. Second."


def test_long_section_gives_the_closest_span() -> None:
    filler = "The weather was mild and nothing happened. " * 20
    text = f"{filler}The login token had expired after the update. {filler}"
    found = quote("why did the login fail after the update", section(text))
    assert "login token had expired" in found
    assert found in text
    assert len(found) <= QUOTE


def test_steps_are_read_from_the_first_one() -> None:
    text = "\n".join(f"{n}. Do thing number {n} with the colour green" for n in range(1, 60))
    found = quote("thing number 50", section(text, "steps_to_reproduce"))
    assert found.startswith("1. Do thing number 1")
    assert len(found) <= QUOTE


def test_quote_does_not_end_inside_a_fence() -> None:
    code = "```\n" + "call(argument)\n" * 30 + "```"
    text = "It fails at start. " * 10 + "\n" + code + "\n" + "More words follow here. " * 10
    assert quote("It fails at start", section(text)).count("```") % 2 == 0


@pytest.mark.django_db
def test_closest_of_several_sections_is_chosen(desk: Desk) -> None:
    comments = list(Section.objects.filter(ticket__key="WEB-1", kind="comment"))
    assert len(comments) == 3
    vector = embeddings.embed(["how was the upload repaired"], query=True)[0]
    assert "address cache" in closest_section(vector, comments).text


def test_blob_without_sentences_is_cut() -> None:
    assert quote("x", section("y" * 5_000)) == "y" * QUOTE
