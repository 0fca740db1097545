"""Whom to call, as every page shows it: the numbers of `compeer.safety.helplines` for the visitor's country.

Whose helplines: those of the studio's setting, else of the region that the browser names (en-GB), else what
`compeer.safety` knows. Without a country the lines of several countries and the directory are shown.
"""

from __future__ import annotations

import re
from typing import Any

from compeer.reasoning.ontology import Language
from compeer.safety.helplines import Help, Helpline, help_for, helpline, helplines
from compeer.safety.helplines import country as default_country
from compeer.safety.levels import Danger

_REGION = re.compile(r"^\s*[A-Za-z]{2,3}(?:-[A-Za-z]{4})?-([A-Za-z]{2})\b")


def visitor_country(setting: str | None, accepted: str | None, language: Language) -> str | None:
    """The country whose helplines are shown first; None when it is not known.

    >>> visitor_country(None, "en-GB,en;q=0.9", "en"), visitor_country("NZ", "en-GB", "en")
    ('GB', 'NZ')
    """
    for part in () if setting else (accepted or "").split(",")[:20]:
        found = _REGION.match(part)
        if found and helpline(found.group(1)):
            return found.group(1).upper()
    return default_country(setting, language)


def help_lines(
    country: str | None, language: Language, danger: Danger = "suicide", *, poison: bool = False
) -> dict[str, Any]:
    """Emergency numbers, the one to call first at the front; helplines for a danger; the directory of all countries."""
    found = help_for(country, language, danger, poison=poison)
    return {
        "country": found.country,
        "emergency": _numbers(found) if found.country else [],
        "lines": [_line(one, language) for one in found.lines],
        "directory": found.directory,
        "directory_url": f"https://{found.directory}",
    }


def help_countries() -> list[str]:
    return sorted(helplines())


def _numbers(found: Help) -> list[dict[str, str]]:
    """Emergency numbers as links.

    >>> [one["shown"] for one in _numbers(help_for("CN"))]
    ['120 (ambulance)', '110 (police)']
    """
    shown = [part.strip() for part in found.emergency.split("/")]
    numbers = [{"shown": one, "tel": digits.group()} for one in shown if (digits := re.search(r"\d+", one))]
    return sorted(numbers, key=lambda one: one["tel"] != found.emergency_tel)


def _line(one: Helpline, language: Language) -> dict[str, Any]:
    chinese = one.hours_zh or ("24 小时" if one.hours == "24/7" else one.hours)
    shown = {name: getattr(one, name) for name in ("country", "name", "phone", "tel", "text", "url")}
    return shown | {"hours": chinese if language == "zh" else one.hours}
