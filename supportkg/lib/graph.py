"""The Bolt connection to Neo4j: the only file that knows the driver.

Promises that every read runs in a READ transaction with a time limit and a row
cap, that writes are retried as a whole, and that an unreachable server is one
exception with a message that says what to do.
Must never happen: a graph that is not marked as a test's own being emptied.
"""

from __future__ import annotations

import atexit
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar, cast

import neo4j
import neo4j.time
from django.conf import settings
from neo4j.exceptions import ClientError, DriverError, Neo4jError, ServiceUnavailable

TEST_MARK = "TestDatabase"
_WRITE_BATCH = 5_000
_PATIENCE = 2.0  # seconds beyond the server's own time limit
T = TypeVar("T")


class GraphUnavailable(Exception):
    """No graph server answers at the configured address, or it refuses the sign-in."""


class GraphQueryError(Exception):
    """The server refused or stopped a query; ``code`` is a short name for why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Rows:
    """What a read gave: column names, rows, and whether the cap cut some off."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    cut: bool


@cache
def driver() -> neo4j.Driver:
    """The driver of this process, made at first use (it keeps a pool of connections)."""
    made = neo4j.GraphDatabase.driver(
        settings.NEO4J_URI,
        auth=(settings.NEO4J_USER, settings.NEO4J_PASSWORD),
        connection_timeout=5,
        connection_acquisition_timeout=10,
        max_transaction_retry_time=10,
        notifications_min_severity="OFF",
    )
    atexit.register(made.close)
    return made


def close() -> None:
    """Close the pool; the next use opens a new one."""
    driver().close()
    driver.cache_clear()


def read(
    cypher: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    max_rows: int = 1_000,
) -> Rows:
    """Run one query in a READ transaction.

    ``timeout`` is in seconds (default: setting GRAPH_QUERY_TIMEOUT). Raises
    GraphUnavailable, or GraphQueryError with code TIMEOUT, NOT_READ or REFUSED.
    """
    seconds = settings.GRAPH_QUERY_TIMEOUT if timeout is None else timeout

    # Not retried: a question has a next rung to go to, and waiting helps nobody.
    def work() -> Rows:
        with (
            _translated(),
            _session(neo4j.READ_ACCESS) as session,
            session.begin_transaction(timeout=seconds) as tx,
        ):
            result = tx.run(cypher, dict(parameters or {}))
            rows = [dict(record) for record in result.fetch(max_rows + 1)]
            return Rows(tuple(result.keys()), tuple(rows[:max_rows]), len(rows) > max_rows)

    return _within(seconds, work)


def stream(cypher: str, parameters: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Rows of one of our own long reads, one by one, without time limit or cap."""
    with _translated(), _session(neo4j.READ_ACCESS) as session:
        for record in session.run(cypher, dict(parameters or {})):
            yield dict(record)


def explain(cypher: str, parameters: Mapping[str, Any] | None = None) -> None:
    """Ask the server for a plan. Raises GraphQueryError unless it is a pure read."""

    def work() -> str | None:
        with _translated(), _session(neo4j.READ_ACCESS) as session:
            summary = session.run(f"EXPLAIN {cypher}", dict(parameters or {})).consume()
            return summary.query_type

    if _within(settings.GRAPH_QUERY_TIMEOUT, work) != "r":
        raise GraphQueryError("NOT_READ", "The query would change the graph; only reads are run.")


def write(statements: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Run statements in one transaction: all of them or none. Retried on deadlock."""

    def work(tx: neo4j.ManagedTransaction) -> None:
        for cypher, parameters in statements:
            tx.run(cypher, dict(parameters)).consume()

    with _translated(), _session(neo4j.WRITE_ACCESS) as session:
        session.execute_write(work)


def write_alone(cypher: str) -> None:
    """Run one statement that manages its own transactions, or a schema change."""
    with _translated(), _session(neo4j.WRITE_ACCESS) as session:
        session.run(cypher).consume()


def check_connection() -> None:
    """Raises GraphUnavailable unless the server answers a query."""
    read("RETURN 1 AS one")


def checksum(except_label: str = TEST_MARK) -> str:
    """Digest of all nodes, labels, properties and relationships.

    Independent of internal ids and of order: the digests of the parts are added
    modulo 2**256. Nodes are named in relationships by their property ``id``.
    """
    total = 0
    nodes = "MATCH (n) WHERE NOT $label IN labels(n) RETURN labels(n) AS labels, properties(n) AS p"
    for row in stream(nodes, {"label": except_label}):
        total += digest("node", sorted(row["labels"]), row["p"])
    links = "MATCH (a)-[r]->(b) RETURN a.id AS a, type(r) AS type, properties(r) AS p, b.id AS b"
    for row in stream(links):
        total += digest("link", row["a"], row["type"], row["p"], row["b"])
    return f"{total % 2**256:064x}"


def digest(*parts: Any) -> int:
    """A 256-bit number for one node or relationship, from plain values."""
    text = json.dumps(parts, sort_keys=True, default=_plain, ensure_ascii=False)
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def mark_as_test() -> None:
    """Claim an empty graph for tests. Raises GraphQueryError when it holds something."""
    if is_test():
        return
    if read("MATCH (n) RETURN n.id AS id LIMIT 1").rows:
        raise GraphQueryError(
            "NOT_EMPTY",
            f"The graph at {settings.NEO4J_URI} holds data and is not marked as a test's own. "
            "Point TEST_NEO4J_URI at an empty server.",
        )
    write([(f"MERGE (:{TEST_MARK} {{id: 'test'}})", {})])


def is_test() -> bool:
    return bool(read(f"MATCH (n:{TEST_MARK}) RETURN n.id AS id LIMIT 1").rows)


def wipe(*, test_only: bool) -> None:
    """Remove every node. With ``test_only`` the graph must carry the test mark."""
    if test_only and not is_test():
        raise GraphQueryError(
            "NOT_A_TEST", f"Refused to empty {settings.NEO4J_URI}: it is not marked as a test's."
        )
    write_alone(
        f"MATCH (n) WHERE NOT n:{TEST_MARK} "
        f"CALL (n) {{ DETACH DELETE n }} IN TRANSACTIONS OF {_WRITE_BATCH} ROWS"
    )


def _within(seconds: float, work: Callable[[], T]) -> T:
    """What ``work`` gives, but never later than its time limit: a server that hangs does not
    keep its own. The thread that waits for it ends with the process."""
    box: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            box.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            box.put((None, error))

    Thread(target=run, daemon=True).start()
    try:
        value, error = box.get(timeout=seconds + _PATIENCE)
    except Empty:
        raise GraphQueryError("TIMEOUT", "The graph does not answer in time.") from None
    if error is not None:
        raise error
    return cast(T, value)


def _session(access: str) -> neo4j.Session:
    return driver().session(database=settings.NEO4J_DATABASE, default_access_mode=access)


class _translated:
    """Turns the driver's exceptions into the two of this module."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ClientError):
            code = error.code or ""
            if "Security" in code:
                raise GraphUnavailable(
                    f"Neo4j at {settings.NEO4J_URI} refused the sign-in of user "
                    f"'{settings.NEO4J_USER}'. Check NEO4J_USER and NEO4J_PASSWORD."
                ) from error
            if "TransactionTimedOut" in code:
                raise GraphQueryError(
                    "TIMEOUT", "The query took too long and was stopped."
                ) from error
            if "AccessMode" in code:
                raise GraphQueryError("NOT_READ", "The query would change the graph.") from error
            raise GraphQueryError("REFUSED", error.message or str(error)) from error
        if isinstance(error, ServiceUnavailable | DriverError | OSError):
            raise GraphUnavailable(
                f"Neo4j does not answer at {settings.NEO4J_URI} ({type(error).__name__}). "
                "Start it, or check NEO4J_URI."
            ) from error
        if isinstance(error, Neo4jError):
            raise GraphQueryError("REFUSED", error.message or str(error)) from error


def _plain(value: Any) -> str:
    if isinstance(value, neo4j.time.DateTime):
        value = value.to_native()
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
