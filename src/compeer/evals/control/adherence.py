"""Pins asked of a model, and how many were kept.

Every output is asked for once and taken as it comes: a second try would hide what is measured. An output that never
came is no failure of control and is counted apart. Intervals resample moments, since outputs at one moment are alike.

What is pinned at which moment.

Moments are supporter turns of the bundled conversations, drawn with a seed, the languages in turn. At each one every
stage and every strategy is pinned once, and some emotions, in rotation so that all come up over the moments; one more
output is left free, to see what the model does by itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from compeer.cer.item import Item, chat_history, items_at
from compeer.corpora import bundled
from compeer.dialogue import rounds
from compeer.evals.result import Said, Transcript
from compeer.models import Answer, Failure, Model, ask_all, request_for
from compeer.reasoning import Control, Parsed, Pins, parse, violations
from compeer.reasoning.ontology import EMOTIONS, LANGUAGES, STAGES, STRATEGIES, Language
from compeer.reasoning.prompt import Length
from compeer.statistics import Figure, Resamples, interval

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


class Tried(msgspec.Struct, frozen=True):
    """A trial with what came of it. `kept` is None where nothing was pinned or no answer came."""

    trial: Trial
    raw: str | None
    parsed: Parsed | None
    kept: bool | None
    failure: str | None = None

    @property
    def complete(self) -> bool | None:
        return self.parsed.complete if self.parsed else None


async def ask_trials(
    model: Model,
    wanted: Sequence[Trial],
    *,
    grammar: bool = True,
    length: Length = "full",
    concurrency: int = 16,
    temperature: float = 0.7,
    max_tokens: int = 2000,
    seed: int = 0,
    watch: Callable[[int], None] | None = None,
) -> list[Tried]:
    """Ask the model for every trial's output."""
    requests = [
        request_for(
            chat_history(trial.moment),
            trial.moment.language,
            trial.control,
            length=length,
            grammar=grammar,
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed + number,
        )
        for number, trial in enumerate(wanted)
    ]
    done = 0

    def answered(_: int, __: Answer | Failure) -> None:
        nonlocal done
        done += 1
        if watch:
            watch(done)

    answers = await ask_all(model, requests, concurrency, answered)
    return [judged(trial, answer) for trial, answer in zip(wanted, answers, strict=True)]


def judged(trial: Trial, answer: Answer | Failure) -> Tried:
    """Whether the output is complete and keeps its pin."""
    if isinstance(answer, Failure):
        return Tried(trial, None, None, None, answer.reason)
    parsed = parse(answer.text)
    kept = not violations(parsed, trial.control) if trial.value else None
    return Tried(trial, answer.text, parsed, kept)


def figures(tried: Sequence[Tried], seed: int = 0) -> list[Figure]:
    """Adherence over all pins and for each label, completeness, and how many outputs never came."""
    found = [share("adherence", [(one.trial.moment.id, one.kept) for one in tried], seed)]
    for label in dict.fromkeys(one.trial.label for one in tried if one.trial.label != FREE):
        rows = [(one.trial.moment.id, one.kept) for one in tried if one.trial.label == label]
        found.append(share(f"adherence/{label}", rows, seed))
    found.append(share("completeness", [(one.trial.moment.id, one.complete) for one in tried], seed))
    found.append(Figure("failures", sum(one.failure is not None for one in tried), n=len(tried)))
    return found


def share(name: str, rows: Sequence[tuple[str, bool | None]], seed: int = 0) -> Figure:
    """The share of rows that hold; those that are None are left out. The interval resamples the groups.

    Where all hold, or none does, resampling finds nothing else and would feign certainty: there is no interval.

    >>> share("x", [("a", True), ("b", True), ("b", None)])
    Figure(name='x', value=1.0, low=None, high=None, n=2)
    """
    known = [(group, holds) for group, holds in rows if holds is not None]
    if not known:
        return Figure(name)
    resamples = Resamples([group for group, _ in known], seed=seed)
    values = np.array([holds for _, holds in known], dtype=np.float64)
    mixed = 0 < values.mean() < 1 and resamples.groups > 1
    found = interval(resamples.mean(values)) if mixed else None
    low, high = found or (None, None)
    return Figure(name, float(values.mean()), low, high, len(known))


def transcript(tried: Tried) -> Transcript:
    """The moment with the output, for a reader."""
    said = tuple(Said(turn.speaker, turn.text) for turn in tried.trial.moment.history)
    reply = tried.parsed.response if tried.parsed else ""
    raw = (tried.raw or "").rstrip()
    note = "; ".join(tried.parsed.problems) if tried.parsed else f"no answer: {tried.failure}"
    thought = raw[: len(raw) - len(reply)] if reply and raw.endswith(reply) else raw
    own = Said("supporter", reply, reasoning=thought or None, note=note or None)
    scores: dict[str, float | None] = {"completeness": _number(tried.complete)}
    if tried.trial.value:
        scores |= {"adherence": _number(tried.kept)}
    pinned = f"{tried.trial.label}={tried.trial.value}" if tried.trial.value else "nothing"
    end = "kept" if tried.kept else None if tried.kept is None else "not kept"
    return Transcript(tried.trial.id, tried.trial.moment.language, (*said, own), scores, end=end, about={"pin": pinned})


def _number(holds: bool | None) -> float | None:
    return None if holds is None else float(holds)
