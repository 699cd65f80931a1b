"""Rows for tests, made directly: no import, no embedding, no graph."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

import numpy as np
from django.contrib.auth.models import User
from knox.models import AuthToken

from retrieval.models import Answer, Citation
from tickets.importers.raw import RawTicket
from tickets.models import (
    VECTOR_DIMENSIONS,
    Chunk,
    Link,
    Posting,
    Project,
    Section,
    SimilarLink,
    Ticket,
)

_numbers = count(1)


def make_user(name: str, **fields: Any) -> User:
    """Without a password: hashing one takes longer than most tests."""
    return User.objects.create_user(name, **fields)


def make_superuser(name: str = "root") -> User:
    return User.objects.create_superuser(name)


def make_token(user: User) -> str:
    return AuthToken.objects.create(user)[1]


def make_project(key: str = "ALPHA", *members: User, source: str = "default") -> Project:
    project = Project.objects.create(source=source, key=key)
    project.members.add(*members)
    return project


def make_ticket(
    project: Project, key: str = "", *, sections: dict[str, str] | None = None, **fields: Any
) -> Ticket:
    """A ticket with its summary and ``sections``: text by kind, or by kind-ordinal."""
    key = key or f"{project.key}-{next(_numbers)}"
    summary = fields.pop("summary", f"Summary of {key}")
    values: dict[str, Any] = {
        "raw": RawTicket(key=key, project=project.key, summary=summary).to_json(),
        "summary": summary,
        "status": "Closed",
        "status_category": "solved",
        "updated_at": datetime(2024, 5, 1, tzinfo=UTC),
        **fields,
    }
    ticket = Ticket.objects.create(project=project, source=project.source, key=key, **values)
    make_section(ticket, "summary", summary)
    for name, text in (sections or {}).items():
        make_section(ticket, name, text)
    return ticket


def make_section(ticket: Ticket, name: str, text: str = "", **fields: Any) -> Section:
    """``name`` is an anchor: ``description``, ``comment-2``."""
    kind, _, ordinal = name.partition("-")
    return Section.objects.create(
        ticket=ticket, kind=kind, ordinal=int(ordinal or 0), text=text, **fields
    )


def make_chunk(ticket: Ticket, text: str = "a chunk") -> Chunk:
    return Chunk.objects.create(
        ticket=ticket,
        kind="summary",
        text=text,
        text_hash="0" * 64,
        model="all-MiniLM-L6-v2",
        vector=np.eye(1, VECTOR_DIMENSIONS)[0],
    )


def make_posting(ticket: Ticket, term: str = "crash") -> Posting:
    return Posting.objects.create(ticket=ticket, term=term, own=1, every=2)


def make_link(
    ticket: Ticket,
    other: Ticket | str,
    kind: str = "BLOCKS",
    **fields: Any,
) -> Link:
    """``ticket`` states ``ticket -kind-> other``; a key instead of a ticket is pending."""
    known = other if isinstance(other, Ticket) else None
    key = known.key if known else str(other)
    values = {"from_key": ticket.key, "to_key": key, "origin": "tracker", **fields}
    return Link.objects.create(
        ticket=ticket,
        other=known,
        type=kind,
        source=ticket.source,
        other_key=key,
        **values,
    )


def make_similar(one: Ticket, two: Ticket, score: float = 0.9, **fields: Any) -> SimilarLink:
    first, second = sorted((one, two), key=lambda ticket: ticket.pk)
    return SimilarLink.objects.create(
        first=first, second=second, score=score, model="all-MiniLM-L6-v2", **fields
    )


def make_answer(user: User | None, *cited: Section, **fields: Any) -> Answer:
    """An answer that quotes the whole text of each section in ``cited``."""
    marks = [f"{section.ticket.key} says [{n}]." for n, section in enumerate(cited, 1)]
    ranking = [
        {
            "source": section.ticket.source,
            "key": section.ticket.key,
            "summary": section.ticket.summary,
            "score": 1.5,
            "contributions": {"section:summary": 2.0, "lexical": -0.5},
            "values": {"section:summary": 0.8},
            "closeness": 0.8,
            "exact": False,
            "named": False,
        }
        for section in cited
    ]
    values = {
        "question": "What fixed it?",
        "route": Answer.Route.GRAPH if cited else Answer.Route.DECLINED,
        "text": "\n\n".join(marks) or "Nothing is close enough.",
        "rungs": [{"rung": "graph", "outcome": "answered", "reason": "", "detail": ""}],
        "analysis": {"intents": ["fix"], "entities": [["summary", "it"]], "intent_stated": True},
        "ranking": ranking,
        "seconds": {"rank": 0.1, "total": 0.2},
        **fields,
    }
    answer = Answer.objects.create(asked_by=user, **values)
    for number, section in enumerate(cited, 1):
        Citation.objects.create(
            answer=answer,
            number=number,
            ticket=section.ticket,
            section=section,
            anchor=section.anchor,
            quote=section.text,
            public=section.public,
        )
    return answer


@dataclass(frozen=True)
class World:
    """Alice is a member of ALPHA, Bob of BETA, Charlie of nothing; ``root`` is a superuser."""

    alice: User
    bob: User
    charlie: User
    root: User
    alpha: Project
    beta: Project


def make_world() -> World:
    alice, bob, charlie = (make_user(name) for name in ("alice", "bob", "charlie"))
    return World(
        alice=alice,
        bob=bob,
        charlie=charlie,
        root=make_superuser(),
        alpha=make_project("ALPHA", alice),
        beta=make_project("BETA", bob),
    )
