"""People and their personal links.

A link holds a random token. Whoever hands tokens out keeps only their hashes and answers two questions: whose token
is this, and is that person still welcome with this key. The key is something that changes with the link, such as a
part of the token's hash; the second question is asked at every request, so that taking a link back, or giving a new
one, ends the sessions that came from the old one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

Role = Literal["coordinator", "annotator", "guest"]


class Person(msgspec.Struct, frozen=True):
    """Someone who uses the studio. `id` is unique among all who hand out tokens (for example "label:12")."""

    id: str
    name: str
    role: Role
    key: str = ""


class Tokens(Protocol):
    """What the studio needs of whoever hands out links."""

    def verify(self, token: str) -> Person | None:
        """The person whose token this is."""

    def find(self, person_id: str, key: str) -> Person | None:
        """The person of this id, while they are welcome and their link is the one with this key."""


#: on this machine alone, without links, whoever sits here coordinates
LOCAL = Person("local", "", "coordinator")


class CoordinatorLink:
    """The one link that exists from the start; only a hash of its token stays in memory."""

    def __init__(self, token: str) -> None:
        self._hash = _hash(token)
        self._person = Person("coordinator", "", "coordinator", self._hash.hex()[:16])

    def verify(self, token: str) -> Person | None:
        return self._person if hmac.compare_digest(_hash(token), self._hash) else None

    def find(self, person_id: str, key: str) -> Person | None:
        return self._person if (person_id, key) == (self._person.id, self._person.key) else None


class Doors:
    """Several sources of links as one: the coordinator's, and those that rooms bring."""

    def __init__(self, doors: Sequence[Tokens]) -> None:
        self.doors = tuple(doors)

    def verify(self, token: str) -> Person | None:
        return next((found for door in self.doors if (found := door.verify(token))), None)

    def find(self, person_id: str, key: str) -> Person | None:
        return next((found for door in self.doors if (found := door.find(person_id, key))), None)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
