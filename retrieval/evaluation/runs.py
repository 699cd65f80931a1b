"""Runs: what the ranking gives for the queries of a benchmark.

Promises that a query goes through the very functions that answer a person:
``query.analyze``, then ``ranking.rank`` with the configuration of the mode.
Must never happen: a ticket outside the corpus in a run, which would make
figures depend on what else this database holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from retrieval import query as questions
from retrieval.baseline import PLAIN_TEXT
from retrieval.ranking import FUSION, PAPER, RankedTicket, RankingConfig, rank
from tickets.models import Ticket

from .golden import Query

# Tickets of a query that are judged; a right one below this place counts as not found.
DEPTH = 100
MODES: dict[str, RankingConfig] = {"baseline": PLAIN_TEXT, "graph": FUSION}

_EVERY = 1_000_000  # more tickets than all parts bring in together


@dataclass(frozen=True)
class Corpus:
    """The tickets of a benchmark as rows: id → key, their projects, and how many
    other tickets these projects hold."""

    keys: dict[int, str]
    projects: tuple[int, ...]
    foreign: int


@dataclass
class Run:
    """Query id → keys of the ranked tickets, best first; and seconds of each query."""

    name: str
    ranked: dict[str, list[str]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


def corpus(source: str, keys: Collection[str]) -> Corpus:
    """Where the tickets with these keys are. Tickets that are not there are left out."""
    rows = Ticket.objects.live().filter(source=source, key__in=keys)
    found = dict(rows.values_list("pk", "key"))
    projects = tuple(sorted(set(rows.values_list("project", flat=True))))
    every = Ticket.objects.live().filter(project__in=projects).count()
    return Corpus(found, projects, every - len(found))


def run(
    name: str,
    config: RankingConfig,
    queries: Sequence[Query],
    within: Corpus,
    on_query: Callable[[], None] = lambda: None,
) -> Run:
    """Rank the corpus for every query. The first query is asked twice, so that loading the
    model is not timed."""
    deep = replace(config, limit=DEPTH + within.foreign)
    result = Run(name)
    for query in queries[:1]:
        rank(questions.analyze(query.text), within.projects, deep)
    for query in queries:
        started = time.perf_counter()
        ranking = rank(questions.analyze(query.text), within.projects, deep)
        result.seconds.append(time.perf_counter() - started)
        result.ranked[query.id] = _keys(ranking.tickets, within)
        on_query()
    return result


def ablation(
    queries: Sequence[Query], within: Corpus, on_query: Callable[[], None] = lambda: None
) -> list[Run]:
    """Graph mode, and what is left of it with only one part or without one.

    All of these weigh the contributions of one gathering anew, so that they order
    the same candidates. Two runs more gather anew: lexical without comments, and
    the paper's plain sum of section cosines. ``on_query`` is called three times a query.
    """
    parts = frozenset(FUSION.weights)
    choices = {"all parts": parts}
    choices |= {f"only {part}": frozenset({part}) for part in FUSION.weights}
    choices |= {f"without {part}": parts - {part} for part in FUSION.weights}
    results = {name: Run(name) for name in choices}
    everything = replace(FUSION, limit=_EVERY)
    for query in queries:
        ranked = rank(questions.analyze(query.text), within.projects, everything).tickets
        for name, chosen in choices.items():
            ordered = sorted(ranked, key=partial(_place, chosen))
            results[name].ranked[query.id] = _keys(ordered, within)
        on_query()
    own = replace(FUSION, lexical_field="own")
    return [
        *results.values(),
        run("lexical without comments", own, queries, within, on_query),
        run("paper: sum of section cosines", PAPER, queries, within, on_query),
    ]


def _place(parts: frozenset[str], ticket: RankedTicket) -> tuple[float, int]:
    """The sort key of ``ranking.rank``, over some of the parts only."""
    score = sum(value for part, value in ticket.contributions.items() if part in parts)
    return -round(score, 9), ticket.ticket_id


def _keys(ranked: Sequence[RankedTicket], within: Corpus) -> list[str]:
    return [within.keys[t.ticket_id] for t in ranked if t.ticket_id in within.keys][:DEPTH]
