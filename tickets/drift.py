"""Is the graph what the rows say? And if not, make it so.

Promises a read-only report (``check``) that names every ticket that differs,
and two repairs: ``sync`` for what is marked as changed or found to differ, and
``rebuild`` for everything.
Must never happen: ``check`` repairing anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from django.db import Error, connection, transaction
from django.utils import timezone

from supportkg.lib import graph

from . import projection
from .models import Ticket
from .sections import ROOT_LABEL, SECTION_LABEL, template

_BATCH = 200
_MODULUS = 2**256
_LOCK = 0x5347  # any number that nobody else takes


@dataclass(frozen=True)
class Drift:
    """Both checksums, the tickets (node ids) that differ, and counts by label or type."""

    expected: str
    actual: str
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    different: tuple[str, ...]
    expected_counts: dict[str, int]
    actual_counts: dict[str, int]

    @property
    def clean(self) -> bool:
        return self.expected == self.actual


def check() -> Drift:
    """Compare rows and graph ticket by ticket. Raises GraphUnavailable."""
    wanted, wanted_counts = _from_rows()
    found, found_counts = _from_graph()
    return Drift(
        expected=_sum(wanted),
        actual=_sum(found),
        missing=tuple(sorted(wanted.keys() - found.keys())),
        surplus=tuple(sorted(found.keys() - wanted.keys())),
        different=tuple(sorted(k for k in wanted.keys() & found.keys() if wanted[k] != found[k])),
        expected_counts=dict(sorted(wanted_counts.items())),
        actual_counts=dict(sorted(found_counts.items())),
    )


def sync(on_batch: Callable[[int], None] = lambda n: None) -> int:
    """Write every ticket that changed since it was last written; finish deletions."""
    projection.prepare()
    done = 0
    waiting = Ticket.objects.live().unsynced().order_by("pk")
    while ids := list(waiting.values_list("pk", flat=True)[:_BATCH]):
        write(ids)
        done += len(ids)
        on_batch(len(ids))
    return done + finish_deletions()


def repair(drift: Drift) -> None:
    """Bring the tickets that ``check`` named into line."""
    projection.delete(drift.surplus)
    by_source: dict[str, list[str]] = defaultdict(list)
    for name in (*drift.missing, *drift.different):
        source, _, key = name.partition("/")
        by_source[source].append(key)
    for source, keys in by_source.items():
        Ticket.objects.filter(source=source, key__in=keys).mark_changed()
    sync()


def rebuild(on_batch: Callable[[int], None] = lambda n: None) -> int:
    """Empty both layers of the graph and write them anew from the rows."""
    with one_writer():
        Ticket.objects.live().update(synced_at=None)
        projection.delete_all()
    return sync(on_batch)


def write(ids: Sequence[int]) -> None:
    """Write tickets to the graph as their rows are now, and close the write in their rows.

    The rows are locked meanwhile: who marks one as changed waits, and is not forgotten.
    What is too much for one transaction of the graph is written in halves.
    """
    try:
        _write(ids)
    except graph.GraphQueryError:
        if len(ids) <= 1:
            raise
        write(ids[: len(ids) // 2])
        write(ids[len(ids) // 2 :])


def _write(ids: Sequence[int]) -> None:
    with one_writer(), transaction.atomic():
        rows = Ticket.objects.live().filter(pk__in=ids).order_by("pk").defer("raw")
        tickets = list(rows.select_for_update(of=("self",)).select_related("project"))
        projection.write(tickets)
        Ticket.objects.filter(pk__in=[t.pk for t in tickets]).update(synced_at=timezone.now())


def finish_deletions() -> int:
    """Remove tickets marked as deleted: first from the graph, then their rows."""
    with one_writer():
        gone = list(Ticket.objects.exclude(deleted_at=None).order_by("pk").defer("raw"))
        for start in range(0, len(gone), _BATCH):
            batch = gone[start : start + _BATCH]
            projection.delete([ticket.graph_id for ticket in batch])
            Ticket.objects.filter(pk__in=[ticket.pk for ticket in batch]).delete()
    return len(gone)


@contextmanager
def one_writer() -> Iterator[None]:
    """Whoever else writes tickets or the graph waits; inside, it may be entered again.

    The lock belongs to the database connection and goes with it if we die.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    try:
        yield
    finally:
        # A connection that is gone has let go of the lock; its error is already on its way.
        with suppress(Error), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def _from_rows() -> tuple[dict[str, int], Counter[str]]:
    sums: dict[str, int] = defaultdict(int)
    counts: Counter[str] = Counter()
    for batch in _batches():
        ids = {ticket.graph_id for ticket in batch}
        for nodes in projection.nodes_of(batch):
            name = nodes.ticket["id"]
            sums[name] += graph.digest("node", [ROOT_LABEL], nodes.ticket)
            counts[ROOT_LABEL] += 1
            for kind, sections in nodes.sections.items():
                label = template().kinds[kind].label
                counts[label] += len(sections)
                for node in sections:
                    sums[name] += graph.digest("node", sorted([label, SECTION_LABEL]), node)
            for edge in nodes.tree():
                sums[name] += graph.digest("link", edge.start, edge.type, {}, edge.end)
        for edge in projection.edges_of([ticket.pk for ticket in batch]):
            if edge.start in ids:
                counts[edge.type] += 1
                sums[edge.start] += graph.digest(
                    "link", edge.start, edge.type, edge.properties, edge.end
                )
    return {k: v % _MODULUS for k, v in sums.items()}, counts


def _from_graph() -> tuple[dict[str, int], Counter[str]]:
    sums: dict[str, int] = defaultdict(int)
    counts: Counter[str] = Counter()
    for row in graph.stream(
        f"MATCH (n:{ROOT_LABEL}|{SECTION_LABEL}) "
        "RETURN coalesce(n.ticket, n.id) AS name, labels(n) AS labels, properties(n) AS p"
    ):
        labels = sorted(row["labels"])
        sums[row["name"]] += graph.digest("node", labels, row["p"])
        counts[next((label for label in labels if label != SECTION_LABEL), SECTION_LABEL)] += 1
    for row in graph.stream(
        f"MATCH (a:{ROOT_LABEL}|{SECTION_LABEL})-[r]->(b) RETURN a.id AS a, "
        f"coalesce(a.ticket, a.id) AS name, a:{ROOT_LABEL} AND b:{ROOT_LABEL} AS between, "
        "type(r) AS type, properties(r) AS p, b.id AS b"
    ):
        sums[row["name"]] += graph.digest("link", row["a"], row["type"], row["p"], row["b"])
        if row["between"]:
            counts[row["type"]] += 1
    return {k: v % _MODULUS for k, v in sums.items()}, counts


def _batches() -> Iterator[list[Ticket]]:
    last = 0
    live = Ticket.objects.live().select_related("project").defer("raw").order_by("pk")
    while batch := list(live.filter(pk__gt=last)[:_BATCH]):
        yield batch
        last = batch[-1].pk


def _sum(sums: dict[str, int]) -> str:
    return f"{sum(sums.values()) % _MODULUS:064x}"
