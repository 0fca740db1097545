"""The key that signs sessions: given, or made once and kept where only its owner reads it.

Deleting the file ends every session.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from compeer.errors import UserError

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
