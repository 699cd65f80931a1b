"""The embedded servers, started for real in a data folder of each test's own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import neo4j
import psutil
import psycopg
import pytest
import redis

from supportkg.lib import services
from supportkg.lib.services import process, state

VARIABLES = ("DATABASE_URL", "NEO4J_URI", "NEO4J_USER", "NEO4J_PASSWORD", "NEO4J_DATABASE",
             "CELERY_BROKER_URL", "SECRET_KEY")  # fmt: skip


def quiet(_text: str) -> None:
    """Messages are not this test's subject."""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty data folder, with nothing set in the environment; servers in it are ended."""
    folder = tmp_path / "data"
    monkeypatch.setenv("SUPPORTKG_DATA_DIR", str(folder))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield folder
    services.stop(say=quiet)
    shutil.rmtree((folder / "postgres").resolve(), ignore_errors=True)  # see postgres._folder


def pid_of(name: str) -> int | None:
    return next(one.pid for one in services.status() if one.name == name)


def run_python(code: str, **kwargs: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=state.ROOT, stdout=subprocess.PIPE, text=True, **kwargs
    )


def test_connections_without_variables_are_chosen_once_and_start_nothing(data: Path) -> None:
    first = services.connections()
    assert services.connections() == first
    saved = json.loads((data / "services.json").read_text())
    assert f":{saved['postgres']['port']}/" in first.database_url
    assert saved["neo4j"]["password"] == first.neo4j_password
    assert len({saved[name]["port"] for name in services.NAMES}) == 3
    assert len({saved[name]["password"] for name in services.NAMES}) == 3
    assert (data / "services.json").stat().st_mode & 0o777 == 0o600
    assert [one.pid for one in services.status()] == [None, None, None]


def test_connections_of_many_processes_at_once_are_the_same(data: Path) -> None:
    code = "from supportkg.lib.services import connections; print(connections())"
    started = [run_python(code) for _ in range(4)]
    answers = {one.communicate()[0] for one in started}
    assert len(answers) == 1
    assert "postgres://" in answers.pop()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DATABASE_URL": "postgres://u:p@db/x"}, {"database_url": "postgres://u:p@db/x"}),
        ({"CELERY_BROKER_URL": "amqp://q"}, {"broker_url": "amqp://q"}),
        (
            {"NEO4J_URI": "bolt://g:7687", "NEO4J_PASSWORD": "s"},
            {"neo4j_uri": "bolt://g:7687", "neo4j_user": "neo4j", "neo4j_password": "s"},
        ),
        (
            {"NEO4J_URI": "neo4j://g", "NEO4J_USER": "me", "NEO4J_DATABASE": "kg"},
            {"neo4j_user": "me", "neo4j_password": "", "neo4j_database": "kg"},
        ),
        ({"SECRET_KEY": "k" * 60}, {"secret_key": "k" * 60}),
    ],
)
def test_connections_with_a_variable_switch_that_service_only(
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    expected: dict[str, str],
) -> None:
    own = vars(services.connections())
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    known = vars(services.connections())
    assert expected.items() <= known.items()
    group = {name.split("_")[0] for name in expected}
    assert {k: v for k, v in known.items() if k.split("_")[0] not in group} == {
        k: v for k, v in own.items() if k.split("_")[0] not in group
    }


def test_connections_ignore_a_neo4j_password_without_an_address(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = services.connections()
    monkeypatch.setenv("NEO4J_PASSWORD", "of-another-server")
    assert services.connections() == own


def test_everything_set_in_the_environment_touches_no_folder(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATABASE_URL", "NEO4J_URI", "CELERY_BROKER_URL", "SECRET_KEY"):
        monkeypatch.setenv(name, "x://somewhere")
    services.connections()
    assert services.start(say=quiet) == []
    assert services.stop(say=quiet) == []
    assert not data.exists()


def test_connections_name_the_file_when_it_is_damaged(data: Path) -> None:
    services.connections()
    (data / "services.json").write_text('{"postgres": {"port": 1')
    with pytest.raises(services.ServiceError, match=r"services\.json is damaged"):
        services.connections()


def test_start_moves_from_a_port_that_another_program_took(data: Path) -> None:
    before = services.connections().broker_url
    said: list[str] = []
    with socket.create_server(("127.0.0.1", int(before.split(":")[-1].split("/")[0]))):
        assert services.start(["broker"], say=said.append) == ["broker"]
    after = services.connections().broker_url
    assert after != before
    assert "is taken by another program" in said[0]
    with redis.Redis.from_url(after) as client:
        assert client.ping()


def test_start_from_many_processes_at_once_starts_one_server(data: Path) -> None:
    code = "from supportkg.lib import services; print(services.start(['broker']))"
    started = [run_python(code, stderr=subprocess.DEVNULL) for _ in range(4)]
    answers = sorted(one.communicate()[0].strip() for one in started)
    assert answers == ["['broker']", "[]", "[]", "[]"]
    assert services.start(["broker"], say=quiet) == []


def test_broker_needs_the_password_and_shows_it_to_nobody(data: Path) -> None:
    services.start(["broker"], say=quiet)
    url = services.connections().broker_url
    password = json.loads((data / "services.json").read_text())["broker"]["password"]
    stranger = redis.Redis.from_url(url.replace(password, "wrong"))
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    assert password not in " ".join(psutil.Process(pid_of("broker")).cmdline())
    assert (data / "broker" / "valkey.conf").stat().st_mode & 0o077 == 0


def test_broker_carries_a_task_to_a_real_worker(data: Path, tmp_path: Path) -> None:
    services.start(["broker"], say=quiet)
    url, answer = services.connections().broker_url, tmp_path / "answer"
    (tmp_path / "tasks_for_test.py").write_text(
        "from pathlib import Path\nfrom celery import Celery\n"
        f"app = Celery('tasks_for_test', broker={url!r})\n"
        "@app.task(name='write')\ndef write(path, text):\n    Path(path).write_text(text)\n"
    )
    options = ["-A", "tasks_for_test", "worker", "--pool=solo", "--loglevel=ERROR"]
    run: dict[str, Any] = {
        "cwd": tmp_path,
        "env": {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"},
    }
    worker = subprocess.Popen([sys.executable, "-m", "celery", *options], **run)
    try:
        send = "from tasks_for_test import write; import sys; write.delay(sys.argv[1], 'done')"
        subprocess.run([sys.executable, "-c", send, str(answer)], check=True, **run)
        deadline = time.monotonic() + 60
        while not answer.exists() and worker.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert answer.read_text() == "done"
    finally:
        worker.terminate()
        worker.wait()


def test_postgres_and_broker_recover_from_kill(data: Path) -> None:
    services.start(["postgres", "broker"], say=quiet)
    known = services.connections()
    with psycopg.connect(known.database_url, autocommit=True) as connection:
        for name in ("vector", "pg_trgm", "unaccent"):
            connection.execute(f"CREATE EXTENSION {name}")
        connection.execute("CREATE TABLE kept AS SELECT '[1,2,3]'::vector(3) AS v")
    with redis.Redis.from_url(known.broker_url) as client:
        client.lpush("kept", "1")
    time.sleep(1.2)  # the broker promises all but the last second
    for one in services.status():
        if one.pid:
            os.kill(one.pid, signal.SIGKILL)
    assert set(services.start(["postgres", "broker"], say=quiet)) == {"postgres", "broker"}
    assert services.connections() == known
    with psycopg.connect(known.database_url) as connection:
        row = connection.execute("SELECT v <=> '[1,2,3]' FROM kept").fetchone()
        assert row == (0.0,)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
    with redis.Redis.from_url(known.broker_url) as client:
        assert client.llen("kept") == 1


def test_postgres_is_not_run_by_root_and_listens_on_loopback_only(data: Path) -> None:
    services.start(["postgres"], say=quiet)
    url = services.connections().database_url
    assert 0 not in psutil.Process(pid_of("postgres")).uids()
    with psycopg.connect(url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url.replace("supportkg:", "supportkg:not", 1))


def test_start_finishes_a_cluster_whose_making_was_interrupted(data: Path) -> None:
    services.start(["postgres"], say=quiet)
    services.stop(say=quiet)
    folder = (data / "postgres").resolve()
    (folder / "data").rename(folder / "data.new")  # as if initdb had been killed
    assert services.start(["postgres"], say=quiet) == ["postgres"]
    with psycopg.connect(services.connections().database_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_start_shows_the_log_of_a_server_that_ends(data: Path) -> None:
    services.start(["postgres"], say=quiet)
    services.stop(say=quiet)
    (data / "postgres" / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(services.ServiceError) as caught:
        services.start(["postgres"], say=quiet)
    for part in ("ended right after its start", "postgres.log", "incompatible", "DATABASE_URL"):
        assert part in str(caught.value)


def test_terminate_kills_what_ignores_its_signal(tmp_path: Path) -> None:
    lock, log = tmp_path / "lock", tmp_path / "log"
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(60)"
    launch = process.Launch([sys.executable, "-uc", code], tmp_path, process.clean_env())
    process.spawn(launch, lock, log)
    while log.read_text().strip() != "1":
        time.sleep(0.05)
    assert process.running_pid(lock)
    assert process.terminate(lock, signal.SIGTERM, patience=0.3)
    assert process.running_pid(lock) is None
    assert not process.terminate(lock, signal.SIGTERM, patience=0.3)


@pytest.mark.services
def test_neo4j_recovers_from_kill_and_is_shut_off_from_files_and_network(data: Path) -> None:
    assert services.start(["neo4j"], say=quiet) == ["neo4j"]
    known = services.connections()

    def query(text: str, **parameters: Any) -> list[Any]:
        auth = (known.neo4j_user, known.neo4j_password)
        with (
            neo4j.GraphDatabase.driver(known.neo4j_uri, auth=auth) as driver,
            driver.session(database=known.neo4j_database) as session,
        ):
            return session.run(text, parameters).values()

    query("UNWIND range(1, 500) AS n CREATE (:Kept {n: n})")
    with pytest.raises(neo4j.exceptions.ClientError):
        query("LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line")
    pid = pid_of("neo4j")
    assert pid
    heard = [c.laddr for c in psutil.Process(pid).net_connections("tcp") if c.status == "LISTEN"]
    assert [address.ip.removeprefix("::ffff:") for address in heard] == ["127.0.0.1"]

    os.kill(pid, signal.SIGKILL)
    assert services.start(["neo4j"], say=quiet) == ["neo4j"]
    assert query("MATCH (k:Kept) RETURN count(k)") == [[500]]
    assert services.stop(["neo4j"], say=quiet) == ["neo4j"]
