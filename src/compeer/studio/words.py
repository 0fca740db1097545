"""Interface texts in English and Chinese, read from data files.

Every text stands once, both languages side by side, under a key that begins with the name of its room (or of a part of
the shell). A room keeps its texts in JSON files in its folder (`words.json`); those of the shell are in
`look/words.json`. `{name}` in a text is filled in by the page.

    say = Say(read_words(folder), "zh")
    say("runs.count", count=3)

A test checks that every key that is used exists, that none is unused, and that both languages have the same gaps. The
Chinese is written for a Chinese reader, not translated word for word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from compeer.reasoning.ontology import Language
from compeer.typed import from_json


class InterfaceText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    en: str
    zh: str


Words = Mapping[str, InterfaceText]


@cache
def read_words(folder: Path) -> Words:
    """All texts of the JSON files in a folder."""
    files = sorted(folder.glob("*.json"))
    return merge_words(from_json(file.read_bytes(), dict[str, InterfaceText]) for file in files)


def merge_words(parts: Iterable[Words]) -> Words:
    """The texts of several parts; the same key in two of them is an error."""
    merged: dict[str, InterfaceText] = {}
    for part in parts:
        if repeated := merged.keys() & part.keys():
            raise ValueError(f"Texts with the same key: {', '.join(sorted(repeated))}")
        merged |= part
    return merged


class Say:
    """The texts of one language, called with a key. An unknown key is an error, never a blank.

    >>> Say({"a.b": InterfaceText("{n} runs", "{n} 次运行")}, "zh")("a.b", n=2)
    '2 次运行'
    """

    def __init__(self, words: Words, language: Language) -> None:
        self.words, self.language = words, language

    def __call__(self, key: str, **values: Any) -> str:
        text: str = getattr(self.words[key], self.language)
        return text.format(**values) if values else text

    def knows(self, key: str) -> bool:
        return key in self.words
