"""An event loop in its own thread, for callers that are not asynchronous and for judges that block.

The loop starts with the first use, so nothing of it exists when a process is forked or an object is pickled. A forked
child inherits the parent's objects but none of its threads, and gets a loop of its own. What it inherited is kept and
never touched, because closing it would reach through the shared sockets into the parent.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from compeer.models.request import never_collect

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines in a thread, with one loop for all of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return BackgroundLoop, (self._name,)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine. The future can be awaited and cancelled from any thread."""
        if self._process != os.getpid():
            never_collect((self._loop, self._thread, self._lock))
            self._lock, self._process, self._loop, self._thread = threading.Lock(), os.getpid(), None, None
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine for a caller in another loop; cancelling the call cancels the coroutine."""
        return await asyncio.wrap_future(self.submit(coroutine))

    def close(self, patience: float = 5.0) -> None:
        """Stop the loop and everything in it. A thread that is in the middle of a computation ends by itself."""
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
