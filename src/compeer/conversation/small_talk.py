"""Hellos, thanks, goodbyes, insults and questions to the program: prepared words where the model is too small for them.

Blind readers rate what the 1.5B base says at such moments 1.8 of 5, what authors wrote 4.6 (docs/results.md): it
answers a hello like a help desk and, asked whether it is a person, says yes now and then. What is meant there can be
told from the words alone. So a message that consists of nothing else (`small_talk.json`: whole-message patterns on the
plain form) is answered from that file, and the model is not asked. Only for the embedded 1.5B base without thinking,
pins, pictures or further instructions, and only where screening found nothing (`engine.TurnWriter`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec

from compeer.reasoning.ontology import Language
from compeer.typed import from_json

#: who types Chinese without marks parts with spaces
_PARTS: dict[Language, str] = {"en": r"[.,!?;:~…\n]+", "zh": r"[.,!?;:~…。，！？；：～、\s]+"}
_MARKS = re.compile(r"['’`]|[^\w\s]")
_LEADS = "ok(?:ay)?|alright|well|so|oh|lol|haha+|hm+|um+|好的?|嗯+|那|哈哈+|行"
_LEAD = re.compile(rf"^(?:(?:{_LEADS})\s*)+(?=\S)")
#: a part that says nothing by itself, beside others
_FILLER = re.compile(rf"(?:{_LEADS}|isnt it|right|arent you)")


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of small talk. `said`: what the person says, a pattern for all of it. `first`: replies to a first
    message, `later`: to others; where there are none the model answers."""

    kind: str
    said: str
    first: tuple[str, ...]
    later: tuple[str, ...]


@cache
def _kinds(language: Language) -> tuple[tuple[Kind, re.Pattern[str]], ...]:
    text = (files("compeer.conversation") / "small_talk.json").read_bytes()
    return tuple((one, re.compile(one.said)) for one in from_json(text, dict[str, tuple[Kind, ...]])[language])


def kind_of(message: str, language: Language) -> Kind | None:
    """What kind of small talk a message is, if it is nothing else. Of several kinds the one that stands first in the
    file, because it asks for more of an answer.

    >>> kind_of("Heyyy!! are you a robot?", "en").kind, kind_of("ok thanks, bye", "en").kind
    ('kind of program', 'goodbye')
    >>> kind_of("hi, my cat died", "en"), kind_of("I can't thank you enough for nothing", "en")
    (None, None)
    """
    parts = [plain for part in re.split(_PARTS[language], message.lower()) if (plain := _plain(part))]
    if len(parts) > 1:
        parts = [part for part in parts if not _FILLER.fullmatch(part)]
    if not 0 < len(parts) <= 3:
        return None
    kinds = _kinds(language)
    found = [next((at for at, (_, said) in enumerate(kinds) if said.fullmatch(part)), None) for part in parts]
    return None if None in found else kinds[min(at for at in found if at is not None)][0]


def small_talk(message: str, replies: Sequence[str], language: Language, seed: int | None = None) -> str | None:
    """A prepared reply that is not among those already given; None: the model answers."""
    kind = kind_of(message, language)
    if kind is None:
        return None
    left = [one for one in (kind.later if replies else kind.first) if one not in replies]
    return random.Random(seed).choice(left) if left else None


def _plain(part: str) -> str:
    text = " ".join(_MARKS.sub(lambda mark: "" if mark[0] in "'’`" else " ", part).split())
    return _LEAD.sub("", re.sub(r"(.)\1{2,}", r"\1", text))
