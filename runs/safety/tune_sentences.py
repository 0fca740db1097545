"""Train what works on sentence vectors, for both languages.

    python -m runs.safety.tune_sentences ROWS DATA [OUT.npz]       the reader of conversations, and questions
    python -m runs.safety.tune_sentences questions ROWS DATA       questions alone, into the shipped file

ROWS is the folder that `runs.safety.reader_rows` writes, DATA the folder with the corpora. Four texts of a conversation
(`network.conversation_texts`) become vectors by the multilingual Universal Sentence Encoder (Apache-2.0), which stays
as it is; a layer of 256 and five sums after it are learned here. Eight minutes on a busy core, mostly for vectors.

Learned from: train-*.jsonl (written for this, and opened sets); single examples of `examples/*.tsv`, half of them after
harmless talk; and as harmless talk the train split and four fifths of the everyday moments of open CER, and in Chinese
half of SMILE (CC0), CPsyCounD (CC BY 4.0) and EmoLLM (MIT). Nothing of ESConv. At the end it prints how well dev.jsonl
is told apart, and how many harmless conversations that were not learned from reach which probability of high, emergency
and other danger together.

Questions: whether a supporter's sentence asks about safety, and what (`network.ASKS`), by a linear classifier. Every
supporter's sentence of ROWS was read by a language model; those that ask stand in `examples/questions_*.tsv`. Harmless
ones are all others, and questions of supporters in open CER, SMILE, CPsyCounD and EmoLLM.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from runs.safety.train import examples
from runs.safety.tune import in_steps
from runs.safety.tune_reader import LEVELS

from compeer.corpora import load, open_cer
from compeer.corpora.open_cer import split_of
from compeer.dialogue import Dialogue
from compeer.safety import lexicon_finding
from compeer.safety.network import ASKS, conversation_texts, question_sentences, sentence_vectors

TARGET = Path(__file__).parents[2] / "src" / "compeer" / "safety" / "data" / "network_sentences.npz"
WIDTH, ROUNDS, SIZE, RATE, DROP = 256, 10, 128, 2e-3, 0.4
#: how much of each level a single example is, by its kind
SOFT = {
    "none": (1.0, 0.0, 0.0, 0.0, 0.0),
    "indirect": (0.0, 0.4, 0.6, 0.0, 0.0),
    "explicit": (0.0, 0.0, 0.85, 0.15, 0.0),
    "method": (0.0, 0.15, 0.85, 0.0, 0.0),
    "third": (0.1, 0.8, 0.0, 0.1, 0.0),
    "past": (0.8, 0.2, 0.0, 0.0, 0.0),
    "danger": (0.0, 0.0, 0.0, 0.0, 1.0),
}
#: weights of rows: written conversations and opened sets, open CER, corpora, single examples
WRITTEN, TYPED, CORPORA, SINGLE = 2.0, 1.0, 0.7, 0.35
Talk = list[dict[str, str]]
#: everyday moments of open CER that tell of possible harm at home
UNCALM = frozenset({"da-en-088", "db-en-038", "db-en-099"})


def _talk(dialogue: Dialogue) -> Talk:
    return [{"role": "user" if u.speaker == "seeker" else "assistant", "content": u.text} for u in dialogue.utterances]


def _calm(talk: Talk) -> bool:
    return all(lexicon_finding(one["content"]).level == "none" for one in talk if one["role"] == "user")


def harmless(language: str, data: Path) -> tuple[list[Talk], list[Talk], list[Talk], list[Talk]]:
    """Open CER to learn from and to measure on, corpora to learn from and to measure on."""
    typed: dict[bool, list[Talk]] = {True: [], False: []}
    for dialogue in open_cer.load(language):  # type: ignore[arg-type]
        if _calm(_talk(dialogue)):
            typed[split_of(dialogue.id) == "train"].append(_talk(dialogue))
    for moment in open_cer.everyday(language):  # type: ignore[arg-type]
        talk = [dict(one) for one in moment.messages]
        if moment.id not in UNCALM and _calm(talk):
            typed[hashlib.sha256(moment.id.encode()).digest()[0] % 5 > 0].append(talk)
    others: list[Talk] = []
    for name in ("smile", "cpsycoun", "emollm") if language == "zh" else ():
        each = [one for one in load(name, data / name) if isinstance(one, Dialogue)]
        random.Random(0).shuffle(each)
        others += [talk for talk in map(_talk, each[:400]) if _calm(talk)]
    return typed[True], typed[False], others[::2], others[1::2]


def _ends(talk: Talk) -> list[int]:
    return [at for at, one in enumerate(talk) if one["role"] == "user"]


class Vectors:
    """Vectors of texts, each computed once."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {"": np.zeros(512, dtype=np.float32)}

    def __call__(self, talks: Iterable[Sequence[dict[str, str]]]) -> Any:
        parts = [conversation_texts(talk) for talk in talks]
        new = sorted({text for part in parts for text in part} - self._known.keys(), key=len)
        for at in range(0, len(new), 256):
            self._known |= zip(new[at : at + 256], sentence_vectors(new[at : at + 256]), strict=True)
        return torch.tensor(np.stack([np.concatenate([self._known[text] for text in part]) for part in parts]))


def learned(language: str, folder: Path, vectors: Vectors, calm: list[Talk], others: list[Talk]) -> Any:
    """The network of a language."""
    chance = random.Random(0)
    talks: list[Talk] = []
    wanted: list[Sequence[float]] = []
    weights: list[float] = []

    def add(talk: Talk, level: Sequence[float], weight: float) -> None:
        talks.append(talk)
        wanted.append(level)
        weights.append(weight)

    for file in sorted(folder.glob("train-*.jsonl")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            if row["language"] == language:
                sure = [float(level == row["level"]) for level in LEVELS]
                add(row["messages"], sure, 1.0 if row["source"] == "single" else WRITTEN)
    for talk in calm:
        for at in _ends(talk):
            add(talk[: at + 1], SOFT["none"], TYPED)
    for talk in others:
        for at in chance.sample(_ends(talk), min(4, len(_ends(talk)))):
            add(talk[: at + 1], SOFT["none"], CORPORA)
    for kind, text in examples(language):
        talk = chance.choice(calm)
        ends = [at + 1 for at, one in enumerate(talk) if one["role"] == "assistant"] or [0]
        end = chance.choice(ends) if chance.random() < 0.5 else 0
        add([*talk[max(0, end - 4) : end], {"role": "user", "content": text}], SOFT[kind], SINGLE)
    given, levels, weight = vectors(talks), torch.tensor(wanted), torch.tensor(weights)
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(given.shape[1], WIDTH), torch.nn.ReLU(), torch.nn.Dropout(DROP), torch.nn.Linear(WIDTH, 5)
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.02)
    order = np.random.default_rng(0)
    for turn in range(ROUNDS):
        for part in np.array_split(order.permutation(len(talks)), len(talks) // SIZE):
            sums = network(given[part] * 6).log_softmax(1)
            loss = -((sums * levels[part]).sum(1) * weight[part]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - (turn + 1) / ROUNDS)
    print(language, len(talks), "rows", flush=True)
    return network.eval()


def measured(network: Any, vectors: Vectors, dev: list[dict[str, Any]], calm: dict[str, list[Talk]]) -> None:
    """Print how well levels are told apart, and how many harmless conversations reach which probability."""
    from sklearn.metrics import roc_auc_score

    def odds(talks: list[Talk]) -> Any:
        with torch.no_grad():
            return network(vectors(talks) * 6).softmax(1).numpy()

    found = odds([row["messages"] for row in dev])
    grave = found[:, 2:].sum(1)
    levels = np.array([row["level"] for row in dev])
    sides = np.isin(levels, ("high", "emergency", "other danger")), levels == "none"
    both = np.concatenate([grave[side] for side in sides])
    print("area", round(float(roc_auc_score([True] * sides[0].sum() + [False] * sides[1].sum(), both)), 3))
    for name, talks in calm.items():
        most = np.array([odds([t[: at + 1] for at in _ends(t)])[:, 2:].sum(1).max() for t in talks if t])
        print(name, {at: round(float((most >= at).mean()), 3) for at in (0.5, 0.6, 0.7, 0.8, 0.9)} if len(most) else "")
    for level in LEVELS:
        here = grave[levels == level]
        print(level, len(here), {at: round(float((here >= at).mean()), 2) for at in (0.5, 0.6, 0.7, 0.8, 0.9)})


def questions(folder: Path, data: Path) -> dict[str, Any]:
    """Weights of the classifier of questions about safety; a fifth of the texts is measured on first."""
    from sklearn.linear_model import LogisticRegression

    labels: dict[str, str] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            labels |= {" ".join(one["content"].split()): "none" for one in row["messages"] if one["role"] != "user"}
    for file in sorted((Path(__file__).parent / "examples").glob("questions_*.tsv")):
        labels |= dict(line.split("\t")[::-1] for line in file.read_text(encoding="utf-8").splitlines())
    asked = {text: label for text, label in labels.items() if question_sentences(text)}
    calm = {u.text for one in ("en", "zh") for d in open_cer.load(one) for u in d.utterances if u.speaker != "seeker"}
    for name in ("smile", "cpsycoun", "emollm"):
        each = [one for one in load(name, data / name) if isinstance(one, Dialogue)]
        random.Random(0).shuffle(each)
        calm |= {u.text for d in each[:150] for u in d.utterances if u.speaker != "seeker"}
    asked = dict.fromkeys((text for text in sorted(calm) if question_sentences(text)), "none") | asked
    texts = sorted(asked)
    given = np.concatenate([_question_vectors(texts[at : at + 256]) for at in range(0, len(texts), 256)])
    wanted = np.array([asked[text] for text in texts])
    held = np.array([hashlib.sha256(text.encode()).digest()[0] % 5 == 0 for text in texts])
    for part in (~held, np.ones_like(held)):
        model = LogisticRegression(C=10, max_iter=1000).fit(given[part], wanted[part])
        if part.all():
            break
        none = model.predict_proba(given[held])[:, list(model.classes_).index("none")]
        truth = wanted[held] != "none"
        print("questions", len(texts), {at: [round(float((none[side] < 1 - at).mean()), 3) for side in (truth, ~truth)]
                                        for at in (0.5, 0.6, 0.7, 0.8, 0.9)})  # fmt: skip
    order = [list(model.classes_).index(one) for one in ASKS]
    return {"questions_w": model.coef_[order].astype(np.float16), "questions_b": model.intercept_[order]}


def _question_vectors(texts: list[str]) -> Any:
    asked = [question_sentences(text)[-1][-200:] for text in texts]
    return np.concatenate([sentence_vectors([text[-200:] for text in texts]), sentence_vectors(asked)], axis=1)


def main() -> None:
    alone = sys.argv[1] == "questions"
    folder, data = (Path(one) for one in sys.argv[1 + alone :][:2])
    kept: dict[str, Any] = questions(folder, data)
    if alone:
        with np.load(TARGET) as before:
            kept = dict(before) | kept
        np.savez_compressed(TARGET, **kept)
        return
    for language in ("en", "zh"):
        vectors = Vectors()
        calm, calm_held, others, others_held = harmless(language, data)
        network = learned(language, folder, vectors, calm, others)
        dev = [row for row in map(json.loads, (folder / "dev.jsonl").open()) if row["language"] == language]
        measured(network, vectors, dev, {"open CER": calm_held, "corpora": others_held})
        inner, last = network[0], network[3]
        kept[f"{language}_inner_w"], kept[f"{language}_inner_w#"] = in_steps(inner.weight.detach().numpy(), 127)
        for name, value in ((f"{language}_inner_b", inner.bias), (f"{language}_last_w", last.weight)):
            kept[name] = value.detach().numpy()
        kept[f"{language}_last_b"] = last.bias.detach().numpy()
    np.savez_compressed(Path(sys.argv[3]) if len(sys.argv) > 3 else TARGET, **kept)


if __name__ == "__main__":
    main()
