"""Helplines: dated, complete, and those of the right country."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from compeer.errors import UserError
from compeer.safety.helplines import _table, country, directory, helpline, helplines, lines


def test_every_entry_was_checked_within_a_year() -> None:
    """When this fails: compare the entries with what the services publish, correct them, and set `checked`."""
    oldest = date.today() - timedelta(days=365)
    stale = {code: line.checked for code, line in helplines().items() if line.checked < oldest}
    assert not stale
    assert date.fromisoformat(_table()["directory"]["checked"]) >= oldest


def test_every_entry_says_who_when_and_where() -> None:
    for code, line in helplines().items():
        assert len(code) == 2 and code.isupper()
        assert any(letter.isdigit() for letter in line.phone) and line.hours and line.languages
        assert line.url.startswith("https://") and line.emergency[0].isdigit()
        assert line.checked <= date.today() + timedelta(days=1)


def test_the_numbers_that_must_be_there() -> None:
    known = {
        "US": "988",
        "CA": "988",
        "CN": "12356",
        "GB": "116 123",
        "IE": "116 123",
        "AU": "13 11 14",
        "NZ": "1737",
        "IN": "14416",
    }
    assert {code: helplines()[code].phone for code in known} == known
    assert directory() == "findahelpline.com"


def test_the_country_is_given_or_set_or_the_locales_or_the_languages() -> None:
    everything = {"COMPEER_COUNTRY": "NZ", "LC_ALL": "de_DE.UTF-8", "LANG": "fr_FR.UTF-8"}
    assert country("gb", "zh", everything) == "GB"
    assert country(None, "zh", everything) == "NZ"
    assert country(None, "zh", {"LC_ALL": "de_DE.UTF-8"}) == "DE"
    assert country(None, "zh", {"LANG": "C.UTF-8"}) == "CN"
    assert country(None, "en", {"LANG": "C.UTF-8"}) is None
    assert country("uk", None, {}) == "GB"
    with pytest.raises(UserError, match="two letters"):
        country("England", None, {})


def test_where_the_country_is_not_known_several_are_shown_and_the_directory() -> None:
    shown = "\n".join(lines(None, "en"))
    assert all(number in shown for number in ("988", "12356", "116 123", "13 11 14", "findahelpline.com"))
    assert "findahelpline.com" in "\n".join(lines("AQ", "zh"))  # a country without an entry
    assert helpline("AQ") is None
    assert "116 123" in lines("GB", "zh")[0] and "24 小时" in lines("GB", "zh")[0]
