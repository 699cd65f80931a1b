"""Make an API token for a person and print it, this once."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from knox.models import AuthToken


class Command(BaseCommand):
    help = "Make an API token for a person and print it, this once; only a digest is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument(
            "--days", type=int, help="the token expires after so many days (default: never)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        users = get_user_model()
        try:
            user = users.objects.get_by_natural_key(options["username"])
        except users.DoesNotExist:
            raise CommandError(f"There is no user '{options['username']}'.") from None
        days = options["days"]
        if days is not None and days < 1:
            raise CommandError("--days must be at least 1.")
        expiry = timedelta(days=days) if days else None
        _, token = AuthToken.objects.create(user, expiry=expiry)
        self.stdout.write(token)
