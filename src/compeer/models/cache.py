"""Answers on disk, keyed on the rendered request, safe under several processes.

The key is a hash of everything that determines the answer (server and model, messages with image
hashes, sampling, grammar or schema, sample index), never a version number. An answer is committed
before anyone sees it, so a killed run asks nothing twice. Write-ahead logging lets many processes read
while one writes; a killed process cannot damage it.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.request import Answer, Model, ModelError, Request, never_collect
from compeer.typed import known

_LOCKED = 60.0  # seconds to wait for other processes

# One statement at a time in this process, and none while it forks: a child born in the middle of one would find
# SQLite's own locks taken forever.
_LOCK = threading.Lock()
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


class RequestCache:
    """One SQLite file of answers."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.hits = 0
        self.misses = 0
        self._decoder = msgspec.msgpack.Decoder(known(Answer))
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()

    def get(self, key: bytes) -> Answer | None:
        row = self._row("SELECT answer FROM answers WHERE key = ?", (key,))
        if row is None:
            self.misses += 1
            return None
        self.hits += 1
        return self._decoder.decode(row[0])

    def put(self, key: bytes, answer: Answer) -> None:
        packed = msgspec.msgpack.encode(answer)
        # two processes may answer the same request at once; the first answer stays
        self._row("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (key, packed, time.time()))

    def __len__(self) -> int:
        row = self._row("SELECT count(*) FROM answers")
        return int(row[0]) if row else 0

    def close(self) -> None:
        with _LOCK:
            self._leave_parent()
            if self._connection:
                self._connection.close()
                self._connection = None

    def _row(self, statement: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Run one statement; its first row."""
        with _LOCK:
            self._leave_parent()
            try:
                if self._connection is None:
                    self._connection = _open(self.path)
                row: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
            except (sqlite3.Error, OSError) as error:
                raise ModelError(
                    f"The request cache {self.path} cannot be used: {error}. "
                    "Choose another file with --cache, or move this one away."
                ) from error
        return row

    def _leave_parent(self) -> None:
        """After a fork: a connection of our own. The parent's is neither used nor closed."""
        if self._process != os.getpid():
            never_collect(self._connection)
            self._connection, self._process = None, os.getpid()


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_LOCKED, isolation_level=None, check_same_thread=False)
    given_up = time.monotonic() + _LOCKED
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            # of several processes that open a new file together, all but one are refused here at once
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > given_up:
                raise
            time.sleep(0.02)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL, at REAL NOT NULL)"
        " WITHOUT ROWID"
    )
    return connection


class CachedModel:
    """A model that remembers its answers."""

    def __init__(self, model: Model, cache: RequestCache) -> None:
        self.model, self.cache = model, cache
        self.name, self.sees = model.name, model.sees

    async def ask(self, request: Request) -> Answer:
        key = hashlib.blake2b(self.rendered(request), digest_size=20).digest()
        known = self.cache.get(key)
        if known is not None:
            return msgspec.structs.replace(known, from_cache=True)
        answer = await self.model.ask(request)
        self.cache.put(key, answer)
        return answer

    def stream(self, request: Request) -> AsyncIterator[str]:
        return self.model.stream(request)  # a live conversation is not cached

    def rendered(self, request: Request) -> bytes:
        return self.model.rendered(request) + b"\x00%d" % request.sample

    async def close(self) -> None:
        await self.model.close()
        self.cache.close()
