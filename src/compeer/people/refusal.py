"""Refusals: a message for the person, a kind for the log, an HTTP status for a page.

`Store.write` records every refusal in the log of its database, in a transaction of its own; nothing else is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from compeer.errors import UserError

if TYPE_CHECKING:
    from compeer.people.invitations import Person

RefusalKind = Literal[
    "token",  # forged, revoked or mistyped
    "role",  # only for coordinators
    "paused",
    "not-yours",  # an item or a picture that was never given to this person
    "lapsed",  # the lease ran out and somebody else has the place
    "closed",  # it can no longer be changed
    "form",  # a form that was sent before
    "path",  # a picture outside the project's folder
]
STATUS: dict[RefusalKind, int] = {
    "token": 403, "role": 403, "paused": 403, "not-yours": 403, "lapsed": 409, "closed": 409, "form": 409, "path": 404,
}  # fmt: skip


class Refused(UserError):
    """Not allowed, or no longer allowed. `detail` goes to the log only; it never holds a token."""

    def __init__(
        self,
        kind: RefusalKind,
        message: str,
        *,
        annotator: int | None = None,
        project: int | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: RefusalKind = kind
        self.annotator, self.project, self.detail = annotator, project, detail

    @property
    def status(self) -> int:
        return STATUS[self.kind]


def refuse(person: Person, kind: RefusalKind, message: str, detail: str = "") -> Refused:
    """A refusal to a known person, to be raised."""
    return Refused(kind, message, annotator=person.id, project=person.project, detail=detail)


class BadAnswers(UserError, ValueError):
    """Answers that do not fit the questions: one missing, one too many, or a value that does not exist."""
