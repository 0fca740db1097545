"""Sessions in a signed cookie.

A session is a random number and, after entering, the id of a person with the key of the link they used; nothing else
is kept, and nothing on the server.
The token that forms carry is derived from it with the same secret, so it fits this session alone. Entering and
leaving begin a new session: a number that someone else may have planted is worth nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any

import msgspec
from itsdangerous import BadSignature, URLSafeTimedSerializer

from compeer.studio.access.person import Person
from compeer.typed import from_plain

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
