"""What a page needs: some person, or a person with one of some roles.

    @router.get("/") def page(someone: Annotated[Person, Depends(needs("coordinator"))]) -> Response: ...

A room's `roles` guard all of its pages; these are for pages that need more.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from compeer.studio.access.person import Person, Role
from compeer.studio.access.refused import Refused
from compeer.studio.access.visit import visit


def person(request: Request) -> Person:
    """Whoever asks, known by a link or by sitting at this machine."""
    found = visit(request).person
    if found is None:
        raise Refused(403, "link", "no personal link")
    return found


def needs(*roles: Role) -> Callable[[Request], Person]:
    """A dependency: a person with one of these roles."""

    def allowed(request: Request) -> Person:
        found = person(request)
        if found.role not in roles:
            raise Refused(403, "forbidden", f"a {found.role} may not")
        return found

    return allowed
