"""`manage.py dev`: services, the web with reload and a Celery worker, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from supportkg.lib import services

_CODE = ("supportkg", "tickets", "retrieval", "personalization", "templates")


def free_port(first: int) -> int:
    """The first port from `first` on that nobody listens on (at most 100 are tried)."""
    for port in range(first, first + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise CommandError(f"Ports {first} to {first + 99} of 127.0.0.1 are all taken.")


class Command(BaseCommand):
    """Run everything that a developer needs, in one terminal."""

    help = "Start the services, the web with reload and a worker; Ctrl-C stops what it started."

    def add_arguments(self, parser: CommandParser) -> None:
        """Where to listen."""
        parser.add_argument("--port", type=int, default=8000, help="first port to try (8000)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until Ctrl-C, SIGTERM, or the end of web or worker (then the exit code is 1)."""
        os.chdir(settings.BASE_DIR)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        started: list[str] = []
        children: dict[str, subprocess.Popen[bytes]] = {}
        try:
            started = services.start()
            # Processes of their own: they read the settings after the services have started.
            subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], check=True)
            port = free_port(options["port"])
            folders = [part for name in _CODE for part in ("--reload-dir", name)]
            children["web"] = self._run(
                "uvicorn", "supportkg.asgi:application", f"--port={port}", "--reload", *folders
            )
            children["worker"] = self._run("celery", "-A", "supportkg", "worker", "-l", "INFO")
            self.stdout.write(f"Console: http://127.0.0.1:{port}/ (Ctrl-C stops)")
            while all(child.poll() is None for child in children.values()):
                time.sleep(0.3)
            ended = next(name for name, child in children.items() if child.poll() is not None)
            raise CommandError(f"The {ended} ended (code {children[ended].returncode}); see above.")
        except (services.ServiceError, subprocess.CalledProcessError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stdout.write("\nStopping")
        finally:
            self._stop(list(children.values()))
            services.stop(started)

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C reaches this command alone, which stops its children.
        command = [sys.executable, "-m", *arguments]
        return subprocess.Popen(command, start_new_session=True)  # noqa: S603

    def _stop(self, children: list[subprocess.Popen[bytes]]) -> None:
        for child in children:
            child.send_signal(signal.SIGTERM)  # uvicorn and Celery finish what they are at
        for child in children:
            try:
                child.wait(timeout=15)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
