"""An event loop in a thread of its own, for callers that are not asynchronous and for judges that block.

The loop starts with the first use, so nothing of it exists when a process is forked or an object is sent to another.
A forked child has the parent's objects but none of its threads: it gets a loop of its own. What it inherited is kept
and never touched, because closing it would reach through the shared sockets into the parent.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_inherited: list[object] = []  # from the parent of a fork


def keep(thing: object) -> None:
    """Never collect this, although nobody needs it: it belongs to another process."""
    _inherited.append(thing)


class Background:
    """Runs coroutines in a thread, one loop for all of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Background, (self._name,)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine there; the future is safe to wait for, and to cancel, from any thread."""
        if self._process != os.getpid():
            keep((self._loop, self._thread, self._lock))
            self._lock, self._process, self._loop, self._thread = threading.Lock(), os.getpid(), None, None
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def elsewhere(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The same for callers in another loop; cancelling it cancels the coroutine."""
        return await asyncio.wrap_future(self.submit(coroutine))

    def close(self, patience: float = 5.0) -> None:
        """Stop the loop and what runs in it. A thread that is deep in a computation is left to end by itself."""
        if self._process != os.getpid():
            return
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            if thread is not threading.current_thread():
                thread.join(patience)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
