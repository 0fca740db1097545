"""Both languages, everywhere; and colours that can be read."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import get_args

import jinja2
import pytest

import compeer.studio
from compeer.studio.pages import merge_words, parts_of, read_words
from compeer.studio.rooms import open_rooms
from compeer.studio.settings import StudioSettings

STUDIO = Path(compeer.studio.__file__).parent
ROOMS = open_rooms(StudioSettings())
PARTS = parts_of(ROOMS)
WORDS = merge_words([read_words(STUDIO / "look"), *(part.words for part in PARTS)])
TEMPLATES = sorted(STUDIO.rglob("templates/*.html"))


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_text_exists_in_both_languages_with_the_same_gaps() -> None:
    han = re.compile(r"[\u4e00-\u9fff]")
    for key, text in WORDS.items():
        assert text.en.strip() and text.zh.strip(), key
        only_gaps = not re.search(r"\w", re.sub(r"\{\w+\}", "", text.en))
        assert only_gaps or han.search(text.zh), key
        assert not han.search(text.en), key
        assert fields(text.en) == fields(text.zh), key
        assert not re.search(r"[,;:?!] |[\u4e00-\u9fff][,.;:?!]", text.zh), f"{key}: Chinese punctuation"


#: English as a translator writes it word by word: "one a line", "by itself", what a thing "stands on"
CALQUES = re.compile(
    r"\b(one|seconds|minutes|votes?|items?|words?|names?) an? (line|item|person|turn|step|model|dialogue)\b"
    r"|\bby itself\b|\bit stands on\b|\btake \w+( \w+)? out\b|\bon so many\b",
    re.IGNORECASE,
)
#: a number that may be 1 before a plural ("by 1 people"); `most` and `total` are larger
PLURALS = re.compile(r"\{(?!most\}|total\})\w+\} (?:more |earlier |other )*(?:\w+s|people)\b")
#: where the number is never 1
SEVERAL = ("runs.alerts.many", "runs.ago.days")


@pytest.mark.parametrize(
    "text",
    [
        "Names, one a line",
        "Seconds an item",
        "Take the labels out",
        "What it stands on",
        "The page follows by itself",
        "On so many items one of the two said this and the other that",
        "by {count} people",
    ],
)
def test_what_no_native_would_write_is_recognised(text: str) -> None:
    assert CALQUES.search(text) or PLURALS.search(text)


def test_no_text_is_what_no_native_would_write() -> None:
    found = {key: text.en for key, text in WORDS.items() if CALQUES.search(text.en)}
    found |= {key: text.en for key, text in WORDS.items() if PLURALS.search(text.en) and key not in SEVERAL}
    assert found == {}


def test_a_room_says_what_it_is_and_why_it_may_be_closed() -> None:
    for room in ROOMS:
        assert {f"{room.name}.{part}" for part in ("name", "about", "off")} <= room.words.keys()
    for part in PARTS:
        assert all(key.startswith(f"{part.name}.") for key in part.words)


def said_by_rooms() -> set[str]:
    """What templates that rooms share say in the room's own words; some of it only where a room knows it."""
    found = set()
    for part in (part for part in PARTS if part not in ROOMS):
        text = "".join(path.read_text(encoding="utf-8") for path in (part.folder / "templates").iterdir())
        where_known = set(re.findall(r"""say\.knows\(room ~ ["']([^"']+)["']""", text))
        users = [room for room in ROOMS if part in room.uses]
        for word in re.findall(r"""say\(room ~ ["']([^"']+)["']""", text):
            knowing = [room for room in users if f"{room.name}{word}" in room.words]
            assert knowing if word in where_known else knowing == users, word
            found |= {f"{room.name}{word}" for room in knowing}
    return found


def test_every_key_that_is_used_exists_and_every_text_is_used() -> None:
    files = [*TEMPLATES, *STUDIO.rglob("*.py"), *STUDIO.rglob("*.js")]
    used = {
        (path.name, key)
        for path in files
        for key in re.findall(r"""\bsay\(["']([a-z_.-]+)["'](?! ~)""", path.read_text(encoding="utf-8"))
    }
    assert {Path(name).suffix for name, _ in used} == {".html", ".py", ".js"} and len(used) > 300
    assert {(name, key) for name, key in used if key not in WORDS} == set()
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    whole = set(re.findall(r"""["']([a-z_]+\.[\w./-]+)["']""", code))
    begun = tuple(re.findall(r"""["'`]([a-z_]+\.(?:[\w-]+\.)*)(?:["']|\$?\{)""", code))  # put together in code
    rooms = {f"{room.name}.{part}" for room in ROOMS for part in ("name", "about", "off")}
    known = whole | rooms | said_by_rooms()
    assert {key for key in WORDS if key not in known and not key.startswith(begun)} == set()


def test_every_refusal_and_trouble_has_its_texts() -> None:
    """Keys that are put together from a kind."""
    from compeer.people.store import RefusalKind as StoreRefusal
    from compeer.studio.access import RefusalKind
    from compeer.studio.rooms.talk.session import Kind

    parts = ("title", "what", "safe", "next")
    assert {f"error.{kind}.{part}" for kind in get_args(RefusalKind) for part in parts} <= WORDS.keys()
    assert {f"workplace.refused.{kind}.{part}" for kind in get_args(StoreRefusal) for part in parts} <= WORDS.keys()
    assert {f"talk.error.{kind}" for kind in get_args(Kind)} <= WORDS.keys()


def test_no_page_holds_script_or_style_and_every_form_its_token() -> None:
    """What the content security policy would refuse."""
    for path in TEMPLATES:
        text = path.read_text(encoding="utf-8")
        plain = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "", text, flags=re.S)
        assert not re.search(r"<style|<[^>]*\s(?:style|on[a-z]+)=|javascript:", plain), path
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), path
        assert "|safe" not in text.replace(" ", ""), path
        assert "http://" not in text and "https://" not in text, f"{path}: everything comes from this server"
        forms = re.findall(r'<form[^>]*method="post".*?</form>', text, re.S)
        assert all("forms.token(visit" in form for form in forms), path
        jinja2.Environment().parse(text)


def colours() -> dict[str, tuple[str, str]]:
    text = (STUDIO / "look" / "static" / "tokens.css").read_text()
    return {
        name: (light, dark) for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", text)
    }


def contrast(one: str, other: str) -> float:
    """WCAG 2: relative luminance."""

    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_can_be_read_on_every_ground(theme: int) -> None:
    found = colours()
    assert found["paper"] == ("#FAF8F5", "#171614") and found["warm"] == ("#B8683F", "#D9936B")
    for ground in ("paper", "surface", "soft"):
        for words in ("ink", "quiet", "accent", "warm-ink"):
            assert contrast(found[words][theme], found[ground][theme]) >= 4.5, (words, ground)
        for mark in ("accent", "warm", "edge"):  # lines and outlines: 3 to 1
            assert contrast(found[mark][theme], found[ground][theme]) >= 3, (mark, ground)
    assert contrast(found["on-accent"][theme], found["accent"][theme]) >= 4.5


def test_colours_stand_in_one_file() -> None:
    for path in STUDIO.rglob("*.css"):
        if path.name != "tokens.css":
            assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)|rgb\(|hsl\(", path.read_text()), path
