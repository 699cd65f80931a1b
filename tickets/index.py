"""What makes tickets findable: vectors of their texts, and postings of their terms.

Promises that a text is embedded once however often it occurs, and that the
index of a ticket is replaced as a whole.
Must never happen: a vector without the name of its model; an embedding made
while a database transaction is open.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from pgvector.psycopg import register_vector

from supportkg.lib import embeddings

from .models import Chunk, Posting, Section, Ticket
from .sections import template
from .text.terms import terms

# Part of the content hash: raise it when chunks or terms are made differently.
INDEX_VERSION = 1
# A section of more chunks than this is a pasted file; its head is enough to find it.
MAX_CHUNKS = 16
PLAIN = ""  # kind of the chunks of the plain ticket text


@dataclass(frozen=True)
class Piece:
    """A text to embed: a piece of the section (kind, ordinal), or of the plain text."""

    kind: str
    section: int
    ordinal: int
    text: str
    text_hash: str


@dataclass(frozen=True)
class Entry:
    """What is to be indexed of one ticket: texts by (kind, section ordinal), and its terms
    without and with comments."""

    texts: dict[tuple[str, int], str]
    own: Counter[str]
    every: Counter[str]


@dataclass(frozen=True)
class Embedded:
    """The chunks of each entry, in order, and the vector of each text by its hash.

    ``fresh`` is how many texts had to be embedded.
    """

    chunks: tuple[tuple[Piece, ...], ...]
    vectors: dict[str, NDArray[np.float32]]
    fresh: int


def entry(sections: Sequence[Section], plain: str) -> Entry:
    """What to index of a ticket, from its sections (saved or not) and its plain text.

    The prose of a description is embedded below the title, so that a chunk says
    what it is about; the other sections are embedded as they are.
    """
    kinds = template().kinds
    title = next((s.text for s in sections if s.kind == "summary"), "")
    texts = {(PLAIN, 0): plain}
    own: Counter[str] = Counter()
    every: Counter[str] = Counter()
    comments = [s.text for s in sections if s.kind == "comment"]
    for section in sections:
        if kinds[section.kind].embed and section.text:
            above = f"{title}\n" if section.kind == "description" and title else ""
            texts[section.kind, section.ordinal] = above + section.text
        if section.kind in _OWN_KINDS:
            own += terms(section.text)
        # What was taken out of a comment stands in the comment already.
        elif (
            kinds[section.kind].field
            or section.kind == "comment"
            or not any(section.text in c for c in comments)
        ):
            every += terms(section.text)
    return Entry(texts, own, own + every)


def embed(entries: Iterable[Entry]) -> Embedded:
    """Cut the texts into pieces that the model reads whole, and make their vectors."""
    chunks = tuple(tuple(_chunks(entry_)) for entry_ in entries)
    texts = {chunk.text_hash: chunk.text for own in chunks for chunk in own}
    model = embeddings.get_model().name
    stored = (
        Chunk.objects.filter(text_hash__in=list(texts), model=model)
        .order_by("text_hash")
        .distinct("text_hash")
        .values_list("text_hash", "vector")
    )
    vectors = {text_hash: np.asarray(vector, np.float32) for text_hash, vector in stored}
    fresh = [text_hash for text_hash in texts if text_hash not in vectors]
    made = embeddings.embed([texts[text_hash] for text_hash in fresh])
    vectors.update(zip(fresh, made, strict=True))
    return Embedded(chunks, vectors, len(fresh))


def write(
    tickets: Sequence[Ticket],
    sections: Sequence[Sequence[Section]],
    entries: Sequence[Entry],
    embedded: Embedded,
) -> None:
    """Replace chunks and postings of saved tickets; all arguments run in parallel."""
    ids = [ticket.pk for ticket in tickets]
    Chunk.objects.filter(ticket__in=ids).delete()
    Posting.objects.filter(ticket__in=ids).delete()
    model = embeddings.get_model().name
    register_vector(connection.connection)
    # COPY goes past Django, which would turn the driver's errors into its own.
    with connection.wrap_database_errors, connection.cursor() as cursor:
        with cursor.copy(
            "COPY tickets_chunk (ticket_id, section_id, kind, ordinal, text, text_hash, model,"
            " vector) FROM STDIN (FORMAT BINARY)"
        ) as copy:
            copy.set_types(["int8", "int8", "text", "int4", "text", "text", "text", "vector"])
            for ticket, own, chunks in zip(tickets, sections, embedded.chunks, strict=True):
                rows = {(s.kind, s.ordinal): s.pk for s in own}
                for c in chunks:
                    row = rows[c.kind, c.section] if c.kind else None
                    vector = embedded.vectors[c.text_hash]
                    copy.write_row(
                        (ticket.pk, row, c.kind, c.ordinal, c.text, c.text_hash, model, vector)
                    )
        with cursor.copy(
            "COPY tickets_posting (ticket_id, term, own, every) FROM STDIN (FORMAT BINARY)"
        ) as copy:
            copy.set_types(["int8", "text", "int4", "int4"])
            for ticket, entry_ in zip(tickets, entries, strict=True):
                for term, count in entry_.every.items():
                    copy.write_row((ticket.pk, term, entry_.own[term], count))
    for ticket, entry_ in zip(tickets, entries, strict=True):
        ticket.own_terms = entry_.own.total()
        ticket.all_terms = entry_.every.total()
    Ticket.objects.bulk_update(tickets, ["own_terms", "all_terms"])


def _chunks(entry_: Entry) -> Iterable[Piece]:
    for (kind, section), text in entry_.texts.items():
        for ordinal, piece in enumerate(embeddings.split(text, max_chunks=MAX_CHUNKS)):
            text_hash = hashlib.sha256(piece.encode()).hexdigest()
            yield Piece(kind, section, ordinal, piece, text_hash)


def _own_kinds() -> frozenset[str]:
    below_description = {k.kind for k in template().children("description")}
    return frozenset({"summary", "description", *below_description})


_OWN_KINDS = _own_kinds()
