"""How well the ranking finds known duplicates: SUPPORTKG_CORPUS=DIR make bench."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.benchmarks.conftest import SOURCE


@pytest.mark.django_db
def test_graph_mode_finds_more_than_the_baseline(corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    call_command(
        "evaluate", corpus=corpus, source=SOURCE, json=target, ablation=True, stdout=sys.stdout
    )
    first = json.loads(target.read_text())["comparisons"][0]
    assert first["differences"]["graph − baseline"]["MRR"]["low"] > 0
