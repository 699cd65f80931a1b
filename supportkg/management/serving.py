"""The web and a worker as child processes, until one ends or Ctrl-C.

Promises that both end with the command that started them.
Must never happen: a child that outlives its parent.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from django.conf import settings
from django.core.management.base import CommandError

_CODE = ("supportkg", "tickets", "retrieval", "personalization", "templates")


def serve(port: int, say: Callable[[str], object], *, reload: bool) -> None:
    """Serve the console on the first free port from ``port``, with a worker beside it.

    Returns on Ctrl-C or SIGTERM; raises CommandError when one of the two ends by itself.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    port = free_port(port)
    watch = ["--reload", *(part for name in _CODE for part in ("--reload-dir", name))]
    children = {
        "web": _run("uvicorn", "supportkg.asgi:application", f"--port={port}",
                    "--log-level=warning", *(watch if reload else [])),
        "worker": _run("celery", "--quiet", "-A", "supportkg", "worker", "--loglevel=WARNING",
                       "-c1"),
    }  # fmt: skip
    try:
        _wait_for(port, children["web"])
        say(f"Console: http://127.0.0.1:{port}/ (Ctrl-C stops)")
        while all(child.poll() is None for child in children.values()):
            time.sleep(0.3)
        ended = next(name for name, child in children.items() if child.poll() is not None)
        code = children[ended].returncode
        raise CommandError(f"The {ended} ended (code {code}); see above.")
    except KeyboardInterrupt:
        say("Stopping")
    finally:
        _stop(list(children.values()))


def free_port(first: int) -> int:
    """The first port from ``first`` on that nobody listens on (at most 100 are tried)."""
    for port in range(first, first + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise CommandError(f"Ports {first} to {first + 99} of 127.0.0.1 are all taken.")


def _wait_for(port: int, web: subprocess.Popen[bytes]) -> None:
    """Until the web answers, so that the address is printed when it works."""
    while web.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)


def _run(*arguments: str) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches the parent alone, which stops its children.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", *arguments], start_new_session=True, cwd=settings.BASE_DIR
    )


def _stop(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.send_signal(signal.SIGTERM)  # uvicorn and Celery finish what they are at
    for child in children:
        try:
            child.wait(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
