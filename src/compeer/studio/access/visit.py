"""What is known about the one who asks, on every page: `visit(request)`.

Language and theme come from cookies that are not signed, because nothing hangs on them; they are only ever one of a
few words. Without a cookie the language is what the browser prefers, and the theme is the system's.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.requests import Request

from compeer.reasoning.ontology import LANGUAGES, Language
from compeer.studio.access.person import Person
from compeer.studio.access.session import Session

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
