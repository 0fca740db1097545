"""Personal links of the people of Label and Arena, who sent a request, and refusals of the store as pages.

The studio knows a person by their account, "people:12": one link opens both rooms. In a room they are one `Person` for
each project that they were invited to. Whoever coordinates projects by a personal link coordinates those alone; the
studio's coordinator, and whoever uses a machine without links, coordinates all. What is refused here is recorded in the
store and in the studio's log, and explained: what happened, what is safe, what to do.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from compeer.errors import UserError
from compeer.people import invitations as people
from compeer.people.invitations import Account, Person
from compeer.people.projects import Project, ProjectKind, all_projects
from compeer.people.store import Refused, Store, refuse
from compeer.studio import access
from compeer.studio.gate import log_refusal
from compeer.studio.pages import pages

#: the room in which projects of a kind are worked on
ROOM_OF: dict[ProjectKind, str] = {"labelling": "label", "arena": "arena"}


class RoomLinks:
    """The links of one room, an `access.LinkSource`, for projects of one kind.

    Both rooms know all accounts and are asked in turn whose a link is. One of them, with `records_forged`, records a
    link that belongs to nobody.
    """

    def __init__(self, store: Store, kind: ProjectKind, *, records_forged: bool = False) -> None:
        self.store, self.kind, self.room, self.records_forged = store, kind, ROOM_OF[kind], records_forged

    def verify(self, token: str) -> access.StudioPerson | None:
        try:
            found = (people.sign_in if self.records_forged else people.find_by_token)(self.store, token)
        except Refused:
            return None
        return self._as_known(found) if found else None

    def find(self, person_id: str, key: str) -> access.StudioPerson | None:
        found = self._find(person_id, key)
        return self._as_known(found) if found else None

    def account(self, request: Request) -> Account | None:
        """The account that sent a request; None for whoever came by no link of these rooms."""
        asking = access.person(request)
        return self._find(asking.id, asking.key)

    def members(self, request: Request, role: people.Role) -> list[Person]:
        """What the sender of a request is in the projects of this room, in this role."""
        found = self.account(request)
        here = {one.id for one in all_projects(self.store, self.kind)}
        return [one for one in (found.people if found else ()) if one.project in here and one.role == role]

    def annotator(self, request: Request) -> Person:
        """The annotator who sent a request, in the project that they chose; everyone else is refused."""
        found = self.members(request, "annotator")
        if not found:
            raise access.RequestRefused(403, "forbidden", "only annotators have a queue")
        chosen = request.query_params.get("project") or request.cookies.get(f"compeer_{self.room}_project")
        return next((one for one in found if str(one.project) == chosen), found[0])

    def coordinator(self, request: Request) -> list[int] | None:
        """The projects that a coordinator has by their personal link, or None for the studio's, who has all."""
        asking = access.person(request)
        if asking.rooms is None and asking.role == "coordinator":
            return None
        if found := self.members(request, "coordinator"):
            return [one.project for one in found]
        for someone in self.members(request, "annotator")[:1]:
            self.store.log(refuse(someone, "role", "This page is for the coordinator."), access.visit(request).address)
        raise access.RequestRefused(403, "forbidden", "a page of the coordinator")

    def coordinated(self, request: Request, number: int) -> Project:
        """The project, for its coordinator; refused to annotators and to coordinators of others."""
        own = self.coordinator(request)
        found = next((one for one in all_projects(self.store, self.kind) if one.id == number), None)
        if found is None:
            raise access.RequestRefused(404, "missing", "nothing of this number here")
        if own is not None and number not in own:
            someone = self.members(request, "coordinator")[0]
            self.store.log(refuse(someone, "role", "a project of others"), access.visit(request).address)
            raise access.RequestRefused(403, "forbidden", "a project of others")
        return found

    def _find(self, person_id: str, key: str) -> Account | None:
        number = person_id.removeprefix("people:")
        if number == person_id or not (number.isascii() and number.isdigit() and len(number) < 10):
            return None
        return people.find_by_session(self.store, int(number), key)

    def _as_known(self, account: Account) -> access.StudioPerson:
        kinds = {one.id: kind for kind in ROOM_OF for one in all_projects(self.store, kind)}
        there = [ROOM_OF[kinds[one.project]] for one in account.people]
        rooms = tuple(room for room in ROOM_OF.values() if room in there)
        if account.role == "coordinator" or not rooms:
            home = "/"
        else:
            home = f"/{rooms[0]}" if len(there) == 1 else f"/{rooms[0]}/start"
        return access.StudioPerson(f"people:{account.id}", account.name, account.role, account.key, rooms, home)


def explain(request: Request, error: UserError) -> Response:
    """The page of what the store refused; answers that do not fit are refused too."""
    if not isinstance(error, Refused):
        raise access.RequestRefused(422, "invalid", str(error)) from None
    visitor = access.visit(request)
    who = visitor.person.id if visitor.person else None
    reason = f"{error.kind}, {error.detail}" if error.detail else error.kind
    log_refusal(reason, request.method, request.scope["path"], who, visitor.address)
    key, kind = f"workplace.refused.{error.kind}", error.kind
    return pages(request).explained(request, error.status, key, "workplace/refused.html", kind=kind)
