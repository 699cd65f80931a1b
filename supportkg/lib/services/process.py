"""Detached server processes that are known by a lock, not by a process number.

Promise: a server started here outlives the command that started it, and whether it runs is
answered by the kernel. The server inherits an exclusive `flock` on its lock file and holds it for
as long as it lives; the kernel drops it at any death, `kill -9` included. So there is no stale
pid file, and a process number that another program got meanwhile is never mistaken for ours.

Must never happen: a signal sent to a process that does not hold the lock; two servers on one
data folder.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


class ServiceError(RuntimeError):
    """A service cannot be started or stopped. The message says what happened and what to do."""


@dataclass(frozen=True)
class Account:
    """A system account, by number, that a server runs under instead of root."""

    uid: int
    gid: int

    def run_as(self) -> dict[str, object]:
        """Keyword arguments of `subprocess` that switch to this account (needs root)."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclass(frozen=True)
class Launch:
    """How to start one server: the command runs in `cwd` with exactly `env`."""

    command: list[str]
    cwd: Path
    env: dict[str, str]
    account: Account | None = None


def clean_env(**extra: str) -> dict[str, str]:
    """The little of the environment a server needs: PGPORT or JAVA_TOOL_OPTIONS do not leak in."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {"LANG": "C.UTF-8", **kept, **extra}


def package_folder(package: str, variable: str) -> Path:
    """Where an installed Python package lies, without running its code.

    Raises:
        ServiceError: not installed (there is none for every machine); names `variable` instead.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ServiceError(
            f"The Python package {package} is not installed (see requirements.txt). Install it, or "
            f"set {variable} to a server of your own."
        )
    return Path(spec.origin).parent


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ServiceError(
            f"Cannot write {path}: {error.strerror}. Run as its owner, or set SUPPORTKG_DATA_DIR "
            "and SUPPORTKG_CACHE_DIR to folders of your own."
        ) from error


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold `path` as a lock between processes; waits for whoever holds it now."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def running_pid(lock: Path) -> int | None:
    """The process number of the server that holds `lock`, or None when none does."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # A shared lock: two commands that look at the same moment must not see each other.
        if _try_lock(descriptor, fcntl.LOCK_SH):
            return None
        return int(os.read(descriptor, 32) or b"0") or None
    finally:
        os.close(descriptor)


def spawn(launch: Launch, lock: Path, log: Path) -> None:
    """Start a server in a session of its own, with `lock` held by it and output added to `log`.

    The caller holds the lock of the data folder, so nobody else starts the same server. A shell
    in between starts the server and ends: the server is then a child of init, never a zombie.
    """
    descriptor = _open(lock)
    try:
        deadline = time.monotonic() + 5
        while not _try_lock(descriptor, fcntl.LOCK_EX):  # somebody is just looking: running_pid
            if time.monotonic() > deadline:
                raise ServiceError(f"{lock} is held by another process.")
            time.sleep(0.01)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            shell = subprocess.run(  # noqa: S603
                ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *launch.command],
                cwd=launch.cwd,
                env=launch.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                pass_fds=(descriptor,),
                start_new_session=True,
                umask=0o077,
                check=True,
                **(launch.account.run_as() if launch.account else {}),  # type: ignore[call-overload]
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, shell.stdout.strip())
    finally:
        os.close(descriptor)  # the server keeps its own copy of the descriptor and so the lock


def terminate(lock: Path, stop_signal: signal.Signals, patience: float) -> bool:
    """Stop the server that holds `lock`; SIGKILL after `patience` seconds. False: none ran."""
    pid = running_pid(lock)
    if pid is None:
        return False
    for number, seconds in ((stop_signal, patience), (signal.SIGKILL, 10.0)):
        try:
            if number is signal.SIGKILL:
                os.killpg(os.getpgid(pid), number)  # with any child that would keep the lock
            else:
                os.kill(pid, number)
        except ProcessLookupError:
            pass  # it has just ended; its children may hold the lock a moment longer
        except PermissionError as error:
            raise ServiceError(
                f"Process {pid} belongs to another user; stop it as that user."
            ) from error
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if running_pid(lock) is None:
                return True
            time.sleep(0.05)
    raise ServiceError(f"Process {pid} does not end, even by SIGKILL.")


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, indented, for an error message."""
    try:
        text = log.read_text("utf-8", errors="replace")
    except OSError:
        return "    (no log)"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (log is empty)"
