"""Compare the graph with the rows, bring it up to date, or write it anew."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from supportkg.lib.graph import GraphQueryError, GraphUnavailable
from tickets import drift

SHOWN = 20


class Command(BaseCommand):
    help = (
        "Bring the graph up to date with the rows. With --check only compare and print both "
        "checksums (exit code 1 when they differ); with --rebuild write the graph anew."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--check", action="store_true", help="report drift and change nothing")
        how.add_argument("--rebuild", action="store_true", help="empty the graph and write it anew")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["rebuild"]:
                self._count(drift.rebuild(self._on_batch))
            elif not options["check"]:
                self._count(drift.sync(self._on_batch))
            found = drift.check()
            if not (found.clean or options["check"]):
                drift.repair(found)
                self.stdout.write(
                    f"{len(found.missing)} missing, {len(found.surplus)} surplus and "
                    f"{len(found.different)} different tickets repaired."
                )
                found = drift.check()
        except (GraphUnavailable, GraphQueryError) as error:
            raise CommandError(str(error)) from error
        self._tell(found)

    def _tell(self, found: drift.Drift) -> None:
        names = sorted(found.expected_counts.keys() | found.actual_counts.keys())
        width = max(map(len, names), default=0)
        for name in names:
            expected, actual = found.expected_counts.get(name, 0), found.actual_counts.get(name, 0)
            note = "" if expected == actual else f"   rows say {expected}"
            self.stdout.write(f"{name:<{width}} {actual:>8}{note}")
        self.stdout.write(f"checksum of the rows   {found.expected}")
        self.stdout.write(f"checksum of the graph  {found.actual}")
        if found.clean:
            self.stdout.write(self.style.SUCCESS("The graph is what the rows say."))
            return
        for what in ("missing", "surplus", "different"):
            tickets = getattr(found, what)
            if tickets:
                more = f" and {len(tickets) - SHOWN} more" if len(tickets) > SHOWN else ""
                self.stdout.write(f"{what}: {', '.join(tickets[:SHOWN])}{more}")
        raise CommandError("The graph differs from the rows. `manage.py sync_graph` repairs it.")

    def _on_batch(self, count: int) -> None:
        self.stderr.write(f"{count} tickets written")

    def _count(self, count: int) -> None:
        self.stdout.write(f"{count} tickets brought up to date.")
