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

from compeer.corpora import avamerg, bundled, chinese, esconv, escot, mesc, open_cer, plain
from compeer.corpora.reading import CorpusError, Rejected
from compeer.dialogue import Dialogue

__all__ = ["CORPORA", "CorpusError", "Importer", "Rejected", "corpus_named", "load"]

Importer = Callable[..., Iterator[Dialogue | Rejected]]  # of a path and the corpus's own options
CORPORA: dict[str, Importer] = {
    "esconv": esconv.load,
    "failed_esconv": esconv.load_failed,
    "escot": escot.load,
    "mesc": mesc.load,
    "avamerg": avamerg.load,
    "soulchat": chinese.load_soulchat,
    "smile": chinese.load_smile,
    "cpsycoun": chinese.load_cpsycoun,
    "emollm": chinese.load_emollm,
    "bundled": bundled.load_corpus,
    "open-cer": open_cer.load_corpus,
    "plain": plain.load,
}


def corpus_named(name: str) -> Importer:
    """The importer of this corpus; CorpusError lists those that there are."""
    if name not in CORPORA:
        raise CorpusError(name, "there is no such corpus", f"Known: {', '.join(CORPORA)}")
    return CORPORA[name]


def load(name: str, path: str | Path, **options: Any) -> Iterator[Dialogue | Rejected]:
    """The dialogues of a corpus, streamed. Options that are None count as not given."""
    importer = corpus_named(name)
    given = {option: value for option, value in options.items() if value is not None}
    known = list(inspect.signature(importer).parameters)[1:]
    if unknown := sorted(set(given) - set(known)):
        takes = ", ".join(known) or "none"
        raise CorpusError(name, f"this corpus has no option {', '.join(unknown)}", f"Its options: {takes}")
    return importer(Path(path), **given)
