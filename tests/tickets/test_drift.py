"""Drift between rows and graph is named and repaired."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.tickets.test_ingest import EXPORT, LOGIN, LOGIN_AGAIN
from tickets import drift, ingest
from tickets.models import Section

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(graph: Any) -> Any:
    ingest.ingest([LOGIN, LOGIN_AGAIN, EXPORT])
    return graph


@pytest.mark.parametrize(
    ("damage", "where", "names"),
    [
        ("MATCH (s:FixSolution) SET s.text = 'x'", "different", ["default/AC-1"]),
        ("MATCH (s:FixSolution) DETACH DELETE s", "different", ["default/AC-1"]),
        ("MATCH (:Ticket)-[r:BLOCKS]->() DELETE r", "different", ["default/AC-1"]),
        (
            "MATCH (t:Ticket {key: 'AC-2'}) DETACH DELETE t",
            "different",
            ["default/AC-1", "default/AC-2"],
        ),
        (
            "MATCH (t:Ticket {key: 'AC-3'}) OPTIONAL MATCH (s:Section {ticket: t.id}) "
            "DETACH DELETE t, s",
            "missing",
            ["default/AC-3"],
        ),
        (
            "CREATE (:Ticket {id: 'default/AC-9', key: 'AC-9', project: 'default/AC'})",
            "surplus",
            ["default/AC-9"],
        ),
    ],
)
def test_damage_is_named_and_repaired(desk: Any, damage: str, where: str, names: list[str]) -> None:
    intact = desk.checksum()
    assert drift.check().clean
    desk.write([(damage, {})])
    found = drift.check()
    assert not found.clean
    assert list(getattr(found, where)) == names
    drift.repair(found)
    assert desk.checksum() == intact


def test_check_repairs_nothing(desk: Any) -> None:
    desk.write([("MATCH (s:FixSolution) DETACH DELETE s", {})])
    damaged = desk.checksum()
    with pytest.raises(CommandError, match="sync_graph"):
        call_command("sync_graph", "--check", stdout=StringIO())
    assert desk.checksum() == damaged


def test_checksum_of_check_is_that_of_the_whole_graph(desk: Any) -> None:
    found = drift.check()
    assert found.actual == found.expected == desk.checksum()


def test_counts_are_those_of_the_rows(desk: Any) -> None:
    found = drift.check()
    assert found.actual_counts == found.expected_counts
    assert found.actual_counts["Ticket"] == 3
    by_kind = {
        label: count
        for label, count in found.actual_counts.items()
        if label not in {"Ticket", "BLOCKS", "RELATES_TO", "SIMILAR_TO"}
    }
    assert sum(by_kind.values()) == Section.objects.count()


def test_sync_command_repairs_and_tells(desk: Any) -> None:
    desk.write([("MATCH (s:Summary) SET s.text = ''", {})])
    out = StringIO()
    call_command("sync_graph", stdout=out, stderr=StringIO())
    assert "3 different tickets repaired" in out.getvalue()
    assert "The graph is what the rows say." in out.getvalue()


def test_nodes_of_others_stay(desk: Any) -> None:
    desk.write([("CREATE (:Customer {id: 'kept'})", {})])
    drift.rebuild()
    assert desk.read("MATCH (c:Customer) RETURN c.id AS id").rows == ({"id": "kept"},)
