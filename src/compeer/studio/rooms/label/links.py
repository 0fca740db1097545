"""Personal links of the people of labelling projects, and who is behind a request.

The studio knows somebody as "label:NUMBER". Who coordinates a project by a link of its own coordinates that project
alone; the studio's coordinator, and whoever sits at a machine without links, all of them.
"""

from __future__ import annotations

from starlette.requests import Request

from compeer.annotation import people, project, refusal
from compeer.annotation.people import Person
from compeer.annotation.project import Project
from compeer.annotation.store import Store
from compeer.studio import access

_OURS = "label:"


class Links:
    """What the studio asks of a room that hands out links (`access.Tokens`)."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def verify(self, token: str) -> access.Person | None:
        try:
            found = people.come_in(self.store, token)  # what is forged is noted in the store, too
        except refusal.Refused:
            return None
        ours = {one.id for one in project.projects_of(self.store)}  # an arena's people enter by the arena's door
        return _known(found) if found.project in ours else None

    def find(self, person_id: str, key: str) -> access.Person | None:
        found = _find(self.store, person_id, key)
        return _known(found) if found else None


def annotator(store: Store, request: Request) -> Person:
    """The annotator who asks; the studio refuses everybody else."""
    asking = access.person(request)
    found = _find(store, asking.id, asking.key)
    if found is None or found.role != "annotator":
        raise access.Refused(403, "forbidden", "only somebody who labels has a queue")
    return found


def coordinated(store: Store, request: Request, number: int) -> tuple[Person, Project]:
    """The coordinator who asks, with the project; refused to annotators and to coordinators of other projects."""
    found = coordinator(store, request)
    known = {one.id: one for one in project.projects_of(store)}
    if number not in known:
        raise access.Refused(404, "missing", "no such project")
    if found is not None and found.project != number:
        denied = refusal.Refused("role", "a project of others", annotator=found.id, project=found.project)
        store.log(denied, access.visit(request).address)
        raise access.Refused(403, "forbidden", "a project of others")
    # whoever coordinates the studio has no number in the store; pictures are asked for in this person's name
    return found or Person(0, number, "", "coordinator", False, ""), known[number]


def coordinator(store: Store, request: Request) -> Person | None:
    """The coordinator of one project, or None for the studio's, who coordinates all."""
    asking = access.person(request)
    found = _find(store, asking.id, asking.key)
    if found is not None:
        try:
            return people.coordinator(found)
        except refusal.Refused as denied:
            store.log(denied, access.visit(request).address)
            raise access.Refused(403, "forbidden", "a page of the coordinator") from None
    if asking.role != "coordinator" or ":" in asking.id:  # who coordinates an arena does not coordinate labelling
        raise access.Refused(403, "forbidden", "a page of the coordinator")
    return None


def _find(store: Store, person_id: str, key: str) -> Person | None:
    number = person_id.removeprefix(_OURS)
    if number == person_id or not (number.isascii() and number.isdigit() and len(number) < 10):
        return None
    return people.returning(store, int(number), key)


def _known(person: Person) -> access.Person:
    return access.Person(f"{_OURS}{person.id}", person.name, person.role, person.key)
