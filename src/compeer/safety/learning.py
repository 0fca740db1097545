"""Teaching the linear model: `python -m compeer.safety.learning` reads `examples/*.tsv`, and ordinary messages from the
corpora in $COMPEER_DATA, and writes `words/learned.npz`.

The examples were written for this by a language model: wishes and plans, hints, third persons, means, past, danger; and
as many messages that share their words and mean no harm. No clinician has reviewed them. The red-team set that
`compeer eval safety` measures with was written apart from them.

The threshold comes from five-fold cross-validation over the examples: a share FALSE of the harmless ones reaches it.
They are harder than life, since many were written to sound like a risky one; how large the share may be was read off
the development half of the red-team set.
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
from compeer.safety.learned import BUCKETS, WEIGHTS, vector

FALSE = {"en": 0.08, "zh": 0.08}  # chosen on the development half of the red-team set
OFTEN = 0.02  # of ordinary talk
HARMLESS = ("none", "talk")
TALK = 2500
FOLDS = 5
STRENGTH = 10.0


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


def teach(language: str, rows: Sequence[tuple[str, str]]) -> tuple[dict[str, Any], dict[str, float]]:
    """The arrays to store, and how much of each kind is noticed in cross-validation at the watch threshold."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    from compeer.safety.screen import lexicon_finding

    kinds = np.array([kind for kind, _ in rows])
    risky = np.isin(kinds, HARMLESS, invert=True).astype(int)
    indices: list[int] = []
    values: list[float] = []
    starts = [0]
    for _, text in rows:
        found = {f"{span.kind} {span.level}" for span in lexicon_finding(text, language).spans}
        made = vector(fold(text).text, language, found)
        indices += made.keys()
        values += made.values()
        starts.append(len(indices))
    matrix = csr_matrix((values, indices, starts), shape=(len(rows), BUCKETS))

    def fitted(places: Any) -> Any:
        model = LogisticRegression(C=STRENGTH, class_weight="balanced", solver="liblinear")
        return model.fit(matrix[places], risky[places])

    sums = np.zeros(len(rows))
    for learn, look in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(matrix, kinds):
        sums[look] = fitted(learn).decision_function(matrix[look])
    limits = (("none", FALSE[language]), ("talk", OFTEN))
    watch = max(float(np.quantile(sums[kinds == kind], 1 - share)) for kind, share in limits)
    model = fitted(np.arange(len(rows)))
    weights = model.coef_[0]
    scale = float(np.abs(weights).max()) / 127
    numbers = np.array([scale, float(model.intercept_[0]), watch])
    arrays = {f"{language}_weights": np.round(weights / scale).astype(np.int8), f"{language}_numbers": numbers}
    return arrays, {str(kind): float((sums[kinds == kind] > watch).mean()) for kind in dict.fromkeys(kinds)}


def main() -> None:
    data = Path(os.environ["COMPEER_DATA"])
    arrays: dict[str, Any] = {}
    for language in ("en", "zh"):
        rows = examples(language) + [("talk", text) for text in talk(language, data)]
        made, noticed = teach(language, rows)
        arrays |= made
        print(language, len(rows), {kind: round(share, 2) for kind, share in noticed.items()})
    target = Path(str(resources.files("compeer.safety"))) / "words" / WEIGHTS
    np.savez_compressed(target, **arrays)
    print(f"{target}: {target.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
