"""The closed vocabularies of the contract: stages, sentiments, emotions, intensities, strategies.

They are data: `ontology.json`. Every value has one canonical identifier (its lower-case English name), a Chinese name,
a one-line definition in both languages, and the spellings under which the corpora we import know it. Models write the
English or the Chinese name; everything behind the parser sees only the identifier.

Sources: the three stages of ESConv; Hill's helping skills as ESConv's eight strategies; emotions that
cover ESConv (11), MESC (7), GoEmotions (28) and AvaMERG (32), each with the sentiments it can carry.

Departure from the paper: it names its strategies only by example ("progressive questioning",
"emotional mapping"); we keep ESConv's names as identifiers and the paper's as aliases.

Which of the two languages a text is in: Chinese characters against Latin words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from compeer.typed import from_json

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One admissible value of a label."""

    id: str
    zh: str
    definition: str
    definition_zh: str
    aliases: tuple[str, ...] = ()
    sentiments: tuple[str, ...] = ()  # emotions only: what they can carry, the usual one first

    def name(self, language: Language) -> str:
        return self.id if language == "en" else self.zh


class Vocabulary:
    """The values of one label, found by identifier, by name in either language, or by corpus alias."""

    def __init__(self, label: str, values: Iterable[Value]) -> None:
        self.label = label
        self.values = tuple(values)
        self.ids = tuple(value.id for value in self.values)
        self._names: dict[Language, dict[str, Value]] = {
            language: {fold(value.name(language)): value for value in self.values} for language in LANGUAGES
        }
        self._aliases = {fold(name): v for v in self.values for name in (v.id, v.zh, *v.aliases)}

    def __iter__(self) -> Iterator[Value]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def named(self, text: str, language: Language) -> Value | None:
        """The value with exactly this name in this language (white space and case aside)."""
        return self._names[language].get(fold(text))

    def find(self, text: str) -> Value | None:
        """The value known under this name or alias in any corpus or language, or None."""
        return self._aliases.get(fold(text))

    def get(self, identifier: str) -> Value:
        """The value with this canonical identifier; KeyError when there is none."""
        return self._names["en"][identifier]


def fold(text: str) -> str:
    """Case and white space do not distinguish names.

    >>> fold("  Reflection  of Feelings ")
    'reflection of feelings'
    """
    return " ".join(text.split()).casefold()


#: label name -> vocabulary, for every label with named values (intensity is a digit)
VOCABULARIES: dict[str, Vocabulary] = {
    label: Vocabulary(label, values)
    for label, values in from_json(
        Path(__file__).with_suffix(".json").read_bytes(), dict[str, tuple[Value, ...]]
    ).items()
}
STAGES, SENTIMENTS = VOCABULARIES["stage"], VOCABULARIES["sentiment"]
EMOTIONS, STRATEGIES = VOCABULARIES["emotion"], VOCABULARIES["strategy"]

INTENSITIES: tuple[int, ...] = (1, 2, 3, 4, 5)
INTENSITY_DEFINITIONS: dict[Language, dict[int, str]] = {
    "en": {1: "barely there", 2: "mild", 3: "clear", 4: "strong", 5: "overwhelming"},
    "zh": {1: "几乎没有", 2: "轻微", 3: "明显", 4: "强烈", 5: "难以承受"},
}


def sentiment_of(emotion: str) -> str:
    """The sentiment an emotion usually carries.

    >>> sentiment_of("anxiety"), sentiment_of("relief"), sentiment_of("surprise")
    ('negative', 'positive', 'neutral')
    """
    return EMOTIONS.get(emotion).sentiments[0]


def fits(emotion: str, sentiment: str) -> bool:
    """Whether this emotion can carry this sentiment.

    >>> fits("confusion", "negative"), fits("joy", "negative")
    (True, False)
    """
    return sentiment in EMOTIONS.get(emotion).sentiments


_HAN = re.compile(r"[㐀-鿿]")
_WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)?")


def detect(text: str) -> Language:
    """Chinese when it has at least as many Chinese characters as Latin words.

    >>> detect("I lost my job."), detect("我丢了工作，HR 今天通知的")
    ('en', 'zh')
    """
    han = len(_HAN.findall(text))
    return "zh" if han and han >= len(_WORD.findall(text)) else "en"


def words(text: str) -> list[str]:
    """Words as the paper counts length: Latin words, and each Chinese character for one.

    >>> words("It's 5 am, 睡不着")
    ["It's", '5', 'am', '睡', '不', '着']
    """
    return re.findall(r"[㐀-鿿]|[A-Za-z0-9]+(?:['’][A-Za-z]+)?", text)
