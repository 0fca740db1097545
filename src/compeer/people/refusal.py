"""What is refused to somebody who came in, or tried to: a message for them, a kind for the log.

`Store.write` notes every refusal in the log of its database, in a transaction of its own, and nothing else is changed.
A page answers with `status`, the HTTP status that fits.

What people hand in besides their answers, made fit to be kept: a note, and the seconds it took.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from compeer.errors import UserError

if TYPE_CHECKING:
    from compeer.people.invitations import Person

Kind = Literal[
    "token",  # forged, revoked or mistyped
    "role",  # a coordinator's matter
    "paused",
    "not-yours",  # an item or a picture that was never given to this person
    "lapsed",  # the lease ran out and somebody else has the place
    "closed",  # it can no longer be changed
    "form",  # a form that was sent before
    "path",  # a picture outside the project's folder
]
STATUS: dict[Kind, int] = {
    "token": 403, "role": 403, "paused": 403, "not-yours": 403, "lapsed": 409, "closed": 409, "form": 409, "path": 404,
}  # fmt: skip


class Refused(UserError):
    """Not allowed, or not any more. `detail` goes to the log only; it never holds a token."""

    def __init__(
        self, kind: Kind, message: str, *, annotator: int | None = None, project: int | None = None, detail: str = ""
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.annotator, self.project, self.detail = annotator, project, detail

    @property
    def status(self) -> int:
        return STATUS[self.kind]


def refuse(person: Person, kind: Kind, message: str, detail: str = "") -> Refused:
    """What is refused to somebody whom we know."""
    return Refused(kind, message, annotator=person.id, project=person.project, detail=detail)


class BadAnswers(UserError, ValueError):
    """Answers that do not fit the questions: one missing, one too many, or a value that does not exist."""


LONGEST_NOTE = 10_000
_MOST_SECONDS = 86400.0


def note_of(given: str) -> str:
    """A note without what no database keeps; one that is too long is refused, not cut."""
    note = given.replace("\x00", "").strip()
    if len(note) > LONGEST_NOTE:
        raise BadAnswers(f"A note has at most {LONGEST_NOTE:,} characters; this one has {len(note):,}.")
    return note


def seconds_of(given: float | None) -> float | None:
    """Seconds as a number that can be averaged.

    >>> seconds_of(12.5), seconds_of(-3), seconds_of(float("nan")), seconds_of(None)
    (12.5, 0.0, None, None)
    """
    if given is None or not math.isfinite(given):
        return None
    return min(max(float(given), 0.0), _MOST_SECONDS)
