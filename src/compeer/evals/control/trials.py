"""What is pinned at which moment.

Moments are supporter turns of the bundled conversations, drawn with a seed, the languages in turn. At each one every
stage and every strategy is pinned once, and some emotions, in rotation so that all come up over the moments; one more
output is left free, to see what the model does by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from compeer.cer.item import Item, items_at
from compeer.corpora import bundled
from compeer.dialogue import rounds
from compeer.reasoning import Control, Pins
from compeer.reasoning.ontology import EMOTIONS, LANGUAGES, STAGES, STRATEGIES, Language

FREE = "free"


class Trial(msgspec.Struct, frozen=True):
    """One output to ask for. `label` is what is pinned ("stage", "emotion", "strategy") or "free"."""

    id: str
    moment: Item
    label: str
    value: str | None = None

    @property
    def control(self) -> Control:
        return Control(Pins.of({self.label: self.value})) if self.value else Control()


def moments(count: int, language: Language | None = None, seed: int = 0) -> list[Item]:
    """Turns that answer something the seeker said, each of another dialogue as long as there are any."""
    wanted = (language,) if language else LANGUAGES
    streams = [_shuffled(one, seed) for one in wanted]
    return [next(streams[number % len(streams)]) for number in range(count)]


def trials(count: int, emotions: int, language: Language | None = None, seed: int = 0) -> list[Trial]:
    """The outputs to ask for; `count` moments, `emotions` of the emotions at each."""
    found: list[Trial] = []
    for number, moment in enumerate(moments(count, language, seed)):
        names = EMOTIONS.ids
        some = [names[(number * emotions + step) % len(names)] for step in range(min(emotions, len(names)))]
        pins = [("stage", one) for one in STAGES.ids] + [("strategy", one) for one in STRATEGIES.ids]
        pins += [("emotion", one) for one in some]
        found.append(Trial(f"{number + 1}/{moment.id}/{FREE}", moment, FREE))
        found += [Trial(f"{number + 1}/{moment.id}/{label}={value}", moment, label, value) for label, value in pins]
    return found


def _shuffled(language: Language, seed: int) -> Iterator[Item]:
    """The bundled turns of a language without end: one turn of every dialogue, then a second one, and so on."""
    rng = random.Random(f"{seed} {language}")
    dialogues = sorted(bundled.load(language), key=lambda dialogue: dialogue.id)
    rng.shuffle(dialogues)
    decks = []
    for dialogue in dialogues:
        places = [one.index for one in rounds(dialogue) if one.seeker is not None]
        rng.shuffle(places)
        decks.append(items_at(dialogue, places))
    deepest = max(len(deck) for deck in decks)
    while True:
        for depth in range(deepest):
            yield from (deck[depth] for deck in decks if depth < len(deck))
