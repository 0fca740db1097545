"""Silver labels: CER items from a corpus that people have labelled, without any model.

    items = build_silver(esconv_train, failed_esconv)

A step is True when its conclusion agrees with what people noted, and False at `false_rate` where it was exchanged
for another moment's (`wrong_steps`); the preference follows from how the reply was made (`replies`). Silver is
always marked as such. Every item's trace says where each label comes from and, for what is wrong, how and from
which moment.

From ESConv train and FailedESConv: about 10,700 items, 9,100 of them ESConv's; 22 or 23 % of each step False;
preferences about 54 % reference, 31 % both, 8 % candidate, 7 % neither. The last two need failed conversations.

These labels are weak: a judge that learned from them alone is at chance on our gold items (`docs/results.md`).
They are a way to start before anyone has labelled.

Moments trade only within a pool of dialogues of one language and corpus, so the work goes pool by pool and a
split by `trace["silver"]["pool"]` shares nothing but replies. Simpler: split the corpus first, then build.

Where we decide: a round of a failed conversation makes two items, one with a better and one with another bad
candidate. What its supporter did is no guide there; right is what people in similar moments of helpful conversations
mostly do, and there is no reference reasoning to learn from. Dialogues marked as a crisis are left out unless asked
for; the filter marks them.

`text_only` measures how much a text gives away about its label without the conversation. A judge that can tell True
from False by the wording of a step learns the wording. So a logistic regression on words and word pairs reads each step
as it is rendered, its labelled lines included, and nothing else; likewise the candidate's reply, for the sign of its
reward. It is tested on dialogues it has not seen. Chance is 0.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
import numpy as np

from compeer.cer.filter import flag
from compeer.cer.item import QUESTIONS, Candidate, Item, Labels, item_at
from compeer.cer.silver.moment import Moment, moments, size, stream
from compeer.cer.silver.replies import SilverReply, replies, tells
from compeer.cer.silver.steps import phrases, text_of, true_steps
from compeer.cer.silver.wrong_steps import Matrix, Pool, Wrong, corrupted, likelihoods, wrong_steps
from compeer.dialogue import Dialogue
from compeer.reasoning import Reasoning, render, render_step
from compeer.reasoning.ontology import STRATEGIES
from compeer.reasoning.schema import LABELS, STEPS

GENERATOR = "silver"
POOL = 180  # dialogues; an exchange among the moments of that many is quick and finds what it needs
_FOLDS = 3
_LIKELY = 2  # strategies that count as right where the supporter's own is no guide


def build_silver(
    dialogues: Sequence[Dialogue],
    failed: Sequence[Dialogue] = (),
    *,
    seed: int = 0,
    per_dialogue: int | None = None,
    n_items: int | None = None,
    false_rate: float = 0.23,
    crisis: bool = False,
    flagged: bool = False,
) -> Iterator[Item]:
    """Items for every usable round, or for `per_dialogue` rounds drawn by equation 1; at most `n_items` of them.

    Dialogues marked as not helpful count as failed wherever they stand. `flagged`: the filter has marked the
    dialogues that disclose a crisis; otherwise it is done here.
    """
    if not 0 <= false_rate <= 0.5:
        raise ValueError(f"false_rate must be between 0 and 0.5, got {false_rate}: wrong steps trade places")
    names = Counter(d.id for d in (*dialogues, *failed))
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"{twice[0]} is the id of {names[twice[0]]} dialogues; items could not be traced back")
    whole = [*(dialogues if flagged else map(flag, dialogues))]
    whole += [flag(msgspec.structs.replace(d, helpful=False)) for d in failed]
    found = [m for d in whole if crisis or not d.crisis for m in moments(d, per_dialogue, seed)]
    likely = likelihoods(found)
    bad = [m for m in found if not m.helpful and size(m.reply, m.language) > 2]
    found, rows = _judged(found, likely["strategy"])
    if n_items is not None and n_items < len(found):
        kept = sorted(stream(seed, "n_items").sample(range(len(found)), n_items))
        found, rows = [found[at] for at in kept], [rows[at] for at in kept]
    for number, members in enumerate(_pools(found, seed)):
        here = [found[at] for at in members]
        tables = {label: table[[rows[at] for at in members]] for label, table in likely.items()}
        pool = Pool(here, [true_steps(m, seed) for m in here], tables, _alike(here))
        speaking = [m for m in bad if m.language == here[0].language]
        yield from _items(pool, speaking, number, false_rate, seed)


def _judged(found: list[Moment], likely: Matrix) -> tuple[list[Moment], list[int]]:
    """Failed moments twice, with the strategies that people in such moments mostly choose; and each one's row."""
    judged: list[Moment] = []
    rows: list[int] = []
    for at, moment in enumerate(found):
        if moment.helpful:
            judged.append(moment)
            rows.append(at)
            continue
        if not tells(moment):  # nothing there that a better reply could take up
            continue
        best = [s for k in np.argsort(-likely[at]) if (s := STRATEGIES.ids[k]) in phrases("en").made][:_LIKELY]
        for letter, strategy in zip(("", "b"), best, strict=True):
            changed = msgspec.structs.replace(
                moment,
                key=moment.key + letter,
                strategies=tuple(best),
                strategy=strategy,
                written=None,  # the thoughts of someone who missed the point
                derived=moment.derived | {"strategy": "likely in such moments"},
            )
            judged.append(changed)
            rows.append(at)
    return judged, rows


def _pools(found: Sequence[Moment], seed: int) -> Iterator[list[int]]:
    """Positions of the moments that trade with each other: dialogues of one language and corpus, by chance."""

    def kind(at: int) -> tuple[str, str]:
        return found[at].language, found[at].dialogue.source

    for _, group in groupby(sorted(range(len(found)), key=kind), key=kind):
        positions = list(group)
        names = list(dict.fromkeys(found[at].dialogue.id for at in positions))
        stream(seed, "pools", *kind(positions[0])).shuffle(names)
        n_pools = max(1, round(len(names) / POOL))
        pool_of = {name: at % n_pools for at, name in enumerate(names)}
        for number in range(n_pools):
            yield [at for at in positions if pool_of[found[at].dialogue.id] == number]


def _alike(found: Sequence[Moment]) -> Matrix:
    from sklearn.feature_extraction.text import TfidfVectorizer

    analyzer = "word" if found[0].language == "en" else "char"
    words = TfidfVectorizer(sublinear_tf=True, max_df=0.5 if len(found) > 20 else 1.0, analyzer=analyzer)
    vectors = words.fit_transform([m.told for m in found])
    alike: Matrix = (vectors @ vectors.T).toarray()
    return alike


def _items(pool: Pool, failed: Sequence[Moment], number: int, false_rate: float, seed: int) -> Iterator[Item]:
    wrong = wrong_steps(pool, false_rate, stream(seed, "wrong", number))
    language = pool.moments[0].language
    texts = [{step: text_of(parts[step], language) for step in STEPS} for parts in pool.steps]
    labels = [{label: getattr(m, label) for step in STEPS for label in LABELS[step]} for m in pool.moments]
    true = [Reasoning.of(texts[at], labels[at], language) for at in range(len(texts))]
    for step in STEPS:
        for at, change in wrong[step].items():
            parts, changed = corrupted(pool, step, at, change)
            texts[at][step] = text_of(parts, language)
            labels[at] |= changed
    said = replies(pool, [str(one["strategy"]) for one in labels], failed, seed)
    for at, moment in enumerate(pool.moments):
        reasoning = Reasoning.of(texts[at], labels[at], language)
        render(reasoning, said[at].text)  # refuses what a parser would not read back
        here = {step: wrong[step][at] for step in STEPS if at in wrong[step]}
        base = item_at(moment.dialogue, moment.round)
        yield msgspec.structs.replace(
            base,
            id=f"{moment.key}/{GENERATOR}",
            reference_reasoning=true[at] if moment.helpful else None,
            candidate=Candidate(response=said[at].text, reasoning=reasoning, generator=GENERATOR),
            labels=Labels(
                history="history" not in here,
                emotion="emotion" not in here,
                strategy="strategy" not in here,
                preference=said[at].preference(moment.helpful),
            ),
            label_source="silver",
            trace={"silver": _trace(pool, moment, here, said[at], number, seed)},
        )


def _trace(
    pool: Pool, moment: Moment, wrong: dict[str, Wrong], said: SilverReply, number: int, seed: int
) -> dict[str, object]:
    return {
        "seed": seed,
        "pool": number,
        "labels_from": moment.derived,
        **{step: {"wrong": one.kind, "from": pool.moments[one.donor].key} for step, one in wrong.items()},
        "reply": {"kind": said.kind, "source": said.source, **({"from": said.donor} if said.donor else {})},
    }


class Leakage(msgspec.Struct, frozen=True):
    """Balanced accuracy from text alone."""

    history: float
    emotion: float
    strategy: float
    reply: float


def text_only(items: Sequence[Item]) -> Leakage:
    """What a classifier that never sees the history reaches, for each question."""
    found = {}
    for question in QUESTIONS:
        rows = [(item.dialogue, *_row(item, question)) for item in items if _labelled(item, question)]
        found["reply" if question == "preference" else question] = _balanced_accuracy(rows)
    return Leakage(**found)


def _labelled(item: Item, question: str) -> bool:
    candidate = item.candidate
    return candidate is not None and candidate.reasoning is not None and getattr(item.labels, question) is not None


def _row(item: Item, question: str) -> tuple[str, bool]:
    assert item.candidate and item.candidate.reasoning
    if question == "preference":
        return item.candidate.response, item.labels.preference in ("candidate", "both")
    return render_step(item.candidate.reasoning, question), bool(getattr(item.labels, question))


def _balanced_accuracy(rows: Sequence[tuple[str, str, bool]]) -> float:
    """The mean recall of both classes over all rows that were held out."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import StratifiedGroupKFold

    groups, labels = [r[0] for r in rows], np.array([r[2] for r in rows])
    if len(set(labels)) < 2 or len(set(groups)) < _FOLDS:
        return 0.5  # nothing to tell apart
    # a Chinese character is a word here; the vocabulary knows no labels, so all rows may have a say in it
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"(?u)[\u4e00-\u9fff]|\w+")
    features = words.fit_transform([r[1] for r in rows])
    told = np.zeros(len(labels), dtype=bool)
    for train, held in StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0).split(features, labels, groups):
        fit = LogisticRegression(class_weight="balanced", solver="liblinear", random_state=0)
        told[held] = fit.fit(features[train], labels[train]).predict(features[held])
    return float(balanced_accuracy_score(labels, told))
