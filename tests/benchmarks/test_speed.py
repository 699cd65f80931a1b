"""How long the parts take on this machine, over the tickets of the demo.

The bounds are ten times what two cores of 2024 need, so that only a change of
kind fails and not a busy machine.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import yaml
from django.conf import settings

from retrieval import baseline, cypher, query, ranking
from supportkg.lib import embeddings
from tests.benchmarks.measuring import say, seconds, tell
from tickets import ingest
from tickets.importers import RawTicket, read
from tickets.models import Project

EXCERPT = settings.BASE_DIR / "tickets" / "fixtures" / "titanium-excerpt.jsonl"
QUERIES = Path(__file__).parents[1] / "data" / "cypher_accepted.yaml"


def rows() -> list[RawTicket]:
    return [row for row in read(EXCERPT) if isinstance(row, RawTicket)]


def test_embedding_speed() -> None:
    texts = [f"{row.summary}\n{row.description}" for row in rows()[:96]]
    embeddings.embed(texts[:1])  # loads the model
    batches = [texts[i : i + 16] for i in range(0, len(texts), 16)]
    rates = [len(batch) / seconds(partial(embeddings.embed, batch)) for batch in batches]
    assert tell("embedding of whole tickets (256 word pieces at most)", rates, "texts/s") > 2


def test_gate_speed() -> None:
    cases = yaml.safe_load(QUERIES.read_text(encoding="utf-8"))
    cypher.check("MATCH (t:Ticket) RETURN t.key AS key", projects=["A"])  # loads the grammar
    spent = [
        1000
        * seconds(
            partial(cypher.check, case["cypher"], projects=["A"], parameters=case.get("parameters"))
        )
        for case in cases
    ]
    assert tell("gate, check of one query", spent, "ms") < 500


@pytest.mark.django_db
def test_import_and_ranking_speed(graph: object) -> None:
    tickets = rows()
    embeddings.embed(["x"])
    reports: list[ingest.Report] = []
    first = seconds(lambda: reports.append(ingest.ingest(tickets)))
    again = seconds(lambda: reports.append(ingest.ingest(tickets)))
    assert (reports[0].created, reports[1].unchanged) == (len(tickets), len(tickets))
    say(
        f"import of {len(tickets)} tickets: {first:.1f} s, of which embedding "
        f"{reports[0].embed_seconds:.1f} s ({reports[0].embedded} texts); again: {again:.2f} s"
    )
    assert again < first / 10
    projects = list(Project.objects.values_list("pk", flat=True))
    asked = [query.analyze(f"{row.summary}\n{row.description}") for row in tickets[::4]]
    for name, rank in (("graph", ranking.rank), ("baseline", baseline.retrieve)):
        spent = [seconds(partial(rank, q, projects)) for q in asked]
        assert tell(f"ranking of a whole ticket as the question, {name}", spent, "s") < 5
