"""Does a pinned strategy reach the words? Replies under each pin, a blind sheet, and the table of two readings.

    python -m runs.supporter.steering write MOMENTS.json --out ANSWERS.jsonl
    python -m runs.supporter.steering sheet ANSWERS.jsonl --sheet SHEET.jsonl --key KEY.json
    python -m runs.supporter.steering table runs/supporter/results/steering

MOMENTS is a list of {"id", "lang", "history"}: moments that decided nothing (here ESConv valid and open CER's test
split, the two thirds of the dialogues on which no opening was written). The default supporter replies without thinking,
temperature 0.3, seed 1, under each of the eight strategies and under none; jobs run in random order, so a run that is
stopped early is a sample. Readers see the replies alone and name the strategy of each; the key stays elsewhere.

In the folder of `table`: `answers.jsonl`, `key.json` and `named-{a,b}.jsonl` (n, strategy) of the readers; for quality
`quality-key.json` (moment, letter, arm) and `rated-{a,b}.jsonl`, readings of the same replies beside the free reply and
the person's own, 1 to 5.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from compeer.models import open_model, request_for
from compeer.reasoning import Control, Pins
from compeer.reasoning.ontology import STRATEGIES
from compeer.statistics import wilson


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


async def write(moments: list[dict[str, Any]], out: Path) -> None:
    """Append one row per moment and strategy; what is there already is not asked again."""
    jobs = [(moment, strategy) for moment in moments for strategy in (*STRATEGIES.ids, None)]
    random.Random(5).shuffle(jobs)
    done = {(row["id"], row["strategy"]) for row in (rows(out) if out.exists() else [])}
    model = open_model("embedded")
    with out.open("a", encoding="utf-8") as file:
        for moment, strategy in jobs:
            if (moment["id"], strategy) in done:
                continue
            control = Control(Pins(strategy=strategy)) if strategy else Control()
            request = request_for(
                moment["history"], moment["lang"], control, think="off", max_tokens=160, temperature=0.3, top_p=0.95,
                penalty=1.05, seed=1, adapter=False,
            )  # fmt: skip
            reply = (await model.ask(request)).text.strip()
            row = {"id": moment["id"], "lang": moment["lang"], "strategy": strategy, "reply": reply}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()


def sheet(answers: list[dict[str, Any]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Replies without their sources in random order, and the key."""
    pinned = [row for row in answers if row["strategy"]]
    random.Random(99).shuffle(pinned)
    key = {f"s{at:03d}": {name: row[name] for name in ("id", "lang", "strategy")} for at, row in enumerate(pinned)}
    return [{"n": name, "reply": row["reply"]} for name, row in zip(key, pinned, strict=True)], key


def table(folder: Path) -> dict[str, Any]:
    """How often each reader names the pinned strategy, by language and strategy; and quality beside the free reply."""
    key = json.loads((folder / "key.json").read_text("utf-8"))
    named = [{row["n"]: row["strategy"] for row in rows(folder / f"named-{one}.jsonl")} for one in "ab"]
    found: dict[str, Any] = {"agreement of readers": share([named[0][n] == named[1][n] for n in key])}
    for language in ("en", "zh", "all"):
        chosen = [n for n, row in key.items() if language in (row["lang"], "all")]
        hits = [[reader[n] == key[n]["strategy"] for n in chosen] for reader in named]
        found[language] = {"reader a": share(hits[0]), "reader b": share(hits[1])}
    for strategy in STRATEGIES.ids:
        chosen = [n for n, row in key.items() if row["strategy"] == strategy]
        found[strategy] = share([reader[n] == strategy for reader in named for n in chosen])
    letters = json.loads((folder / "quality-key.json").read_text("utf-8"))
    rated = [{row["id"]: row["ratings"] for row in rows(folder / f"rated-{one}.jsonl")} for one in "ab"]
    means = {
        moment: {arm: float(np.mean([reader[moment][letter] for reader in rated])) for letter, arm in arms.items()}
        for moment, arms in letters.items()
    }
    pinned = {
        one: np.mean([r for arm, r in arms.items() if arm not in ("free", "human")]) for one, arms in means.items()
    }
    found["quality"] = {
        "free": mean([arms["free"] for arms in means.values()]),
        "human": mean([arms["human"] for arms in means.values()]),
        "pinned": mean(list(pinned.values())),
        "pinned minus free": mean([pinned[one] - arms["free"] for one, arms in means.items()]),
    }
    return found


def share(hits: list[bool]) -> dict[str, float]:
    low, high = wilson(sum(hits) / len(hits), len(hits))
    return {"share": round(sum(hits) / len(hits), 3), "low": round(low, 3), "high": round(high, 3), "n": len(hits)}


def mean(values: list[Any]) -> dict[str, float]:
    """With a bootstrap interval over moments."""
    drawn = np.random.default_rng(0).choice(np.array(values, float), (4000, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"mean": round(float(np.mean(values)), 2), "low": round(low, 2), "high": round(high, 2), "n": len(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=["write", "sheet", "table"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sheet", type=Path)
    parser.add_argument("--key", type=Path)
    given = parser.parse_args()
    if given.work == "write":
        asyncio.run(write(json.loads(given.path.read_text("utf-8")), given.out))
    elif given.work == "sheet":
        lines, key = sheet(rows(given.path))
        given.sheet.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
        given.key.write_text(json.dumps(key, ensure_ascii=False, indent=1) + "\n", "utf-8")
    else:
        text = json.dumps(table(given.path), ensure_ascii=False, indent=1) + "\n"
        (given.path / "table.json").write_text(text, "utf-8")
        print(text)


if __name__ == "__main__":
    main()
