"""One line a request: when, who, from where, what, how it ended. Never a query, a body or a token.

Refusals are warnings with their reason, so that someone who reads only those sees who tried what.
"""

from __future__ import annotations

import logging
from urllib.parse import quote

LOG = logging.getLogger("compeer.studio")


def shown(path: str) -> str:
    """A path as it may be written down: no personal token, no line breaks, not endless.

    >>> shown("/enter/abc"), shown("/runs/a b")
    ('/enter/…', '/runs/a%20b')
    """
    if path.startswith("/enter/"):
        return "/enter/…"
    return quote(path, safe="/:@,=&+~-._")[:300]


def told(method: str, path: str, status: int, seconds: float, person: str | None, address: str) -> None:
    LOG.info("%s %s %s %d %s %.0f ms", address, person or "-", method, status, shown(path), seconds * 1000)


def refused(reason: str, method: str, path: str, person: str | None, address: str) -> None:
    LOG.warning("refused: %s; %s %s by %s from %s", quote(reason, safe=" ,.:;'()/-_"), method, shown(path),
                person or "nobody known", address)  # fmt: skip
