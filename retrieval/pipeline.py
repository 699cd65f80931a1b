"""A question goes down the rungs until one of them answers, or none does.

Promises one stored Answer for every question, with each rung that was tried
and the reason it was left: graph query → whole tickets from the graph → plain
text → decline.
Must never happen: a silent fallback; an answer from tickets that the asker may
not see; generated Cypher or text trusted without the gate and the recheck.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import transaction

from supportkg.lib import embeddings
from supportkg.lib.graph import GraphQueryError, GraphUnavailable
from tickets.models import Project, Ticket

from . import answering, baseline, query, ranking, subgraph
from .cypher import CheckedCypher, CypherRefused
from .models import Answer, Citation
from .query import DEFAULT_INTENT, QueryAnalysis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import AbstractUser, AnonymousUser

log = logging.getLogger(__name__)

# Ranked tickets that are read around; the paper's K is not disclosed.
TOP_K = 5
# A ticket further from the question than this behind the closest one is another
# topic and is not quoted beside it. In cosine; chosen by eye, not tuned.
NEAR = 0.15
# Reasons after which no lower rung can do better.
FINAL = frozenset({"NOTHING_CLOSE", "NO_LINKS", "NO_TICKETS", "UNKNOWN_TICKET", "LINKS_NEED_GRAPH"})


class QuestionError(ValueError):
    """The question cannot be asked as it is; the message says why."""


class _Left(Exception):
    """A rung gives no answer; ``reason`` is one of the codes in docs/architecture.md."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail


@dataclass
class _Run:
    """What is known about a question while it goes down the rungs."""

    analysis: QueryAnalysis
    projects: list[Project]
    ranking: ranking.Ranking | None = None
    tickets: list[Ticket] = field(default_factory=list)
    queries: tuple[CheckedCypher, ...] = ()
    rungs: list[dict[str, str]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def scope(self) -> list[int]:
        return [project.pk for project in self.projects]

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self.seconds[stage] = round(self.seconds.get(stage, 0.0) + spent, 4)


def answer(
    question: str,
    *,
    user: AbstractUser | AnonymousUser | None = None,
    mode: str = Answer.Mode.GRAPH,
) -> Answer:
    """Answer a question for ``user`` (``None``: the command line, which sees everything).

    Raises QuestionError for an empty or over-long question.
    """
    if not question.strip():
        raise QuestionError("The question is empty.")
    if len(question) > query.MAX_QUESTION:
        raise QuestionError(
            f"The question has {len(question)} characters; at most {query.MAX_QUESTION} are read."
        )
    started = time.perf_counter()
    run = _Run(query.analyze(question), list(Project.objects.visible_to(user)))
    graph_rungs = [("graph", _graph), ("subgraph", _subgraph)]
    rungs = [*(graph_rungs if mode == Answer.Mode.GRAPH else []), ("baseline", _baseline)]
    draft, route = _descend(run, rungs)
    run.seconds["total"] = round(time.perf_counter() - started, 4)
    return _store(run, draft, route, question=question, user=user, mode=mode)


def _descend(
    run: _Run, rungs: Sequence[tuple[str, Callable[[_Run], answering.Draft]]]
) -> tuple[answering.Draft, str]:
    for name, rung in rungs:
        try:
            draft = rung(run)
        except _Left as left:
            run.rungs.append(
                {"rung": name, "outcome": "left", "reason": left.reason, "detail": left.detail}
            )
            if left.reason in FINAL:
                break
        else:
            run.rungs.append({"rung": name, "outcome": "answered", "reason": "", "detail": ""})
            return draft, name
    return answering.Draft([_decline(run)]), Answer.Route.DECLINED


def _graph(run: _Run) -> answering.Draft:
    """The intent's own query over the ranked tickets."""
    _rank(run, ranking.rank)
    intent = run.analysis.intents[0]
    return _read(run, lambda: subgraph.extract(intent, run.tickets, run.projects))


def _subgraph(run: _Run) -> answering.Draft:
    """The fixed read of whole tickets, for what no query of the intent gave."""
    if run.rungs and run.rungs[-1]["reason"] != "NO_ROWS":
        raise _Left(run.rungs[-1]["reason"])
    return _read(run, lambda: subgraph.whole(run.tickets, run.projects))


def _baseline(run: _Run) -> answering.Draft:
    """Plain text, without the graph."""
    if run.analysis.intents[0].relationship and (not run.rungs or _is_fault(run.rungs[-1])):
        raise _Left("LINKS_NEED_GRAPH", "Links between tickets can only be read from the graph.")
    _rank(run, baseline.retrieve)
    with run.timed("extract"):
        found = baseline.passages(run.tickets)
    if not found:
        raise _Left("NO_ROWS", "The closest tickets have no text to quote.")
    with run.timed("compose"):
        return answering.compose(run.analysis, DEFAULT_INTENT, found, run.tickets)


def _is_fault(rung: dict[str, str]) -> bool:
    return rung["reason"].startswith(("GRAPH_", "CYPHER_"))


def _rank(run: _Run, rank: Callable[[QueryAnalysis, Sequence[int]], ranking.Ranking]) -> None:
    with run.timed("rank"):
        run.ranking = rank(run.analysis, run.scope)
        chosen = _choose(run.ranking.tickets)
        rows = (
            Ticket.objects.select_related("project")
            .defer("raw")
            .in_bulk([t.ticket_id for t in chosen])
        )
        run.tickets = [rows[t.ticket_id] for t in chosen if t.ticket_id in rows]
    _refuse_strangers(run)


def _choose(ranked: Sequence[ranking.RankedTicket]) -> list[ranking.RankedTicket]:
    """The tickets to read around: those that the question names, else the close ones."""
    if named := [ticket for ticket in ranked if ticket.named]:
        return named[:TOP_K]
    edge = max((ticket.closeness for ticket in ranked), default=0.0) - NEAR
    near = [ticket for ticket in ranked[1:TOP_K] if ticket.exact or ticket.closeness >= edge]
    return [*ranked[:1], *near]


def _refuse_strangers(run: _Run) -> None:
    """Leave when there is nothing to answer from, or nothing near the question."""
    assert run.ranking is not None
    ranked = run.ranking.tickets
    if not run.tickets:
        raise _Left("NO_TICKETS", "There are no tickets that you may see.")
    if any(ticket.named or ticket.exact for ticket in ranked):
        return
    if run.ranking.unknown_keys:
        keys = ", ".join(run.ranking.unknown_keys)
        raise _Left("UNKNOWN_TICKET", f"{keys} is not among the tickets that you may see.")
    best = max(ticket.closeness for ticket in ranked)
    needed = embeddings.get_model().decline_below_cosine
    if best < needed:
        detail = f"The closest ticket is at cosine {best:.2f}; {needed:.2f} is needed."
        raise _Left("NOTHING_CLOSE", detail)


def _read(run: _Run, extract: Callable[[], subgraph.Subgraph]) -> answering.Draft:
    try:
        with run.timed("extract"):
            found = extract()
    except GraphUnavailable as error:
        log.warning("%s", error)
        raise _Left("GRAPH_UNAVAILABLE", "The graph does not answer.") from error
    except CypherRefused as error:
        raise _Left(f"CYPHER_{error.code}", str(error)) from error
    except GraphQueryError as error:
        # The server's text may quote what the asker must not see: it goes to the log.
        log.warning("%s: %s", error.code, error)
        raise _Left(f"GRAPH_{error.code}", "The graph refused or stopped the query.") from error
    run.queries += found.queries
    if not found.evidence:
        if relationship := run.analysis.intents[0].relationship:
            keys = ", ".join(ticket.key for ticket in run.tickets)
            what = answering.MISSING[relationship, run.analysis.intents[0].direction]
            reason = "NO_LINKS" if run.analysis.keys else "NO_ROWS"
            raise _Left(reason, f"There is no {what} on record for {keys}.")
        raise _Left("NO_ROWS", "The query found nothing in the closest tickets.")
    with run.timed("compose"):
        return answering.compose(run.analysis, run.analysis.intents[0], found.evidence, run.tickets)


def _decline(run: _Run) -> str:
    last = run.rungs[-1]
    if last["reason"] == "NOTHING_CLOSE":
        return "None of the tickets is close enough to this question to answer from it."
    return last["detail"] or "There is nothing to answer this question from."


def _store(
    run: _Run, draft: answering.Draft, route: str, *, question: str, user: Any, mode: str
) -> Answer:
    with transaction.atomic():
        row = Answer.objects.create(
            question=question,
            asked_by=user if user is not None and user.pk else None,
            mode=mode,
            route=route,
            text=draft.text,
            rungs=run.rungs,
            analysis=run.analysis.to_json(),
            ranking=ranking.to_json(run.ranking) if run.ranking else [],
            cypher=";\n".join(q.text for q in run.queries),
            cypher_parameters=dict(run.queries[0].parameters) if run.queries else {},
            embedding_model=embeddings.get_model().name,
            seconds=run.seconds,
        )
        Citation.objects.bulk_create(
            Citation(
                answer=row,
                number=quote.number,
                ticket=quote.section.ticket,
                section=quote.section,
                anchor=quote.section.anchor,
                quote=quote.text,
                public=quote.section.public,
            )
            for quote in draft.quotes
        )
    return row
