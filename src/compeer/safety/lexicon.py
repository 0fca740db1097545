"""Reading the lexicon: families of patterns in plain files that a person can read, question and extend.

    @want = want to|wanna|wanted to            a word for later patterns: {want}
    [wish high]                                a family: its kind, its level, then marks
    {want} die                                 a rule: a regular expression; a blank is any white space or hyphen
    stand .* bridge && jump|one step           both must stand near each other
    overdose !! dog|cat                        not when that stands near
    !! lol|haha                                the same for all rules of the family from here on

Marks of a family: `soft` findings do not count inside a frame (a film, the news, a profession); `past` ones may be
lowered to watch by words that put them behind; `denied` ones may be turned into a denial by a negation that governs
them (family `negation`, which must end where the match begins); `own` ones count inside a frame only where the sentence
speaks of the writer (family `first`); `context` ones have their level only where the conversation gave cause for worry
before, and mean nothing otherwise; `raised` ones only where it is at high risk already.
Families named `idiom`, `frame`, `first`, `past`, `present`, `negation`, `doubt`, `reported`, `named`, `named_death`
find nothing themselves: idioms are taken out of the text first, the others say how a finding is read. `named`: words of
a place, means, intake, plan or wound, after which nothing is answered as a no, a joke or an agreement
(`screen.names_danger`).

Only the standard library is needed. A broken line is an error at once, with file and number.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple, cast

from compeer.errors import UserError
from compeer.safety.levels import DATA, Level

SILENT = (
    "idiom",
    "frame",
    "past",
    "present",
    "negation",
    "doubt",
    "first",
    "disguise",
    "reported",
    "named",
    "named_death",
)
NEAR = {"en": 160, "zh": 70}  # characters between parts that belong together

_SECTION = re.compile(r"\[(?P<kind>[a-z_]+)(?: (?P<level>none|watch|high|emergency))?(?P<marks>(?: [a-z]+)*)\]$")
_NAME = re.compile(r"\{([a-z_]+)\}")


class Rule(NamedTuple):
    """One line of a family. `parts` must all be near each other; `unless` must not be near."""

    kind: str
    level: Level
    marks: frozenset[str]
    parts: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None
    source: str


class Lexicon(NamedTuple):
    """The rules of a language and what reads them."""

    rules: tuple[Rule, ...]
    idioms: tuple[re.Pattern[str], ...]
    disguises: tuple[tuple[re.Pattern[str], str], ...]
    frames: dict[str, re.Pattern[str]]
    near: int


@cache
def lexicon(name: str) -> Lexicon:
    """The lexicon in `data/lexicon_NAME.txt`."""
    return read((DATA / f"lexicon_{name}.txt").read_text(encoding="utf-8"), name)


def read(text: str, name: str) -> Lexicon:
    """A lexicon from the text of its file."""
    words: dict[str, str] = {}
    rules: list[Rule] = []
    silent: dict[str, list[str]] = {}
    disguises: list[tuple[re.Pattern[str], str]] = []
    section: re.Match[str] | None = None
    never = ""  # what excludes every rule of the family
    chinese = name.startswith("zh")
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            if line.startswith("@"):
                word, _, meaning = line[1:].partition("=")
                words[word.strip()] = f"(?:{_expanded(meaning.strip(), words)})"
            elif line.startswith("["):
                section, never = _SECTION.match(line), ""
                if section is None:
                    raise ValueError(f"{line} is no family")
            elif section is None:
                raise ValueError("a rule before the first family")
            elif section["kind"] == "disguise":
                pattern, _, meaning = line.partition(" => ")
                disguises.append(
                    (re.compile(_blanks(_expanded(pattern, words), chinese)), meaning.strip().replace("\\x20", " "))
                )
            elif section["kind"] in SILENT:
                silent.setdefault(section["kind"], []).append(_blanks(_expanded(line, words), chinese))
            elif line.startswith("!! "):
                never = line[3:]
            else:
                rules.append(_rule(section, line, never, words, chinese))
        except (ValueError, KeyError, re.error) as error:
            raise UserError(f"The lexicon {name}, line {number}, cannot be read: {error}.") from None
    idioms = tuple(_compiled(pattern, chinese) for pattern in silent.pop("idiom", []))
    if "negation" in silent:  # it has to end where the match begins
        silent["negation"] = [rf"(?:{one})[\s-]*\Z" for one in silent["negation"]]
    return Lexicon(
        tuple(rules),
        idioms,
        tuple(disguises),
        {kind: _compiled("|".join(f"(?:{one})" for one in found), chinese) for kind, found in silent.items()},
        NEAR["zh" if chinese else "en"],
    )


def _rule(section: re.Match[str], line: str, never: str, words: dict[str, str], chinese: bool) -> Rule:
    rest, _, unless = line.partition(" !! ")
    unless = "|".join(filter(None, (unless.strip(), never)))
    parts = [_blanks(_expanded(part.strip(), words), chinese) for part in rest.split(" && ")]
    return Rule(
        section["kind"],
        cast(Level, section["level"] or "none"),
        frozenset(section["marks"].split()),
        tuple(_compiled(part, chinese) for part in parts),
        _compiled(_blanks(_expanded(unless, words), chinese), chinese) if unless else None,
        line,
    )


def _expanded(pattern: str, words: dict[str, str]) -> str:
    return _NAME.sub(lambda match: words[match.group(1)], pattern)


def _blanks(pattern: str, chinese: bool) -> str:
    return pattern if chinese else re.sub(r"(?<!\\) (?![?*+{])", r"[\\s-]+", re.sub(r" \?", r"[\\s-]*", pattern))


def _compiled(pattern: str, chinese: bool) -> re.Pattern[str]:
    return re.compile(f"(?:{pattern})" if chinese else rf"(?<![a-z])(?:{pattern})(?![a-z])")
