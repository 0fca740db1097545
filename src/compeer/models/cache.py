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

import msgspec

from compeer.models.request import Answer, Model, ModelError, Request


class RequestCache:
    """One SQLite file of answers."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()
        self._decoder = msgspec.msgpack.Decoder(Answer)
        self._connection: sqlite3.Connection | None = None
        self._process = 0

    def get(self, key: bytes) -> Answer | None:
        with self._lock:
            row = self._open().execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            self.misses += 1
            return None
        self.hits += 1
        return self._decoder.decode(row[0])

    def put(self, key: bytes, answer: Answer) -> None:
        packed = msgspec.msgpack.encode(answer)
        with self._lock:
            # two processes may answer the same request at once; the first answer stays
            self._open().execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (key, packed, time.time()))

    def __len__(self) -> int:
        with self._lock:
            count: int = self._open().execute("SELECT count(*) FROM answers").fetchone()[0]
        return count

    def close(self) -> None:
        with self._lock:
            if self._connection:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():  # never share a connection over a fork
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL, at REAL NOT NULL)"
                    " WITHOUT ROWID"
                )
            except (sqlite3.Error, OSError) as error:
                raise ModelError(
                    f"The request cache {self.path} cannot be opened: {error}. "
                    "Choose another file with --cache, or move this one away."
                ) from error
            self._connection, self._process = connection, os.getpid()
        return self._connection


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
