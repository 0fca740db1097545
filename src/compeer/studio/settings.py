"""Settings of one studio, and which of them do not go together.

It listens on this machine alone unless a public address is given; with one, everyone needs a personal link. The two go
together on purpose: an open port without links would show what people wrote to anyone who finds it.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from compeer import http_service
from compeer.errors import UserError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
MIB = 1 << 20


class RateLimit(msgspec.Struct, frozen=True):
    """Requests allowed at once, and per second in the long run."""

    burst: int
    per_second: float


class StudioLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits per person, per address and per request."""

    person: RateLimit = RateLimit(120, 30.0)
    address: RateLimit = RateLimit(600, 150.0)  # a whole team may sit behind one address
    enter: RateLimit = RateLimit(10, 0.1)  # wrong personal links from one address
    body: int = MIB
    upload: int = 16 * MIB  # on paths that a room names for uploads


def _data_home() -> Path:
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "compeer" / "studio"


class StudioSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one studio. `create_app` checks them; the command makes them from its options."""

    host: str = "127.0.0.1"
    port: int = 8030
    public: str | None = None  # the address that others use, such as https://studio.example.org
    token: str | None = None  # of the coordinator's link; needed with `public`
    data: Path = msgspec.field(default_factory=_data_home)  # the secret that signs sessions, notes, ratings
    db: str | None = None  # labels and votes: a file, or an address of PostgreSQL
    items: tuple[Path, ...] = ()  # folders with items and pictures from which projects may be created
    runs: tuple[Path, ...] = ()
    models: tuple[str, ...] = ()  # to talk with, as `compeer chat --model` names them
    base_url: str | None = None  # the server of those named openai:NAME; default $OPENAI_BASE_URL
    guard: str | None = None  # a model that screens messages in addition
    country: str | None = None  # whose helplines are shown first; default: the region that the browser names
    limits: StudioLimits = StudioLimits()

    @property
    def guarded(self) -> bool:
        """Whether everyone needs a personal link."""
        return self.public is not None

    @property
    def secure(self) -> bool:
        """Whether browsers reach it over https."""
        return self.public is not None and urlsplit(self.public).scheme == "https"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on this address, which may be an IPv6 address in brackets."""
    return http_service.is_loopback(host.strip("[]"))


def check(settings: StudioSettings) -> None:
    """Raise UserError where settings do not go together."""
    if not is_loopback(settings.host) and settings.public is None:
        raise UserError(
            f"On {settings.host or 'all addresses'} other machines can reach the studio, so everyone needs a personal "
            "link. Give the address under which people will open it: --public https://studio.example.org. "
            "Or leave out --host: then only this machine reaches it."
        )
    if settings.public is None:
        return
    try:
        parts = urlsplit(settings.public)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise UserError(
            f"--public is the address that people type, such as https://studio.example.org, not {settings.public!r}."
        )
    if not settings.token or len(settings.token) < 20:
        raise UserError(
            "A studio that others can reach needs a coordinator's token of at least 20 characters; the command "
            "makes one when $COMPEER_STUDIO_TOKEN is not set."
        )


def origin(address: str) -> str:
    """Scheme, host and port, as browsers write it in the Origin header.

    >>> origin("https://Studio.example.org:443/"), origin("http://localhost:8030")
    ('https://studio.example.org', 'http://localhost:8030')
    """
    parts = urlsplit(address)
    usual = {"http": 80, "https": 443}[parts.scheme]
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + ("" if parts.port in (None, usual) else f":{parts.port}")
