"""Personal links of a room's people, who sent a request, and refusals of the store as pages.

The studio knows a person as "label:12" or "arena:12". Whoever coordinates one project by its own link coordinates that
project alone; the studio's coordinator, and whoever uses a machine without links, coordinates all. What is refused here
is recorded in the store and in the studio's log, and explained: what happened, what is safe, what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.errors import UserError
from compeer.people import invitations as people
from compeer.people.invitations import Person
from compeer.people.projects import Project
from compeer.people.refusal import Refused, refuse
from compeer.people.store import Store
from compeer.studio import access
from compeer.studio.access.gate import log_refusal
from compeer.studio.pages import pages


class RoomLinks:
    """The links of one room, an `access.LinkSource`. `known` gives the projects, or arenas, of the store.

    All rooms share one store and are asked in turn whose a link is. One of them, with `records_forged`, records a link
    that belongs to nobody.
    """

    def __init__(
        self, store: Store, room: str, known: Callable[[Store], Sequence[Project]], *, records_forged: bool = False
    ) -> None:
        self.store, self.room, self.known, self.records_forged = store, room, known, records_forged

    def verify(self, token: str) -> access.StudioPerson | None:
        try:
            found = (people.sign_in if self.records_forged else people.find_by_token)(self.store, token)
        except Refused:
            return None
        ours = found is not None and found.project in {one.id for one in self.known(self.store)}
        return self._as_known(found) if found and ours else None

    def find(self, person_id: str, key: str) -> access.StudioPerson | None:
        found = self._find(person_id, key)
        return self._as_known(found) if found else None

    def annotator(self, request: Request) -> Person:
        """The annotator who sent a request; everyone else is refused."""
        asking = access.person(request)
        found = self._find(asking.id, asking.key)
        if found is None or found.role != "annotator":
            raise access.RequestRefused(403, "forbidden", "only annotators have a queue")
        return found

    def coordinator(self, request: Request) -> Person | None:
        """The coordinator of one project, or None for the studio's, who coordinates all."""
        asking = access.person(request)
        found = self._find(asking.id, asking.key)
        if found is not None:
            try:
                return people.require_coordinator(found)
            except Refused as denied:
                self.store.log(denied, access.visit(request).address)
                raise access.RequestRefused(403, "forbidden", "a page of the coordinator") from None
        if asking.role != "coordinator" or ":" in asking.id:  # a coordinator of one room is none in another
            raise access.RequestRefused(403, "forbidden", "a page of the coordinator")
        return None

    def coordinated(self, request: Request, number: int) -> Project:
        """The project, for its coordinator; refused to annotators and to coordinators of others."""
        asking = self.coordinator(request)
        found = next((one for one in self.known(self.store) if one.id == number), None)
        if found is None:
            raise access.RequestRefused(404, "missing", "nothing of this number here")
        if asking is not None and asking.project != number:
            self.store.log(refuse(asking, "role", "a project of others"), access.visit(request).address)
            raise access.RequestRefused(403, "forbidden", "a project of others")
        return found

    def _find(self, person_id: str, key: str) -> Person | None:
        number = person_id.removeprefix(f"{self.room}:")
        if number == person_id or not (number.isascii() and number.isdigit() and len(number) < 10):
            return None
        return people.find_by_session(self.store, int(number), key)

    def _as_known(self, person: Person) -> access.StudioPerson:
        return access.StudioPerson(f"{self.room}:{person.id}", person.name, person.role, person.key)


class RefusalRoute(APIRoute):
    """A route whose refusals become pages, or objects for a script."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await inner(request)
            except Refused as refusal:
                return refusal_page(request, refusal)
            except UserError as wrong:  # answers that do not fit
                raise access.RequestRefused(422, "invalid", str(wrong)) from None

        return handler


def refusal_page(request: Request, refusal: Refused) -> Response:
    visitor = access.visit(request)
    who = visitor.person.id if visitor.person else None
    reason = f"{refusal.kind}, {refusal.detail}" if refusal.detail else refusal.kind
    log_refusal(reason, request.method, request.scope["path"], who, visitor.address)
    say = pages(request).say[visitor.language]
    words = {part: say(f"workplace.refused.{refusal.kind}.{part}") for part in ("title", "what", "safe", "next")}
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"error": {"status": refusal.status, "kind": refusal.kind, **words}}, refusal.status)
    return pages(request).page(request, "workplace/refused.html", refusal.status, status_code=refusal.status, **words)
