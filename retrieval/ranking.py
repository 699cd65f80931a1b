"""Which tickets a question is about: EBR over sections, fused with plain text and BM25.

Promises that every ranked ticket carries contributions that add up to its
score, and that the same question over the same tickets gives the same order.
Must never happen: a ticket outside the given projects; cosines of two models
compared; a loop over all tickets in Python.

The section part is the paper's (RAG-KG, arXiv 2404.17723, section 2.2.2):
S_T = sum over (k, v) in P, sum over nodes n of T with n.section = k, of
cos(embed(v), embed(n.text)). The chunks of a section are reduced to their
maximum first, because the plain sum favours long tickets; ``chunks="sum"``
keeps the plain sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from django.db import connection, transaction
from django.db.models import Count
from numpy.typing import NDArray

from supportkg.lib import embeddings
from tickets.index import PLAIN
from tickets.models import Posting, Ticket

from . import lexical
from .query import QueryAnalysis

Vector = NDArray[np.float32]

# A word that stands in more tickets than this does not identify one.
MAX_HOLDERS = 20


@dataclass(frozen=True)
class RankingConfig:
    """How parts are weighed. A part is "section:KIND", "plain" or "lexical".

    ``standardise`` turns each part into z-scores over the candidates before it
    is weighed (score fusion); without it the raw cosines are summed.
    ``candidates`` is how many chunks or tickets each part brings in.
    """

    name: str
    weights: Mapping[str, float]
    standardise: bool = True
    chunks: Literal["max", "sum"] = "max"
    lexical_field: lexical.Field = "every"
    candidates: int = 200
    limit: int = 20


FUSION = RankingConfig(
    "fusion",
    {"section:summary": 1.0, "section:description": 1.0, "plain": 1.0, "lexical": 1.0},
)
PAPER = RankingConfig(
    "paper", {"section:summary": 1.0, "section:description": 1.0}, standardise=False
)


@dataclass(frozen=True)
class RankedTicket:
    """A ticket with its score, the contributions that add up to it, and the raw values.

    ``closeness`` is the best cosine of any part, -1 to 1: how near the ticket
    is in absolute terms, which a standardised score does not say. ``exact``:
    it holds an identifier of the question. ``named``: the question names it.
    """

    ticket_id: int
    score: float
    contributions: dict[str, float]
    values: dict[str, float]
    closeness: float
    exact: bool = False
    named: bool = False


@dataclass(frozen=True)
class Ranking:
    """Tickets, best first. ``unknown_keys`` were named and are not there to see."""

    config: str
    model: str
    tickets: tuple[RankedTicket, ...]
    unknown_keys: tuple[str, ...] = ()


@dataclass
class _Parts:
    """Raw values by part, and the candidates that they brought in."""

    values: dict[str, dict[int, float]] = field(default_factory=dict)
    candidates: set[int] = field(default_factory=set)


def rank(
    analysis: QueryAnalysis, projects: Sequence[int], config: RankingConfig = FUSION
) -> Ranking:
    """The tickets of ``projects`` (row ids) closest to the question, at most ``config.limit``.

    Tickets that the question names by key come first.
    """
    model = embeddings.get_model()
    named, unknown = _named(analysis, projects)
    parts = _gather(analysis, projects, config)
    matrix = _matrix(parts, config, exact=_holding(analysis.identifiers, parts.candidates))
    order = np.lexsort((matrix.ids, -matrix.total))
    ranked = [matrix.ticket(i) for i in order if matrix.ids[i] not in named]
    first = [matrix.named(ticket_id) for ticket_id in named]
    return Ranking(config.name, model.name, tuple((first + ranked)[: config.limit]), unknown)


def _named(analysis: QueryAnalysis, projects: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
    """The tickets that the question names, in its order, and the keys that nobody has."""
    rows = Ticket.objects.live().filter(key__in=analysis.keys, project__in=projects)
    found = sorted(rows.values_list("key", "pk"), key=lambda row: analysis.keys.index(row[0]))
    known = {key for key, _ in found}
    return [pk for _, pk in found], tuple(key for key in analysis.keys if key not in known)


def _holding(identifiers: Sequence[str], tickets: set[int]) -> frozenset[int]:
    """The tickets whose text holds one of the identifiers; a common word is none."""
    if not identifiers:
        return frozenset()
    words = [word.casefold() for word in identifiers]
    counts = Posting.objects.filter(term__in=words).values_list("term").annotate(n=Count("pk"))
    rare = [term for term, count in counts if count <= MAX_HOLDERS]
    rows = Posting.objects.filter(term__in=rare, ticket__in=tickets)
    return frozenset(rows.values_list("ticket", flat=True))


def _gather(analysis: QueryAnalysis, projects: Sequence[int], config: RankingConfig) -> _Parts:
    parts = _Parts()
    texts = {
        f"section:{kind}": value
        for kind, value in analysis.entities
        if config.weights.get(f"section:{kind}")
    }
    if config.weights.get("plain"):
        texts["plain"] = analysis.text
    unique = list(dict.fromkeys(texts.values()))
    vectors = dict(zip(unique, embeddings.embed(unique, query=True), strict=True))
    queries = {part: vectors[text] for part, text in texts.items()}
    for part, vector in queries.items():
        parts.candidates |= _nearest(_kind(part), vector, projects, config.candidates)
    if config.weights.get("lexical"):
        # Code in a long report drowns the words that say what it is about.
        prose = dict(analysis.entities).get("description", analysis.text)
        query = lexical.prepare(prose, projects, config.lexical_field)
        parts.candidates |= lexical.search(query, projects, config.candidates).keys()
        parts.values["lexical"] = lexical.score(query, parts.candidates)
    for part, vector in queries.items():
        parts.values[part] = _cosines(_kind(part), vector, parts.candidates, config.chunks)
    return parts


def _nearest(kind: str, vector: Vector, projects: Sequence[int], limit: int) -> set[int]:
    """Tickets whose chunks of a kind are closest to ``vector``, through the vector index."""
    # The kind is written out because the index is partial: with a parameter the
    # planner could not prove that the index covers the query.
    name = {PLAIN: "''", "summary": "'summary'", "description": "'description'"}[kind]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('hnsw.ef_search', %s, true), "
            "set_config('hnsw.iterative_scan', 'relaxed_order', true)",
            [str(min(1000, max(40, limit)))],
        )
        cursor.execute(
            "SELECT c.ticket_id FROM tickets_chunk c JOIN tickets_ticket t ON t.id = c.ticket_id "
            f"WHERE c.kind = {name} AND c.model = %s AND t.deleted_at IS NULL "
            "AND t.project_id = ANY(%s) ORDER BY c.vector <=> %s::vector LIMIT %s",
            [embeddings.get_model().name, list(projects), _text(vector), limit],
        )
        return {row[0] for row in cursor.fetchall()}


def _cosines(
    kind: str, vector: Vector, tickets: set[int], chunks: Literal["max", "sum"]
) -> dict[int, float]:
    """Exact cosine (-1 to 1) of each ticket's chunks of a kind, reduced to one value."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT ticket_id, {chunks}(1 - (vector <=> %s::vector)) FROM tickets_chunk "
            "WHERE kind = %s AND model = %s AND ticket_id = ANY(%s) GROUP BY ticket_id",
            [_text(vector), kind, embeddings.get_model().name, list(tickets)],
        )
        return dict(cursor.fetchall())


@dataclass(frozen=True)
class _Matrix:
    """Candidates by parts: raw values (NaN where a ticket lacks the part) and contributions."""

    parts: tuple[str, ...]
    ids: NDArray[np.int64]
    raw: NDArray[np.float64]
    weighed: NDArray[np.float64]
    exact: frozenset[int]

    @property
    def total(self) -> NDArray[np.float64]:
        # Rounded, so that the last bits of a float never decide an order.
        return self.weighed.sum(axis=1).round(9)

    def ticket(self, i: int, *, named: bool = False) -> RankedTicket:
        raw = dict(zip(self.parts, self.raw[i].tolist(), strict=True))
        values = {part: value for part, value in raw.items() if value == value}
        cosines = [value for part, value in values.items() if part != "lexical"]
        contributions = dict(zip(self.parts, self.weighed[i].tolist(), strict=True))
        return RankedTicket(
            ticket_id=int(self.ids[i]),
            score=sum(contributions.values()),
            contributions=contributions,
            values=values,
            closeness=max(cosines, default=0.0),
            exact=int(self.ids[i]) in self.exact,
            named=named,
        )

    def named(self, ticket_id: int) -> RankedTicket:
        places = np.flatnonzero(self.ids == ticket_id)
        if len(places):
            return self.ticket(int(places[0]), named=True)
        return RankedTicket(ticket_id, 0.0, {}, {}, 0.0, named=True)  # named, and far off


def _matrix(parts: _Parts, config: RankingConfig, exact: frozenset[int]) -> _Matrix:
    ids = np.array(sorted(parts.candidates), dtype=np.int64)
    names = tuple(part for part in config.weights if part in parts.values)
    raw = np.full((len(ids), len(names)), np.nan)
    for column, part in enumerate(names):
        values = parts.values[part]
        raw[:, column] = [values.get(i, np.nan) for i in ids.tolist()]
    return _Matrix(names, ids, raw, _weigh(raw, names, config), exact)


def _weigh(
    raw: NDArray[np.float64], names: tuple[str, ...], config: RankingConfig
) -> NDArray[np.float64]:
    weighed = np.zeros_like(raw)
    for column, part in enumerate(names):
        values = raw[:, column].copy()
        missing = np.isnan(values)
        if part == "lexical" or not config.standardise:
            values[missing] = 0.0  # shares no term; or a sum over no node
        elif missing.all():
            continue
        elif "section:summary" in names and part == "section:description":
            # A ticket that is all title is compared by its title.
            values = np.where(missing, raw[:, names.index("section:summary")], values)
            values[np.isnan(values)] = np.nanmin(values)
        else:
            values[missing] = values[~missing].min()
        if config.standardise and len(values):
            spread = values.std()
            values = (values - values.mean()) / spread if spread > 0 else values * 0
        weighed[:, column] = config.weights[part] * values
    return weighed


def _kind(part: str) -> str:
    return PLAIN if part == "plain" else part.removeprefix("section:")


def _text(vector: Vector) -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def to_json(ranking: Ranking) -> list[dict[str, Any]]:
    """For the stored answer: keys, scores and what made them, best first.

    Without any text of a ticket, so that nothing of it stays when it is deleted.
    """
    ids = [ticket.ticket_id for ticket in ranking.tickets]
    names = {
        pk: {"source": source, "key": key}
        for pk, source, key in Ticket.objects.filter(pk__in=ids).values_list("pk", "source", "key")
    }
    return [
        {
            **names[ticket.ticket_id],
            "score": round(ticket.score, 4),
            "contributions": {k: round(v, 4) for k, v in ticket.contributions.items()},
            "values": {k: round(v, 4) for k, v in ticket.values.items()},
            "closeness": round(ticket.closeness, 4),
            "exact": ticket.exact,
            "named": ticket.named,
        }
        for ticket in ranking.tickets
        if ticket.ticket_id in names
    ]
