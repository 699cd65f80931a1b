"""`manage.py demo`: real tickets become a graph, three questions are asked, the console opens."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from supportkg.lib import services
from supportkg.management.serving import serve

TICKETS = settings.BASE_DIR / "tickets/fixtures/titanium-excerpt.jsonl"
# One question of each kind: a section, a solution, a relationship.
QUESTIONS = (
    "How do I reproduce that the menu button does not function in the menu tests?",
    "What fixed the iOS build that fails if the project's id contains capital letters?",
    "Which tickets block the use of tilde for paths in the CLI?",
)
USER = "demo"


class Command(BaseCommand):
    help = (
        "Import the demo tickets, ask three questions, print address and sign-in of the "
        "console and serve it until Ctrl-C. Doing it again imports nothing anew."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-serve", action="store_true", help="end after the questions")
        parser.add_argument("--port", type=int, default=8000, help="first port to try (8000)")

    def handle(self, *args: Any, **options: Any) -> None:
        started = services.start()
        try:
            self._title("1. Tables")
            call_command("migrate", verbosity=0)
            self.stdout.write("The database is up to date.")
            self._title(f"2. Tickets: {TICKETS.name}, real tickets of the Titanium mobile SDK")
            call_command("import_tickets", TICKETS)
            self._title("3. The graph")
            call_command("sync_graph", "--check")
            for number, question in enumerate(QUESTIONS, start=4):
                self._title(f"{number}. “{question}”")
                call_command("ask", question)
            if options["no_serve"]:
                return
            self._title("7. The console")
            password = self._sign_in()
            self.stdout.write(
                f"Sign in as '{USER}' with the password '{password}' (new at each start)."
            )
            serve(options["port"], self.stdout.write, reload=False)
        finally:
            services.stop(started)

    def _title(self, text: str) -> None:
        self.stdout.write("")
        self.stdout.write(self.style.MIGRATE_HEADING(text))

    def _sign_in(self) -> str:
        """A superuser with a new password; the console listens on loopback only."""
        password = secrets.token_urlsafe(9)
        user, _ = get_user_model().objects.get_or_create(
            username=USER, defaults={"is_staff": True, "is_superuser": True}
        )
        user.set_password(password)
        user.save()
        return password
