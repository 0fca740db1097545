"""Reading the contract: strict parsing of typical outputs, and dialogues from JSON lines against the json module."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Ratio
from compeer.cer import gold
from compeer.dialogue import read
from compeer.reasoning import parse, render

BUNDLED = Path(__file__).parent.parent / "src/compeer/corpora/bundled/en.jsonl"


def run() -> list[Ratio]:
    outputs = [
        render(item.candidate.reasoning, item.candidate.response)
        for item in gold.load()
        if item.candidate and item.candidate.reasoning
    ]
    characters = sum(map(len, outputs))
    ours = characters / _best(lambda: [parse(output) for output in outputs])
    split = characters / _best(lambda: [output.split("\n") for output in outputs])
    dialogues = sum(1 for _ in read(BUNDLED))
    validated = dialogues / _best(lambda: list(read(BUNDLED)))
    plain = dialogues / _best(lambda: [json.loads(line) for line in BUNDLED.open(encoding="utf-8")])
    return [
        Ratio(
            what="strict parsing",
            ours=ours / 1e6,
            theirs=split / 1e6,
            against="str.split of the lines",
            unit="M chars/s",
        ),
        Ratio(
            what="validated dialogues read",
            ours=validated,
            theirs=plain,
            against="json.loads, unvalidated",
            unit="dialogues/s",
        ),
    ]


def _best(action: Callable[[], object], times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
