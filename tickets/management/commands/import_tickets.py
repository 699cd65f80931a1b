"""Import a file of tickets into rows, vectors and the graph."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from supportkg.lib.embeddings import EmbeddingError
from supportkg.lib.graph import GraphQueryError, GraphUnavailable
from tickets import ingest, linking
from tickets.importers import FORMATS, FileError, ReadOptions, read

SHOWN_ERRORS = 20
AGAIN = "What was imported is kept; run the same command again to go on from there."


class Command(BaseCommand):
    help = (
        "Import tickets from a file. The same file again changes nothing; an edited one "
        "updates only what changed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="the file to import")
        parser.add_argument(
            "--format",
            default="auto",
            choices=["auto", *FORMATS],
            help="; ".join(f"{f.name}: {f.description}" for f in FORMATS.values()),
        )
        parser.add_argument(
            "--project", default="", help="put every ticket into this project (default: its own)"
        )
        parser.add_argument(
            "--source",
            default="default",
            help="name of the help desk; ticket keys are unique within it (default: default)",
        )
        parser.add_argument(
            "--timezone",
            default=settings.TICKET_TIME_ZONE,
            help="zone of times that state none (default: %(default)s)",
        )
        parser.add_argument(
            "--column",
            action="append",
            default=[],
            metavar="FIELD=HEADING",
            help="plain CSV: which column holds a field, such as summary=Title; repeatable",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="read, check and count; write nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        if not path.is_file():
            raise CommandError(f"{path}: {'not a file' if path.exists() else 'no such file'}.")
        columns = dict(self._pair(text) for text in options["column"])
        read_options = ReadOptions(
            project=options["project"], timezone=options["timezone"], columns=columns
        )
        started = time.monotonic()
        with self._progress() as progress:
            task = progress.add_task(path.name, total=path.stat().st_size, counts="")

            def on_batch(report: ingest.Report) -> None:
                counts = f"{report.seen} tickets, {report.failed} failed"
                progress.update(task, counts=counts)

            try:
                rows = read(
                    path,
                    options["format"],
                    read_options,
                    on_progress=lambda done: progress.update(task, completed=done),
                )
                report = ingest.ingest(
                    rows,
                    source=options["source"],
                    project=options["project"],
                    dry_run=options["dry_run"],
                    on_batch=on_batch,
                )
            except (FileError, ValueError) as error:
                raise CommandError(str(error)) from error
            except (GraphUnavailable, GraphQueryError, EmbeddingError) as error:
                raise CommandError(f"{error} {AGAIN}") from error
            except OperationalError as error:
                reason = str(error).strip().splitlines()[0]
                raise CommandError(f"PostgreSQL stopped answering: {reason}. {AGAIN}") from error
        self._tell(report, time.monotonic() - started, dry_run=options["dry_run"])
        if report.failed:
            raise CommandError(f"{report.failed} rows failed; all others were taken.")

    def _tell(self, report: ingest.Report, seconds: float, *, dry_run: bool) -> None:
        for note in report.notes:
            self.stdout.write(f"Note: {note}")
        for error in report.errors[:SHOWN_ERRORS]:
            self.stderr.write(self.style.ERROR(f"Failed: {error}"))
        if len(report.errors) > SHOWN_ERRORS:
            self.stderr.write(f"… and {len(report.errors) - SHOWN_ERRORS} more failed rows.")
        self.stdout.write(
            f"{'Dry run: nothing written. ' if dry_run else ''}"
            f"{report.created} created, {report.updated} updated, {report.unchanged} unchanged, "
            f"{report.deleted} deleted, {report.skipped} skipped, {report.failed} failed "
            f"in {seconds:.1f} s ({report.embedded} texts embedded in "
            f"{report.embed_seconds:.1f} s)."
        )
        if report.resumed:
            self.stdout.write(f"{report.resumed} tickets of an interrupted import completed.")
        if not dry_run:
            if waiting := linking.pending():
                self.stdout.write(f"{waiting} links wait for tickets that are not here yet.")
            for fault, cases in linking.faults().items():
                for case in cases[:SHOWN_ERRORS]:
                    self.stdout.write(f"Check ({fault}): {case}.")

    def _pair(self, text: str) -> tuple[str, str]:
        field, equals, heading = text.partition("=")
        if not (equals and field and heading):
            raise CommandError(
                f"--column {text}: write it as FIELD=HEADING, such as summary=Title."
            )
        return field, heading

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
