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
from compeer.typed import from_json

__all__ = ["CORPORA", "Corpus", "CorpusError", "Rejected", "corpus_named", "load"]


class Corpus(msgspec.Struct, frozen=True):
    load: Callable[..., Iterator[Dialogue | Rejected]]
    licence: str
    language: str
    description: str
    hub: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """What the importer takes besides the path."""
        return tuple(inspect.signature(self.load).parameters)[1:]


_LOADERS: dict[str, tuple[Callable[..., Iterator[Dialogue | Rejected]], str]] = {
    "esconv": (esconv.load, esconv.LICENCE),
    "failed_esconv": (esconv.load_failed, esconv.FAILED_LICENCE),
    "escot": (escot.load, escot.LICENCE),
    "mesc": (mesc.load, mesc.LICENCE),
    "avamerg": (avamerg.load, avamerg.LICENCE),
    "soulchat": (chinese.load_soulchat, chinese.SOULCHAT_LICENCE),
    "smile": (chinese.load_smile, chinese.SMILE_LICENCE),
    "cpsycoun": (chinese.load_cpsycoun, chinese.CPSYCOUN_LICENCE),
    "emollm": (chinese.load_emollm, chinese.EMOLLM_LICENCE),
    "bundled": (bundled.load_corpus, bundled.LICENCE),
    "open-cer": (open_cer.load_corpus, open_cer.LICENCE),
    "plain": (plain.load, plain.LICENCE),
}
#: language, description and hub name of each are in corpora.json
CORPORA: dict[str, Corpus] = {
    name: Corpus(*_LOADERS[name], **about)
    for name, about in from_json(
        Path(__file__).with_name("corpora.json").read_bytes(), dict[str, dict[str, Any]]
    ).items()
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
