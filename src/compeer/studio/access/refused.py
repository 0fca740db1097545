"""A request that is turned away: a status, a kind of page that explains it, and a reason for the log."""

from __future__ import annotations

from typing import Literal

#: which friendly page is shown; its words are error.<kind>.title, .what, .safe and .next
Kind = Literal["missing", "forbidden", "link", "bad_link", "form", "busy", "large", "invalid", "host", "broken"]


class Refused(Exception):
    """Raise it anywhere below the gate. `reason` goes to the log and never to the page."""

    def __init__(self, status: int, kind: Kind, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.kind, self.reason, self.wait = status, kind, reason, wait
