"""`manage.py services start|stop|status`: the embedded servers of this checkout."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from supportkg.lib import services


class Command(BaseCommand):
    """Start, stop or show PostgreSQL, Neo4j and the broker."""

    help = (
        "Start, stop or show the embedded servers of this checkout. They keep running until they "
        "are stopped. A service whose address is in the environment is never started or stopped."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """What to do, and to which servers (all when none is named)."""
        parser.add_argument("action", choices=("start", "stop", "status"))
        parser.add_argument("names", nargs="*", metavar="name", help=" ".join(services.NAMES))

    def handle(self, *args: Any, **options: Any) -> None:
        """Carry it out; a service that does not start is an error with its log."""
        names = options["names"] or services.NAMES
        if unknown := set(names) - set(services.NAMES):
            raise CommandError(f"No service is called {', '.join(sorted(unknown))}.")
        try:
            if options["action"] == "start":
                services.start(names)
            elif options["action"] == "stop":
                services.stop(names)
            self._show(names)
        except services.ServiceError as error:
            raise CommandError(str(error)) from error

    def _show(self, names: tuple[str, ...] | list[str]) -> None:
        for one in services.status():
            if one.name in names:
                state = f"process {one.pid}" if one.pid else "stopped"
                how = f"{state}, log {one.log}" if one.log else "set in the environment"
                self.stdout.write(f"{one.title:16} {one.address:45} {how}")
