"""Open CER: our own conversations and moments in a plain voice, with three-step reasoning, free for any use.

    for dialogue in load("en"):
        ...

    for answer in contrasts():     # the same moment answered under another strategy
        answer.of, answer.strategy, answer.reply

Files beside this one: whole dialogues (en-*.jsonl, zh-*.jsonl), single moments (en1 to en3, zh1), `contrast-*.jsonl`,
`correction-*.jsonl` (a model's own answer to a moment, mended by an author), `items-*.jsonl.gz` (answers of models and
authors with four labels each) and `crisis-*.jsonl`, which is never learned from. `pictures-*.jsonl` are conversations
in which the person sends a picture (`pictures/`); a model that cannot see must not learn to answer them, so they come
only when they are asked for. `attacks.jsonl` are CER items with bad answers. `rated-*.jsonl` are replies of the 1.5B
base to moments of the train split, rated by two blind readers. `everyday-*.jsonl` are the small moments of a chat (a
hello, thanks, good news, an insult) with an author's reply and what the base says there.

Language models wrote them under a written guide, the second part for the cells of a plan (`runs/open_cer/grid`);
dialogues were read turn by turn by another one, which kept, edited or dropped each row (`second_reader`; counts in
`readings/`). Rows without `second_reader` have had none. No person and no clinician has checked anything. Facts about
laws, money and medicine were written from memory. The supporter is a program and claims no life of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from compeer.corpora.reading import CorpusError
from compeer.dialogue import Dialogue, Steps, Utterance, read_rows
from compeer.dialogue.jsonl import with_full_image_paths
from compeer.reasoning import Reasoning
from compeer.reasoning.ontology import LANGUAGES, Language

LICENCE = "CC BY 4.0"
FOLDER = Path(__file__).parent


def split_of(dialogue: str) -> str:
    """train, valid or test, by the dialogue's name alone, so that what is added later moves nothing: about 60, 16 and
    24 % of the dialogues. Nothing is learned from the last two."""
    place = int(hashlib.sha256(f"open-cer {dialogue}".encode()).hexdigest()[:8], 16) / 2**32
    if place < 0.21 or place >= 0.97:
        return "test"
    return "valid" if place < 0.355 or place >= 0.95 else "train"


class WrittenConversation(msgspec.Struct, frozen=True):
    """A conversation as it was written. `second_reader`: kept, edited or dropped."""

    id: str
    language: Language
    utterances: tuple[Utterance, ...]
    situation: str | None = None
    second_reader: str = ""
    edits: str = ""


class WrittenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Three steps with their labels, and the reply."""

    history_step: str
    stage: str
    emotion_step: str
    sentiment: str
    emotion: str
    intensity: int
    strategy_step: str
    strategy: str
    reply: str
    second_reader: str = ""
    edits: str = ""

    @property
    def steps(self) -> Steps:
        return Steps(history=self.history_step, emotion=self.emotion_step, strategy=self.strategy_step)

    @property
    def labels(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("stage", "sentiment", "emotion", "intensity", "strategy")}


class WrittenMoment(WrittenAnswer, frozen=True, kw_only=True):
    """A single moment: what was said, and the answer."""

    language: Language
    history: tuple[dict[str, str], ...]


class Contrast(msgspec.Struct, frozen=True):
    """Another good answer to a moment. `of`: dialogue and round, `en-a-02#4` for `open-cer/en-a-02#4`."""

    of: str
    strategy: str
    strategy_step: str
    reply: str
    second_reader: str = ""
    edits: str = ""


class Correction(WrittenAnswer, frozen=True, kw_only=True):
    """A model's own answer to a moment (`answer`), and the same answer mended by an author. `of`: dialogue and round.
    `changed`: none, little or much. `generator`: the model that answered."""

    of: str
    generator: str
    answer: str
    changed: str

    def reasoning(self, language: Language) -> Reasoning:
        return Reasoning.of(msgspec.structs.asdict(self.steps), self.labels, language)


class RatedReply(msgspec.Struct, frozen=True):
    """A reply of a model, and what each reader gave it, 1 to 5."""

    text: str
    ratings: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.ratings) / len(self.ratings)


class RatedMoment(msgspec.Struct, frozen=True):
    """Replies of one model to a moment. `of`: dialogue and round. `generator`: the model, prompted by default."""

    of: str
    generator: str
    replies: tuple[RatedReply, ...]


def rated(language: Language | None = None) -> Iterator[RatedMoment]:
    """A model's own replies to moments, rated by blind readers, in one language or in both."""
    for path in _files("rated-", language):
        yield from read_rows(path, RatedMoment)


class EverydayMoment(msgspec.Struct, frozen=True):
    """A small moment, all of it for training: what was said, an author's reply, and the base's own replies."""

    id: str
    language: Language
    messages: tuple[dict[str, str], ...]
    reference: str
    answers: tuple[str, ...] = ()


def everyday(language: Language | None = None) -> Iterator[EverydayMoment]:
    """Everyday moments with an author's reply, in one language or in both."""
    for path in _files("everyday-", language):
        yield from read_rows(path, EverydayMoment)


def _files(kind: str, language: Language | None) -> Iterator[Path]:
    for one in LANGUAGES if language is None else (language,):
        yield from sorted(FOLDER.glob(f"{kind}{one}*.jsonl"))


def corrections(language: Language | None = None) -> Iterator[Correction]:
    """Answers of a model that an author has mended, in one language or in both."""
    for path in _files("correction-", language):
        yield from read_rows(path, Correction)


def contrasts(language: Language | None = None) -> Iterator[Contrast]:
    """Answers under other strategies, in one language or in both; history and emotion step are those of the moment."""
    for path in _files("contrast-", language):
        yield from (row for row in read_rows(path, Contrast) if row.second_reader != "dropped")


def load(language: Language | None = None, *, crisis: bool = False, pictures: bool = False) -> Iterator[Dialogue]:
    """The dialogues, in one language or in both; with `crisis` those that are never learned from, and no others.

    With `pictures` those in which a picture is sent, and no others; the pictures have full paths.
    """
    kind = "crisis-" if crisis else "pictures-" if pictures else ""
    for path in _files(kind, language):
        yield from _read(path, crisis)


def load_corpus(path: Path, language: Language | None = None, split: str | None = None) -> Iterator[Dialogue]:
    """The importer. `path` is unused: the files lie beside this one. Splits: text (default), pictures, all."""
    if split not in (None, "text", "pictures", "all"):
        raise CorpusError("open-cer", f"there is no split {split}", "Splits: text, pictures, all")
    if split != "pictures":
        yield from load(language)
    if split in ("pictures", "all"):
        yield from load(language, pictures=True)


def _read(path: Path, crisis: bool) -> Iterator[Dialogue]:
    whole = "-" in path.stem.removeprefix("crisis-")  # en-a: conversations; en1: moments
    if whole:
        for row in read_rows(path, WrittenConversation):
            if row.second_reader != "dropped":
                read = bool(row.second_reader)
                found = _dialogue(f"open-cer/{row.id}", row.language, row.utterances, row.situation, crisis, read)
                yield with_full_image_paths(found, "utterances", FOLDER)
        return
    for number, moment in enumerate(read_rows(path, WrittenMoment), start=1):
        if moment.second_reader != "dropped":
            yield _dialogue(f"open-cer/{path.stem}-{number:02d}", moment.language, _turns(moment), None, crisis, True)


def _dialogue(
    name: str, language: Language, utterances: tuple[Utterance, ...], situation: str | None, crisis: bool, read: bool
) -> Dialogue:
    return Dialogue(
        id=name,
        source="open-cer",
        licence=LICENCE,
        language=language,
        utterances=utterances,
        situation=situation,
        helpful=True,
        crisis=crisis,
        extra={"voice": "plain", "author": "language model, second reader: " + ("language model" if read else "none")},
    )


def _turns(moment: WrittenMoment) -> tuple[Utterance, ...]:
    said = [
        Utterance(speaker="seeker" if turn["role"] == "user" else "supporter", text=turn["content"])
        for turn in moment.history
    ]
    return (*said, Utterance(speaker="supporter", text=moment.reply, reasoning=moment.steps, **moment.labels))
