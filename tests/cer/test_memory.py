"""A large corpus needs no more memory than a small one: import, filter, sample, and the search for near-duplicates.

10,000 synthetic dialogues by default, 1,000,000 with COMPEER_FULL=1; the limits are those for a million either way. Each
part runs in a process of its own (this file as a script), over a few dialogues first, and reports its peak after both.
What the many need beyond the few is bounded too: less than it would be if their lines or dialogues were kept.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compeer.cer import sample
from compeer.cer.duplicates import DialogueIndex
from compeer.cer.filter import CHECKS_ONLY
from compeer.corpora import importing, load
from compeer.dialogue import read
from compeer.pipeline.runner import run_stage
from compeer.pipeline.stage import Tools

ROOT = Path(__file__).resolve().parents[2]
FEW, COUNT = 2_000, 1_000_000 if os.environ.get("COMPEER_FULL") else 10_000
EVERY = {"duplicate": 50, "near-duplicate": 40, "too-short": 97}  # one in so many is made to be dropped for this


def generate(count: int, path: Path) -> Counter[str]:
    """Short dialogues as plain chats, one in ten Chinese; what was made to be dropped, counted."""
    rng = random.Random(11)
    letters = "abcdefghijklmnoprstuvw"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(3, 8))) for _ in range(3_000)]
    vocabulary += ["i", "the", "you", "to", "and", "it", "was", "my", "that", "not"] * 200
    signs = [chr(code) for code in range(0x4E00, 0x5A00)]
    made: Counter[str] = Counter()
    before: list[str] = []
    with path.open("w", encoding="utf-8") as out:
        for n in range(count):
            kind = next((name for name, every in EVERY.items() if n % every == every - 1), "")
            made[kind] += 1
            if kind == "duplicate":
                turns = [turn.upper() for turn in before]
            elif kind == "near-duplicate":
                turns = [*before[:-1], before[-1] + " oh"]
            elif n % 10 == 0:
                said = "".join(rng.choices(signs, k=90))
                turns = [said[start : start + 15] for start in range(0, 90, 15)]
            else:
                words = rng.choices(vocabulary, k=54)
                turns = [" ".join(words[start : start + 9]) for start in range(0, 54, 9)]
            if kind == "too-short":
                turns = turns[:2]
            elif not kind:
                before = turns
            chat = [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
            language = "zh" if turns[0] > "\u3400" else "en"
            out.write(json.dumps({"id": f"synthetic/{n}", "language": language, "messages": chat}) + "\n")
    return made


def import_filter_sample(folder: Path) -> dict[str, Any]:
    """The chain of commands a user would run, on one file after the other."""
    seconds: dict[str, float] = {}
    started = time.monotonic()

    def lap(name: str) -> None:
        seconds[name] = round(time.monotonic() - started - sum(seconds.values()), 1)

    summary = importing.run(load("plain", folder / "raw.jsonl"), folder / "imported.jsonl")
    lap("import")
    filtered = run_stage(CHECKS_ONLY, folder / "imported.jsonl", folder / "kept.jsonl")
    lap("filter")
    sampled = run_stage(sample.STAGE, folder / "kept.jsonl", folder / "items.jsonl", Tools(options={"n_samples": 2}))
    lap("sample")
    return {
        "imported": summary.imported,
        "rejected": filtered.counts.rejected,
        "kept": filtered.counts.rows_out,
        "items": sampled.counts.rows_out,
        "seconds": seconds,
    }


def search(folder: Path) -> dict[str, Any]:
    """Duplicates among the imported dialogues."""
    started = time.monotonic()
    found = DialogueIndex(read(folder / "imported.jsonl")).duplicates()
    exact = sum(one.exact for one in found)
    return {"exact": exact, "near": len(found) - exact, "seconds": round(time.monotonic() - started, 1)}


def in_own_process(part: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the part says of the few and then of all."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(Path(__file__)), part, str(folder)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    few, told = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    print(f"{part} of {COUNT:,} dialogues: {told}")
    return few, told


def peak() -> float:
    """Megabytes at most so far, of this process alone (`ru_maxrss` would count what the parent had when it forked)."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs /proc")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert found
    return int(found.group(1)) / 1024


def test_memory(tmp_path: Path) -> None:
    made = []
    for count in (FEW, COUNT):
        (folder := tmp_path / str(count)).mkdir()
        made.append(generate(count, folder / "raw.jsonl"))
    chain = in_own_process("import_filter_sample", tmp_path)
    for count, kinds, told in zip((FEW, COUNT), made, chain, strict=True):
        assert told["imported"] == count
        assert told["rejected"] == {"too-short": kinds["too-short"]}
        assert told["kept"] == count - kinds["too-short"]
        assert told["items"] == 2 * told["kept"]
    assert chain[1]["peak_mb"] < 600
    assert chain[1]["peak_mb"] - chain[0]["peak_mb"] < 4

    found = in_own_process("search", tmp_path)
    for kinds, told in zip(made, found, strict=True):
        assert told["exact"] == kinds["duplicate"]
        assert kinds["near-duplicate"] * 0.99 <= told["near"] <= kinds["near-duplicate"] * 1.01
    assert found[1]["peak_mb"] < 2_000
    assert found[1]["peak_mb"] - found[0]["peak_mb"] < 2_000 * (COUNT - FEW) / 1_000_000


if __name__ == "__main__":
    work = {"import_filter_sample": import_filter_sample, "search": search}[sys.argv[1]]
    for count in (FEW, COUNT):
        result = work(Path(sys.argv[2]) / str(count))
        print(json.dumps({**result, "peak_mb": round(peak(), 1)}), flush=True)
