"""Personal links of the people of arenas, and who is behind a request.

The studio knows them as "arena:NUMBER". Who coordinates an arena by a link of its own coordinates that arena alone; the
studio's coordinator, and whoever sits at a machine without links, all of them.
"""

from __future__ import annotations

from starlette.requests import Request

from compeer.annotation import people, refusal
from compeer.annotation.people import Person
from compeer.annotation.store import Store
from compeer.arena.project import Arena, arenas_of
from compeer.studio import access

_OURS = "arena:"


class Links:
    """What the studio asks of a room that hands out links (`access.Tokens`)."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def verify(self, token: str) -> access.Person | None:
        found = people.whose(self.store, token)  # a forged one is noted by the room Label, which is asked first
        if found is None or found.project not in {one.id for one in arenas_of(self.store)}:
            return None
        return _known(found)

    def find(self, person_id: str, key: str) -> access.Person | None:
        found = _find(self.store, person_id, key)
        return _known(found) if found else None


def annotator(store: Store, request: Request) -> Person:
    """The annotator who asks; the studio refuses everybody else."""
    asking = access.person(request)
    found = _find(store, asking.id, asking.key)
    if found is None or found.role != "annotator":
        raise access.Refused(403, "forbidden", "only somebody who compares has a queue")
    return found


def coordinated(store: Store, request: Request, number: int) -> Arena:
    """The arena, for who coordinates it; refused to annotators and to coordinators of others."""
    found = coordinator(store, request)
    known = {one.id: one for one in arenas_of(store)}
    if number not in known:
        raise access.Refused(404, "missing", "no such arena")
    if found is not None and found.project != number:
        denied = refusal.Refused("role", "an arena of others", annotator=found.id, project=found.project)
        store.log(denied, access.visit(request).address)
        raise access.Refused(403, "forbidden", "an arena of others")
    return known[number]


def coordinator(store: Store, request: Request) -> Person | None:
    """The coordinator of one arena, or None for the studio's, who coordinates all."""
    asking = access.person(request)
    found = _find(store, asking.id, asking.key)
    if found is not None:
        try:
            return people.coordinator(found)
        except refusal.Refused as denied:
            store.log(denied, access.visit(request).address)
            raise access.Refused(403, "forbidden", "a page of the coordinator") from None
    if asking.role != "coordinator" or ":" in asking.id:  # who coordinates labelling does not coordinate arenas
        raise access.Refused(403, "forbidden", "a page of the coordinator")
    return None


def _find(store: Store, person_id: str, key: str) -> Person | None:
    number = person_id.removeprefix(_OURS)
    if number == person_id or not (number.isascii() and number.isdigit() and len(number) < 10):
        return None
    return people.returning(store, int(number), key)


def _known(person: Person) -> access.Person:
    return access.Person(f"{_OURS}{person.id}", person.name, person.role, person.key)
