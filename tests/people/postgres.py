"""A real PostgreSQL for tests: made in a folder of its own, reached over a socket, gone afterwards.

PostgreSQL refuses to run as root, so a test run by root starts it as the user postgres, or as nobody.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Postgres:
    """A running server; `database()` makes an empty database and returns its URL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def database(self) -> str:
        import psycopg

        name = f"labels_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(host=str(self.folder), user="tester", dbname="postgres", autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"postgresql://tester@/{name}?host={self.folder}"


def program(name: str) -> str | None:
    """Where a program of PostgreSQL lies: on the path, or where Debian puts it."""
    found = shutil.which(name)
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return found or (str(places[-1]) if places else None)


def why_not() -> str:
    """Why there can be no PostgreSQL here; empty when there can."""
    if program("initdb") is None or program("pg_ctl") is None:
        return "PostgreSQL (initdb, pg_ctl) is not installed"
    return "" if os.getuid() or _other_user() else "PostgreSQL does not run as root, and there is no other user"


@contextmanager
def running() -> Iterator[Postgres]:
    """Start a server, and stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: the path of a socket may have 107 characters
    user = None if os.getuid() else _other_user()
    if user is not None:
        os.chown(folder, user, -1)
    initdb, pg_ctl, data = program("initdb"), program("pg_ctl"), str(folder / "data")
    assert initdb is not None and pg_ctl is not None
    server = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off -c max_connections=100"
    try:
        _run(user, initdb, "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        _run(user, pg_ctl, "-D", data, "-w", "-l", str(folder / "log"), "-o", server, "start")
        try:
            yield Postgres(folder)
        finally:
            _run(user, pg_ctl, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _other_user() -> int | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return None


def _run(user: int | None, *command: str) -> None:
    # the output goes nowhere: a server that inherited a pipe would keep it open
    done = subprocess.run(
        command,
        user=user,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}")
