"""What can go wrong while someone talks, said so that they know what is safe and what to do.

The sentences are words of the room (talk.error.KIND). What a server or a library said about it stands beside them, as
a detail for whoever runs the studio.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.errors import UserError
from compeer.models import ModelError
from compeer.models.request import TooLong
from compeer.reasoning import ControlError
from compeer.studio.access.person import Person
from compeer.studio.access.visit import visit
from compeer.studio.pages import pages
from compeer.studio.words import Say

Kind = Literal[
    "model", "long", "control", "busy", "elsewhere", "message", "turns", "answers", "gone", "stopped", "refused",
    "picture_large", "picture_kind", "picture_blind", "picture_many",
]  # fmt: skip


class Trouble(Exception):
    """Raise it where the page is to say something. `values` fill the gaps of the sentence."""

    def __init__(self, kind: Kind, status: int = 409, detail: str = "", **values: Any) -> None:
        super().__init__(kind)
        self.kind, self.status, self.detail, self.values = kind, status, detail, values

    def told(self, say: Say, person: Person | None) -> dict[str, Any]:
        """For the page. The detail may name servers, so it is for those who run them, or about one's own words."""
        shown = self.kind in ("control", "refused") or (person is not None and person.role == "coordinator")
        what = say(f"talk.error.{self.kind}", **self.values)
        return {"kind": self.kind, "what": what, "detail": self.detail[:600] if shown else ""}


def trouble_of(error: UserError) -> Trouble:
    """An error of the conversation, as trouble."""
    if isinstance(error, ControlError):
        return Trouble("control", 422, str(error))
    if isinstance(error, TooLong):
        return Trouble("long", 422, str(error))
    if isinstance(error, ModelError):
        return Trouble("model", 502, str(error))
    return Trouble("refused", 422, str(error))


class Explained(APIRoute):
    """A page of the room: trouble in it becomes an object that the script shows."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except Trouble as trouble:
                found = trouble
            except UserError as error:
                found = trouble_of(error)
            say = pages(request).say[visit(request).language]
            return JSONResponse({"error": found.told(say, visit(request).person)}, found.status)

        return handled
