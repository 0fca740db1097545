"""Tune a small reader of whole conversations for English, on a CPU: `python -m runs.safety.tune_reader ROWS OUT.npz`.

ROWS is the folder that `runs.safety.reader_rows` writes. Start: the shipped network of single messages
(`network_en.npz`); its three lower layers stay as they are. It reads the end of a conversation, messages parted by
[SEP], the person's after ">" and the supporter's after "<", and tells five levels apart.

Learned from: train-*.jsonl (written for this, and opened sets); single examples of `examples/en*.tsv` after harmless
talk of open CER; open CER's turns as harmless; answers again after other questions of our own replies. Nothing of
ESConv. Two rounds, and half as many single examples as before November 19, when the written conversations doubled: 14
minutes on one of two busy cores.
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
import torch
from runs.safety.tune import in_steps
from torch.nn import functional

from compeer.safety import crisis_path, lexicon_finding
from compeer.safety.context import questions_in
from compeer.safety.network import Network, conversation_pieces, english

LEVELS = ("none", "watch", "high", "emergency", "other danger")
STEPS = 127  # of the weights that are shipped; with 31 probabilities move by 0.08
HERE = Path(__file__).parent
CER = HERE.parents[1] / "src" / "compeer" / "corpora" / "open_cer"
ROUNDS, SIZE, RATE, FROZEN = 2, 32, 1e-4, 3


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def talks() -> list[list[dict[str, str]]]:
    """Harmless conversations of open CER, English."""
    found = []
    for file in sorted(CER.glob("en*.jsonl")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            if "utterances" in row:
                roles = {"seeker": "user", "supporter": "assistant"}
                talk = [{"role": roles[one["speaker"]], "content": one["text"]} for one in row["utterances"]]
            else:
                talk = [dict(one) for one in row["history"]]
            while talk and talk[-1]["role"] != "user":
                talk.pop()
            if talk and all(lexicon_finding(one["content"]).level == "none" for one in talk if one["role"] == "user"):
                found.append(talk)
    return found


def rows(folder: Path) -> list[tuple[list[dict[str, str]], list[float]]]:
    """Conversations and how much of each level they are."""
    chance = random.Random(0)

    def sure(level: str) -> list[float]:
        return [float(level == one) for one in LEVELS]

    made: list[tuple[list[dict[str, str]], list[float]]] = []
    ours = [row for row in crisis_path.rows() if row.language == "en" and row.asks == "desire"]
    asks = [row.text.replace("{line}", "988").replace("{emergency}", "911") for row in ours]
    for file in sorted(folder.glob("train-*.jsonl")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            if row["language"] != "en":
                continue
            messages = row["messages"]
            times = 2 if row["source"] == "written" else 1
            made += [(messages, sure(row["level"]))] * times
            if len(messages) > 2 and "desire" in questions_in(messages[-2]["content"], False):
                for other in chance.sample(asks, 2):
                    changed = [*messages[:-2], {"role": "assistant", "content": other}, messages[-1]]
                    made.append((changed, sure(row["level"])))
    calm = talks()
    for talk in calm:
        ends = [at for at, one in enumerate(talk) if one["role"] == "user"]
        for at in chance.sample(ends, min(3, len(ends))):
            made.append((talk[: at + 1], sure("none")))
    print(len(made), "rows,", len(calm), "harmless conversations", flush=True)
    soft = {
        "none": [1, 0, 0, 0, 0],
        "indirect": [0, 0.4, 0.6, 0, 0],
        "explicit": [0, 0, 0.85, 0.15, 0],
        "method": [0, 0.15, 0.85, 0, 0],
        "third": [0.1, 0.8, 0, 0.1, 0],
        "past": [0.8, 0.2, 0, 0, 0],
        "danger": [0, 0, 0, 0, 1],
    }
    many = {"none": 450, "indirect": 350, "explicit": 175, "method": 40, "third": 60, "past": 60, "danger": 100}
    singles: dict[str, list[str]] = {kind: [] for kind in soft}
    for file in sorted((HERE / "examples").glob("en*.tsv")):
        for line in file.read_text(encoding="utf-8").splitlines():
            kind, _, text = line.partition("\t")
            if kind in singles and text:
                singles[kind].append(text)
    for kind, texts in singles.items():
        for text in chance.sample(texts, min(many[kind], len(texts))):
            before: list[dict[str, str]] = []
            if chance.random() < 0.6:
                talk = chance.choice(calm)
                ends = [at for at, one in enumerate(talk) if one["role"] == "assistant"] or [-1]
                end = chance.choice(ends) + 1
                before = talk[max(0, end - 2 * chance.randint(1, 3)) : end]
            made.append(([*before, _user(text)], [float(part) for part in soft[kind]]))
    return made


def forward(w: dict[str, Any], ids: Any, there: Any, drop: float) -> Any:
    values = functional.embedding(ids, w["words"]) + w["places"][: ids.shape[1]]
    values = functional.layer_norm(values, (384,), w["norm_w"], w["norm_b"], 1e-12)
    many, length, _ = values.shape
    mask = ((1 - there) * -1e4)[:, None, None, :]
    for layer in range(6):
        with torch.set_grad_enabled(layer >= FROZEN and torch.is_grad_enabled()):
            three = functional.linear(values, w[f"{layer}_qkv_w"], w[f"{layer}_qkv_b"])
            q, k, v = three.view(many, length, 3, 12, 32).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            seen = seen.transpose(1, 2).reshape(many, length, 384)
            seen = functional.linear(seen, w[f"{layer}_out_w"], w[f"{layer}_out_b"])
            seen = functional.dropout(seen, drop, drop > 0)
            values = functional.layer_norm(values + seen, (384,), w[f"{layer}_norm1_w"], w[f"{layer}_norm1_b"], 1e-12)
            inner = functional.linear(values, w[f"{layer}_up_w"], w[f"{layer}_up_b"])
            inner = functional.linear(
                functional.gelu(inner, approximate="tanh"), w[f"{layer}_down_w"], w[f"{layer}_down_b"]
            )
            inner = functional.dropout(inner, drop, drop > 0)
            values = functional.layer_norm(values + inner, (384,), w[f"{layer}_norm2_w"], w[f"{layer}_norm2_b"], 1e-12)
    mean = (values * there[..., None]).sum(1) / there.sum(1, keepdim=True)
    return functional.linear(functional.dropout(mean, 2 * drop, drop > 0), w["head_w"], w["head_b"])


def block(texts: list[list[int]]) -> tuple[Any, Any]:
    length = max(map(len, texts))
    ids, there = torch.zeros(len(texts), length, dtype=torch.long), torch.zeros(len(texts), length)
    for at, text in enumerate(texts):
        ids[at, : len(text)], there[at, : len(text)] = torch.tensor(text), 1
    return ids, there


def probabilities(w: dict[str, Any], texts: list[list[int]]) -> Any:
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    found = np.zeros((len(texts), len(LEVELS)), dtype=np.float32)
    with torch.no_grad():
        for at in range(0, len(order), 64):
            which = order[at : at + 64]
            found[which] = forward(w, *block([texts[one] for one in which]), 0.0).softmax(1).numpy()
    return found


def start(network: Network) -> dict[str, Any]:
    """The weights of the shipped network; matrices lie the other way round here."""
    turned = {n: v.T if n.endswith("_w") and v.ndim == 2 else v for n, v in network.weights.items()}
    return {name: torch.tensor(np.ascontiguousarray(value)) for name, value in turned.items()}


def save(weights: dict[str, Any], out: Path) -> None:
    """The layers that were learned, in whole numbers with a scale per row."""
    kept: dict[str, Any] = {}
    for name, value in weights.items():
        if not (name.startswith("head") or (name[0].isdigit() and int(name[0]) >= FROZEN)):
            continue
        if value.ndim == 2 and len(value) > 100:
            kept[name], kept[f"{name}#"] = in_steps(value, STEPS)
        else:
            kept[name] = value.astype(np.float32)
    np.savez_compressed(out, **kept)


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    network = english()
    made = rows(folder)
    texts = [conversation_pieces(messages, network.vocabulary) for messages, _ in made]
    wanted = torch.tensor([level for _, level in made])
    lengths = np.array(list(map(len, texts)))
    print(len(texts), "rows of", round(float(lengths.mean())), "pieces;", wanted.sum(0).tolist(), flush=True)
    torch.manual_seed(0)
    chance = np.random.default_rng(0)
    w = start(network)
    w["head_w"], w["head_b"] = torch.randn(len(LEVELS), 384) * 0.05, torch.zeros(len(LEVELS))
    rates = {n: 1e-3 if n.startswith("head") else RATE if n[0].isdigit() and int(n[0]) >= FROZEN else 0.0 for n in w}
    for name, rate in rates.items():
        w[name].requires_grad_(rate > 0)
    optimizer = torch.optim.AdamW([{"params": [w[n]], "lr": r} for n, r in rates.items() if r], weight_decay=0.01)
    steps = ROUNDS * math.ceil(len(texts) / SIZE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (steps // 10 + 1), max(0.0, (steps - step) / (steps * 0.9)))
    )
    hidden = network.vocabulary["[MASK]"]
    marks = {network.vocabulary[mark] for mark in ("[CLS]", "[SEP]", ">", "<")}
    begun = time.time()
    for turn in range(ROUNDS):
        order = chance.permutation(len(texts))
        parts = []
        for at in range(0, len(order), SIZE * 20):
            part = order[at : at + SIZE * 20]
            part = part[np.argsort(lengths[part], kind="stable")]
            parts += [part[first : first + SIZE] for first in range(0, len(part), SIZE)]
        total = 0.0
        for number, place in enumerate(chance.permutation(len(parts))):
            which = parts[place]
            ids, there = block([texts[one] for one in which])
            covered = (torch.rand(ids.shape) < 0.08) & (there > 0)
            for mark in marks:
                covered &= ids != mark
            sums = forward(w, ids.masked_fill(covered, hidden), there, 0.1)
            loss = -(sums.log_softmax(1) * wanted[which]).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([w[n] for n, r in rates.items() if r], 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
            if number % 40 == 0:
                print(turn, number, len(parts), round(total / (number + 1), 4), round(time.time() - begun), flush=True)
        save({n: value.detach().numpy() for n, value in w.items()}, out)
    print("written", round(time.time() - begun), "s", flush=True)


if __name__ == "__main__":
    main()
