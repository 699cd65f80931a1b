"""The data folder of a checkout: where its servers keep data, and their ports and passwords.

Promise: ports and passwords are chosen once and kept in `services.json`, readable by its owner
only; reading them starts nothing. A port changes only when another program has taken it.

Must never happen: two commands that start at once and write two different passwords; a half
written state file.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from .process import ServiceError, exclusive

ROOT = Path(__file__).resolve().parents[3]
HOST = "127.0.0.1"
# Below the range from which Linux and macOS give out ports for outgoing connections, so that a
# stopped server rarely finds its port taken.
_PORTS = range(20_000, 30_000)


@dataclass(frozen=True)
class Endpoint:
    """Where an embedded server listens on loopback, and its password."""

    port: int
    password: str


@dataclass(frozen=True)
class State:
    """What `services.json` holds: one endpoint a server, and Django's secret key."""

    postgres: Endpoint
    neo4j: Endpoint
    broker: Endpoint
    secret_key: str

    def __getitem__(self, name: str) -> Endpoint:
        endpoint = getattr(self, name)
        assert isinstance(endpoint, Endpoint)
        return endpoint


def data_dir() -> Path:
    """`SUPPORTKG_DATA_DIR`, relative to the checkout; `.data` when not set."""
    return ROOT / Path(os.environ.get("SUPPORTKG_DATA_DIR") or ".data").expanduser()


def cache_dir() -> Path:
    """`SUPPORTKG_CACHE_DIR`, shared between checkouts; `~/.cache/supportkg` when not set."""
    return Path(os.environ.get("SUPPORTKG_CACHE_DIR") or "~/.cache/supportkg").expanduser()


def port_is_free(port: int) -> bool:
    """Whether a server could listen on `port` now (a port in TIME_WAIT is free)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _free_ports(count: int) -> list[int]:
    tried = random.sample(_PORTS, 500)
    free = list(islice(filter(port_is_free, tried), count))
    if len(free) == count:
        return free
    raise ServiceError("No free port between 20000 and 29999 on 127.0.0.1.")


def _read(path: Path) -> State | None:
    try:
        saved = json.loads(path.read_text("utf-8"))
        ends = {name: Endpoint(**saved[name]) for name in ("postgres", "neo4j", "broker")}
        return State(**ends, secret_key=saved["secret_key"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise ServiceError(
            f"{path} is damaged ({error!r}). It holds the passwords of the servers beside it: put "
            f"a copy back, or delete the folder {path.parent} to begin with empty servers."
        ) from error
    except PermissionError as error:
        raise ServiceError(
            f"{path} belongs to another user. Run as that user, or set SUPPORTKG_DATA_DIR to a "
            "folder of your own."
        ) from error


def _write(path: Path, state: State) -> None:
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(state), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _make_data_dir() -> None:
    folder = data_dir()
    try:
        # Root keeps it passable, not listable: PostgreSQL's account must reach its own folder.
        folder.mkdir(parents=True, exist_ok=True, mode=0o711 if os.geteuid() == 0 else 0o700)
    except OSError as error:
        raise ServiceError(
            f"Cannot create the data folder {folder}: {error.strerror}. Set SUPPORTKG_DATA_DIR to "
            "a folder that you may write to."
        ) from error


def load() -> State:
    """Ports and passwords of the embedded servers, chosen on the first call."""
    path = data_dir() / "services.json"
    if state := _read(path):
        return state
    _make_data_dir()
    with exclusive(path.with_suffix(".lock")):
        state = _read(path)
        if state is None:
            first, second, third = (
                Endpoint(port, secrets.token_hex(16)) for port in _free_ports(3)
            )
            state = State(first, second, third, secret_key=secrets.token_urlsafe(50))
            _write(path, state)
    return state


def move(name: str) -> Endpoint:
    """Give server `name` a new port, because another program listens on its old one."""
    path = data_dir() / "services.json"
    with exclusive(path.with_suffix(".lock")):
        state = load()
        endpoint = replace(state[name], port=_free_ports(1)[0])
        _write(path, State(**{**vars(state), name: endpoint}))
    return endpoint
