"""Helplines by country, each with the day it was last checked; a directory for everywhere else.

Which country: the one that is given, else `COMPEER_COUNTRY`, else that of the machine's locale (en_GB), else the one
that the language suggests (Chinese: China). For English without a hint nobody knows the country, so the lines of
several countries are shown together with the directory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.typed import from_plain

#: shown when the country is not known
SEVERAL = ("US", "CN", "GB", "AU", "IN")
_NAMES = {
    "en": {"US": "US and Canada", "CN": "China", "GB": "UK and Ireland", "AU": "Australia", "IN": "India"},
    "zh": {"US": "美国和加拿大", "CN": "中国大陆", "GB": "英国和爱尔兰", "AU": "澳大利亚", "IN": "印度"},
}


class Helpline(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `text` is a number for text messages, `also` a second number, `hours` when somebody answers."""

    country: str
    name: str
    phone: str
    hours: str
    languages: tuple[str, ...]
    emergency: str
    url: str
    checked: date
    hours_zh: str | None = None
    text: str | None = None
    also: str | None = None

    def words(self, language: str = "en") -> str:
        """The line as it is shown to a person.

        >>> helpline("US").words()
        '988 Suicide & Crisis Lifeline: call 988 or text 988 (24/7)'
        """
        hours = (self.hours_zh if language == "zh" else None) or (
            "24 小时" if language == "zh" and self.hours == "24/7" else self.hours
        )
        if language == "zh":
            numbers = "拨打 " + " 或 ".join(filter(None, (self.phone, self.also)))
            return f"{self.name}：{numbers}" + (f"，或发短信 {self.text}" if self.text else "") + f"（{hours}）"
        numbers = "call " + " or ".join(filter(None, (self.phone, self.also)))
        return f"{self.name}: {numbers}" + (f" or text {self.text}" if self.text else "") + f" ({hours})"


@cache
def helplines() -> dict[str, Helpline]:
    """Every line, by country code."""
    table = _table()
    return {code: from_plain({"country": code, **entry}, Helpline) for code, entry in table["countries"].items()}


def directory() -> str:
    """Where lines of all countries are listed."""
    return str(_table()["directory"]["url"]).removeprefix("https://")


def helpline(country: str) -> Helpline | None:
    """The line of a country, if it is known here."""
    return helplines().get(country.upper())


def country(
    given: str | None = None, language: str | None = None, environment: Mapping[str, str] | None = None
) -> str | None:
    """The country whose help is shown: the given one, $COMPEER_COUNTRY, the locale's, the language's; None: not known.

    >>> country("nz", "en", {}), country(None, "en", {"LANG": "en_GB.UTF-8"}), country(None, "zh", {"LANG": "C"})
    ('NZ', 'GB', 'CN')
    """
    environment = os.environ if environment is None else environment
    chosen = given or environment.get("COMPEER_COUNTRY")
    if chosen:
        if len(chosen) != 2 or not chosen.isascii() or not chosen.isalpha():
            raise UserError(f"{chosen!r} is no country. Give its code of two letters, as in GB, CN or NZ.")
        return "GB" if chosen.upper() == "UK" else chosen.upper()
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        _, underline, rest = environment.get(variable, "").partition("_")
        if underline and rest[:2].isalpha() and rest[:2].upper() in helplines():
            return rest[:2].upper()
    return "CN" if language == "zh" else None


def lines(where: str | None, language: str = "en") -> list[str]:
    """What is shown for a country, or for nobody knows where: one string a line."""
    known = helpline(where) if where else None
    if known is not None:
        if language == "zh":
            return [known.words("zh"), f"有紧急危险请拨打 {known.emergency}", f"其他国家和地区：{directory()}"]
        return [known.words(), f"In immediate danger: {known.emergency}", f"Elsewhere: {directory()}"]
    names = _NAMES["zh" if language == "zh" else "en"]
    some = " · ".join(f"{names[code]} {helplines()[code].phone}" for code in SEVERAL)
    if language == "zh":
        return [some, f"其他国家和地区：{directory()}；有紧急危险请拨打当地急救电话"]
    return [some, f"Elsewhere: {directory()}. In immediate danger: your local emergency number"]


@cache
def _table() -> Any:
    return json.loads((resources.files("compeer.safety") / "helplines.json").read_text(encoding="utf-8"))
