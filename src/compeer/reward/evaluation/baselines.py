"""What a judge has to beat: judges that read nothing, and a linear probe over sentence embeddings.

`always_true` calls every step True and every pair almost good: it pays everyone the full reward. `majority` says the
most frequent label of each question; with the labels of the test set itself it is the best possible without reading.

The probe embeds the turns of the history, the steps and the replies with the small packaged embedders, and a logistic
regression with balanced classes learns each question from labelled items. For a step it sees the last message, the
mean of the history, the step, and how step and message agree; for the pair the same of both replies. With
`history=False` it sees the steps and the replies alone: what it then reaches above chance, the texts give away without
the conversation, and a judge may have learnt that instead of judging.

No item is judged by a probe that has seen its dialogue: where training items share dialogues with the items to judge,
the dialogues are split in five and each part is judged by a probe fitted without it. Each language has its own probe,
because the embedders have different spaces.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from compeer.cer.item import QUESTIONS, Item, Preference, Question
from compeer.cer.rewrite import origin
from compeer.errors import UserError
from compeer.models.embedding import Embed, Embedder
from compeer.reasoning import STEPS, render_step
from compeer.reasoning.ontology import Language
from compeer.reward.evaluation.folder import EvaluationFolder, JudgeEntry, items_sha256
from compeer.reward.evaluation.measure import by_label_source
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict
from compeer.reward.verdict import PREFERENCES
from compeer.statistics import Floats

Embedders = Callable[[Language], Embed]
TEXT_ONLY = "text-only probe"  # the names of probes without the history begin with this
_FOLDS = 5


def always_true(items: Iterable[Item]) -> dict[str, Judgement]:
    """Every step True, every reply as good as the reference."""
    yes = StepVerdict(True)
    return {item.id: constant(item.id, (yes, yes, yes), "both") for item in items}


def majority(items: Iterable[Item], labelled: Sequence[Item]) -> dict[str, Judgement]:
    """The most frequent label of `labelled`, for every item; a tie goes to True, and to the first preference."""
    first, second, third = (_commonest(labelled, step) for step in STEPS)
    votes = Counter(item.labels.preference for item in labelled if item.labels.preference is not None)
    choice = max(PREFERENCES, key=lambda name: votes[name])
    return {item.id: constant(item.id, (first, second, third), choice) for item in items}


def constant(name: str, steps: tuple[StepVerdict, StepVerdict, StepVerdict], choice: Preference) -> Judgement:
    return Judgement(id=name, complete=True, steps=steps, pairs=(PairVerdict(True, choice),))


def _commonest(labelled: Sequence[Item], step: str) -> StepVerdict:
    votes = Counter(getattr(item.labels, step) for item in labelled)
    return StepVerdict(votes[True] >= votes[False])


def add_probe(
    folder: EvaluationFolder, name: str, train: Sequence[Item], *, embedders: Embedders | None = None
) -> None:
    """Fit two linear probes on labelled items, one of them without the history, and let them judge all sets."""
    labels = sorted(by_label_source(train))
    if not labels:
        raise UserError(f"None of the items of {name} has a label, so no probe can learn from them.")
    embedders = embedders or Embedder()  # which remembers: both probes read the same texts
    known = {
        "train": name,
        "sha256": items_sha256(train),
        "items": len(train),
        "label_sources": labels,
        "folds": _FOLDS,
    }
    for history, called in ((True, f"linear probe ({name})"), (False, f"{TEXT_ONLY} ({name})")):
        folder.add_judge(JudgeEntry(name=called, role="probe", identity={**known, "history": history}))
        for set_name in folder.run.sets:
            items = folder.items(set_name)
            if set(folder.judgements(set_name, called)) >= {item.id for item in items}:
                continue
            judgements = probe(train, items, history=history, embedders=embedders)
            folder.append(set_name, called, (judgements[item.id] for item in items if item.id in judgements))


def probe(
    train: Sequence[Item], items: Sequence[Item], *, history: bool = True, embedders: Embedders
) -> dict[str, Judgement]:
    """The probe's judgements of `items`, learnt from `train`; none for a language without training items."""
    known = [item for item in train if _usable(item)]
    if not known:
        raise UserError("The training items of the probe hold no reasoning with labels; give it labelled CER items.")
    found: dict[str, Judgement] = {}
    for language in sorted({item.language for item in items}):
        asked = [item for item in items if item.language == language and _usable(item)]
        given = [item for item in known if item.language == language]
        if asked and given:
            found |= _judge(given, asked, _Features(embedders(language), [*given, *asked], history))
    return found


class _Features:
    def __init__(self, embed: Embed, items: Sequence[Item], history: bool) -> None:
        self.history = history
        said = {turn.text for item in items for turn in item.history} if history else set()
        texts = sorted(said | {text for item in items for text in _texts(item)})
        self._vectors = dict(zip(texts, embed(texts), strict=True))

    def __call__(self, items: Sequence[Item], question: Question) -> Floats:
        rows = [np.concatenate(self._row(item, question)) for item in items]
        return np.stack(rows).astype(np.float64)

    def _row(self, item: Item, question: Question) -> list[Any]:
        steps, candidate, reference = _texts(item)[:3], item.candidate, self._vectors[item.reference]
        assert candidate is not None
        if question == "preference":
            reply = self._vectors[candidate.response]
            alone = [reply, reference, np.abs(reply - reference)]
            judged = [reply, reference]
        else:
            step = self._vectors[steps[STEPS.index(question)]]
            alone, judged = [step], [step]
        if not self.history:
            return alone
        turns = [self._vectors[turn.text] for turn in item.history]
        last, mean = turns[-1], np.mean(turns, axis=0)
        return [*alone, last, mean, *(part * vector for part in (last, mean) for vector in judged)]


def _judge(train: Sequence[Item], items: Sequence[Item], features: _Features) -> dict[str, Judgement]:
    seen = {origin(item) for item in train}
    folds = sorted({_fold(item) for item in items}) if any(origin(item) in seen for item in items) else [None]
    found: dict[str, Judgement] = {}
    for fold in folds:
        asked = [item for item in items if fold is None or _fold(item) == fold]
        given = [item for item in train if fold is None or _fold(item) != fold]
        p = {question: _fitted(given, asked, question, features) for question in QUESTIONS}
        for row, item in enumerate(asked):
            found[item.id] = _judgement(item.id, {question: p[question][row] for question in QUESTIONS})
    return found


def _fitted(train: Sequence[Item], items: Sequence[Item], question: Question, features: _Features) -> list[Any]:
    """For each item the probability of each label that occurs in training; empty when none does."""
    given = [item for item in train if getattr(item.labels, question) is not None]
    labels = [getattr(item.labels, question) for item in given]
    if len(set(labels)) < 2:
        return [dict.fromkeys(labels[:1], 1.0) for _ in items]
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # strong regularisation: a few thousand numbers per item, often a few hundred items
    fit = LogisticRegression(C=0.01, class_weight="balanced", max_iter=500, random_state=0)
    model = make_pipeline(StandardScaler(), fit)
    with threadpool_limits(1 if len(given) < 5_000 else None):
        model.fit(features(given, question), np.array(labels))
        table = model.predict_proba(features(items, question))
    names = [name.item() for name in model.classes_]
    return [dict(zip(names, map(float, row), strict=True)) for row in table]


def _judgement(name: str, p: dict[Question, Any]) -> Judgement:
    first, second, third = (_verdict(p[step]) for step in QUESTIONS[:3])
    told = p["preference"]
    chances: dict[Preference, float] = {key: told.get(key, 0.0) for key in PREFERENCES} if told else {}
    choice = sorted(PREFERENCES, key=lambda key: -chances[key])[0] if chances else None
    return Judgement(id=name, complete=True, steps=(first, second, third), pairs=(PairVerdict(True, choice, chances),))


def _verdict(p: dict[bool, float]) -> StepVerdict:
    return StepVerdict(p.get(True, 0.0) >= 0.5, p.get(True, 0.0)) if p else StepVerdict()


def _usable(item: Item) -> bool:
    return bool(item.history) and item.candidate is not None and item.candidate.reasoning is not None


def _texts(item: Item) -> list[str]:
    """The three steps as they are written, the reply, the reference."""
    assert item.candidate and item.candidate.reasoning
    return [
        *(render_step(item.candidate.reasoning, step) for step in STEPS),
        item.candidate.response,
        item.reference,
    ]


def _fold(item: Item) -> int:
    """The part of the dialogues that an item belongs to; the same on every machine."""
    return hashlib.sha256(origin(item).encode()).digest()[0] % _FOLDS
