"""The jars of the Neo4j server: fetched once by coordinates, verified at every start.

Promise: what `ensure` returns are exactly the files named in `neo4j-jars.lock`, each with the
SHA-256 written there. They are shared between checkouts in the cache folder. A download that was
interrupted goes on where it ended: whole jars stay, half ones are thrown away.

The lock file has a line a jar: SHA-256, size in bytes, group:artifact:version[:classifier].

Must never happen: a jar whose checksum differs is used or stays in the cache.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from .process import ServiceError, exclusive
from .state import cache_dir

LOCK_FILE = Path(__file__).with_name("neo4j-jars.lock")
ELSEWHERE = (
    "To use a Neo4j 5.26 server of your own instead, set NEO4J_URI (and NEO4J_USER, "
    "NEO4J_PASSWORD), for example after:\n"
    "    docker run -p 127.0.0.1:7687:7687 -e NEO4J_AUTH=neo4j/a-password neo4j:5.26-community\n"
    "    export NEO4J_URI=bolt://127.0.0.1:7687 NEO4J_USER=neo4j NEO4J_PASSWORD=a-password"
)
_CONNECTIONS = 6  # at once; most jars are small, so the time goes into waiting


@dataclass(frozen=True)
class Jar:
    """One line of the lock file; `size` in bytes."""

    sha256: str
    size: int
    coordinates: str

    @property
    def filename(self) -> str:
        """`artifact-version[-classifier].jar`, as the repository names it."""
        return "-".join(self.coordinates.split(":")[1:]) + ".jar"

    def is_whole(self, path: Path) -> bool:
        """Whether `path` has exactly the locked content."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def locked(path: Path = LOCK_FILE) -> list[Jar]:
    """The jars of the lock file."""
    fields = (line.split() for line in path.read_text("utf-8").splitlines() if line)
    return [Jar(sha256, int(size), coordinates) for sha256, size, coordinates in fields]


def _download(jar: Jar, folder: Path, draft: Path) -> None:
    """Fetch one jar into `draft`, verify it, and only then put it into `folder`."""
    from jgo.maven import MavenContext  # noqa: PLC0415 (only for a download)

    group, artifact, version, *classifier = jar.coordinates.split(":")
    context = MavenContext(repo_cache=draft, timeout=60)
    component = context.project(group, artifact).at_version(version)
    path = component.artifact(*classifier).resolve()
    if not jar.is_whole(path):
        path.unlink()
        raise ServiceError(
            f"{jar.filename} was downloaded but is not the file that {LOCK_FILE.name} names "
            "(its SHA-256 differs). It was removed. Start again; if it happens again, do not use "
            f"this source of packages.\n{ELSEWHERE}"
        )
    path.replace(folder / jar.filename)


def _download_all(missing: list[Jar], folder: Path, say: Callable[[str], None]) -> None:
    draft = folder / "partial"
    shutil.rmtree(draft, ignore_errors=True)  # of a download that was interrupted
    total, done, told = sum(jar.size for jar in missing), 0, 0
    say(f"Neo4j: downloading {len(missing)} jars, {total / 1e6:.0f} MB, into {folder}")
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        jobs = {pool.submit(_download, jar, folder, draft): jar for jar in missing}
        try:
            for job in as_completed(jobs):
                job.result()
                done += jobs[job].size
                if (percent := 100 * done // total) >= told + 10:
                    told = percent - percent % 10
                    say(f"Neo4j: {told} % of {total / 1e6:.0f} MB")
        except (OSError, RuntimeError, AssertionError) as error:
            pool.shutdown(cancel_futures=True)
            if isinstance(error, ServiceError):
                raise
            raise ServiceError(
                "Neo4j's jars could not be downloaded from Maven Central: "
                f"{_cause(error)}\nWhat was fetched is kept; the next start goes on from there. "
                "Behind a proxy, set HTTPS_PROXY, and REQUESTS_CA_BUNDLE if it has a certificate "
                f"of its own.\n{ELSEWHERE}"
            ) from error
        except BaseException:  # Ctrl-C: do not fetch the rest first
            pool.shutdown(cancel_futures=True)
            raise
    shutil.rmtree(draft, ignore_errors=True)


def _cause(error: BaseException) -> str:
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {error}"


def ensure(say: Callable[[str], None], jars: Iterable[Jar] | None = None) -> list[Path]:
    """The verified paths of all jars; downloads those that are missing.

    Raises:
        ServiceError: a checksum differs, or the repository cannot be reached.
    """
    wanted = locked() if jars is None else list(jars)
    folder = cache_dir() / "neo4j-jars"
    with exclusive(folder / "lock"):
        missing = []
        for jar in wanted:
            path = folder / jar.filename
            if jar.is_whole(path):
                continue
            if path.exists():
                path.unlink()
                say(f"Neo4j: {path} is damaged (its SHA-256 differs); removed, fetching it anew")
            missing.append(jar)
        if missing:
            _download_all(missing, folder, say)
    return [folder / jar.filename for jar in wanted]
