"""The jars of the Neo4j server, fetched from a repository on this machine."""

from __future__ import annotations

import gc
import shutil
import socket
import threading
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from jgo.maven import MavenContext

from supportkg.lib import services
from supportkg.lib.services import jars


def quiet(_text: str) -> None:
    """Messages are not this test's subject."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder served over HTTP in place of Maven Central; the cache is empty."""
    folder = tmp_path / "repository"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            """Write no access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(
        "jgo.maven.MavenContext", partial(MavenContext, remote_repos={"central": address})
    )
    monkeypatch.setenv("SUPPORTKG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield folder
    server.shutdown()
    thread.join()
    server.server_close()
    gc.collect()  # the sockets that jgo left open belong to this test, not to a later one


def publish(repository: Path, name: str, content: bytes) -> jars.Jar:
    path = repository / "org" / "x" / name / "1.0" / f"{name}-1.0.jar"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return jars.Jar(sha256(content).hexdigest(), len(content), f"org.x:{name}:1.0")


def test_lock_file_names_the_server_and_each_file_once() -> None:
    locked = jars.locked()
    assert {"org.neo4j:neo4j:5.26.30", "org.neo4j.app:neo4j-server:5.26.30"} <= {
        jar.coordinates for jar in locked
    }
    assert len({jar.filename for jar in locked}) == len(locked) > 200
    assert all(len(bytes.fromhex(jar.sha256)) == 32 and jar.size > 0 for jar in locked)


def test_jars_are_fetched_once_and_a_damaged_one_again(repository: Path) -> None:
    wanted = [publish(repository, name, name.encode() * 1000) for name in ("a", "b", "c")]
    said: list[str] = []
    paths = jars.ensure(said.append, wanted)
    assert [path.read_bytes()[:1] for path in paths] == [b"a", b"b", b"c"]
    assert "3 jars" in said[0]
    paths[1].write_bytes(b"x" * 1000)
    said.clear()
    assert jars.ensure(said.append, wanted) == paths
    assert "b-1.0.jar is damaged" in said[0]
    assert "1 jars" in said[1]
    assert paths[1].read_bytes() == b"b" * 1000
    shutil.rmtree(repository / "org")
    said.clear()
    assert jars.ensure(said.append, wanted) == paths
    assert said == []


def test_jars_of_an_interrupted_download_are_fetched_again(repository: Path) -> None:
    whole, half = publish(repository, "a", b"a" * 99), publish(repository, "b", b"b" * 99)
    folder = jars.ensure(quiet, [whole])[0].parent
    partial_file = folder / "partial" / "org" / "x" / "b" / "1.0" / half.filename
    partial_file.parent.mkdir(parents=True)
    partial_file.write_bytes(b"b" * 50)
    said: list[str] = []
    assert jars.ensure(said.append, [whole, half])[1].read_bytes() == b"b" * 99
    assert "1 jars" in said[0]
    assert not (folder / "partial").exists()


def test_jar_with_another_checksum_is_refused_and_removed(repository: Path, tmp_path: Path) -> None:
    good, bad = publish(repository, "a", b"a" * 99), publish(repository, "b", b"b" * 99)
    path = repository / "org" / "x" / "b" / "1.0" / bad.filename
    path.write_bytes(b"e" * 99)
    with pytest.raises(services.ServiceError, match=r"b-1\.0\.jar was downloaded but is not"):
        jars.ensure(quiet, [good, bad])
    assert list((tmp_path / "cache").rglob("b-1.0.jar")) == []


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # jgo: of a refused request
@pytest.mark.parametrize("problem", ["not found", "no network"])
def test_jars_that_cannot_be_had_name_what_to_set(
    repository: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    if problem == "no network":
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setattr(
            "jgo.maven.MavenContext", partial(MavenContext, remote_repos={"central": address})
        )
    with pytest.raises(services.ServiceError) as caught:
        jars.ensure(quiet, [jars.Jar("0" * 64, 1, "org.x:a:1.0")])
    for part in ("Maven Central", "HTTPS_PROXY", "NEO4J_URI", "neo4j:5.26-community"):
        assert part in str(caught.value)
