"""`manage.py dev`: services, the web with reload and a Celery worker, until Ctrl-C."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from supportkg.lib import services
from supportkg.management.serving import serve


class Command(BaseCommand):
    """Run everything that a developer needs, in one terminal."""

    help = "Start the services, the web with reload and a worker; Ctrl-C stops what it started."

    def add_arguments(self, parser: CommandParser) -> None:
        """Where to listen."""
        parser.add_argument("--port", type=int, default=8000, help="first port to try (8000)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until Ctrl-C or SIGTERM; CommandError when the web or the worker ends by itself."""
        started = services.start()
        try:
            call_command("migrate", interactive=False, verbosity=0)
            serve(options["port"], self.stdout.write, reload=True)
        finally:
            services.stop(started)
