"""Where conversations are: in this process, by session, and nowhere else.

One conversation a browser. It is forgotten when it is deleted, when nobody has written for two hours, and when the
process ends. There is room for so many; when it is full, the one that has been quiet for longest gives way, if it has
been quiet for a while at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from compeer.studio.access.refused import Refused
from compeer.studio.rooms.talk.live import Live

#: seconds without a word after which a conversation is forgotten
IDLE = 2 * 3600.0
#: seconds after which it may give way to another
QUIET = 600.0
MOST = 200

Key = tuple[str, str]


class Memory:
    """Conversations by person and session."""

    def __init__(
        self, most: int = MOST, idle: float = IDLE, quiet: float = QUIET, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most, self.idle, self.quiet, self._clock = most, idle, quiet, clock
        self._kept: dict[Key, tuple[Live, float]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: Key) -> Live | None:
        """The conversation of a session, if there is one."""
        self.sweep()
        kept = self._kept.get(key)
        return kept[0] if kept else None

    def open(self, key: Key, begin: Callable[[], Live]) -> Live:
        """The conversation of a session, begun if need be; it counts as used now."""
        live = self.find(key)
        if live is None:
            self._make_room()
            live = begin()
        self._kept[key] = (live, self._clock())
        return live

    def forget(self, key: Key) -> None:
        """Everything of one session, at once."""
        kept = self._kept.pop(key, None)
        if kept:
            kept[0].end()

    def sweep(self) -> None:
        """Forget what nobody has used for long; an answer that is being written is being used."""
        now = self._clock()
        for key in [key for key, (live, used) in self._kept.items() if now - used > self.idle and not live.busy]:
            self.forget(key)

    def forget_all(self) -> None:
        for key in list(self._kept):
            self.forget(key)

    def _make_room(self) -> None:
        if len(self._kept) < self.most:
            return
        resting = [(used, key) for key, (live, used) in self._kept.items() if not live.busy]
        used, key = min(resting, default=(self._clock(), None))
        wait = used + self.quiet - self._clock()
        if key is None or wait > 0:
            raise Refused(503, "busy", "as many conversations as there is room for", wait=max(wait, 30.0))
        self.forget(key)
