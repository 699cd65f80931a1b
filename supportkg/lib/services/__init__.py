"""PostgreSQL, Neo4j and the broker: addresses from the environment, or servers of this checkout.

Promise: with no variable set the three servers run embedded, on 127.0.0.1 only, with data, ports
and passwords in the data folder (`.data`, or SUPPORTKG_DATA_DIR). DATABASE_URL, NEO4J_URI and
CELERY_BROKER_URL each switch one to an existing server. Nothing above this package knows which of
both is the case: `connections` gives addresses, `start` starts what is embedded and not running.

Servers outlive the command that started them; `stop` ends them. At once two commands start each
server once. After `kill -9` the next `start` recovers.

Must never happen: a server that listens beyond loopback; two servers on one data folder; a start
or stop of a server that the environment names.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from . import broker, neo4j, postgres, state
from .process import ServiceError, exclusive, running_pid, spawn, tail, terminate

__all__ = [
    "NAMES",
    "Connections",
    "ServiceError",
    "Status",
    "connections",
    "start",
    "status",
    "stop",
]

_SERVERS = {"postgres": postgres, "neo4j": neo4j, "broker": broker}
NAMES = tuple(_SERVERS)
_started_here: set[str] = set()  # by this process, whatever became of them since


@dataclass(frozen=True)
class Connections:
    """How to reach the three services, and the key that Django signs with."""

    database_url: str
    neo4j_uri: str
    neo4j_user: str
    neo4j_password: str
    neo4j_database: str
    broker_url: str
    secret_key: str


@dataclass(frozen=True)
class Status:
    """One service. `pid` is None when it does not run or is not embedded; `log` for embedded."""

    name: str
    title: str
    address: str
    pid: int | None
    log: Path | None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 (stdout belongs to the command)


def _is_embedded(name: str) -> bool:
    return not os.environ.get(_SERVERS[name].VARIABLE)


def connections() -> Connections:
    """Addresses of all services, without starting any. Cheap: reads one small file at most."""
    env = os.environ
    variables = ("DATABASE_URL", "NEO4J_URI", "CELERY_BROKER_URL", "SECRET_KEY")
    own = None if all(env.get(name) for name in variables) else state.load()
    uri = env.get("NEO4J_URI")
    return Connections(
        database_url=env.get("DATABASE_URL") or postgres.url(_own(own).postgres),
        neo4j_uri=uri or neo4j.url(_own(own).neo4j),
        neo4j_user=(env.get("NEO4J_USER") or neo4j.USER) if uri else neo4j.USER,
        neo4j_password=env.get("NEO4J_PASSWORD", "") if uri else _own(own).neo4j.password,
        neo4j_database=(env.get("NEO4J_DATABASE") or neo4j.DATABASE) if uri else neo4j.DATABASE,
        broker_url=env.get("CELERY_BROKER_URL") or broker.url(_own(own).broker),
        secret_key=env.get("SECRET_KEY") or _own(own).secret_key,
    )


def _own(own: state.State | None) -> state.State:
    assert own is not None
    return own


def _lock(name: str) -> Path:
    return state.data_dir() / "run" / f"{name}.lock"


def _log(name: str) -> Path:
    return state.data_dir() / "logs" / f"{name}.log"


def start(which: Iterable[str] = NAMES, say: Callable[[str], None] = _say) -> list[str]:
    """Start the embedded ones of `which` that do not run, and wait until each takes queries.

    Returns the names of those that this process has started, now or in an earlier call: a command
    that ends what it started stops these. Nothing is said when all run already.

    Raises:
        ServiceError: with what happened, the log, and what to do.
    """
    wanted = [name for name in which if _is_embedded(name)]
    if not all(running_pid(_lock(name)) and _is_ready(name) for name in wanted):
        state.load()  # makes the data folder
        try:
            with exclusive(state.data_dir() / "start.lock"):
                stopped = [name for name in wanted if running_pid(_lock(name)) is None]
                for name in stopped:
                    _launch(name, say)
                for name in wanted:
                    if not _wait(name, say, fresh=name in stopped):
                        _launch(name, say)  # the one that ran when we came was about to end
                        _wait(name, say, fresh=True)
        except ServiceError:
            stop(list(_started_here), say)  # nothing is left behind by a start that failed
            raise
    return [name for name in wanted if name in _started_here]


def _is_ready(name: str) -> bool:
    return _SERVERS[name].ping(state.load()[name]) is None


def _launch(name: str, say: Callable[[str], None]) -> None:
    server = _SERVERS[name]
    endpoint = state.load()[name]
    if not state.port_is_free(endpoint.port):
        taken, endpoint = endpoint.port, state.move(name)
        say(f"{server.TITLE}: port {taken} is taken by another program, using {endpoint.port}")
    launch = server.prepare(state.data_dir() / name, endpoint, say)
    spawn(launch, _lock(name), _log(name))
    _started_here.add(name)


def _wait(name: str, say: Callable[[str], None], *, fresh: bool) -> bool:
    """Wait until `name` takes queries. False: it ended, and it was not `fresh` (just started)."""
    server = _SERVERS[name]
    endpoint = state.load()[name]
    began = time.monotonic()
    while (reason := server.ping(endpoint)) is not None:
        if running_pid(_lock(name)) is None:
            if not fresh:
                return False
            problem = "ended right after its start"
        elif time.monotonic() - began > server.PATIENCE:
            problem = f"does not take queries after {server.PATIENCE:.0f} s ({reason})"
        else:
            time.sleep(0.1)
            continue
        raise ServiceError(
            f"{server.TITLE} {problem}. The end of {_log(name)}:\n{tail(_log(name))}\n"
            f"To use a server of your own instead, set {server.VARIABLE}."
        )
    say(f"{server.TITLE} is ready at {state.HOST}:{endpoint.port}")
    return True


def stop(which: Iterable[str] = NAMES, say: Callable[[str], None] = _say) -> list[str]:
    """Stop the embedded ones of `which` that run in this data folder; their names."""
    if not state.data_dir().exists():
        return []
    stopped = []
    with exclusive(state.data_dir() / "start.lock"):
        for name in which:
            server = _SERVERS[name]
            if terminate(_lock(name), server.STOP_SIGNAL, patience=30):
                say(f"{server.TITLE} stopped")
                _started_here.discard(name)
                stopped.append(name)
    return stopped


def status() -> list[Status]:
    """Every service, embedded or not, in a fixed order."""
    known = connections()
    addresses = (known.database_url, known.neo4j_uri, known.broker_url)
    return [
        Status(name, server.TITLE, address.rpartition("@")[2], running_pid(_lock(name)), _log(name))
        if _is_embedded(name)
        else Status(name, server.TITLE, address.rpartition("@")[2], None, None)
        for (name, server), address in zip(_SERVERS.items(), addresses, strict=True)
    ]
