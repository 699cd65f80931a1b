"""The whole way once: file → graph → question over HTTP → citation on the ticket page → erased."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client

from retrieval.models import Answer
from tests.conftest import DEMO_TICKETS
from tickets import ingest
from tickets.models import Project, Ticket

pytestmark = pytest.mark.django_db

KEYS = ("TIMOB-6090", "TIMOB-12366", "TIMOB-11267", "TIMOB-11869", "TIMOB-12173", "ALOY-134")


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "few.jsonl"
    with DEMO_TICKETS.open(encoding="utf-8") as file:
        rows = [line for line in file if json.loads(line)["id"] in KEYS]
    assert len(rows) == len(KEYS)
    path.write_text("".join(rows))
    return path


def test_from_a_file_to_a_cited_answer_and_back_out(graph: Any, few: Path) -> None:
    call_command("import_tickets", few, stdout=StringIO(), stderr=StringIO())
    call_command("sync_graph", "--check", stdout=StringIO())
    member = get_user_model().objects.create_user("mia", password="a-good-password")
    Project.objects.get(key="TIMOB").members.add(member)
    out = StringIO()
    call_command("create_token", "mia", stdout=out)
    api = Client(headers={"authorization": f"Bearer {out.getvalue().strip()}"})

    asked = api.post(
        "/api/v1/answers",
        {"question": "How do I reproduce that the menu button does not function?"},
        content_type="application/json",
    )
    assert asked.status_code == 201, asked.content
    answer = api.get(asked["Location"]).json()
    assert answer["route"] == "graph"
    assert "StepsToReproduce" in answer["cypher"]
    steps = next(c for c in answer["citations"] if c["anchor"] == "steps_to_reproduce")
    assert steps["ticket"]["key"] == "TIMOB-6090"

    console = Client()
    assert console.login(username="mia", password="a-good-password")
    page = console.get(steps["html_url"].partition("#")[0]).content.decode()
    assert 'id="steps_to_reproduce"' in page
    assert "Navigate to Base UI" in page
    hidden = Ticket.objects.get(key="ALOY-134")
    assert console.get(hidden.get_absolute_url()).status_code == 404

    ingest.delete(Ticket.objects.filter(key="TIMOB-6090"))
    assert api.get(asked["Location"]).status_code == 404
    assert not Answer.objects.filter(text__contains="Base UI").exists()
    assert not list(
        graph.stream("MATCH (n) WHERE n.text CONTAINS 'Base UI >Menu' RETURN n.id AS id")
    )
