"""Fixtures that every test may use: a database and a graph of the tests' own.

Must never happen: a database or graph that is not marked as the tests' own
being emptied. The PostgreSQL test database carries a comment, the graph a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import Client

from supportkg.lib import graph as lib_graph
from tests.factories import World, make_world
from tickets import projection

DATABASE_MARK = "made by the SupportKG tests; may be dropped"
DATA = Path(__file__).parent / "data"
DEMO_TICKETS = Path(settings.BASE_DIR) / "tickets/fixtures/titanium-excerpt.jsonl"


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Refuse before pytest-django drops a database of the test's name that is not ours."""
    own = settings.DATABASES["default"]
    name = f"test_{own['NAME']}"
    with psycopg.connect(
        host=own["HOST"],
        port=own["PORT"],
        user=own["USER"],
        password=own["PASSWORD"],
        dbname=own["NAME"],
        autocommit=True,
    ) as server:
        row = server.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
            [name],
        ).fetchone()
    if row is not None and row[0] != DATABASE_MARK:
        pytest.exit(f"The database {name} was not made by these tests; rename or drop it.", 3)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: object) -> None:
    """Mark the database that pytest-django has just made."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:  # type: ignore[attr-defined]
        name = connection.ops.quote_name(connection.settings_dict["NAME"])
        cursor.execute(f"COMMENT ON DATABASE {name} IS '{DATABASE_MARK}'")


@pytest.fixture(scope="session")
def _own_graph() -> Iterator[None]:
    lib_graph.mark_as_test()
    projection.prepare()
    yield
    lib_graph.close()


@pytest.fixture
def graph(_own_graph: None) -> Iterator[object]:
    """``supportkg.lib.graph`` on an empty graph that is marked as the tests' own."""
    lib_graph.wipe(test_only=True)
    yield lib_graph


@pytest.fixture
def world(db: None) -> World:
    """Two projects, and people who see one of them, the other, none or both."""
    cache.clear()  # the throttle remembers there
    return make_world()


@pytest.fixture
def alice(world: World, client: Client) -> Client:
    """A browser signed in as a member of the first project."""
    client.force_login(world.alice)
    return client


@pytest.fixture
def root(world: World, client: Client) -> Client:
    """A browser signed in as a superuser."""
    client.force_login(world.root)
    return client
