"""The released SAGE log, recomputed; and a log with faults, whose every fault is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import compeer

DATA = Path(os.environ.get("COMPEER_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def test_the_released_log_is_reproduced_value_by_value() -> None:
    log = DATA / "sage" / "released_results"
    if not log.is_dir():
        pytest.skip(f"the released SAGE log is not at {log}; set COMPEER_DATA to the folder of corpora")
    done = compeer("eval", "sage", "--replay", str(log), "--json")
    told = json.loads(done.stdout)
    values = {figure["name"]: figure["value"] for figure in told["figures"]}
    assert told["dialogues"] == 100
    assert (values["Sentient"], values["Success"], values["Failure"]) == (31.75, 7, 51)
    assert told["values"] == told["equal"] == 854 and told["differences"] == []
    assert all(one["curve"][0] == 40 and one["curve"][-1] == one["recorded"] for one in told["curves"])
    assert {one["end"] for one in told["curves"]} == {"turns", "lost", "content"}


def seeker(value: int, change: Any = None, words: str = "嗯") -> dict[str, Any]:
    planning = {} if change is None else {"planning": {"change": change}}
    return {"role": "user", "content": words, "emotion-point": value} | planning


def dialogue(name: str, *turns: dict[str, Any], final: int, letter: str) -> dict[str, Any]:
    history = [message for turn in turns for message in (turn, {"role": "assistant", "content": "我在听"})]
    return {"id": name, "emo_point": final, "emo_state": f"Emotion-{letter}", "history": history}


def test_every_fault_of_a_log_is_told_with_its_reason(tmp_path: Path) -> None:
    down = [seeker(40), seeker(30, -10), seeker(20, -10), seeker(10, -10)]
    logs = [
        dialogue("sound", *down, seeker(4, -6), final=4, letter="F"),
        dialogue("unclipped", seeker(40), seeker(60, 20), final=60, letter="B"),
        dialogue("too long", *down, seeker(4, -6), seeker(5, 1), final=5, letter="F"),
        dialogue("no change", seeker(40), seeker(40, "nobody knows"), final=40, letter="B"),
        dialogue("wrong letter", *down, seeker(4, -6), final=4, letter="C"),
    ]
    logs[0]["history"].pop()  # an early end is the seeker's
    logs[4]["history"].pop()
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in logs))
    told = json.loads(compeer("eval", "sage", "--replay", str(path), "--json").stdout)
    found: dict[str, list[tuple[str, int]]] = {}
    for one in told["differences"]:
        assert one["reason"]
        found.setdefault(one["dialogue"], []).append((one["what"], one["turn"]))
    assert "sound" not in found
    assert ("emotion", 2) in found["unclipped"] and ("final", 2) in found["unclipped"]  # 50 by the rules
    assert ("length", 5) in found["too long"]
    assert found["no change"] == [("length", 2)]  # the mood stays, as recorded, and no rule ends it
    assert found["wrong letter"] == [("band", 5)]
    assert told["values"] - told["equal"] == 1


@pytest.mark.parametrize("text", ["", '{"id": "x"}\n'])
def test_a_file_that_is_no_log_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    done = compeer("eval", "sage", "--replay", str(path))
    assert done.returncode == 1 and str(path) in done.stderr and "Traceback" not in done.stderr
