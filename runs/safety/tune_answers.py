"""Teach the 1.5B base to read answers to a question about safety: an adapter of its upper layers, learned on two cores.

    python -m runs.safety.tune_answers ROWS BASE OUT [SECONDS]

ROWS is the folder that `runs.safety.reader_rows` writes, BASE the de-quantised weights (`runs.supporter.device`). It
learns from rows of train-*.jsonl whose last message answers a question about safety, as a language model has read
`examples/questions_*.tsv`. Those of dev.jsonl are kept out, and their probabilities go to OUT/dev.jsonl. What is
learned is one word after `reader.shown(...)`; only the five words compete (`reader.WORDS`).
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from runs.supporter.device import encoded, rendered, save, say
from runs.supporter.preferences import Upper

LEARNING = {"first_layer": 20, "rank": 8, "rate": 2e-4, "epochs": 2, "batch": 16, "seed": 1}
EXAMPLES = Path(__file__).parent / "examples"


def asked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose last message answers a question about safety; who is near is no such question here."""
    labels = {
        text: label
        for file in sorted(EXAMPLES.glob("questions_*.tsv"))
        for label, text in (line.split("\t") for line in file.read_text(encoding="utf-8").splitlines())
    }
    before = [row["messages"][-2]["content"] if len(row["messages"]) > 1 else "" for row in rows]
    known = [labels.get(" ".join(text.split()), "none") for text in before]
    return [row for row, label in zip(rows, known, strict=True) if label not in ("none", "who_is_near")]


def main() -> None:
    import torch

    from compeer.safety.reader import ANSWERS, WORDS, shown

    folder, base, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    seconds, began = float(sys.argv[4]) if len(sys.argv) > 4 else 3000.0, time.time()
    read = {file.stem: list(map(json.loads, file.open(encoding="utf-8"))) for file in sorted(folder.glob("*.jsonl"))}
    dev = asked(read.pop("dev"))
    train = asked([row for rows in read.values() for row in rows])
    say("to learn", len(train), Counter(row["level"] for row in train), "to measure", len(dev))
    both = Upper(base, **{name: int(LEARNING[name]) for name in ("first_layer", "rank", "seed")})
    words = [both.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in WORDS]
    pad = both.tokenizer.convert_tokens_to_ids("<|endoftext|>")
    for row in (*train, *dev):
        row["ids"] = encoded(rendered(shown(row["messages"], row["language"])), both.tokenizer)[0]
        row["wanted"] = ANSWERS.index(row["level"])
    say("tokens", sum(len(row["ids"]) for row in train), "longest", max(len(row["ids"]) for row in train))

    def batches(rows: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
        """Rows of like length side by side; what stands behind the last token of a row is seen by nobody."""
        made = []
        order = sorted(rows, key=lambda row: len(row["ids"]))
        for at in range(0, len(order), size):
            part = order[at : at + size]
            length = max(len(row["ids"]) for row in part)
            ids = torch.tensor([row["ids"] + [pad] * (length - len(row["ids"])) for row in part])
            places = torch.arange(length)[None].expand(len(part), -1)
            mask = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
            made.append(
                {
                    "places": places, "mask": mask, "hidden": both.lower(ids, places, mask),
                    "last": torch.tensor([len(row["ids"]) - 1 for row in part]),
                    "wanted": torch.tensor([row["wanted"] for row in part]), "ids": [row["id"] for row in part],
                    "language": [row["language"] for row in part],
                }
            )  # fmt: skip
            if (at // size) % 20 == 0:
                say("lower layers", at, f"{time.time() - began:.0f} s")
        return made

    def sums(batch: dict[str, Any]) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = both.upper(batch["hidden"], batch["places"], batch["mask"])
            last = hidden[torch.arange(len(batch["last"])), batch["last"]]
            return torch.nn.functional.linear(last, both.head.weight[words]).float()

    size = int(LEARNING["batch"])
    held, learnt = batches(dev, size), batches(train, size)
    rng = random.Random(LEARNING["seed"])
    optimiser = torch.optim.AdamW(both.weights, lr=float(LEARNING["rate"]), weight_decay=0.0, betas=(0.9, 0.98))
    order = [batch for _ in range(int(LEARNING["epochs"])) for batch in rng.sample(learnt, len(learnt))]
    ready, log = time.time(), []

    def measure(step: int) -> None:
        rows = []
        with torch.no_grad():
            for batch in held:
                shares = sums(batch).softmax(1)
                for at, name in enumerate(batch["ids"]):
                    rows.append(
                        {
                            "id": name, "language": batch["language"][at], "level": ANSWERS[batch["wanted"][at]],
                            "odds": [round(float(one), 4) for one in shares[at]],
                        }
                    )  # fmt: skip
        for language in ("en", "zh"):
            ours = [row for row in rows if row["language"] == language]
            right = [ANSWERS[row["odds"].index(max(row["odds"]))] == row["level"] for row in ours]
            say("dev", language, f"{sum(right)}/{len(ours)}")
        job = {**LEARNING, "rows": len(train), "steps": step, "log": log, "seconds_taken": round(time.time() - began)}
        save(both.model, str(out), job)
        (out / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    for step, batch in enumerate(order):
        done = max(step / len(order), (time.time() - ready) / max(1.0, seconds - (ready - began)))
        if done >= 1:
            say("out of time after", step, "steps")
            break
        pace = min(1.0, (step + 1) / (0.06 * len(order))) * max(0.05, 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimiser.param_groups:
            group["lr"] = float(LEARNING["rate"]) * pace
        loss = torch.nn.functional.cross_entropy(sums(batch), batch["wanted"])
        loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(both.weights, 1.0))
        if math.isfinite(norm):
            optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        log.append(round(loss.item(), 4))
        if (step + 1) % 10 == 0:
            say(f"{step + 1}/{len(order)}", f"loss {sum(log[-10:]) / 10:.3f} {time.time() - began:.0f} s")
        if (step + 1) % 100 == 0:
            measure(step + 1)
    measure(len(log))


if __name__ == "__main__":
    main()
