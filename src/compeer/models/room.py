"""Room in a context that several requests share.

llama.cpp's slots fill one context together, and when it overflows every request in it fails, also those
that would have fitted alone. So a request waits until there is room for it, first come, first served. How
many tokens a text has is not known beforehand; two bytes a token is more than either language needs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Room:
    """Tokens that requests in flight may fill."""

    def __init__(self, tokens: int) -> None:
        self.tokens = self.free = tokens
        self._turn = threading.Lock()  # held by the one that waits, so that a large request is not overtaken for ever
        self._change = threading.Condition()

    @contextlib.contextmanager
    def taken(self, prompt: str, max_tokens: int, abandoned: threading.Event) -> Iterator[None]:
        """Wait for room, and take it; a request larger than all of it gets it all. Nobody waits when abandoned."""
        needed = min(self.tokens, len(prompt.encode()) // 2 + max_tokens)
        with self._turn, self._change:
            while self.free < needed and not abandoned.is_set():
                self._change.wait(0.1)
            self.free -= needed
        try:
            yield
        finally:
            with self._change:
                self.free += needed
                self._change.notify_all()
