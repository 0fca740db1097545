"""Who may ask: keys, origins, and which addresses are safe without either.

Keys are compared in constant time, and every one of them each time, so that how long a refusal takes tells nothing.
Pages of other origins get no answer they could read unless an origin was allowed; bodies must be sent as
application/json, which a page cannot do unasked.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from compeer.errors import UserError
from compeer.serve.refusal import Refused
from compeer.serve.settings import Settings

OPEN = ("/health",)  # answered without a key


def check_exposure(settings: Settings) -> None:
    """A server that others can reach needs a key."""
    if not settings.keys and not is_local(settings.host):
        raise UserError(
            f"{settings.host or '0.0.0.0'} can be reached from other machines, and no key is set. "
            "Give one with --key, --key-file or COMPEER_API_KEY, or listen on 127.0.0.1."
        )


def read_keys(keys: Sequence[str], file: Path | None) -> tuple[str, ...]:
    """Keys from the command line and from a file with one a line (# begins a comment)."""
    found = list(keys)
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"The keys in {file} cannot be read: {error}.") from None
        found += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(found) == len(keys):
            raise UserError(f"{file} holds no key; write one a line.")
    if any(not key.strip() for key in found):
        raise UserError("A key is empty; leave --key out, or give a real one.")
    return tuple(dict.fromkeys(key.strip() for key in found))


def admit(request: web.Request, settings: Settings) -> None:
    """Let a request in, or say why not."""
    if settings.keys and request.path not in OPEN:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip().encode()
        fits = [hmac.compare_digest(given, key.encode()) for key in settings.keys]
        if not any(fits):
            raise Refused(401, "A key is needed: Authorization: Bearer KEY.", code="invalid_api_key")
    if request.method == "POST" and request.content_type != "application/json":
        raise Refused(415, "Send the body as Content-Type: application/json.")


def cross_origin(request: web.Request, settings: Settings) -> dict[str, str]:
    """The headers that let a page of an allowed origin read the answer; none for the others."""
    origin = request.headers.get("Origin")
    if origin is None or not ("*" in settings.origins or origin in settings.origins):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
        "Access-Control-Allow-Headers": "Authorization, Content-Type",
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_local("127.0.0.1"), is_local("0.0.0.0"), is_local("")
    (True, False, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
