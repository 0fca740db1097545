"""Train the Chinese model of `compeer.safety.network`: `python -m runs.safety.train DATA`. The English one: `tune.py`.

Risky and harmless examples are in `examples/*.tsv` (kind, tab, text; one file per writer), written for this project by
language models. Harmless talk of people comes from DATA, the folder with the corpora, and only from those that are free
for any use:

    SMILE (CC0), CPsyCounD (CC BY 4.0), EmoLLM (MIT): messages of the seeker, whole and by the sentence

and from the train split of open CER and `examples/reader_zh_calm_{a,b}.txt`, five times over: the corpora speak long
and orderly, people type short. Without open CER half of its other Chinese conversations, all harmless, were watched and
a tenth reached high; with it 16 % and 1 %.

Messages in which the lexicon finds anything are left out. A logistic regression weighs every gram; its weights are
rounded to one byte. Thresholds (`THRESHOLDS`) were chosen by the share of harmless *conversations* with a message above
them, in conversations of the same corpora that the model had not read (each half by a model of the other).
`python -m runs.safety.train DATA --measure` prints the shares.

Needs scikit-learn and scipy; the result, `src/compeer/safety/data/network_zh.npz`, needs numpy alone.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compeer.corpora import load, open_cer
from compeer.corpora.open_cer import split_of
from compeer.dialogue import Dialogue
from compeer.safety.network import BUCKETS, pieces, vector
from compeer.safety.normalise import fold
from compeer.safety.screen import lexicon_finding

EXAMPLES = Path(__file__).parent / "examples"
TARGET = Path(__file__).parents[2] / "src" / "compeer" / "safety" / "data" / "network_zh.npz"
KINDS = ("none", "indirect", "explicit", "method", "third", "past", "danger")
#: watch, weak hint, plainly harmless
THRESHOLDS = (1.22, 0.3, -2.5)
STRENGTH = 10.0
TYPED = 5  # times that open CER's conversations are read
SENTENCES = 0.7  # share of the sentences of harmless talk that are learned from beside whole messages


def examples(language: str) -> list[tuple[str, str]]:
    """Kind and text of every example of a language."""
    rows = []
    for file in sorted(EXAMPLES.glob(f"{language}*.tsv")):
        for line in file.read_text(encoding="utf-8").splitlines():
            kind, _, text = line.partition("\t")
            if kind in KINDS and text.strip():
                rows.append((kind, text))
    return rows


def conversations(data: Path) -> list[list[str]]:
    """What seekers say in harmless conversations that may be learned from, one list per conversation."""
    found = [each for name in ("smile", "cpsycoun", "emollm") for each in _seekers(load(name, data / name))]
    typed = _seekers(one for one in open_cer.load("zh") if split_of(one.id) == "train")
    return found + (typed + calm()) * TYPED


def calm() -> list[list[str]]:
    """What people say in the harmless Chinese conversations that were written for this."""
    lines = "".join((EXAMPLES / f"reader_zh_calm_{one}.txt").read_text(encoding="utf-8") for one in "ab").splitlines()
    return [[text.removesuffix(" {N}") for text in line.split(" || ")[::2]] for line in lines if line.strip()]


def fitted(talk: Sequence[list[str]], seed: int = 0) -> Any:
    """The model, from all examples and this harmless talk."""
    from sklearn.linear_model import LogisticRegression

    rows = examples("zh")
    texts, risky = [text for _, text in rows], [kind != "none" for kind, _ in rows]
    harmless = [text for each in talk for text in each if lexicon_finding(text).level == "none"]
    alone = [piece for text in harmless for piece in pieces(text, "zh")[1:] if len(piece) > 6]
    random.Random(seed).shuffle(alone)
    harmless += alone[: int(len(alone) * SENTENCES)]
    labels = np.array([*risky, *[False] * len(harmless)])
    model = LogisticRegression(C=STRENGTH, class_weight="balanced", solver="liblinear")
    return model.fit(matrix([*texts, *harmless]), labels)


def matrix(texts: Iterable[str]) -> Any:
    """One row per text."""
    from scipy.sparse import csr_matrix

    places: list[int] = []
    values: list[float] = []
    starts = [0]
    for text in texts:
        made = vector(fold(text).text)
        places += made.keys()
        values += made.values()
        starts.append(len(places))
    return csr_matrix((values, places, starts), shape=(len(starts) - 1, BUCKETS))


def raised(model: Any, talk: Sequence[list[str]]) -> float:
    """Share of conversations without findings of the lexicon in which a message reaches the threshold."""
    calm = [each for each in talk if each and all(lexicon_finding(text).level == "none" for text in each)]
    reached = 0
    for each in calm:
        read = [piece for text in each for piece in pieces(fold(text).text, "zh")]
        reached += bool(model.decision_function(matrix(read)).max() >= THRESHOLDS[0])
    return reached / len(calm)


def main(data: Path, measure: bool = False) -> None:
    talk = conversations(data)
    if measure:
        random.Random(0).shuffle(talk)
        shares = [raised(fitted(talk[half::2]), talk[1 - half :: 2]) for half in (0, 1)]
        print("conversations not read:", [round(share, 4) for share in shares])
        return
    model = fitted(talk)
    scale = float(np.abs(model.coef_[0]).max()) / 127
    table = np.round(model.coef_[0] / scale).astype(np.int8)
    np.savez_compressed(TARGET, table=table, numbers=np.array([scale, float(model.intercept_[0]), *THRESHOLDS]))
    print(f"{len(examples('zh'))} examples, {len(talk)} harmless conversations, {TARGET.stat().st_size // 1024} KiB")


def _english(each: Any) -> bool:
    return isinstance(each, Dialogue) and each.language == "en"


def _seekers(read: Iterable[Any]) -> list[list[str]]:
    return [
        [turn.text for turn in each.utterances if turn.speaker == "seeker"]
        for each in read
        if isinstance(each, Dialogue)
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--measure" in sys.argv)
