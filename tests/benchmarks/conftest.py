"""The benchmark that SUPPORTKG_CORPUS names, imported once into the tests' own database."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

SOURCE = "benchmark"


@pytest.fixture(scope="session")
def corpus(django_db_setup: None, django_db_blocker: Any, _own_graph: None) -> Path:
    """Folder with tickets.jsonl, queries.jsonl and qrels.jsonl (docs/evaluation.md)."""
    folder = os.environ.get("SUPPORTKG_CORPUS", "")
    if not folder:
        pytest.skip("SUPPORTKG_CORPUS names no benchmark folder")
    with django_db_blocker.unblock():
        path = Path(folder) / "tickets.jsonl"
        call_command("import_tickets", path, source=SOURCE, stdout=sys.stdout)
    return Path(folder)
