"""The interface in two languages.

Every text stands once, both languages side by side, under a key that begins with the name of its room (or of a part
of the shell): nothing can exist in one language only. `{name}` in a text is filled in by the page. The Chinese is
written for a Chinese reader, not translated word for word.

    say = Say([SHELL, runs.WORDS], "zh");  say("runs.count", count=3)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from compeer.reasoning.ontology import Language


class Text(NamedTuple):
    en: str
    zh: str


Words = Mapping[str, Text]


def gather(parts: Iterable[Words]) -> dict[str, Text]:
    """All words in one; a key that two parts use is a mistake."""
    whole: dict[str, Text] = {}
    for part in parts:
        twice = whole.keys() & part.keys()
        if twice:
            raise ValueError(f"Words are given twice: {', '.join(sorted(twice))}")
        whole |= part
    return whole


class Say:
    """The words of one language, called with a key; an unknown key is an error, never a blank.

    >>> Say({"a.b": Text("{n} runs", "{n} 次运行")}, "zh")("a.b", n=2)
    '2 次运行'
    """

    def __init__(self, words: Words, language: Language) -> None:
        self.words, self.language = words, language

    def __call__(self, key: str, **values: Any) -> str:
        text = getattr(self.words[key], self.language)
        return text.format(**values) if values else str(text)

    def knows(self, key: str) -> bool:
        return key in self.words
