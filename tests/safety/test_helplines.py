"""Help lines: by country and danger, the emergency number first, numbers that links can hold."""

from __future__ import annotations

import re

import pytest

from compeer.errors import UserError
from compeer.safety.helplines import SEVERAL, country, help_for, helpline, helplines


def test_at_least_forty_countries_each_with_numbers_a_link_can_hold() -> None:
    assert len(helplines()) >= 40 and set(SEVERAL) <= set(helplines())
    for code in helplines():
        for danger in ("suicide", "child_abuse", "partner_violence", "violence_to_others"):
            help = help_for(code, "en", danger)  # type: ignore[arg-type]
            assert help.lines and re.fullmatch(r"tel:\+?\d+", str(help.emergency_href)), code
            assert all(line.href is None or re.fullmatch(r"tel:\+?\d+", line.href) for line in help.lines), code
            assert all(line.phone or line.text for line in help.lines), code


def test_the_danger_picks_the_line_and_something_taken_poison_control() -> None:
    assert help_for("GB", "en", "child_abuse").lines[0].kind == "children"
    assert help_for("GB", "en", "partner_violence").lines[0].kind == "abuse"
    assert help_for("US", "en", poison=True).lines[0].kind == "poison"


def test_the_emergency_number_stands_first() -> None:
    assert help_for("US").words()[0] == "In immediate danger, call 911"
    assert "120（急救）" in help_for("CN", "zh").words("zh")[0]
    assert "local emergency number" in help_for(None).words()[0] and "findahelpline.com" in help_for("XX").words()[-1]


def test_which_country() -> None:
    assert country("uk") == "GB" and country(None, "en", {"COMPEER_COUNTRY": "nz"}) == "NZ"
    assert country(None, "en", {"LC_ALL": "de_DE.UTF-8"}) == "DE" and country(None, "en", {}) is None
    assert country("mn") == "MN" and helpline("mn") is None, "a country without a line here is a country"
    for wrong in ("Britain", "ZZ", "XX", "é1"):
        with pytest.raises(UserError, match="no country"):
            country(wrong)
    with pytest.raises(UserError, match="no country"):
        country(None, "en", {"COMPEER_COUNTRY": "ZZ"})
    assert all(country(code) == code for code in helplines())
