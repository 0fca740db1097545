"""One moment of a conversation: what had been said before a supporter's turn, and what people noted about it.

Every label comes from people or is derived from what they noted, and `derived` says which:

- emotion: of the seeker's last utterance, or as read at the supporter's turn (our corpus), or of the whole
  dialogue (ESConv's questionnaire), or the first emotion named in ESCoT's chain of thought.
- intensity: noted at the turn, or on the straight line between the seeker's first and last survey score. ESConv
  knows only these two numbers; what lies between is our assumption. Without any it is 3 and is never called wrong.
- strategy: the one with the most words where a merged turn has several; all of them count as right.
- stage: noted, or derived from the round's place in the conversation and its strategies (`derive_stages`).

A moment is used only when the seeker has said enough to be read (`MIN_WORDS`), and only what was said before it
may be quoted.

About stages: ESConv's framework has three, exploration, comforting, action, "generally" in this order but free to go
back, and ties strategies to them: questions and restatements explore; reflections, self-disclosure, affirmation
comfort; suggestions and information lead to action. So a round's stage is the one that its place (early, middle,
late) and the strategies around it (its own count twice its neighbours') speak for most. It is derived, not
noted by a person: the item's trace says so, and a stage is called wrong only where it is also unlikely from
what can be seen.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

import msgspec

from compeer.cer.sample import sample_rounds
from compeer.dialogue import Dialogue, Round, Steps, Turn, rounds
from compeer.reasoning.ontology import EMOTIONS, Language, sentiment_of

STAGE_OF: dict[str, str] = {
    "question": "exploration",
    "restatement or paraphrasing": "exploration",
    "reflection of feelings": "comforting",
    "self-disclosure": "comforting",
    "affirmation and reassurance": "comforting",
    "providing suggestions": "action",
    "information": "action",
}  # "others" speaks for no stage
_WINDOW = {-1: 0.5, 0: 1.0, 1: 0.5}
_PLACE_WEIGHT = 1.2  # a little more than one round's own strategy


def derive_stages(strategies: Sequence[Sequence[str]]) -> list[str]:
    """One stage a round; `strategies` holds those of each supporter turn.

    >>> derive_stages([["question"], ["question"], ["reflection of feelings"], ["providing suggestions"], ["others"]])
    ['exploration', 'exploration', 'comforting', 'action', 'action']
    """
    n = len(strategies)
    found = []
    for at in range(n):
        score = _place((at + 0.5) / n)
        for offset, weight in _WINDOW.items():
            if 0 <= at + offset < n:
                spoken = [STAGE_OF[s] for s in strategies[at + offset] if s in STAGE_OF]
                for stage in spoken:
                    score[stage] += weight / len(spoken)
        found.append(max(score, key=lambda stage: score[stage]))
    return found


def _place(share: float) -> dict[str, float]:
    """How much a place in the conversation (0 to 1) speaks for each stage."""
    return {
        "exploration": _PLACE_WEIGHT * max(0.0, 1 - share / 0.6),
        "comforting": _PLACE_WEIGHT * (1 - abs(share - 0.5) / 0.5),
        "action": _PLACE_WEIGHT * max(0.0, (share - 0.4) / 0.6),
    }


#: what the seeker must have said by then: words in English, characters in Chinese
MIN_WORDS: dict[Language, int] = {"en": 8, "zh": 12}
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_POOR = 3  # a failed conversation's reply that its seeker rated above this was not what failed


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A supporter's turn that is about to be said."""

    key: str  # dialogue#round, and a letter where one moment makes two items
    dialogue: Dialogue
    round: Round
    seeker: tuple[str, ...]  # the seeker's turns so far; the last is being answered
    words: int  # how much that is, in words or Chinese characters
    before: tuple[str, ...]  # the strategy of each earlier supporter turn
    reply: str
    strategies: tuple[str, ...]  # every one that counts as right here
    strategy: str
    stage: str
    emotion: str
    sentiment: str
    intensity: int
    written: Steps | None = None  # reasoning that came with the corpus
    helpful: bool = True
    derived: dict[str, str] = {}

    @property
    def language(self) -> Language:
        return self.dialogue.language

    @property
    def last(self) -> str:
        return self.seeker[-1]

    @property
    def told(self) -> str:
        return "\n".join(self.seeker)


def stream(seed: int, *parts: object) -> random.Random:
    """A random stream that depends on its names only, so that no part disturbs another."""
    named = sha256("\x1f".join(map(str, (seed, *parts))).encode()).digest()
    return random.Random(int.from_bytes(named[:8], "big"))


def moments(dialogue: Dialogue, per_dialogue: int | None, seed: int) -> Iterator[Moment]:
    """The usable moments of a dialogue: every one, or those that equation 1 draws."""
    answered = rounds(dialogue)
    stages = derive_stages([one.supporter.strategies for one in answered])
    found = {one.index: _moment(dialogue, one, stages[one.index - 1], len(answered)) for one in answered}
    usable = {index: moment for index, moment in found.items() if moment}
    drawn: list[int] = list(usable)
    if per_dialogue is not None:
        rng = stream(seed, "sample", dialogue.id)
        drawn = [i for i in sample_rounds(len(answered), per_dialogue, rng, min(usable, default=1)) if i in usable]
    yield from (usable[index] for index in drawn)


def _moment(dialogue: Dialogue, one: Round, stage: str, n_rounds: int) -> Moment | None:
    before, answer = one.history, one.supporter
    seeker = [turn for turn in before if turn.speaker == "seeker"]
    words = sum(size(turn.text, dialogue.language) for turn in seeker)
    if words < MIN_WORDS[dialogue.language]:
        return None
    strategy = _main_strategy(answer)
    emotion, emotion_from = _emotion(dialogue, seeker[-1], answer)
    helpful = dialogue.helpful is not False
    if strategy is None or emotion is None or (not helpful and _rated_well(dialogue, one)):
        return None
    noted = answer.utterances[-1]
    intensity, intensity_from = _intensity(dialogue, noted.intensity, one.index, n_rounds)
    return Moment(
        key=f"{dialogue.id}#{one.index}",
        dialogue=dialogue,
        round=one,
        seeker=tuple(turn.text for turn in seeker),
        words=words,
        before=tuple(s for turn in before if turn.speaker == "supporter" if (s := _main_strategy(turn))),
        reply=answer.text,
        strategies=answer.strategies,
        strategy=strategy,
        stage=noted.stage or stage,
        emotion=emotion,
        sentiment=noted.sentiment or sentiment_of(emotion),
        intensity=intensity,
        written=noted.reasoning if noted.stage and noted.emotion else None,
        helpful=helpful,
        derived={
            "stage": "noted" if noted.stage else "position and strategies",
            "emotion": emotion_from,
            "intensity": intensity_from,
        },
    )


def size(text: str, language: Language) -> int:
    """Words in English, letters in Chinese.

    >>> size("I can't sleep, at all!", "en"), size("睡不着。", "zh")
    (5, 3)
    """
    return len(_WORD.findall(text)) if language == "en" else sum(map(str.isalpha, text))


def _main_strategy(turn: Turn) -> str | None:
    """The strategy that most of the turn's words belong to."""
    words: dict[str, int] = {}
    for utterance in turn.utterances:
        if utterance.strategy:
            words[utterance.strategy] = words.get(utterance.strategy, 0) + len(utterance.text)
    return max(words, key=lambda name: words[name], default=None)


def _emotion(dialogue: Dialogue, seeker: Turn, answer: Turn) -> tuple[str | None, str]:
    if noted := answer.utterances[-1].emotion:
        return noted, "noted at the turn"
    if said := next((u.emotion for u in reversed(seeker.utterances) if u.emotion), None):
        return said, "noted at the seeker's utterance"
    if dialogue.emotion:
        return dialogue.emotion, "of the dialogue"
    thought = str((dialogue.extra.get("cot") or {}).get("emotion", ""))
    named = (EMOTIONS.find(word) for word in _WORD.findall(thought))
    return next((value.id for value in named if value), None), "named in the chain of thought"


def _intensity(dialogue: Dialogue, noted: int | None, index: int, n_rounds: int) -> tuple[int, str]:
    if noted is not None:
        return noted, "noted at the turn"
    if dialogue.intensity is None:
        return 3, "unknown"
    final = dialogue.extra.get("final_intensity") or dialogue.intensity
    share = (index - 1) / max(1, n_rounds - 1)
    return round(dialogue.intensity + (final - dialogue.intensity) * share), "between first and last survey score"


def _rated_well(dialogue: Dialogue, answered: Round) -> bool:
    """Whether the seeker, in the very next turn, rated this reply as good."""
    ratings: dict[str, int] = dialogue.extra.get("feedback") or {}
    following = answered.turns[answered.place + 1 :][:1]
    places = (turn.start + number for turn in following for number in range(len(turn.utterances)))
    return any(ratings.get(str(at), 0) > _POOR for at in places)
