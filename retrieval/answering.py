"""Evidence becomes an extractive answer: quotes with numbered citations.

Promises that every sentence carries the number of the section that it comes
from, and that a quote stands in its section word for word.
Must never happen: a sentence without a citation; a number without a passage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from django.db.models import Min
from numpy.typing import NDArray
from pgvector.django import CosineDistance

from supportkg.lib import embeddings
from tickets.models import Chunk, Section, Ticket

from .evidence import Evidence
from .query import Intent, QueryAnalysis

Vector = NDArray[np.float32]

MAX_TICKETS = 3
MAX_RELATED = 20
QUOTE = 600  # characters
# Sentences that are compared with the question to choose a quote; a longer
# section is a pasted file.
MAX_SENTENCES = 80
_SENTENCE = re.compile(r"[^\n.!?。！？]*(?:[.!?](?!\s|$)[^\n.!?。！？]*)*(?:[.!?。！？]+|\n|$)\s*")

_FENCE = "```"

# How a related ticket is tied to the one asked about, and what is missing when none is.
_RELATIONS = {
    ("BLOCKS", "in"): "blocks {of}",
    ("BLOCKS", "out"): "is blocked by {of}",
    ("CAUSED_BY", "out"): "is named as the cause of {of}",
    ("DUPLICATE_OF", "both"): "is linked to {of} as a duplicate",
    ("PARENT_OF", "both"): "is linked to {of} as parent or part",
    ("CLONE_OF", "both"): "is linked to {of} as a clone",
    ("RELATES_TO", "both"): "is related to {of}",
    ("SIMILAR_TO", "both"): "has a title similar to that of {of}",
}
MISSING = {
    ("BLOCKS", "in"): "ticket that blocks it",
    ("BLOCKS", "out"): "ticket that it blocks",
    ("CAUSED_BY", "out"): "ticket that caused it",
    ("DUPLICATE_OF", "both"): "duplicate",
    ("PARENT_OF", "both"): "parent or part",
    ("CLONE_OF", "both"): "clone",
    ("RELATES_TO", "both"): "related ticket",
    ("SIMILAR_TO", "both"): "ticket with a similar title",
}


@dataclass(frozen=True)
class Quote:
    """A cited passage: ``text`` is a span of ``section.text``."""

    number: int
    section: Section
    text: str


@dataclass
class Draft:
    """An answer in the making: Markdown paragraphs with [n], and what n stands for."""

    paragraphs: list[str] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(self.paragraphs)

    def cite(self, section: Section, text: str) -> int:
        """The number for a passage; the same passage keeps its number."""
        for quote in self.quotes:
            if quote.section.pk == section.pk and quote.text == text:
                return quote.number
        self.quotes.append(Quote(len(self.quotes) + 1, section, text))
        return len(self.quotes)


def compose(
    analysis: QueryAnalysis,
    intent: Intent,
    evidence: Sequence[Evidence],
    tickets: Sequence[Ticket],
) -> Draft:
    """An answer from evidence about ``tickets`` (best first), never empty when there is any."""
    titles = _titles(tickets, evidence)
    draft = Draft()
    _say_what_is_missing(draft, analysis, intent, evidence, tickets, titles)
    if intent.relationship:
        _list_related(draft, intent, evidence, tickets, titles)
        return draft
    vector = embeddings.embed([analysis.text], query=True)[0]
    shown = list(dict.fromkeys(e.rank for e in evidence))[:MAX_TICKETS]
    for rank in shown:
        of_ticket = [e for e in evidence if e.rank == rank]
        _quote_ticket(draft, vector, tickets[rank], of_ticket, titles)
    return draft


def _list_related(
    draft: Draft,
    intent: Intent,
    evidence: Sequence[Evidence],
    tickets: Sequence[Ticket],
    titles: dict[int, Section],
) -> None:
    """The tickets tied to the best ranked ticket that has any, a sentence each."""
    best = evidence[0].rank
    related = [e for e in evidence if e.rank == best]
    says = _RELATIONS[intent.relationship, intent.direction]
    for e in related[:MAX_RELATED]:
        name = _cited_name(draft, e.section.ticket, titles)
        of = _cited_name(draft, tickets[best], titles)
        draft.paragraphs.append(f"{name} {says.format(of=of)}.")


def _say_what_is_missing(
    draft: Draft,
    analysis: QueryAnalysis,
    intent: Intent,
    evidence: Sequence[Evidence],
    tickets: Sequence[Ticket],
    titles: dict[int, Section],
) -> None:
    """When the closest ticket does not have what was asked for, say so first."""
    closest = tickets[0]
    has = any(
        e.rank == 0 and (intent.relationship or e.section.kind in intent.sections) for e in evidence
    )
    if has or not analysis.explicit or closest.pk not in titles:
        return
    title = titles[closest.pk]
    number = draft.cite(title, title.text)
    if intent.relationship:
        wanted = MISSING[intent.relationship, intent.direction]
    else:
        wanted = intent.sections[0].replace("_", " ")
    draft.paragraphs.append(
        f"The closest ticket, {_name(closest)} [{number}], has no {wanted} on record."
    )


def _quote_ticket(
    draft: Draft,
    question: Vector,
    ticket: Ticket,
    evidence: list[Evidence],
    titles: dict[int, Section],
) -> None:
    lead = _cited_name(draft, ticket, titles)
    if (original := evidence[0].section.ticket) != ticket:
        lead += f" is a duplicate of {_cited_name(draft, original, titles)}"
    values = [e for e in evidence if _is_value(e.section)]
    if len(values) == len(evidence):
        parts = [
            f"“{_words(e.section.text)}” [{draft.cite(e.section, e.section.text)}]" for e in values
        ]
        heading = evidence[0].section.kind.replace("_", " ")
        draft.paragraphs.append(f"{lead}, {heading}: {'; '.join(parts)}.")
        return
    section = closest_section(question, [e.section for e in evidence])
    text = best_passage(question, section)
    number = draft.cite(section, text)
    by = f", {section.heading.lower()}" + (f" by {_bare(section.author)}" if section.author else "")
    note = "" if section.public else " (internal note)"
    quoted = "\n".join(f"> {line}" for line in text.splitlines())
    draft.paragraphs.append(f"{lead}{by}{note}:\n\n{quoted} [{number}]")


def _cited_name(draft: Draft, ticket: Ticket, titles: dict[int, Section]) -> str:
    title = titles.get(ticket.pk)
    return _name(ticket) + (f" [{draft.cite(title, title.text)}]" if title else "")


def _is_value(section: Section) -> bool:
    """Short enough to stand in a sentence."""
    return len(section.text) <= 80 and "\n" not in section.text and section.kind != "comment"


def closest_section(question: Vector, sections: Sequence[Section]) -> Section:
    """The section with the chunk closest to the question, by the stored vectors."""
    if len(sections) == 1:
        return sections[0]
    chunks = Chunk.objects.filter(section__in=sections, model=embeddings.get_model().name)
    scores = dict(
        chunks.values_list("section").annotate(distance=Min(CosineDistance("vector", question)))
    )
    return min(sections, key=lambda section: scores.get(section.pk, 2.0))


def best_passage(question: Vector, section: Section) -> str:
    """The span of at most QUOTE characters closest to the question; a short text as it is."""
    text = section.text
    if len(text) <= QUOTE:
        return text.strip()
    spans = [(start, end) for start, end in sentences(text)[:MAX_SENTENCES] if end - start <= QUOTE]
    if not spans:
        return text[:QUOTE].strip()
    start, end = spans[0]  # steps are read from the first one
    if section.kind != "steps_to_reproduce":
        vectors = embeddings.embed([text[start:end] for start, end in spans])
        start, end = spans[int(np.argmax(vectors @ question))]
    for left, right in spans:
        if left >= end and right - start <= QUOTE:
            end = right
    return text[start:end].strip()


def sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences and lines of ``text``; very long ones are cut.

    A fenced block counts as one, so that no quote ends inside of it.
    """
    spans: list[tuple[int, int]] = []
    inside = False
    for match in _SENTENCE.finditer(text):
        if inside:
            spans[-1] = (spans[-1][0], match.end())
        elif match.group().strip():
            spans.append((match.start(), min(match.end(), match.start() + QUOTE)))
        if match.group().count(_FENCE) % 2:
            inside = not inside
    return spans


def _titles(tickets: Sequence[Ticket], evidence: Sequence[Evidence]) -> dict[int, Section]:
    ids = {ticket.pk for ticket in tickets} | {e.section.ticket_id for e in evidence}
    rows = (
        Section.objects.filter(ticket__in=ids, kind="summary")
        .select_related("ticket")
        .defer("ticket__raw")
    )
    return {row.ticket_id: row for row in rows}


def _name(ticket: Ticket) -> str:
    state = ", ".join(_bare(word) for word in (ticket.status, ticket.resolution) if word)
    return f"{ticket.key} “{_words(ticket.summary)}”" + (f" ({state})" if state else "")


def _words(text: str) -> str:
    """Text of a ticket to stand between “ and ”, where no marks are read."""
    return " ".join(text.split()).replace("“", '"').replace("”", '"')


def _bare(text: str) -> str:
    """A word of a ticket to stand without quotes: nothing in it can pass for a mark."""
    return re.sub(r"[\[\]*>“”`]", "", " ".join(text.split()))
