"""What is checked for every request, in one place, so that no page can forget it.

In this order: the name in the Host header; the session and the person; the rate of the person, or of the address where
nobody is known (forty people may share one address); for anything that may change something the size of the body, the
page that sent it (Origin) and the session's form token. Then the page is made; then headers are added and a line is
written to the log. Whatever is refused or fails below becomes a page that explains it.

- The body of a form is read before the page sees it, so a page never gets half of one; its size is bounded. What a
  page streams out passes through untouched.
- Host: a page on the internet can make a browser call a server on its owner's machine by pointing its own name at
  127.0.0.1 (DNS rebinding). The Host header then still carries that page's name, so only known names are answered.
- Headers: pages may load only what this server sends, run no script and apply no style that stands in the page itself,
  be framed by nobody, and use no camera, microphone or location. The referrer policy is `same-origin`, because with
  `no-referrer` browsers send forms with `Origin: null`, which cannot be told from a forged one.
- Log: one line per request with its time, person, address, path and status; never a query, a body or a token.
  Refusals are warnings with their reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from compeer.studio.access import (
    LOCAL,
    Links,
    RequestRefused,
    Sessions,
    StudioPerson,
    StudioSession,
    Visit,
    language_of,
    theme_of,
)
from compeer.studio.settings import LOOPBACK_NAMES, RateLimit, StudioSettings, is_loopback, origin

LOG = logging.getLogger("compeer.studio")
_MOST_BUCKETS = 10_000


def log_refusal(reason: str, method: str, path: str, person: str | None, address: str) -> None:
    LOG.warning("refused: %s; %s %s by %s from %s", quote(reason, safe=" ,.:;'()/-_"), method, log_path(path),
                person or "nobody known", address)  # fmt: skip


def log_path(path: str) -> str:
    """A path as it may be logged: no personal token, no line breaks, bounded length.

    >>> log_path("/enter/abc"), log_path("/runs/a b")
    ('/enter/…', '/runs/a%20b')
    """
    if path.startswith("/enter/"):
        return "/enter/…"
    return quote(path, safe="/:@,=&+~-._")[:300]


class Buckets:
    """A rate limit per name, in memory: a bucket of tokens that fills again at a steady rate.

    A full bucket is forgotten, so memory is bounded by who asked lately.

    >>> now = [0.0]
    >>> buckets = Buckets(RateLimit(2, 1.0), clock=lambda: now[0])
    >>> [buckets.take("wei") for _ in range(3)], buckets.take("ana")
    ([0.0, 0.0, 1.0], 0.0)
    >>> now[0] = 1.0
    >>> buckets.take("wei")
    0.0
    """

    def __init__(self, rate: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._left: dict[str, tuple[float, float]] = {}  # what is left, and when that was so

    def take(self, name: str) -> float:
        """Take one token: 0 when there was one, else the seconds until there is."""
        now = self._clock()
        if len(self._left) >= _MOST_BUCKETS:
            self._forget(now)
        seconds = self.wait(name)
        if not seconds:
            self._left[name] = (self._left_of(name, now) - 1.0, now)
        return seconds

    def spend(self, name: str, reason: str) -> None:
        """Take one, or refuse the request and say how long to wait."""
        if seconds := self.take(name):
            raise RequestRefused(429, "busy", reason, wait=seconds)

    def wait(self, name: str) -> float:
        """Seconds until there is a token, 0 when there is one; nothing is taken.

        >>> buckets = Buckets(RateLimit(1, 0.5), clock=lambda: 0.0)
        >>> buckets.wait("wei"), buckets.take("wei"), buckets.wait("wei")
        (0.0, 0.0, 2.0)
        """
        return max(0.0, (1.0 - self._left_of(name, self._clock())) / self.rate.per_second)

    def _left_of(self, name: str, now: float) -> float:
        left, since = self._left.get(name, (float(self.rate.burst), now))
        return min(float(self.rate.burst), left + (now - since) * self.rate.per_second)

    def _forget(self, now: float) -> None:
        full = self.rate.burst / self.rate.per_second
        kept = [(name, kept) for name, kept in self._left.items() if now - kept[1] < full]
        self._left = dict(kept[-_MOST_BUCKETS + 1 :])  # where all came lately the oldest go


POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
#: for a file that somebody else wrote: its own scripts may run, in a world of its own without cookies or network
SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FORBIDDEN = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Hosts:
    def __init__(self, settings: StudioSettings) -> None:
        self.public = origin(settings.public) if settings.public else None
        self.names = {urlsplit(self.public).hostname} if self.public else set()
        if settings.public is None or is_loopback(settings.host):
            self.names |= {*LOOPBACK_NAMES, settings.host.strip("[]").lower()}

    def known(self, host: str) -> bool:
        """Whether a Host header names this server. Any port: it may be forwarded from another one."""
        try:
            return urlsplit(f"//{host}").hostname in self.names and "@" not in host and "/" not in host
        except ValueError:
            return False

    def ours(self, sender: str, host: str) -> bool:
        """Whether an Origin header is that of our own pages."""
        try:
            if self.public is not None and origin(sender) == self.public:
                return True
            parts = urlsplit(sender)
        except (KeyError, ValueError):  # "null", another scheme
            return False
        return parts.scheme == "http" and parts.hostname in LOOPBACK_NAMES and parts.netloc.lower() == host.lower()


SAFE = ("GET", "HEAD", "OPTIONS")
FIELD, HEADER = "csrf", "x-csrf-token"
Explain = Callable[[Request, RequestRefused], Response]


class Gate:
    """ASGI middleware. `explain` makes the page of a refusal; `uploads` are paths with room for pictures."""

    def __init__(
        self,
        app: ASGIApp,
        settings: StudioSettings,
        sessions: Sessions,
        links: Links,
        explain: Explain,
        uploads: Iterable[str] = (),
    ) -> None:
        self.app, self.settings, self.sessions, self.links, self.explain = app, settings, sessions, links, explain
        self.uploads = tuple(uploads)
        self.hosts = Hosts(settings)
        secure = {"strict-transport-security": "max-age=31536000"} if sessions.secure else {}
        self.headers, limits = FORBIDDEN | secure, settings.limits
        self.people, self.addresses = Buckets(limits.person), Buckets(limits.address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:  # no page uses sockets of another kind
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = Request(scope, receive)
        session = self.sessions.read(request.cookies.get(self.sessions.name))
        # a cookie is for pages; what they load besides needs none
        known = session is not None or scope["path"].startswith("/static/")
        session = session or self.sessions.new()
        accepted = request.headers.get("accept-language")
        visit = request.state.visit = Visit(
            language=language_of(request.cookies, accepted),
            theme=theme_of(request.cookies),
            address=request.client.host if request.client else "unknown",
            session=session,
            csrf=self.sessions.csrf(session),
            accepted=accepted,
        )
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():  # what the answer does not say itself
                    headers.setdefault(name, value)
                if not known or visit.session is not session:
                    headers.append("set-cookie", self.sessions.header(visit.session))
            await send(message)

        try:
            await self.app(scope, await self._check(request, visit), sending)
        except RequestRefused as refusal:
            person = visit.person.id if visit.person else None
            log_refusal(refusal.reason, request.method, scope["path"], person, visit.address)
            await self.explain(request, refusal)(scope, receive, sending)
        except Exception:
            if status:  # the answer has begun: nothing can be said any more
                raise
            LOG.exception("%s %s failed", request.method, log_path(scope["path"]))
            broken = RequestRefused(500, "broken", "an error in the studio")
            await self.explain(request, broken)(scope, receive, sending)
        finally:
            person = visit.person.id if visit.person else None
            seconds = time.perf_counter() - began
            told = (visit.address, person or "-", request.method, status or 500, log_path(scope["path"]))
            LOG.info("%s %s %s %d %s %.0f ms", *told, seconds * 1000)

    async def _check(self, request: Request, visit: Visit) -> Receive:
        """Check a request: RequestRefused, or the function by which the page receives the body."""
        path = request.scope["path"]
        if not self.hosts.known(request.headers.get("host", "")):
            raise RequestRefused(421, "host", "an unknown name in the Host header")
        static = path.startswith("/static/")
        visit.person = None if static else await self._person(visit.session)
        if visit.person is not None:
            self.people.spend(visit.person.id, "too many requests by a person")
        else:
            self.addresses.spend(visit.address, "too many requests from an address")
        if static or request.method in SAFE:
            return request.receive
        return await self._body(request, visit)

    async def _person(self, session: StudioSession) -> StudioPerson | None:
        """The person of a session. Where no links are needed, a visitor without one is the coordinator."""
        found = None
        if session.person is not None:
            found = await run_in_threadpool(self.links.find, session.person, session.key)
        return found if found is not None or self.settings.guarded else LOCAL

    async def _body(self, request: Request, visit: Visit) -> Receive:
        """Read the body within its bound, and see that it comes from one of our own pages."""
        sender, host = request.headers.get("origin"), request.headers.get("host", "")
        if sender is not None and not self.hosts.ours(sender, host):
            raise RequestRefused(403, "form", "a form of another page (Origin)")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise RequestRefused(403, "form", "a form of another page (Sec-Fetch-Site)")
        large = request.scope["path"].startswith(self.uploads) if self.uploads else False
        data = await _read(request, self.settings.limits.upload if large else self.settings.limits.body)
        token = request.headers.get(HEADER)
        if token is None and "form" in request.headers.get("content-type", ""):
            async with Request(request.scope, _replay(data, request.receive)).form() as form:
                field = form.get(FIELD)
            token = field if isinstance(field, str) else None
        if token is None or not self.sessions.fits(visit.session, token):
            reason = "no form token" if token is None else "a form token of another session"
            raise RequestRefused(403, "form", reason)
        return _replay(data, request.receive)


async def _read(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > most:
        raise RequestRefused(413, "large", "a request that is too large")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise RequestRefused(413, "large", "a request that is too large")
        parts.append(part)
    return b"".join(parts)


def _replay(data: bytes, after: Receive) -> Receive:
    """A receive function that gives the body in one piece, and after it what the connection gives (its end)."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await after()
        given = True
        return {"type": "http.request", "body": data, "more_body": False}

    return receive
