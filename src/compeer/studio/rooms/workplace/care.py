"""Where somebody at work finds a person to talk to, on every page of theirs: they read painful things.

Numbers are those of `compeer.safety.helplines`. First the line of the country that the browser names (en-GB), then
those of most of our readers in the order of the interface's language, then a directory for everywhere else.
"""

from __future__ import annotations

import re

import msgspec

from compeer.safety.helplines import Helpline, directory, helpline, helplines
from compeer.studio.words import Say

_REGION = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z]{4})?-([A-Za-z]{2})\b")


class Line(msgspec.Struct, frozen=True):
    """Who, a number or a name to show, and the address behind it."""

    where: str
    shown: str
    address: str


def lines(say: Say, accepted: str = "") -> list[Line]:
    """The helplines of a page; `accepted` is what the browser says about its languages."""
    known = helplines()
    near = [found for region in _REGION.findall(accepted[:200]) if (found := helpline(region))][:1]
    usual = [known["CN"], known["US"]] if say.language == "zh" else [known["US"], known["CN"]]
    names = {"US": say("workplace.help.us"), "CN": say("workplace.help.china")}
    unique = {one.phone: one for one in (*near, *usual)}  # 988 is the number of two countries
    shown = [_line(names.get(one.country, one.name), one) for one in unique.values()]
    return [*shown, Line(say("workplace.help.elsewhere"), directory(), f"https://{directory()}")]


def _line(where: str, one: Helpline) -> Line:
    return Line(where, one.phone, f"tel:{one.phone.replace(' ', '')}")
