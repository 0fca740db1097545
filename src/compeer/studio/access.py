"""People, their personal links and sessions, and what is known about a visitor.

**Links.** A link holds a random token. Whoever hands out tokens keeps only their hashes and answers two questions:
whose token is this, and may that person still come in with this key. The key changes with the link, such as a part of
the token's hash. The second question is asked at every request, so withdrawing a link, or giving a new one, ends the
sessions that came from the old one.

**Sessions** are in a signed cookie: a random number and, after signing in, the id of a person with the key of their
link. The server keeps nothing. The token that forms carry is derived from the session with the same secret, so it fits
this session alone. Signing in and out begin a new session: a number that someone else may have planted is worthless.

**Visits.** Language and theme come from unsigned cookies, because nothing depends on them. Without a cookie the
language is what the browser prefers, and the theme is the system's.

A room's `roles` guard all of its pages. A page that needs more asks for it:

    @router.get("/")
    def page(someone: Annotated[StudioPerson, Depends(needs("coordinator"))]) -> Response: ...
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec
from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import Request

from compeer.errors import UserError
from compeer.reasoning.ontology import LANGUAGES, Language
from compeer.typed import from_plain

Role = Literal["coordinator", "annotator", "guest"]

#: which page explains a refusal; its texts are error.<kind>.title, .what, .safe and .next
RefusalKind = Literal["missing", "forbidden", "link", "bad_link", "form", "busy", "large", "invalid", "host", "broken"]


class RequestRefused(Exception):
    """A request that is turned away. `reason` goes to the log and never to the page."""

    def __init__(self, status: int, kind: RefusalKind, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.kind, self.reason, self.wait = status, kind, reason, wait


class StudioPerson(msgspec.Struct, frozen=True):
    """Someone who uses the studio. `id` is unique among all who hand out links (for example "people:12").

    Whoever was invited to some rooms only has their names in `rooms`, and in `home` the address where their work is.
    """

    id: str
    name: str
    role: Role
    key: str = ""
    rooms: tuple[str, ...] | None = None
    home: str = "/"


#: on this machine alone, without links, whoever uses it coordinates
LOCAL = StudioPerson("local", "", "coordinator")


class LinkSource(Protocol):
    """A source of personal links, such as a room that invites people."""

    def verify(self, token: str) -> StudioPerson | None:
        """The person whose token this is."""

    def find(self, person_id: str, key: str) -> StudioPerson | None:
        """The person of this id, while they may come in and their link is the one with this key."""


class Links:
    """All personal links: the coordinator's, of which only a hash stays in memory, and those that rooms hand out."""

    def __init__(self, token: str | None, sources: Sequence[LinkSource]) -> None:
        self.sources, self._hash = tuple(sources), _hash(token) if token else None
        key = self._hash.hex()[:16] if self._hash else ""
        self._coordinator = StudioPerson("coordinator", "", "coordinator", key)

    def verify(self, token: str) -> StudioPerson | None:
        if self._hash and hmac.compare_digest(_hash(token), self._hash):
            return self._coordinator
        return next((found for source in self.sources if (found := source.verify(token))), None)

    def find(self, person_id: str, key: str) -> StudioPerson | None:
        if self._hash and (person_id, key) == (self._coordinator.id, self._coordinator.key):
            return self._coordinator
        return next((found for source in self.sources if (found := source.find(person_id, key))), None)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def secret_of(data: Path) -> str:
    """The secret in the data folder that signs sessions, made when it is missing.

    Only its owner can read the file. Deleting it ends every session.
    """
    path = data / "secret"
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "w") as file:
                file.write(secrets.token_urlsafe(48) + "\n")
        if path.stat().st_mode & 0o077:
            raise UserError(f"{path} signs sessions and can be read by others. chmod 600 it, or delete it.")
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The studio cannot keep its secret in {data}: {error}. Give another folder: --data.") from None
    if len(found) < 32:
        raise UserError(f"{path} is damaged. Delete it: a new one is made, and everyone signs in again.")
    return found


SESSION_DAYS = 30


class StudioSession(msgspec.Struct, frozen=True):
    number: str
    person: str | None = None
    key: str = ""


class Sessions:
    """Reads and writes the cookie. Its name depends on the secret: two studios on one machine do not interfere."""

    def __init__(self, secret: str, *, secure: bool = False) -> None:
        self._secret = secret.encode()
        self._signer = URLSafeTimedSerializer(secret, salt="compeer.studio.session")
        self.secure = secure
        self.name = "compeer_" + hashlib.sha256(b"name" + self._secret).hexdigest()[:8]

    def read(self, cookie: str | None) -> StudioSession | None:
        """The session of a cookie that this studio signed, while it is not too old."""
        if not cookie:
            return None
        try:
            return from_plain(self._signer.loads(cookie, max_age=SESSION_DAYS * 86400), StudioSession)
        except (BadSignature, msgspec.ValidationError):
            return None

    def new(self, person: StudioPerson | None = None) -> StudioSession:
        number = secrets.token_urlsafe(24)
        return StudioSession(number, person.id, person.key) if person else StudioSession(number)

    def csrf(self, session: StudioSession) -> str:
        """The form token of a session, which every form and every request of a script carries."""
        return hmac.new(self._secret, b"csrf:" + session.number.encode(), hashlib.sha256).hexdigest()

    def fits(self, session: StudioSession, token: str) -> bool:
        return hmac.compare_digest(self.csrf(session).encode(), token.encode("utf-8", "surrogatepass"))

    def header(self, session: StudioSession) -> str:
        """The Set-Cookie header."""
        value, age = self._signer.dumps(msgspec.to_builtins(session)), SESSION_DAYS * 86400
        header = f"{self.name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax"
        return header + ("; Secure" if self.secure else "")


THEMES = ("system", "light", "dark")
LANGUAGE_COOKIE, THEME_COOKIE = "compeer_language", "compeer_theme"


class Visit(msgspec.Struct):
    """The visitor of one request. Setting `session` sends a new cookie with the response."""

    language: Language
    theme: str
    address: str
    session: StudioSession
    csrf: str
    accepted: str | None = None  # what the browser says about languages
    person: StudioPerson | None = None


def visit(request: Request) -> Visit:
    found: Visit = request.state.visit
    return found


def language_of(cookies: Mapping[str, str], accepted: str | None) -> Language:
    """The language of the interface: the chosen one, or the first of the browser's list that is known.

    >>> language_of({}, "fr, zh-CN;q=0.9, en;q=0.8"), language_of({"compeer_language": "en"}, "zh")
    ('zh', 'en')
    >>> language_of({}, None)
    'en'
    """
    wanted = [cookies.get(LANGUAGE_COOKIE, ""), *re.findall(r"(?:^|,)\s*(\w+)", (accepted or "").lower())]
    return next((language for one in wanted for language in LANGUAGES if one == language), "en")


def theme_of(cookies: Mapping[str, str]) -> str:
    chosen = cookies.get(THEME_COOKIE, "system")
    return chosen if chosen in THEMES else "system"


def person(request: Request) -> StudioPerson:
    """The person who sent a request, known by a link or by using this machine."""
    found = visit(request).person
    if found is None:
        raise RequestRefused(403, "link", "no personal link")
    return found


def needs(*roles: Role) -> Callable[[Request], StudioPerson]:
    """A dependency: a person with one of these roles."""

    def allowed(request: Request) -> StudioPerson:
        found = person(request)
        if found.role not in roles:
            raise RequestRefused(403, "forbidden", f"a {found.role} may not")
        return found

    return allowed
