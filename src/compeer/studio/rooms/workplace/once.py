"""The coordinator's forms, each good for one use: a link that is shown once must not be made twice by a reload.

A page takes a random name for its forms from here; using it takes it away. Names live in memory: after a restart the
page has to be loaded again, and nothing sent before works a second time.
"""

from __future__ import annotations

import secrets
import threading

from compeer.studio.access import Refused

_MOST = 10_000


class Once:
    """Names that were handed out and not used yet.

    >>> once = Once()
    >>> name = once.issue()
    >>> once.use(name)
    >>> once.use(name)
    Traceback (most recent call last):
    compeer.studio.access.refused.Refused: a form that was sent before
    """

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._lock = threading.Lock()

    def issue(self) -> str:
        name = secrets.token_urlsafe(16)
        with self._lock:
            while len(self._waiting) >= _MOST:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[name] = None
        return name

    def use(self, name: str) -> None:
        with self._lock:
            if name not in self._waiting:
                raise Refused(409, "form", "a form that was sent before")
            del self._waiting[name]
