#!/usr/bin/env python
"""Django's command line. Starts the embedded services that a command needs before it runs."""

import os
import sys

from django.core.management import execute_from_command_line

from supportkg.lib import services

# Commands that open no connection, and those that need PostgreSQL only. Every other command may
# use all services.
_NO_SERVICE = {
    "check", "collectstatic", "compilemessages", "diffsettings", "findstatic", "help",
    "makemessages", "makemigrations", "services", "spectacular", "startapp", "startproject",
    "version",
}  # fmt: skip
_POSTGRES_ONLY = {
    "changepassword", "clearsessions", "create_token", "createsuperuser",
    "dbshell", "dumpdata", "flush",
    "inspectdb", "loaddata", "migrate", "showmigrations", "sqlflush", "sqlmigrate",
    "squashmigrations",
}  # fmt: skip


def needed(arguments: list[str]) -> tuple[str, ...]:
    """The services that must run for these command line arguments."""
    command = next((word for word in arguments if not word.startswith("-")), "help")
    if command in _NO_SERVICE or {"-h", "--help", "--version"} & set(arguments):
        return ()
    return ("postgres",) if command in _POSTGRES_ONLY else services.NAMES


def main() -> None:
    """Start what the command needs, then run it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "supportkg.settings")
    try:
        # Before settings are read: a port that another program took is replaced here.
        services.start(needed(sys.argv[1:]))
        execute_from_command_line(sys.argv)
    except services.ServiceError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
