"""A service is killed during an import: a clear error, and the next run loses nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings

TICKETS = 400


class Checkout:
    """`manage.py` on servers of its own in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = ("DATABASE_URL", "NEO4J_URI", "CELERY_BROKER_URL")
        self.env = {k: v for k, v in os.environ.items() if k not in own}
        self.env |= {"SUPPORTKG_DATA_DIR": str(folder)}
        self.file = folder / "tickets.jsonl"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    def pid(self, service: str) -> int:
        _, output = self.run("services", "status")
        line = next(line for line in output.splitlines() if line.lower().startswith(service))
        return int(line.partition("process ")[2].partition(",")[0])

    def synced(self) -> int:
        state = json.loads((self.folder / "services.json").read_text())["postgres"]
        url = f"host=127.0.0.1 port={state['port']} user=supportkg dbname=supportkg"
        with psycopg.connect(url, password=state["password"]) as database:
            query = "SELECT count(*) FROM tickets_ticket WHERE synced_at IS NOT NULL"
            row = database.execute(query).fetchone()
            assert row is not None
            return int(row[0])


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    folder = tmp_path_factory.mktemp("data")
    made = Checkout(folder)
    with made.file.open("w") as file:
        for n in range(1, TICKETS + 1):
            row = {
                "id": f"AC-{n}",
                "project": "AC",
                "type": "Bug",
                "summary": f"Printer {n} prints page {n * 7} twice",
                "description": "Steps to reproduce: print",
                "comments": [],
                "links": [],
                "status": "Open",
                "created": "2024-01-01T00:00:00.000+0000",
            }
            file.write(json.dumps(row) + "\n")
    code, output = made.run("migrate", "-v0")
    assert code == 0, output
    yield made
    made.run("services", "stop")
    # As root, PostgreSQL may keep its data elsewhere, behind a link.
    shutil.rmtree((folder / "postgres").resolve(), ignore_errors=True)


@pytest.mark.parametrize("service", ["neo4j", "postgresql"])
def test_import_goes_on_after_a_service_was_killed(checkout: Checkout, service: str) -> None:
    checkout.run("services", "start")
    code, output = checkout.run("shell", "-c", _EMPTY)
    assert code == 0, output
    importing = checkout.start("import_tickets", str(checkout.file))
    victim = checkout.pid(service)
    deadline = time.monotonic() + 90
    while checkout.synced() == 0 and importing.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(victim, signal.SIGKILL)
    output, _ = importing.communicate(timeout=120)
    assert importing.returncode == 1, output
    assert "run the same command again" in output
    assert "Traceback" not in output

    code, output = checkout.run("import_tickets", str(checkout.file))
    assert code == 0, output
    assert "0 failed" in output
    code, output = checkout.run("sync_graph", "--check")
    assert code == 0, output
    assert re.search(rf"^Ticket +{TICKETS}$", output, re.MULTILINE)
    code, output = checkout.run("import_tickets", str(checkout.file))
    assert f"0 created, 0 updated, {TICKETS} unchanged" in output


_EMPTY = "from tickets import ingest, models; ingest.delete(models.Ticket.objects.all())"
