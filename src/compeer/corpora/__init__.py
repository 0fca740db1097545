"""Corpora of emotional support, each turned into the one record of `compeer.dialogue`.

esconv          ESConv and FailedESConv
escot           ESCoT
mesc            MESC
avamerg         AvaMERG
chinese         SoulChatCorpus, SMILE, CPsyCounD, EmoLLM
plain           your own conversations, and our own records
bundled         our first conversations, in a literary voice
open_cer        open CER: our conversations in a plain voice, with three-step reasoning
reading         where rows come from: files, streamed; a folder; a name on the hub
records         labels looked up in the ontology, what a dialogue must have; images, sound and video by utterance
importing       an import into a file: dialogues, rejections, a summary
stats           what is in a corpus: numbers and a figure
show            a conversation to read in the terminal

    for outcome in load("esconv", Path("esconv")):
        ...                                            # a Dialogue, or Rejected with the reason
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from compeer.corpora import avamerg, bundled, chinese, esconv, escot, mesc, open_cer, plain
from compeer.corpora.reading import CorpusError, Rejected
from compeer.dialogue import Dialogue

__all__ = ["CORPORA", "Corpus", "CorpusError", "Rejected", "corpus_named", "load"]


class Corpus(msgspec.Struct, frozen=True):
    """What there is to know before an import."""

    load: Callable[..., Iterator[Dialogue | Rejected]]
    licence: str
    language: str
    description: str
    hub: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """What the importer takes besides the path."""
        return tuple(inspect.signature(self.load).parameters)[1:]


CORPORA: dict[str, Corpus] = {
    "esconv": Corpus(
        esconv.load, esconv.LICENCE, "en", "support conversations with a strategy on every reply", "thu-coai/esconv"
    ),
    "failed_esconv": Corpus(
        esconv.load_failed, esconv.FAILED_LICENCE, "en", "conversations in which the seeker was not helped"
    ),
    "escot": Corpus(escot.load, escot.LICENCE, "en", "conversations with a chain of thought before the last reply"),
    "mesc": Corpus(mesc.load, mesc.LICENCE, "en", "therapy on television, with emotions, strategies and video"),
    "avamerg": Corpus(
        avamerg.load, avamerg.LICENCE, "en", "empathetic dialogues spoken by avatars", "ZhangHanXD/AvaMERG"
    ),
    "soulchat": Corpus(
        chinese.load_soulchat,
        chinese.SOULCHAT_LICENCE,
        "zh",
        "rewritten empathetic conversations",
        "scutcyr/SoulChatCorpus",
    ),
    "smile": Corpus(chinese.load_smile, chinese.SMILE_LICENCE, "zh", "conversations grown out of PsyQA"),
    "cpsycoun": Corpus(
        chinese.load_cpsycoun, chinese.CPSYCOUN_LICENCE, "zh", "counselling reconstructed from case reports"
    ),
    "emollm": Corpus(
        chinese.load_emollm, chinese.EMOLLM_LICENCE, "zh", "short counselling conversations written by a model"
    ),
    "bundled": Corpus(
        bundled.load_corpus, bundled.LICENCE, "en, zh", "our own conversations, shipped inside; needs no path"
    ),
    "open-cer": Corpus(
        open_cer.load_corpus, open_cer.LICENCE, "en, zh", "our own conversations in a plain voice; needs no path"
    ),
    "plain": Corpus(plain.load, plain.LICENCE, "en, zh", "your own conversations, and our own records"),
}


def corpus_named(name: str) -> Corpus:
    """The corpus of this name; CorpusError lists those that there are."""
    if name not in CORPORA:
        raise CorpusError(name, "there is no such corpus", f"Known: {', '.join(CORPORA)}")
    return CORPORA[name]


def load(name: str, path: str | Path, **options: Any) -> Iterator[Dialogue | Rejected]:
    """The dialogues of a corpus, streamed. Options that are None count as not given."""
    corpus = corpus_named(name)
    given = {option: value for option, value in options.items() if value is not None}
    if unknown := sorted(set(given) - set(corpus.options)):
        takes = ", ".join(corpus.options) or "none"
        raise CorpusError(name, f"this corpus has no option {', '.join(unknown)}", f"Its options: {takes}")
    return corpus.load(Path(path), **given)
