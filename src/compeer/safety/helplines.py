"""Help lines by country, from `data/helplines.json`: the emergency number first, then lines for the kind of danger.

Which country: the one that is given, else `COMPEER_COUNTRY`, else that of the machine's locale (en_GB), else the one
that the language suggests (Chinese: China). Where nobody knows the country, or the table does not have it, the lines of
several countries are shown with the international directory. The file says for each line when and with what it was
compared; nobody was called.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Any, Literal

import msgspec

from compeer.errors import UserError
from compeer.safety.levels import DATA, Danger
from compeer.typed import from_plain

Kind = Literal["suicide", "abuse", "children", "poison", "general"]

#: shown when the country is not known
SEVERAL = ("US", "CN", "GB", "AU", "IN")
#: which lines belong to a danger, in this order
LINES_FOR: dict[Danger, tuple[Kind, ...]] = {
    "suicide": ("suicide", "general"),
    "child_abuse": ("children", "abuse", "suicide"),
    "partner_violence": ("abuse", "general", "suicide"),
    "violence_to_others": ("general", "suicide", "abuse"),
}
_SERVICES = {
    "police": "报警",
    "ambulance": "急救",
    "fire": "火警",
    "mobile": "手机",
    "fire and ambulance": "火警和急救",
}
_LOCAL = {"en": "your local emergency number", "zh": "当地急救或报警电话"}


class Helpline(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `tel` goes into a link; `text` says how to write to it, `hours` when somebody answers."""

    country: str
    kind: Kind
    name: str
    phone: str
    tel: str
    hours: str
    languages: tuple[str, ...]
    url: str
    checked: date
    source: str = ""
    status: str = ""
    hours_zh: str | None = None
    text: str | None = None
    note: str | None = None
    emergency: str = ""

    @property
    def href(self) -> str | None:
        """What a link on the number opens."""
        return f"tel:{self.tel}" if self.tel else None

    def words(self, language: str = "en") -> str:
        """The line as it is shown to a person.

        >>> helpline("US").words()
        '988 Suicide & Crisis Lifeline: call 988 or text 988 (24/7)'
        """
        if language == "zh":
            hours = self.hours_zh or ("24 小时" if self.hours == "24/7" else self.hours)
            ways = [f"拨打 {self.phone}" if self.phone else "", f"发短信 {self.text}" if self.text else ""]
            return f"{self.name}：{'，或'.join(filter(None, ways))}（{hours}）"
        ways = [f"call {self.phone}" if self.phone else "", f"text {self.text}" if self.text else ""]
        return f"{self.name}: {' or '.join(filter(None, ways))} ({self.hours})"

    def short(self) -> str:
        """Name and number, for the middle of a sentence."""
        return f"{self.name} ({self.phone or self.text})"


class Help(msgspec.Struct, frozen=True):
    """What a person is shown: the number to call first, and lines."""

    country: str | None
    emergency: str
    emergency_tel: str
    lines: tuple[Helpline, ...]
    directory: str

    @property
    def emergency_href(self) -> str | None:
        return f"tel:{self.emergency_tel}" if self.emergency_tel else None

    def words(self, language: str = "en") -> list[str]:
        """One string per line, the emergency number first."""
        if language == "zh":
            first, rest = f"有紧急危险，请马上拨打 {self.emergency}", f"其他国家和地区：{self.directory}"
        else:
            first, rest = f"In immediate danger, call {self.emergency}", f"Other countries: {self.directory}"
        if self.country is None:
            names = _table()["countries"]
            named = [(names[one.country]["name_zh" if language == "zh" else "name"], one.phone) for one in self.lines]
            return [first, " · ".join(f"{name} {phone}" for name, phone in named), rest]
        return [first, *(line.words(language) for line in self.lines), rest]


def help_for(
    where: str | None, language: str = "en", danger: Danger = "suicide", *, poison: bool = False, most: int = 3
) -> Help:
    """Help in a country for a kind of danger. `poison`: something was taken, so poison control stands first.

    >>> help_for("GB", "en", "child_abuse").lines[0].name, help_for("XX").country
    ('Childline', None)
    """
    entry = _table()["countries"].get(where.upper()) if where else None
    if where is None or entry is None:
        several = tuple(helplines()[code] for code in SEVERAL)
        return Help(None, _LOCAL["zh" if language == "zh" else "en"], "", several, directory())
    kinds: list[Kind] = [*LINES_FOR[danger]]
    if poison:
        kinds.insert(0, "poison")
    every = _lines(where.upper())
    chosen = [line for kind in kinds for line in every if line.kind == kind][:most] or list(every[:most])
    emergency = entry["emergency"]
    for word, chinese in _SERVICES.items() if language == "zh" else ():
        emergency = emergency.replace(f" ({word})", f"（{chinese}）")
    return Help(where.upper(), emergency, entry["emergency_tel"], tuple(chosen), directory())


@cache
def helplines() -> dict[str, Helpline]:
    """The first line of every country, by its code."""
    return {code: _lines(code)[0] for code in _table()["countries"]}


def helpline(where: str) -> Helpline | None:
    """The first line of a country, if it is known here."""
    return helplines().get(where.upper())


def directory() -> str:
    """Where lines of all countries are listed."""
    return str(_table()["directory"]["url"]).removeprefix("https://")


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
        code = "GB" if chosen.upper() == "UK" else chosen.upper()
        if code not in _table()["codes"]:  # a typing error must not quietly show the lines of other countries
            known = ", ".join(sorted(helplines()))
            raise UserError(f"{chosen!r} is no country. Give a code of two letters. Helplines are known for {known}.")
        return code
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        _, underline, rest = environment.get(variable, "").partition("_")
        if underline and rest[:2].isalpha() and rest[:2].upper() in helplines():
            return rest[:2].upper()
    return "CN" if language == "zh" else None


@cache
def _lines(code: str) -> tuple[Helpline, ...]:
    entry = _table()["countries"][code]
    return tuple(
        from_plain({"country": code, "emergency": entry["emergency"], **line}, Helpline) for line in entry["lines"]
    )


@cache
def _table() -> Any:
    return json.loads((DATA / "helplines.json").read_bytes())
