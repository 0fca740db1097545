"""What the store refuses, told kindly, in the words of labelling. Noted in the studio's log as well."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.annotation.refusal import BadAnswers, Refused
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
            except BadAnswers as wrong:
                raise access.Refused(422, "invalid", f"an answer that does not fit: {wrong}") from None

        return handler


def told(request: Request, refusal: Refused) -> Response:
    visitor = access.visit(request)
    who = visitor.person.id if visitor.person else None
    journal.refused(refusal.kind, request.method, request.scope["path"], who, visitor.address)
    say = pages(request).say[visitor.language]
    words = {part: say(f"label.refused.{refusal.kind}.{part}") for part in ("title", "what", "safe", "next")}
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"error": {"status": refusal.status, "kind": refusal.kind, **words}}, refusal.status)
    return pages(request).page(request, "arena/refused.html", refusal.status, status_code=refusal.status, **words)
