"""How well the ranking finds known duplicates, on a benchmark that you name.

SUPPORTKG_CORPUS=DIR make bench, where DIR holds tickets.jsonl, queries.jsonl and
qrels.jsonl (docs/evaluation.md). The tickets are imported into the tests' own
database, which takes minutes for thousands of them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

CORPUS = os.environ.get("SUPPORTKG_CORPUS", "")


@pytest.mark.skipif(not CORPUS, reason="SUPPORTKG_CORPUS names no benchmark folder")
@pytest.mark.django_db
def test_graph_mode_finds_more_than_the_baseline(graph: object, tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    call_command("evaluate", corpus=Path(CORPUS), json=target, ablation=True, stdout=sys.stdout)
    first = json.loads(target.read_text())["comparisons"][0]
    assert first["differences"]["graph − baseline"]["MRR"]["low"] > 0
