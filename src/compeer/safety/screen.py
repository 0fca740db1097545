"""What one message tells: `screen(text)` reads it with the lexicon and with a small learned model.

How a match of the lexicon is read:

- idioms ("this exam is killing me", 累死了) are taken out before anything is looked for;
- a negation makes it a denial only where it governs the match: "I would never kill myself", "I don't want to die".
  "I can't go five minutes without thinking about suicide" is a disclosure;
- words that put it behind ("when I was nineteen", 以前) make it watch, unless others bring it back ("again", 又);
- inside a frame (a film, the news, a course) mentions and third persons do not count, while what someone says of
  themselves does.

Every rule is read inside its own sentence, so that ordinary sentences around a plain one cannot dilute it, and the
learned model reads the message as a whole and each sentence alone; the worst counts.

How both are put together: the model raises a message without findings to watch (to high where it asks for means or
is plainly explicit), or gives it the weight of a weak hint that adds up over a conversation (`levels`). It may soften
what the lexicon found by one step, high to watch, and watch to none; never high to none, and never an emergency.

Both languages are always read: people mix them. A finding is words, not a diagnosis.
"""

from __future__ import annotations

import re

import msgspec

from compeer.safety.levels import LEVELS, Finding, Level, Span, worst
from compeer.safety.lexicon import Lexicon, Rule, lexicon
from compeer.safety.network import PLAIN, Heard, conversations, gram_weights, hear, sentence_odds
from compeer.safety.normalise import Folded, fold

LANGUAGES = ("en", "zh")
LONGEST = 20_000  # characters that are read of one message; beginning and end of a longer one
_HAN = re.compile("[\u3400-\u9fff]")
_LATIN = re.compile("[a-z]{2}|zs|zc")
_SENTENCE_END = re.compile(r"[.!?。！？;；\n]+")
#: kinds that tell of danger to the writer's life or body
OWN = frozenset({"wish", "selfharm", "means", "ingestion", "plan", "method", "hint", "guard"})


def ready() -> None:
    """Read the lexicons and the learned models now, so that the first message need not wait for them."""
    for language in LANGUAGES:
        lexicon(language)
        lexicon(f"out_{language}")
    conversations()
    gram_weights()
    sentence_odds([{"role": "user", "content": "…"}], "en")


def screen(text: str, language: str | None = None, *, worried: bool = False, raised: bool = False) -> Finding:
    """What a message tells. `language` names the one to read; without it both are.

    `worried`: earlier messages gave cause for worry, so that "I have them in front of me" means something.
    `raised`: they are at high risk already, so that a place, means or an hour is enough.

    >>> screen("I want to kill myself.").level, screen("this exam is killing me").level
    ('high', 'none')
    >>> screen("我不想活了").level, screen("今天累死了").level
    ('high', 'none')
    """
    if len(text) > LONGEST:
        half = LONGEST // 2
        ending = screen(text[-half:], language, worried=worried, raised=raised)
        moved = tuple(
            msgspec.structs.replace(s, start=s.start + len(text) - half, end=s.end + len(text) - half)
            for s in ending.spans
        )
        beginning = screen(text[:half], language, worried=worried, raised=raised)
        return beginning | msgspec.structs.replace(ending, spans=moved)
    found = lexicon_finding(text, language, worried=worried, raised=raised)
    return weigh(found, hear(_without_idioms(text), language))


def weigh(found: Finding, heard: Heard | None) -> Finding:
    """What the lexicon found and what the model heard, as one finding."""
    if heard is None:
        return found
    if found.level == "none":
        if heard.watch and not found.denied and "bereaved" not in found.kinds:
            kind = {"method": "method", "third": "third"}.get(heard.kind, "hint")
            # who asks for means is in danger
            plain = heard.kind == "explicit" and heard.score >= PLAIN
            level: Level = "high" if kind == "method" or plain else "watch"
            return msgspec.structs.replace(
                found, level=level, kinds=(*found.kinds, kind), hint=heard.hint, other=found.other or kind == "third"
            )
        return msgspec.structs.replace(found, hint=heard.hint)
    if found.level == "high" and heard.harmless and set(found.kinds) <= SOFTENED:
        return msgspec.structs.replace(found, level="watch", hint=0.5)
    kept = KEPT | {"wish"} if heard.by_grams else KEPT  # grams know the words that they have met, and no others
    if found.level == "watch" and heard.harmless and not set(found.kinds) & kept:
        return msgspec.structs.replace(found, level="none", hint=0.5)
    return msgspec.structs.replace(found, hint=max(heard.hint, 1.0))


#: kinds of a finding at watch that the model may not take away
KEPT = frozenset({"intake", "bare", "violence"})
#: kinds of a high finding that the model may soften to watch
SOFTENED = frozenset({"third", "violence", "mention", "denial"})


def lexicon_finding(text: str, language: str | None = None, *, worried: bool = False, raised: bool = False) -> Finding:
    """What the lexicon alone finds."""
    folded = fold(text)
    finding = Finding()
    for one in LANGUAGES:
        # a Chinese message may hold an English word, and the other way round
        if (_HAN if one == "zh" else _LATIN).search(folded.text) and (
            language in (None, one) or language not in LANGUAGES
        ):
            found = _read(folded, lexicon(one), worried, raised)
            if not worried and found.level in ("high", "emergency") and not found.other and OWN & set(found.kinds):
                found = _read(folded, lexicon(one), True, raised)  # the message is its own context
            finding |= found
    return finding


def names_danger(text: str, denied: bool = False) -> bool:
    """Whether a word of a place, means, intake, plan or wound stands in a message, or of death where it is not denied.

    >>> names_danger("im still on the bridge lol"), names_danger("no thanks"), names_danger("不想死", denied=True)
    (True, False, False)
    """
    plain = fold(text).text
    kinds = ("named",) if denied else ("named", "named_death")
    return any(lexicon(language).frames[kind].search(plain) for language in LANGUAGES for kind in kinds)


def _without_idioms(text: str) -> str:
    """The plain form without idioms, so that the model does not hear in them what the lexicon does not."""
    plain = fold(text).text
    for language in LANGUAGES:
        for idiom in lexicon(language).idioms:
            plain = idiom.sub(" ", plain)
    return plain


def _read(folded: Folded, words: Lexicon, worried: bool, raised: bool = False) -> Finding:
    folded = _undisguised(folded, words)
    text = folded.text
    for idiom in words.idioms:
        text = idiom.sub(lambda match: "¦" * len(match.group()), text)
    sentences = sentences_of(text)
    spans: list[Span] = []
    denied = False
    behind = False
    own_now = any_now = False
    for rule in words.rules:
        if ("context" in rule.marks and not worried) or ("raised" in rule.marks and not raised):
            continue
        for match, around in matches(rule, text, sentences, words.near):
            level, past = _level(rule, match, text, around, words)
            start, end = folded.span(*match.span())
            if level is None:
                denied = True
                spans.append(Span(start, end, "denial", "none"))
                continue
            denied = denied or rule.kind == "denial"
            behind = behind or past
            if level != "none" or rule.kind in ("denial", "bereaved"):
                spans.append(Span(start, end, rule.kind, level))
            if level in ("high", "emergency"):
                any_now = True
                own_now = own_now or rule.kind in OWN
    spans = _without_echoes(spans)
    spans.sort(key=lambda span: (-LEVELS.index(span.level), span.start))
    kinds = tuple(dict.fromkeys(span.kind for span in spans))
    level = worst(*(span.level for span in spans))
    own = any(span.kind in OWN for span in spans if span.level != "none")
    other = not own and any(span.kind == "third" for span in spans)
    return Finding(level, kinds, tuple(spans), denied, other, behind and not any_now)


def matches(
    rule: Rule, text: str, sentences: list[tuple[int, int]], near: int
) -> list[tuple[re.Match[str], tuple[int, int]]]:
    """Where a rule holds, and the sentence it stands in.

    Its further parts may stand in the sentences next to it; what excludes it must stand in its own.
    """
    first, *others = rule.parts
    found = []
    for match in first.finditer(text):
        number = next((n for n, (_, end) in enumerate(sentences) if match.start() < end), len(sentences) - 1)
        start, end = sentences[number][0], max(sentences[number][1], match.end())
        if others:
            low = max(sentences[max(0, number - 1)][0], match.start() - near)
            high = min(max(end, sentences[min(len(sentences) - 1, number + 1)][1]), match.end() + near)
            if not all(other.search(text, low, high) for other in others):
                continue
        if rule.unless and rule.unless.search(text, max(start, match.start() - near), min(end, match.end() + near)):
            continue
        found.append((match, (start, end)))
    return found


def _level(
    rule: Rule, match: re.Match[str], text: str, around: tuple[int, int], words: Lexicon
) -> tuple[Level | None, bool]:
    """How serious a match is where it stands, None when it is denied; and whether it tells of the past."""
    start, end = around
    sentence = text[start:end]
    if "denied" in rule.marks and _denied(text[start : match.start()], sentence, words):
        return None, False
    framed = rule.marks & {"soft", "own"} and words.frames["frame"].search(sentence)
    if framed and ("soft" in rule.marks or not words.frames["first"].search(sentence)):
        return "none", False
    if "past" in rule.marks and rule.level in ("high", "emergency"):
        behind = words.frames["past"].search(sentence)
        if behind and not words.frames["present"].search(sentence):
            return "watch", True
    return rule.level, False


def _denied(before: str, sentence: str, words: Lexicon) -> bool:
    """Whether a negation governs what follows, without a doubt."""
    return bool(words.frames["negation"].search(before)) and not words.frames["doubt"].search(sentence)


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Where each sentence begins and ends."""
    made = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        made.append((start, end.end()))
        start = end.end()
    if start < len(text) or not made:
        made.append((start, len(text)))
    return made


def _without_echoes(spans: list[Span]) -> list[Span]:
    """Mentions inside another finding, or inside a denial, say nothing more; nor does something taken inside a plan."""

    def echo(span: Span, other: Span) -> bool:
        inside = other.start <= span.start and span.end <= other.end
        return inside and (other.kind == "plan" if span.kind == "ingestion" else other.kind != "mention")

    return [
        span
        for span in spans
        if span.kind not in ("mention", "ingestion") or not any(echo(span, other) for other in spans)
    ]


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
