"""Everything that is checked for every request, in one place, so that no page can forget it.

In this order: the name in the Host header; the session and the person; the rate of the person, or of the address where
nobody is known (forty people may sit behind one address); for anything that may change something the size of the body,
who sent it (Origin) and the session's form token; then the page; then the headers and the line in the journal. What
goes wrong below becomes a friendly page here.

The body of a form is read before the page sees it, so a page never gets half of one; its size is bounded. Events that
a page streams out pass through untouched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from compeer.studio.access import journal
from compeer.studio.access.buckets import Buckets
from compeer.studio.access.headers import forbid
from compeer.studio.access.hosts import Hosts
from compeer.studio.access.person import LOCAL, Person, Tokens
from compeer.studio.access.refused import Refused
from compeer.studio.access.session import Session, Sessions
from compeer.studio.access.visit import Visit, language_of, theme_of
from compeer.studio.settings import Settings

SAFE = ("GET", "HEAD", "OPTIONS")
FIELD, HEADER = "csrf", "x-csrf-token"
Explain = Callable[[Request, Refused], Response]


class Gate:
    """ASGI middleware. `explain` makes the page of a refusal; `uploads` are paths with room for pictures."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        sessions: Sessions,
        tokens: Tokens | None,
        explain: Explain,
        uploads: Iterable[str] = (),
    ) -> None:
        self.app, self.settings, self.sessions, self.tokens, self.explain = app, settings, sessions, tokens, explain
        self.uploads = tuple(uploads)
        self.hosts = Hosts(settings)
        limits = settings.limits
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
        visit = request.state.visit = self._visit(request, session)
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                forbid(headers, secure=self.sessions.secure)
                if not known or visit.session is not session:
                    headers.append("set-cookie", self.sessions.header(visit.session))
            await send(message)

        try:
            await self.app(scope, await self._check(request, visit), sending)
        except Refused as refusal:
            person = visit.person.id if visit.person else None
            journal.refused(refusal.reason, request.method, scope["path"], person, visit.address)
            await self.explain(request, refusal)(scope, receive, sending)
        except Exception:
            if status:  # the answer has begun: nothing can be said any more
                raise
            journal.LOG.exception("%s %s failed", request.method, journal.shown(scope["path"]))
            broken = Refused(500, "broken", "an error in the studio")
            await self.explain(request, broken)(scope, receive, sending)
        finally:
            person = visit.person.id if visit.person else None
            seconds = time.perf_counter() - began
            journal.told(request.method, scope["path"], status or 500, seconds, person, visit.address)

    def _visit(self, request: Request, session: Session) -> Visit:
        cookies = request.cookies
        return Visit(
            language=language_of(cookies, request.headers.get("accept-language")),
            theme=theme_of(cookies),
            address=request.client.host if request.client else "unknown",
            session=session,
            csrf=self.sessions.csrf(session),
        )

    async def _check(self, request: Request, visit: Visit) -> Receive:
        """Raise Refused, or give back how the page receives the body."""
        path = request.scope["path"]
        if not self.hosts.known(request.headers.get("host", "")):
            raise Refused(421, "host", "an unknown name in the Host header")
        static = path.startswith("/static/")
        visit.person = None if static else await self._person(visit.session)
        if visit.person is not None:
            self.people.spend(visit.person.id, "too many requests by a person")
        else:
            self.addresses.spend(visit.address, "too many requests from an address")
        if static or request.method in SAFE:
            return request.receive
        return await self._body(request, visit)

    async def _person(self, session: Session) -> Person | None:
        """Whose session this is. Where no links are needed whoever has entered with none coordinates."""
        found = None
        if self.tokens is not None and session.person is not None:
            found = await run_in_threadpool(self.tokens.find, session.person, session.key)
        return found if found is not None or self.settings.guarded else LOCAL

    async def _body(self, request: Request, visit: Visit) -> Receive:
        """Read the body within its bound, and see that it comes from one of our own pages."""
        sender, host = request.headers.get("origin"), request.headers.get("host", "")
        if sender is not None and not self.hosts.ours(sender, host):
            raise Refused(403, "form", "a form of another page (Origin)")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refused(403, "form", "a form of another page (Sec-Fetch-Site)")
        large = request.scope["path"].startswith(self.uploads) if self.uploads else False
        data = await _read(request, self.settings.limits.upload if large else self.settings.limits.body)
        token = request.headers.get(HEADER)
        if token is None and "form" in request.headers.get("content-type", ""):
            async with Request(request.scope, _replay(data, request.receive)).form() as form:
                field = form.get(FIELD)
            token = field if isinstance(field, str) else None
        if token is None or not self.sessions.fits(visit.session, token):
            raise Refused(403, "form", "no form token" if token is None else "a form token of another session")
        return _replay(data, request.receive)


async def _read(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > most:
        raise Refused(413, "large", "a request that is too large")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refused(413, "large", "a request that is too large")
        parts.append(part)
    return b"".join(parts)


def _replay(data: bytes, after: Receive) -> Receive:
    """The body once, in one piece; then whatever the connection says next, which is that it was closed."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await after()
        given = True
        return {"type": "http.request", "body": data, "more_body": False}

    return receive
