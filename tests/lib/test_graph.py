"""The Bolt gateway: reads stay reads, limits hold, foreign graphs are safe."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from supportkg.lib import graph as lib_graph
from supportkg.lib.graph import GraphQueryError, GraphUnavailable


def test_read_refuses_to_write(graph: Any) -> None:
    before = graph.checksum()
    with pytest.raises(GraphQueryError) as caught:
        graph.read("CREATE (n:Ticket {id: 'x'}) RETURN n")
    assert caught.value.code == "NOT_READ"
    assert graph.checksum() == before


@pytest.mark.parametrize(
    "cypher", ["CREATE (n)", "MATCH (n) DETACH DELETE n", "MATCH (n) SET n.x = 1 RETURN n"]
)
def test_explain_refuses_what_would_write(graph: Any, cypher: str) -> None:
    with pytest.raises(GraphQueryError) as caught:
        graph.explain(cypher)
    assert caught.value.code == "NOT_READ"


def test_explain_names_a_fault(graph: Any) -> None:
    with pytest.raises(GraphQueryError) as caught:
        graph.explain("MATCH (n RETURN n")
    assert caught.value.code == "REFUSED"


def test_cross_product_is_stopped_by_the_timeout(graph: Any) -> None:
    graph.write([("UNWIND range(1, 2000) AS i CREATE (:Ticket {id: toString(i)})", {})])
    with pytest.raises(GraphQueryError) as caught:
        graph.read(
            "MATCH (a:Ticket), (b:Ticket), (c:Ticket) WHERE a.id + b.id = c.id RETURN count(*)",
            timeout=0.5,
        )
    assert caught.value.code == "TIMEOUT"


def test_server_that_hangs_is_not_waited_for(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lib_graph, "_PATIENCE", 0.2)
    monkeypatch.setattr(lib_graph, "_session", lambda access: time.sleep(3))
    started = time.monotonic()
    with pytest.raises(GraphQueryError) as caught:
        graph.read("RETURN 1 AS one", timeout=0.1)
    assert caught.value.code == "TIMEOUT"
    assert time.monotonic() - started < 2


def test_rows_are_capped_and_said_to_be(graph: Any) -> None:
    rows = graph.read("UNWIND range(1, 10) AS i RETURN i", max_rows=3)
    assert [row["i"] for row in rows.rows] == [1, 2, 3]
    assert rows.cut
    assert not graph.read("RETURN 1 AS i", max_rows=3).cut


def test_file_urls_are_closed(graph: Any) -> None:
    with pytest.raises(GraphQueryError):
        graph.read("LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line")


def test_write_is_all_or_nothing(graph: Any) -> None:
    before = graph.checksum()
    with pytest.raises(GraphQueryError):
        graph.write([("CREATE (:Ticket {id: 'a'})", {}), ("THIS IS NOT CYPHER", {})])
    assert graph.checksum() == before


def test_checksum_sees_every_part(graph: Any) -> None:
    graph.write(
        [("CREATE (:Ticket {id: 'a'})-[:BLOCKS {origin: 'tracker'}]->(:Ticket {id: 'b'})", {})]
    )
    seen = {graph.checksum()}
    for change in (
        "MATCH (n {id: 'a'}) SET n.key = 'A-1'",
        "MATCH (n {id: 'a'}) SET n:Extra",
        "MATCH ()-[r]->() SET r.origin = 'mention'",
        "MATCH ({id: 'a'})-[r]->({id: 'b'}) DELETE r",
        "CREATE (:Ticket {id: 'c'})",
    ):
        graph.write([(change, {})])
        seen.add(graph.checksum())
    assert len(seen) == 6


def test_checksum_does_not_depend_on_order(graph: Any) -> None:
    def fill(names: str) -> str:
        graph.wipe(test_only=True)
        for name in names:
            graph.write([("CREATE (:Ticket {id: $id})", {"id": name})])
        return str(graph.checksum())

    assert fill("abc") == fill("cab")


def test_time_reads_as_it_was_written(graph: Any) -> None:
    time = datetime(2024, 2, 29, 12, 30, 15, 250000, tzinfo=UTC)
    graph.write([("CREATE (:Ticket {id: 'a', created_at: $time})", {"time": time})])
    properties = next(graph.stream("MATCH (n:Ticket) RETURN properties(n) AS p"))["p"]
    assert graph.digest(properties) == graph.digest({"id": "a", "created_at": time})


def test_graph_with_data_that_is_not_ours_is_not_claimed(graph: Any) -> None:
    graph.write([("MATCH (n:TestDatabase) REMOVE n:TestDatabase SET n:Customer", {})])
    try:
        with pytest.raises(GraphQueryError) as caught:
            graph.mark_as_test()
        assert caught.value.code == "NOT_EMPTY"
        with pytest.raises(GraphQueryError) as caught:
            graph.wipe(test_only=True)
        assert caught.value.code == "NOT_A_TEST"
        assert graph.read("MATCH (n:Customer) RETURN n.id AS id").rows
    finally:
        graph.write([("MATCH (n:Customer) REMOVE n:Customer SET n:TestDatabase", {})])


@pytest.fixture
def elsewhere(settings: Any) -> Any:
    """Settings for another server; the driver is made anew before and after."""
    lib_graph.close()
    yield settings
    lib_graph.close()


def test_server_that_does_not_answer_is_named(elsewhere: Any) -> None:
    elsewhere.NEO4J_URI = "bolt://127.0.0.1:1"
    with pytest.raises(GraphUnavailable, match="bolt://127"):
        lib_graph.check_connection()


def test_refused_sign_in_names_the_settings(graph: Any, elsewhere: Any) -> None:
    elsewhere.NEO4J_PASSWORD = "wrong-password"
    with pytest.raises(GraphUnavailable, match="NEO4J_PASSWORD"):
        lib_graph.check_connection()
