"""Blind reading: replies of several models at the same moments, in random order, without their sources.

    python -m runs.supporter.reading sheet MOMENTS ANSWERS… --sheet SHEET.md --key KEY.json
    python -m runs.supporter.reading table KEY.json RATINGS… --against base --out RESULT.json

MOMENTS are CER items with their reference (the human's reply joins as `human`); ANSWERS are JSON lines with id, arm and
output. Only moments that every arm has answered are read, so that all comparisons are paired. A reader gets the sheet
and writes {"id", "ratings": {"A": 1 to 5, …}} per moment; the key stays elsewhere. Means have bootstrap intervals over
dialogues; several readers are averaged per reply, and their agreement is given.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import string
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from compeer.cer.item import read_items
from compeer.reasoning import parse


def reply_of(output: str) -> str:
    """What a person would have seen: the reply behind the thinking, or the text as it is where there is none."""
    parsed = parse(output)
    if parsed.complete and parsed.response:
        return parsed.response
    return re.sub(r"<think>.*?(?:</think>|\Z)", "", output, flags=re.DOTALL).strip() or "(no reply)"


def sheet(moments: Path, answers: list[Path], seed: int) -> tuple[str, dict[str, Any]]:
    """The text for a reader, and the key that says which letter is which arm."""
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for path in answers:
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            if row.get("arm"):
                said[row["id"]][row["arm"]] = reply_of(row["output"])
    items = {item.id: item for item in read_items(moments)}
    arms = {arm for found in said.values() for arm in found}
    ready = [name for name, item in items.items() if set(said[name]) == arms]
    blocks, key = [], {}
    for name in sorted(ready, key=lambda one: hashlib.sha256(f"{seed} {one}".encode()).digest()):
        item = items[name]
        replies = {**said[name], "human": item.reference}
        order = sorted(replies)
        random.Random(f"{seed} {name}").shuffle(order)
        number = f"m{len(blocks) + 1:03d}"
        key[number] = {
            "id": name,
            "dialogue": item.dialogue,
            "language": item.language,
            "arms": dict(zip(string.ascii_uppercase, order, strict=False)),
        }
        history = "\n".join(
            f"{'Seeker' if turn.speaker == 'seeker' else 'Supporter'}: {turn.text}" for turn in item.history[-10:]
        )
        shown = "\n".join(f"[{letter}] {replies[arm]}" for letter, arm in key[number]["arms"].items())
        blocks.append(f"## {number}\n{history}\n\n{shown}\n")
    return "\n".join(blocks), key


def table(key: dict[str, Any], ratings: list[Path], against: str) -> dict[str, Any]:
    """Means per arm with intervals over dialogues, paired differences, and how far readers agree."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for path in ratings:
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            for letter, value in row["ratings"].items():
                scores[row["id"], key[row["id"]]["arms"][letter]].append(float(value))
    arms = sorted({arm for _, arm in scores})
    moments = [name for name in key if all(scores.get((name, arm)) for arm in arms)]
    values = {arm: np.array([np.mean(scores[name, arm]) for name in moments]) for arm in arms}
    groups = np.unique([key[name]["dialogue"] for name in moments], return_inverse=True)[1]
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    draws = [np.concatenate([members[at] for at in rng.integers(0, len(members), len(members))]) for _ in range(2000)]

    spoken = np.array([key[name]["language"] for name in moments])

    def interval(numbers: Any, language: str = "") -> list[float]:
        means = [float(numbers[draw[spoken[draw] == language] if language else draw].mean()) for draw in draws]
        return [round(float(np.quantile(means, share)), 3) for share in (0.025, 0.975)]

    rows = []
    for arm in arms:
        one = {"arm": arm, "mean": round(float(values[arm].mean()), 3), "interval": interval(values[arm])}
        one["three_or_more"] = round(float((values[arm] >= 3).mean()), 3)
        wins = (values[arm] > values["human"]) + 0.5 * (values[arm] == values["human"])
        one |= {"wins_against_human": round(float(wins.mean()), 3)} if arm != "human" else {}
        if arm != against:
            gap = values[arm] - values[against]
            one |= {f"minus_{against}": round(float(gap.mean()), 3), "difference_interval": interval(gap)}
            one["by_language"] = {
                language: {
                    "mean": round(float(values[arm][spoken == language].mean()), 3),
                    f"minus_{against}": round(float(gap[spoken == language].mean()), 3),
                    "difference_interval": interval(gap, language),
                }
                for language in sorted(set(spoken))
            }
        rows.append(one)
    pairs = [tuple(found) for found in scores.values() if len(found) == 2]
    both = np.array(pairs) if pairs else np.zeros((0, 2))
    agreement = {
        "replies_read_twice": len(pairs),
        "within_one": round(float((abs(both[:, 0] - both[:, 1]) <= 1).mean()), 3) if pairs else None,
        "correlation": round(float(np.corrcoef(both.T)[0, 1]), 3) if pairs else None,
    }
    languages = {one: sum(key[name]["language"] == one for name in moments) for one in ("en", "zh")}
    return {
        "moments": len(moments),
        "languages": languages,
        "readers": len(ratings),
        "agreement": agreement,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("do", choices=["sheet", "table"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--sheet", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--against", default="base")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.do == "sheet":
        text, key = sheet(args.files[0], args.files[1:], args.seed)
        args.sheet.write_text(text, "utf-8")
        args.key.write_text(json.dumps(key, indent=1), "utf-8")
        print(f"{len(key)} moments")
        return
    result = table(json.loads(args.files[0].read_text("utf-8")), args.files[1:], args.against)
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
