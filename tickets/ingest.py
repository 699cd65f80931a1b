"""From what a source says to rows, vectors, terms, links and the graph.

Promises that importing the same content again does nothing and costs nothing;
that a ticket's rows change in one transaction and the graph after it, with
``synced_at`` closing the write; and that a row that cannot be stored is
reported while the rest goes on.
Must never happen: a half-written ticket; two imports writing one ticket at the
same time; a ticket moved to another project by a file that merely says so for
all its rows.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DataError, IntegrityError, transaction
from django.utils import timezone

from supportkg.lib.embeddings import get_model

from . import corrections, drift, index, linking
from .importers import FileNote
from .importers.raw import RawTicket, RowError
from .models import Link, Project, Section, Ticket
from .parsing import PARSER_VERSION, ParsedTicket, parse
from .text.markup import to_text

BATCH = 256
SOURCE_LENGTH = 60
_TICKET_FIELDS = [
    "project", "external_id", "type", "summary", "status", "status_category", "resolution",
    "resolution_category", "priority", "labels", "components", "reporter", "assignee",
    "created_at", "updated_at", "resolved_at", "raw", "content_hash", "own_terms", "all_terms",
    "imported_at", "synced_at", "deleted_at",
]  # fmt: skip
_SECTION_FIELDS = ["text", "author", "role", "public", "created_at", "corrected"]

Row = RawTicket | RowError | FileNote


@dataclass
class Report:
    """What an import did. Every row that was read is in exactly one of the counts."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    skipped: int = 0
    failed: int = 0
    embedded: int = 0
    embed_seconds: float = 0.0
    resumed: int = 0
    errors: list[RowError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def seen(self) -> int:
        return (
            self.created + self.updated + self.unchanged + self.deleted + self.skipped + self.failed
        )

    def fail(self, error: RowError) -> None:
        self.failed += 1
        self.errors.append(error)


@dataclass(frozen=True)
class _Change:
    raw: RawTicket
    project: str
    content_hash: str
    ticket: Ticket


@dataclass(frozen=True)
class _Plan:
    """What a batch asks for; unchanged and refused rows are booked already."""

    changes: list[_Change]
    unsynced: list[Ticket]
    gone: list[Ticket]


def ingest(
    rows: Iterable[Row],
    *,
    source: str = "default",
    project: str = "",
    dry_run: bool = False,
    on_batch: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Bring rows, vectors and graph in line with what an importer read.

    With ``project`` every ticket goes into that project; a key that already
    belongs to another one is refused. A dry run reads, parses and counts, and
    writes nothing. Raises GraphUnavailable or OperationalError when a service
    is gone: what was committed stays, and the same import goes on from there.
    """
    _check_source(source)
    report = Report()
    if not dry_run:
        drift.projection.prepare()
    for batch in _batches(rows, report):
        with drift.one_writer():
            plan = _plan(batch, source, project, report)
            if dry_run:
                _count(plan, report)
            else:
                _carry_out(plan, report)
        on_batch(report)
    if not dry_run:
        drift.finish_deletions()
    return report


def delete(tickets: Iterable[Ticket]) -> int:
    """Remove tickets from rows, vectors and graph. Raises GraphUnavailable, in which
    case they are hidden at once and their removal is finished by ``sync_graph``."""
    ids = [ticket.pk for ticket in tickets]
    with transaction.atomic():
        Link.objects.filter(other__in=ids).update(other=None)
        Ticket.objects.filter(pk__in=ids).update(deleted_at=timezone.now(), synced_at=None)
    drift.finish_deletions()
    return len(ids)


def refresh(ids: Sequence[int]) -> None:
    """Embed, index, link and project tickets again after their sections were edited."""
    with drift.one_writer():
        tickets = list(Ticket.objects.live().filter(pk__in=ids).order_by("pk"))
        by_ticket: dict[int, list[Section]] = {ticket.pk: [] for ticket in tickets}
        for section in Section.objects.filter(ticket__in=tickets).order_by("pk"):
            by_ticket[section.ticket_id].append(section)
        sections = list(by_ticket.values())
        entries = [
            index.entry(rows, plain_text(RawTicket.from_json(ticket.raw)))
            for ticket, rows in zip(tickets, sections, strict=True)
        ]
        embedded = index.embed(entries)
        with transaction.atomic():
            index.write(tickets, sections, entries, embedded)
            linking.implicit(tickets, get_model())
        drift.write(ids)


def content_hash(raw: RawTicket) -> str:
    """Digest of everything a ticket's rows depend on: content, parser, index and model."""
    parts = [raw.to_json(), PARSER_VERSION, index.INDEX_VERSION, settings.EMBEDDING_MODEL]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plain_text(raw: RawTicket) -> str:
    """Title and body as the text baseline sees them: no structure, nothing left out."""
    return f"{raw.summary}\n{to_text(raw.description, raw.description_format)}".strip()


def _plan(batch: list[RawTicket], source: str, project: str, report: Report) -> _Plan:
    known = {
        ticket.key: ticket
        for ticket in Ticket.objects.filter(source=source, key__in=[raw.key for raw in batch])
        .select_related("project")
        .defer("raw")
    }
    plan = _Plan([], [], [])
    for raw in batch:
        ticket = known.get(raw.key)
        digest = content_hash(raw)
        if project and ticket is not None and ticket.project.key != project:
            message = (
                f"the key already belongs to project {ticket.project}; "
                "import with --source to keep two help desks apart"
            )
            report.fail(RowError(raw.line, "project", message, raw.key))
        elif raw.deleted:
            if ticket is None:
                report.skipped += 1
            else:
                plan.gone.append(ticket)
        elif ticket and ticket.deleted_at is None and ticket.content_hash == digest:
            report.unchanged += 1
            if ticket.synced_at is None:
                plan.unsynced.append(ticket)
        else:
            row = Ticket(pk=ticket.pk if ticket else None, source=source, key=raw.key)
            plan.changes.append(_Change(raw, project or raw.project, digest, row))
    return plan


def _count(plan: _Plan, report: Report) -> None:
    """The dry run: what an import would do."""
    report.created += sum(change.ticket.pk is None for change in plan.changes)
    report.updated += sum(change.ticket.pk is not None for change in plan.changes)
    report.deleted += len(plan.gone)


def _carry_out(plan: _Plan, report: Report) -> None:
    if plan.gone:
        report.deleted += delete(plan.gone)
    new = {change.raw.key for change in plan.changes if change.ticket.pk is None}
    projects = {
        key: Project.objects.get_or_create(source=source, key=key[:100] or "default")[0]
        for source, key in {(change.ticket.source, change.project) for change in plan.changes}
    }
    for change in plan.changes:
        change.ticket.project = projects[change.project]
    stored = _store_or_isolate(plan.changes, report)
    report.created += sum(change.raw.key in new for change in stored)
    report.updated += sum(change.raw.key not in new for change in stored)
    report.resumed += len(plan.unsynced)
    if tickets := [change.ticket for change in stored] + plan.unsynced:
        drift.write([ticket.pk for ticket in tickets])


def _store_or_isolate(changes: list[_Change], report: Report) -> list[_Change]:
    """Store all; when one row spoils the statement for all, find it and report it."""
    try:
        _store(changes, report)
        return changes
    except (DataError, IntegrityError, ValueError) as error:
        if len(changes) == 1:
            raw = changes[0].raw
            report.fail(RowError(raw.line, "", str(error).splitlines()[0], raw.key))
            return []
    half = len(changes) // 2
    return _store_or_isolate(changes[:half], report) + _store_or_isolate(changes[half:], report)


def _store(changes: Sequence[_Change], report: Report) -> None:
    """Write all rows of these tickets in one transaction. Vectors are made before it opens;
    when a curator corrected a section meanwhile, they are made again."""
    if changes:
        while not _try_store(changes, report):
            pass


def _try_store(changes: Sequence[_Change], report: Report) -> bool:
    tickets = [change.ticket for change in changes]
    parsed = [parse(change.raw) for change in changes]
    sections = [_sections(*pair) for pair in zip(tickets, parsed, strict=True)]
    corrected = corrections.read(tickets)
    corrections.keep(tickets, sections, corrected)
    entries = [
        index.entry(rows, plain_text(change.raw))
        for rows, change in zip(sections, changes, strict=True)
    ]
    started = time.perf_counter()
    embedded = index.embed(entries)
    report.embed_seconds += time.perf_counter() - started
    now = timezone.now()
    for change in changes:
        _fill(change.ticket, change.raw)
        change.ticket.content_hash = change.content_hash
        change.ticket.imported_at = now
    with transaction.atomic():
        if corrections.read(tickets, lock=True) != corrected:
            return False
        Ticket.objects.bulk_create(
            tickets,
            update_conflicts=True,
            unique_fields=["source", "key"],
            update_fields=_TICKET_FIELDS,
        )
        _store_sections(tickets, sections)
        index.write(tickets, sections, entries, embedded)
        Link.objects.filter(ticket__in=tickets).delete()
        Link.objects.bulk_create(
            link
            for change, p in zip(changes, parsed, strict=True)
            for link in linking.explicit(change.raw, p.mentions, change.ticket)
        )
        linking.connect(tickets)
        linking.implicit(tickets, get_model())
    report.embedded += embedded.fresh
    report.notes += [
        f"line {change.raw.line}: {change.raw.key} has a very long text; {p.cut} characters of it "
        "are kept, but not searched or shown"
        for change, p in zip(changes, parsed, strict=True)
        if p.cut
    ]
    return True


def _store_sections(tickets: Sequence[Ticket], sections: Sequence[Sequence[Section]]) -> None:
    """Insert or update by identity, so that citations keep their section; drop the rest."""
    rows = [section for own in sections for section in own]
    for section in rows:
        section.ticket_id = section.ticket.pk
    Section.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["ticket", "kind", "ordinal"],
        update_fields=_SECTION_FIELDS,
    )
    kept = [section.pk for section in rows]
    Section.objects.filter(ticket__in=tickets).exclude(pk__in=kept).delete()


def _sections(ticket: Ticket, parsed: ParsedTicket) -> list[Section]:
    return [
        Section(
            ticket=ticket,
            kind=section.kind,
            ordinal=section.ordinal,
            text=section.text,
            author=str(section.author)[:255],
            role=section.role,
            public=section.public,
            created_at=section.created_at,
        )
        for section in parsed.sections
    ]


def _fill(ticket: Ticket, raw: RawTicket) -> None:
    for name in ("created_at", "updated_at", "resolved_at", "status_category",
                 "resolution_category"):  # fmt: skip
        setattr(ticket, name, getattr(raw, name))
    ticket.summary = raw.summary[:1000]
    # The whole words are kept in raw; a column holds what a list shows.
    for name in ("type", "status", "resolution", "priority"):
        setattr(ticket, name, getattr(raw, name)[:200])
    for name in ("external_id", "reporter", "assignee"):
        setattr(ticket, name, str(getattr(raw, name))[:255])
    ticket.labels = list(raw.labels)
    ticket.components = list(raw.components)
    ticket.raw = raw.to_json()


def _batches(rows: Iterable[Row], report: Report) -> Iterator[list[RawTicket]]:
    """Tickets by the batch; errors, notes and keys that come again are booked."""
    seen: set[str] = set()
    batch: list[RawTicket] = []
    for row in rows:
        if isinstance(row, RowError):
            report.fail(row)
        elif isinstance(row, FileNote):
            report.notes.append(str(row))
        elif row.key in seen:
            # The first one counts, so that the same file again changes nothing.
            report.skipped += 1
            report.notes.append(f"line {row.line}: {row.key} came before; this row is skipped")
        else:
            seen.add(row.key)
            batch.append(row)
            if len(batch) == BATCH:
                yield batch
                batch = []
    yield batch


def _check_source(source: str) -> None:
    """It stands in addresses and in the ids of nodes."""
    if len(source) > SOURCE_LENGTH or not re.fullmatch(r"[A-Za-z0-9_-]+", source):
        raise ValueError(
            f"The source '{source}' must be at most {SOURCE_LENGTH} letters, digits, - or _."
        )
