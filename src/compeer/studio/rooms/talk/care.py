"""Whom to call, as the page shows it: the notice on the first screen, and the banner while someone may be in danger.

The words and the numbers are those of `compeer.safety`. Whose helplines: those of the country that the person chose,
else of the studio's setting, else of the region that the browser names (en-GB); without any the page shows those of
several countries and the directory.
"""

from __future__ import annotations

import re
from typing import Any

from compeer.reasoning.ontology import Language
from compeer.safety.helplines import SEVERAL, Helpline, directory, helpline, helplines
from compeer.safety.helplines import country as country_of
from compeer.safety.said import said

_REGION = re.compile(r"^\s*[A-Za-z]{2,3}(?:-[A-Za-z]{4})?-([A-Za-z]{2})\b")


def home(setting: str | None, accepted: str | None, language: Language) -> str | None:
    """The country whose helplines are shown first; None when nobody knows.

    >>> home(None, "en-GB,en;q=0.9", "en"), home("NZ", "en-GB", "en")
    ('GB', 'NZ')
    """
    for part in () if setting else (accepted or "").split(",")[:20]:
        found = _REGION.match(part)
        if found and helpline(found.group(1)):
            return found.group(1).upper()
    return country_of(setting, language)


def opening(language: Language) -> tuple[str, str]:
    """What this is, and when to call: the two lines that open every conversation."""
    what, call = said("opening", language).split("\n")
    return what, call


def lines(country: str | None, language: Language) -> dict[str, Any]:
    """The helplines of a country, or of several, and where all the others are."""
    known = helpline(country) if country else None
    shown = [known] if known else [helplines()[code] for code in SEVERAL]
    return {
        "country": known.country if known else None,
        "lines": [_line(one, language) for one in shown],
        "emergency": known.emergency if known else None,
        "directory": directory(),
    }


def countries() -> list[str]:
    return sorted(helplines())


def _line(one: Helpline, language: Language) -> dict[str, Any]:
    round_the_clock = one.hours == "24/7"
    chinese = one.hours_zh or ("24 小时" if round_the_clock else one.hours)
    return {
        "country": one.country,
        "name": one.name,
        "phone": one.phone,
        "also": one.also,
        "text": one.text,
        "hours": chinese if language == "zh" else one.hours,
        "url": one.url,
    }
