"""Does this message tell of danger? `screen(text)` reads it with the lexicon: how much, of what kind, and where.

    none     nothing found
    watch    something that a listener should keep in mind: hopelessness, a past attempt, worry about someone
    high     someone may be in danger: a wish to die, a plan, self-harm, means asked for, violence

A finding is words, not a diagnosis. How a match is read:

- idioms ("this exam is killing me", 累死了) are taken out before anything is looked for;
- a negation right before the match makes it a denial ("I would never kill myself"): nothing found, nothing cleared;
- words that put it behind ("when I was nineteen", 以前) make it watch, unless others bring it back ("again", 又);
- inside a frame (a film, the news, a course, a job in prevention) mentions and third persons do not count, while
  what someone says of themselves does.

Both languages are always read: people mix them.
"""

from __future__ import annotations

import re
from typing import Literal, cast

import msgspec

from compeer.safety.fold import Folded, fold
from compeer.safety.learned import sounds
from compeer.safety.lexicon import LEVELS, Lexicon, Rule, lexicon
from compeer.safety.reader import reader

Level = Literal["none", "watch", "high"]
LANGUAGES = ("en", "zh")
LONGEST = 20_000  # characters that are read of one message; beginning and end of a longer one
_HAN = re.compile("[\u3400-\u9fff]")
_LATIN = re.compile("[a-z]{2}|zs|zc")
_SENTENCE = re.compile(r"[.!?。！？;；\n]")


class Span(msgspec.Struct, frozen=True):
    """A part of the message that says something, and what. `start` and `end` count characters as it was written."""

    start: int
    end: int
    kind: str
    level: Level


class Finding(msgspec.Struct, frozen=True):
    """What a message tells: how serious, of what kinds, and where. `denied`: it says that there is no danger."""

    level: Level = "none"
    kinds: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    denied: bool = False

    def __or__(self, other: Finding) -> Finding:
        """Both findings as one; the higher level counts."""
        kinds = tuple(dict.fromkeys((*self.kinds, *other.kinds)))
        return Finding(worst(self.level, other.level), kinds, self.spans + other.spans, self.denied or other.denied)


def worst(*levels: Level) -> Level:
    """The highest of some levels.

    >>> worst("none", "high", "watch")
    'high'
    """
    return max(levels, key=LEVELS.index, default="none")


def ready() -> None:
    """Read the lexicons and load the networks now: some seconds that the first message need not wait for."""
    for name in (*LANGUAGES, *(f"out_{language}" for language in LANGUAGES)):
        lexicon(name)
    for language in LANGUAGES:
        reader(language)


def screen(text: str, language: str | None = None) -> Finding:
    """What a message tells. `language` names the one to read; without it both are.

    >>> screen("I want to kill myself.").level, screen("this exam is killing me").level
    ('high', 'none')
    >>> screen("我不想活了").level, screen("今天累死了").level
    ('high', 'none')
    """
    if len(text) > LONGEST:
        half = LONGEST // 2
        ending = screen(text[-half:], language)
        moved = tuple(
            msgspec.structs.replace(s, start=s.start + len(text) - half, end=s.end + len(text) - half)
            for s in ending.spans
        )
        return screen(text[:half], language) | msgspec.structs.replace(ending, spans=moved)
    return _weigh(text, lexicon_finding(text, language), language)


def lexicon_finding(text: str, language: str | None = None) -> Finding:
    """What the lexicon alone finds."""
    folded = fold(text)
    finding = Finding()
    for one in LANGUAGES:
        # a Chinese message may hold an English word, and the other way round
        if (_HAN if one == "zh" else _LATIN).search(folded.text) and (
            language in (None, one) or language not in LANGUAGES
        ):
            finding |= _read(folded, lexicon(one))
    return finding


def clues(text: str, finding: Finding, language: str | None = None) -> set[str]:
    """What the lexicon tells the small model: what it found, and whether it took out an idiom."""
    plain = fold(text).text
    read = [one for one in LANGUAGES if language in (None, one) or language not in LANGUAGES]
    idiom = any(pattern.search(plain) for one in read for pattern in lexicon(one).idioms)
    return {f"{span.kind} {span.level}" for span in finding.spans} | ({"idiom"} if idiom else set())


def _weigh(text: str, finding: Finding, language: str | None) -> Finding:
    """The lexicon's finding, confirmed, raised or lowered by how the whole message sounds (`learned`).

    A message that sounds like risk is watched without any finding. What the lexicon found stays unless the message as a
    whole sounds plainly harmless ("I didn't have to wake up so early"). That bar is set so low that of the risky
    messages of writers unknown to the model two of a hundred with a finding fall below it; where the finding was an
    emergency, one of two hundred (`learning`).
    """
    heard = sounds(text, clues(text, finding, language), language)
    if heard is None:
        return finding
    level = finding.level
    if heard.risky:
        level = worst("watch", level)
    elif heard.harmless(level):
        level = "none"
    kinds = finding.kinds if finding.level != "none" or level == "none" else (*finding.kinds, "hint")
    return msgspec.structs.replace(finding, level=level, kinds=kinds)


def _read(folded: Folded, words: Lexicon) -> Finding:
    folded = _undisguised(folded, words)
    text = folded.text
    for idiom in words.idioms:
        text = idiom.sub(lambda match: "¦" * len(match.group()), text)
    spans: list[Span] = []
    denied = False
    for rule in words.rules:
        for match in matches(rule, text, words.near):
            start, end = folded.span(*match.span())
            level = _level(rule, match, text, words)
            if rule.kind == "denial" or level is None:
                denied = True
            if level is not None and (level != "none" or rule.kind == "denial"):
                spans.append(Span(start, end, rule.kind, level))
            elif level is None:
                spans.append(Span(start, end, "denial", "none"))
    spans.sort(key=lambda span: (-LEVELS.index(span.level), span.start))
    kinds = tuple(dict.fromkeys(span.kind for span in spans))
    return Finding(worst(*(span.level for span in spans)), kinds, tuple(spans), denied)


def matches(rule: Rule, text: str, near: int) -> list[re.Match[str]]:
    """Where a rule holds: its first part, with the others and without what excludes it nearby."""
    first, *others = rule.parts
    found = []
    for match in first.finditer(text):
        around = text[max(0, match.start() - near) : match.end() + near]
        if all(other.search(around) for other in others) and not (rule.unless and rule.unless.search(around)):
            found.append(match)
    return found


def _level(rule: Rule, match: re.Match[str], text: str, words: Lexicon) -> Level | None:
    """How serious a match is where it stands; None when it is denied."""
    level = cast(Level, rule.level)
    start, end = _sentence(text, match)
    sentence = text[start:end]
    around = text[max(0, match.start() - words.near) : match.end() + words.near]
    if "denied" in rule.marks and _denied(text[start : match.start()], sentence, words):
        return None
    framed = rule.marks & {"soft", "own"} and words.frames["frame"].search(around)
    if framed and ("soft" in rule.marks or not words.frames["first"].search(sentence)):
        return "none"
    if "past" in rule.marks and level == "high":
        behind = words.frames["past"].search(around)
        return "watch" if behind and not words.frames["present"].search(sentence) else "high"
    return level


def _denied(before: str, sentence: str, words: Lexicon) -> bool:
    """Whether what stands right before a match negates it, without a doubt."""
    return bool(words.frames["negation"].search(before.rstrip())) and not words.frames["doubt"].search(sentence)


def _sentence(text: str, match: re.Match[str]) -> tuple[int, int]:
    ends = [place.start() for place in _SENTENCE.finditer(text)]
    start = max((place + 1 for place in ends if place < match.start()), default=0)
    return start, min((place for place in ends if place >= match.end()), default=len(text))


def _undisguised(folded: Folded, words: Lexicon) -> Folded:
    """The plain form with nicknames and misspellings written out."""
    text, places = folded
    for pattern, meaning in words.disguises:
        pieces: list[str] = []
        kept: list[int] = []
        last = 0
        for match in pattern.finditer(text):
            pieces += [text[last : match.start()], meaning]
            kept += places[last : match.start()]
            kept += [places[min(match.start() + step, match.end() - 1)] for step in range(len(meaning))]
            last = match.end()
        if last:
            text, places = "".join([*pieces, text[last:]]), kept + places[last:]
    return Folded(text, places)
