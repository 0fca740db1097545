"""People of our own for the benchmarks' tests, in the files the benchmarks use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PERSONA = "PERSONA-7c1: a baker who hides her fear"
GOAL = "GOAL-7c1: to be praised for one thing she did"
CARD = "CARD-7c1 Age: 31\nGender: Female\nProblem: cannot sleep since the move"
CARD_ZH = "卡片七 年龄：三十一\n性别：女\n问题：搬家以后睡不着"


def profile(name: str, **changes: str) -> dict[str, Any]:
    return {
        "id": name,
        "player": f"{PERSONA} {name}",
        "scene": "SCENE-7c1: the oven broke and she mended it at night",
        "task": GOAL,
        "first_talk": f"昨晚我一夜没睡，{name}。",
        "main_cha": "quiet",
        "cha_group": ["calm"],
    } | changes


def write_profiles(path: Path, profiles: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in profiles), "utf-8")
    return path


def write_cards(folder: Path, count: int = 1) -> list[Path]:
    """Two files, `count` cards each; the first is from ESconv or PsyQA, the others from elsewhere."""
    files = []
    for language, base, first in (("english", CARD, "ESconv"), ("chinese", CARD_ZH, "PsyQA")):
        cards = [
            {"id": n, "base": f"{base} {n}", "language": language, "source": "elsewhere" if n else first, "res": "home"}
            for n in range(count)
        ]
        files.append(folder / f"cards_{language}.json")
        files[-1].write_text(json.dumps(cards, ensure_ascii=False), "utf-8")
    return files
