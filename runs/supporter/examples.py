"""Round 3, without a GPU: can the prompted base be made better where it is asked? Written examples that are near the
moment, and the best of several replies by a small ranker.

    python -m runs.supporter.examples moments ESCONV_TRAIN SMILE FOLDER     draws the choice and confirming moments
    python -m runs.supporter.examples ranker DATA FOLDER                    learns the ranker from readings of round 2
    python -m runs.supporter.examples answer FOLDER choice ARM…             replies, resumable
    python -m runs.supporter.examples pick FOLDER choice                    of each four the best; for `reading sheet`
    python -m runs.supporter.reading sheet …                                the blind sheet

Arms: `base` (the default: no thinking, temperature 0.3), `near` (three written moments of open CER's train split whose
last message is nearest, shown in the instruction), `best` (four replies at temperature 0.8, the one the ranker likes
best). The rule and what came out are in `results/round-3`: neither arm is better than the base, so nothing changed.

The ranker is ridge regression on what readers gave to 1,400 replies of round 2: sentence vectors of message and reply,
their product, and a few counts (length, question marks, words taken up, stock phrases as word grams).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.cer.item import Item, chat_history, items_at, read_items
from compeer.corpora import chinese, esconv
from compeer.dialogue import Dialogue, turns
from compeer.models import Request, open_model, request_for
from compeer.models.embedding import packaged
from runs.supporter import rows as open_rows

HOW = {"max_tokens": 160, "top_p": 0.95, "penalty": 1.05, "adapter": False}
SHOWN = {
    "en": ("Replies to other people that were good. Their facts are not this person's.", "Person", "Reply"),
    "zh": ("下面是对别人的好回复。里面的事不是眼前这个人的事。", "对方", "回复"),
}
NEAR = 3


# --- moments -------------------------------------------------------------------------------------------------------


def draw(dialogues: Iterable[Dialogue], count: int, rng: random.Random, least: int, most: int) -> list[Item]:
    """One moment per dialogue, in the middle of it, where a person wrote between `least` and `most` characters last."""
    found: list[Item] = []
    chosen = list(dialogues)
    rng.shuffle(chosen)
    for dialogue in chosen:
        rounds = sum(turn.speaker == "supporter" for turn in turns(dialogue))
        places = [item for item in items_at(dialogue, range(1, rounds + 1)) if usable(item, least, most)]
        if places:
            found.append(rng.choice(places))
        if len(found) == count:
            break
    return found


def usable(item: Item, least: int, most: int) -> bool:
    return (
        2 <= len(item.history) <= 12
        and item.history[-1].speaker == "seeker"
        and least <= len(item.history[-1].text) <= most
        and 10 <= len(item.reference) <= 400
        and sum(len(turn.text) for turn in item.history) <= 2500
    )


def moments(esconv_train: Path, smile: Path, folder: Path) -> None:
    rng = random.Random(3)
    english = draw(esconv.load(esconv_train), 132, rng, 20, 400)
    chinese_ones = draw(chinese.load_smile(smile), 66, rng, 8, 160)
    parts = {"choice": english[:32] + chinese_ones[:16], "confirm": english[32:] + chinese_ones[16:]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, items in parts.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in items))
        print(name, len(items))


# --- written moments that are near ---------------------------------------------------------------------------------


class Near:
    """Written moments by the sentence vector of their last message."""

    def __init__(self) -> None:
        self.embed = packaged("zh")  # one multilingual encoder for both languages
        self.known: dict[str, tuple[list[Item], Any]] = {}

    def load(self, language: str) -> tuple[list[Item], Any]:
        if language not in self.known:
            items = [
                item
                for item in open_rows.moments()
                if item.language == language
                and open_rows.split_of(item.dialogue) == "train"
                and len(item.history[-1].text) <= (300 if language == "en" else 120)
            ]
            self.known[language] = items, unit(self.embed([item.history[-1].text for item in items]))
        return self.known[language]

    def find(self, item: Item, count: int = NEAR) -> list[Item]:
        items, vectors = self.load(item.language)
        likeness = vectors @ unit(self.embed([item.history[-1].text]))[0]
        found: list[Item] = []
        for at in np.argsort(-likeness):
            if all(items[at].dialogue != other.dialogue for other in found):
                found.append(items[at])
            if len(found) == count:
                break
        return found[::-1]  # the nearest last, beside the conversation


def unit(vectors: Any) -> Any:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def with_examples(request: Request, item: Item, near: Near) -> Request:
    title, person, reply = SHOWN[item.language]
    blocks = [f"{person}: {one.history[-1].text}\n{reply}: {one.reference}" for one in near.find(item)]
    system, *rest = request.messages
    shown = {**system, "content": "\n\n".join([system["content"], title, *blocks])}
    return msgspec.structs.replace(request, messages=[shown, *rest])


# --- the ranker ----------------------------------------------------------------------------------------------------

STOCK = re.compile(
    r"sorry to hear|important to|understandable|how can i (?:assist|help)|feel free|here to (?:help|support|listen)|"
    r"it sounds like|i understand|you'?re not alone|take care of yourself|therapist|counsel|everyone|remember that|"
    r"assist|great to hear|language model|我理解|很抱歉|重要的是|可以尝试|建议|专业|心理咨询|请记住|随时|帮助|希望你"
)


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']{3,}", text.lower())) | {
        text[at : at + 2]
        for at in range(len(text) - 1)
        if "\u4e00" <= text[at] <= "\u9fff" and "\u4e00" <= text[at + 1] <= "\u9fff"
    }


class Features:
    def __init__(self, near: Near) -> None:
        self.embed = near.embed
        self.known: dict[str, Any] = {}

    def vector(self, text: str) -> Any:
        if text not in self.known:
            self.known[text] = unit(self.embed([text or " "]))[0]
        return self.known[text]

    def of(self, item: Item, reply: str) -> Any:
        last, all_said = item.history[-1].text, " ".join(turn.text for turn in item.history)
        said, given = self.vector(last), self.vector(reply)
        theirs, ours = words(all_said), words(reply)
        own = [turn.text for turn in item.history if turn.speaker == "supporter"]
        chinese_one = item.language == "zh"
        counts = [
            len(reply) / (40 if chinese_one else 120),
            (len(reply) / (40 if chinese_one else 120)) ** 2,
            min(reply.count("?") + reply.count("？"), 2),
            float(bool(re.search(r"[?？]\s*$", reply))),
            len(theirs & ours) / max(len(ours), 1),
            len(words(last) & ours) / max(len(ours), 1),
            len(STOCK.findall(reply.lower())),
            float(said @ given),
            max((float(self.vector(one) @ given) for one in own), default=0.0),
            float(reply.count("\n") > 0),
            float(bool(re.search(r"\b(?:should|try|could|maybe|consider)\b|可以|试试|应该", reply))),
        ]
        return np.concatenate([np.array(counts), 0.5 * given, 0.5 * said * given * 8])


def ridge(x: Any, y: Any, strength: float) -> Any:
    return np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y)


def readings(results: Path, items: dict[str, Item]) -> list[tuple[Item, str, str, float]]:
    """(moment, arm, reply, mean rating) of round 2; people's own replies too."""
    answers: dict[tuple[str, str], str] = {}
    with gzip.open(results / "answers.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            from runs.supporter.reading import reply_of

            answers[row["id"], row["arm"]] = reply_of(row["output"])
    found = []
    for part in ("choice", "confirm"):
        key = json.loads((results / f"{part}-key.json").read_text("utf-8"))
        rated: dict[tuple[str, str], list[float]] = {}
        for path in sorted(results.glob(f"{part}-reader-*.jsonl")):
            for line in path.read_text("utf-8").splitlines():
                row = json.loads(line)
                for letter, value in row["ratings"].items():
                    rated.setdefault((row["id"], letter), []).append(float(value))
        for (number, letter), values in rated.items():
            moment = items.get(key[number]["id"])
            arm = key[number]["arms"][letter]
            reply = moment.reference if moment and arm == "human" else answers.get((key[number]["id"], arm))
            if moment and reply:
                found.append((moment, arm, reply, float(np.mean(values))))
    return found


def learn(data: Path, folder: Path) -> None:
    near = Near()
    features = Features(near)
    items = {item.id: item for item in open_rows.moments()}
    for dialogue in esconv.load(data / "esconv/valid.txt"):
        rounds = sum(turn.speaker == "supporter" for turn in turns(dialogue))
        items |= {item.id: item for item in items_at(dialogue, range(1, rounds + 1))}
    rated = readings(Path("runs/supporter/results/round-2"), items)
    x = np.stack([features.of(item, reply) for item, _, reply, _ in rated])
    y = np.array([rating for *_, rating in rated])
    groups = np.array([hash_of(item.dialogue) % 5 for item, *_ in rated])
    moment = np.array([item.id for item, *_ in rated])
    arms = np.array([arm for _, arm, *_ in rated])
    mean, spread = x.mean(0), x.std(0) + 1e-6
    scaled = np.hstack([(x - mean) / spread, np.ones((len(x), 1))])
    report = {"replies": len(y), "moments": len(set(moment))}
    for strength in (100.0, 300.0, 1000.0, 3000.0):
        said = np.zeros(len(y))
        for fold in range(5):
            here = groups != fold
            said[~here] = scaled[~here] @ ridge(scaled[here], y[here], strength)
        models = arms != "human"
        pairs = [
            (said[i] - said[j]) * (y[i] - y[j])
            for one in set(moment)
            for i in np.flatnonzero((moment == one) & models)
            for j in np.flatnonzero((moment == one) & models)
            if i < j and y[i] != y[j]
        ]
        report[f"ridge {strength:g}"] = {
            "pairs of a moment in the right order": round(float(np.mean(np.array(pairs) > 0)), 3),
            "correlation": round(float(np.corrcoef(said, y)[0, 1]), 3),
            "correlation, base alone": round(
                float(np.corrcoef(said[arms == "base-off"], y[arms == "base-off"])[0, 1]), 3
            ),
        }
    print(json.dumps(report, indent=1))
    best = max(
        (name for name in report if name.startswith("ridge")),
        key=lambda name: report[name]["pairs of a moment in the right order"],
    )
    weights = ridge(scaled, y, float(best.split()[1]))
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "ranker.npz", weights=weights, mean=mean, spread=spread)
    (folder / "ranker.json").write_text(json.dumps(report | {"chosen": best}, indent=1) + "\n", "utf-8")


def hash_of(text: str) -> int:
    import hashlib

    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


# --- answers -------------------------------------------------------------------------------------------------------


async def answer(folder: Path, part: str, arms: list[str]) -> None:
    items = list(read_items(folder / f"{part}.jsonl"))
    out = folder / f"{part}-answers.jsonl"
    done = (
        {(row["id"], row["arm"]) for row in map(json.loads, out.read_text("utf-8").splitlines())}
        if out.exists()
        else set()
    )
    near = Near()
    model = open_model("embedded")
    with out.open("a", encoding="utf-8") as file:
        for item in items:
            for arm in arms:
                wanted = [arm] if not arm.endswith("best") else [f"{arm}/{sample}" for sample in range(4)]
                for sample, name in enumerate(wanted):
                    if (item.id, name) in done:
                        continue
                    best = arm.endswith("best")
                    request = request_for(
                        chat_history(item), item.language, think="off", temperature=0.8 if best else 0.3,
                        seed=1 + sample, **HOW,
                    )  # fmt: skip
                    if arm.startswith("near"):
                        request = with_examples(request, item, near)
                    said = await model.ask(request)
                    row = {"id": item.id, "arm": name, "output": said.text.strip(), "read": said.usage.prompt}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                    file.flush()


def pick(folder: Path, part: str) -> None:
    """The answers as they are read: of each four the one that the ranker likes best."""
    items = {item.id: item for item in read_items(folder / f"{part}.jsonl")}
    features, learned = Features(Near()), np.load(folder / "ranker.npz")
    kept: list[dict[str, Any]] = []
    drawn: dict[str, list[str]] = {}
    for row in map(json.loads, (folder / f"{part}-answers.jsonl").read_text("utf-8").splitlines()):
        if "/" in row["arm"]:
            drawn.setdefault(row["id"], []).append(row["output"])
        else:
            kept.append({"id": row["id"], "arm": row["arm"], "output": row["output"]})

    def liked(item: Item, reply: str) -> float:
        scaled = (features.of(item, reply) - learned["mean"]) / learned["spread"]
        return float(np.append(scaled, 1.0) @ learned["weights"])

    for name, replies in drawn.items():
        best = max(replies, key=lambda reply: liked(items[name], reply))
        kept.append({"id": name, "arm": "best", "output": best})
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
    (folder / f"{part}-read.jsonl").write_text(lines, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["moments", "ranker", "answer", "pick"])
    parser.add_argument("words", nargs="+")
    given = parser.parse_args()
    if given.do == "moments":
        moments(*(Path(word) for word in given.words))
    elif given.do == "ranker":
        learn(*(Path(word) for word in given.words))
    elif given.do == "pick":
        pick(Path(given.words[0]), given.words[1])
    else:
        folder, part, *arms = given.words
        asyncio.run(answer(Path(folder), part, arms))


if __name__ == "__main__":
    main()
