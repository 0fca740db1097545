"""People and their personal links.

A link holds a random token. Whoever hands tokens out keeps only their hashes and answers two questions: whose token
is this, and is that person still welcome with this key. The key is something that changes with the link, such as a
part of the token's hash; the second question is asked at every request, so that taking a link back, or giving a new
one, ends the sessions that came from the old one.

A request that is turned away: a status, a kind of page that explains it, and a reason for the log.

The key that signs sessions: given, or made once and kept where only its owner reads it.

Deleting the file ends every session.

Sessions in a signed cookie.

A session is a random number and, after entering, the id of a person with the key of the link they used; nothing else
is kept, and nothing on the server.
The token that forms carry is derived from it with the same secret, so it fits this session alone. Entering and
leaving begin a new session: a number that someone else may have planted is worth nothing.

What is known about the one who asks, on every page: `visit(request)`.

Language and theme come from cookies that are not signed, because nothing hangs on them; they are only ever one of a
few words. Without a cookie the language is what the browser prefers, and the theme is the system's.

What a page needs: some person, or a person with one of some roles.

    @router.get("/") def page(someone: Annotated[Person, Depends(needs("coordinator"))]) -> Response: ...

A room's `roles` guard all of its pages; these are for pages that need more.

Sending a picture that belongs to an item, and nothing else.

A page asks for "the second picture of this item"; the room looks the item up, makes sure that this person may see it,
and hands its list of names here. No name ever comes from the browser. What an item names must still lie below the
folder of pictures, really be a picture, and be one that cannot carry a script.

One line a request: when, who, from where, what, how it ended. Never a query, a body or a token.

Refusals are warnings with their reason, so that someone who reads only those sees who tried what.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import quote

import msgspec
from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

from compeer.errors import UserError
from compeer.reasoning.ontology import LANGUAGES, Language
from compeer.typed import from_plain

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


#: which friendly page is shown; its words are error.<kind>.title, .what, .safe and .next
Kind = Literal["missing", "forbidden", "link", "bad_link", "form", "busy", "large", "invalid", "host", "broken"]


class Refused(Exception):
    """Raise it anywhere below the gate. `reason` goes to the log and never to the page."""

    def __init__(self, status: int, kind: Kind, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.kind, self.reason, self.wait = status, kind, reason, wait


NAME = "secret"


def secret_of(given: str | None, data: Path) -> str:
    """The given secret, or the one in the data folder, which is made when it is not there."""
    if given is not None:
        if len(given) < 32:
            raise UserError("The secret that signs sessions needs at least 32 characters.")
        return given
    path = data / NAME
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(path)
        if path.stat().st_mode & 0o077:
            raise UserError(f"{path} signs sessions and can be read by others. chmod 600 it, or delete it.")
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The studio cannot keep its secret in {data}: {error}. Give another folder: --data.") from None
    if len(found) < 32:
        raise UserError(f"{path} is damaged. Delete it: a new one is made, and everybody enters again.")
    return found


def _make(path: Path) -> None:
    """Written whole beside it and then linked, so that two starts at once agree on one and none reads half of it."""
    if path.exists():
        return
    part = path.with_name(f".{NAME}.{os.getpid()}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(48) + "\n")
    try:
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        part.unlink()


DAYS = 30


class Session(msgspec.Struct, frozen=True):
    number: str
    person: str | None = None
    key: str = ""


class Sessions:
    """Reads and writes the cookie. Its name hangs on the secret: two studios on one machine leave each other alone."""

    def __init__(self, secret: str, *, secure: bool = False) -> None:
        self._secret = secret.encode()
        self._signer = URLSafeTimedSerializer(secret, salt="compeer.studio.session")
        self.secure = secure
        self.name = "compeer_" + hashlib.sha256(b"name" + self._secret).hexdigest()[:8]

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie that this studio signed, while it is not too old."""
        if not cookie:
            return None
        try:
            return from_plain(self._signer.loads(cookie, max_age=DAYS * 86400), Session)
        except (BadSignature, msgspec.ValidationError):
            return None

    def new(self, person: Person | None = None) -> Session:
        number = secrets.token_urlsafe(24)
        return Session(number, person.id, person.key) if person else Session(number)

    def csrf(self, session: Session) -> str:
        """What a form or a fetch of this session has to carry."""
        return hmac.new(self._secret, b"csrf:" + session.number.encode(), hashlib.sha256).hexdigest()

    def fits(self, session: Session, token: str) -> bool:
        return hmac.compare_digest(self.csrf(session).encode(), token.encode("utf-8", "surrogatepass"))

    def header(self, session: Session) -> str:
        """The Set-Cookie header."""
        value = self._signer.dumps(msgspec.to_builtins(session))
        parts: list[Any] = [f"{self.name}={value}", "Path=/", f"Max-Age={DAYS * 86400}", "HttpOnly", "SameSite=Lax"]
        return "; ".join([*parts, *(["Secure"] if self.secure else [])])


THEMES = ("system", "light", "dark")
LANGUAGE_COOKIE, THEME_COOKIE = "compeer_language", "compeer_theme"


class Visit(msgspec.Struct):
    """One request's visitor. Setting `session` sends a new cookie with the answer."""

    language: Language
    theme: str
    address: str
    session: Session
    csrf: str
    person: Person | None = None


def visit(request: Request) -> Visit:
    found: Visit = request.state.visit
    return found


def language_of(cookies: Mapping[str, str], accepted: str | None) -> Language:
    """The language of the interface.

    >>> language_of({}, "fr, zh-CN;q=0.9, en;q=0.8"), language_of({"compeer_language": "en"}, "zh")
    ('zh', 'en')
    >>> language_of({}, None)
    'en'
    """
    for language in LANGUAGES:
        if cookies.get(LANGUAGE_COOKIE) == language:
            return language
    wanted: list[tuple[float, Language]] = []
    for part in (accepted or "").split(",")[:20]:
        name, _, weight = part.partition(";")
        for language in LANGUAGES:
            if name.strip().lower().split("-")[0] == language:
                wanted.append((_weight(weight), language))
    return max(wanted, key=lambda one: one[0])[1] if wanted else "en"


def theme_of(cookies: Mapping[str, str]) -> str:
    chosen = cookies.get(THEME_COOKIE, "system")
    return chosen if chosen in THEMES else "system"


def _weight(text: str) -> float:
    try:
        return float(text.strip().removeprefix("q=") or 1)
    except ValueError:
        return 0.0


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


MOST = 32 << 20
_MARKS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
          (b"GIF89a", "image/gif"))  # fmt: skip


def kind_of(data: bytes) -> str | None:
    """The media type, by the first bytes; None when it is no picture that we send.

    >>> kind_of(b"GIF89a..."), kind_of(b"<svg onload=alert(1)>")
    ('image/gif', None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _MARKS if data.startswith(mark)), None)


def picture(names: Sequence[str], index: int, folder: Path) -> Response:
    """The picture at `index` of an item's `names`, which are paths relative to `folder` (or absolute and inside it)."""
    if not 0 <= index < len(names):
        raise Refused(404, "missing", f"the item has no picture {index}")
    root = folder.resolve()
    path = (root / names[index]).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        raise Refused(404, "missing", "a picture that is not in the folder")
    if path.stat().st_size > MOST:
        raise Refused(404, "missing", "a picture that is too large")
    data = path.read_bytes()
    kind = kind_of(data)
    if kind is None:
        raise Refused(404, "missing", "a file that is no picture")
    headers = {"cache-control": "private, max-age=3600", "content-security-policy": "default-src 'none'; sandbox"}
    return Response(data, media_type=kind, headers=headers)


LOG = logging.getLogger("compeer.studio")


def shown(path: str) -> str:
    """A path as it may be written down: no personal token, no line breaks, not endless.

    >>> shown("/enter/abc"), shown("/runs/a b")
    ('/enter/…', '/runs/a%20b')
    """
    if path.startswith("/enter/"):
        return "/enter/…"
    return quote(path, safe="/:@,=&+~-._")[:300]


def told(method: str, path: str, status: int, seconds: float, person: str | None, address: str) -> None:
    LOG.info("%s %s %s %d %s %.0f ms", address, person or "-", method, status, shown(path), seconds * 1000)


def refused(reason: str, method: str, path: str, person: str | None, address: str) -> None:
    LOG.warning("refused: %s; %s %s by %s from %s", quote(reason, safe=" ,.:;'()/-_"), method, shown(path),
                person or "nobody known", address)  # fmt: skip
