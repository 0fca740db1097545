"""What the store refuses, told kindly: what happened, what is safe, what to do. Noted in the studio's log as well."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.annotation.refusal import Refused
from compeer.errors import UserError
from compeer.studio import access
from compeer.studio.access import journal
from compeer.studio.pages import pages


class Told(APIRoute):
    """A route whose refusals become pages, or objects for a script."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await inner(request)
            except Refused as refusal:
                return told(request, refusal)
            except UserError as wrong:  # answers that do not fit, or what a page has let through
                raise access.Refused(422, "invalid", str(wrong)) from None

        return handler


def told(request: Request, refusal: Refused) -> Response:
    visitor = access.visit(request)
    who = visitor.person.id if visitor.person else None
    reason = f"{refusal.kind}, {refusal.detail}" if refusal.detail else refusal.kind
    journal.refused(reason, request.method, request.scope["path"], who, visitor.address)
    say = pages(request).say[visitor.language]
    words = {part: say(f"workplace.refused.{refusal.kind}.{part}") for part in ("title", "what", "safe", "next")}
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"error": {"status": refusal.status, "kind": refusal.kind, **words}}, refusal.status)
    return pages(request).page(request, "workplace/refused.html", refusal.status, status_code=refusal.status, **words)
