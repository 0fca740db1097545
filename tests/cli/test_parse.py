"""`compeer parse`: a model's raw output in, fields and problems out, the exit status says whether it is complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import compeer

FIELDS = [
    "history", "stage", "sentiment", "emotion", "intensity", "strategy", "reasoning", "response", "raw", "complete",
    "problems",
]  # fmt: skip

ENGLISH = """<think>
<history>
They lost their job and told nobody.
Stage: Exploration
</history>
<emotion>
Ashamed, and afraid of being seen.
Sentiment: negative
Emotion: shame
Intensity: 4
</emotion>
<strategy>
Ask before offering anything.
Strategy: Reflection of feelings
</strategy>
</think>
That is a lot to carry alone. Who knows about it?
"""
CHINESE = """<think>
<history>
对方丢了工作，家里人还不知道。
阶段：安慰
</history>
<emotion>
对方觉得羞耻，也很焦虑。
情感倾向：消极
情绪：焦虑
强度：5
</emotion>
<strategy>
先陪着对方，肯定对方的努力。
策略：肯定与安抚
</strategy>
</think>
一个人扛着这些，真不容易。
"""


def parse(data: bytes | str, *words: str) -> tuple[int, dict[str, Any]]:
    done = compeer("parse", *words, "--json", said=data.encode() if isinstance(data, str) else data)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_a_complete_output_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "output.txt"
    file.write_text(ENGLISH)
    status, read = parse("", str(file))
    assert status == 0
    assert list(read) == FIELDS
    assert read == {
        "history": "They lost their job and told nobody.",
        "stage": "exploration",
        "sentiment": "negative",
        "emotion": "shame",
        "intensity": 4,
        "strategy": "reflection of feelings",
        "reasoning": {
            "history": "They lost their job and told nobody.",
            "emotion": "Ashamed, and afraid of being seen.",
            "strategy": "Ask before offering anything.",
        },
        "response": "That is a lot to carry alone. Who knows about it?",
        "raw": ENGLISH,
        "complete": True,
        "problems": [],
    }


@pytest.mark.parametrize("words", [("-",), ()])
def test_chinese_values_from_standard_input_become_canonical_names(words: tuple[str, ...]) -> None:
    status, read = parse(CHINESE, *words)
    assert status == 0 and read["complete"]
    labels = {name: read[name] for name in ("stage", "sentiment", "emotion", "intensity", "strategy")}
    assert labels == {
        "stage": "comforting",
        "sentiment": "negative",
        "emotion": "anxiety",
        "intensity": 5,
        "strategy": "affirmation and reassurance",
    }
    assert (
        read["reasoning"]["emotion"] == "对方觉得羞耻，也很焦虑。" and read["response"] == "一个人扛着这些，真不容易。"
    )


def test_an_incomplete_output_says_what_is_missing_and_keeps_what_is_there() -> None:
    status, read = parse(ENGLISH.replace("Intensity: 4\n", "").replace("Strategy: Reflection", "Strategy: Deflection"))
    assert status == 1 and read["complete"] is False
    assert list(read) == FIELDS
    assert read["intensity"] is None and read["strategy"] is None and read["emotion"] == "shame"
    assert any("Intensity" in problem for problem in read["problems"])
    assert any("Deflection of feelings" in problem for problem in read["problems"])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        bytes(range(256)) * 40,
        b"\xff\xfe" + ENGLISH.encode("utf-16-le"),
        b"\x00" * 1000,
        b"<think>" * 50_000,
    ],
    ids=["nothing", "a line break", "every byte", "utf-16", "zeros", "tags"],
)
def test_garbage_is_incomplete_and_never_an_error(data: bytes) -> None:
    status, read = parse(data)
    assert status == 1 and read["complete"] is False and read["problems"]
    assert read["stage"] is None


def test_for_people_it_says_complete_or_what_is_wrong() -> None:
    done = compeer("parse", said=ENGLISH.encode())
    assert done.returncode == 0 and done.stdout.rstrip().endswith("a reply are there.")
    assert "What they feel   negative · shame · 4" in done.stdout
    done = compeer("parse", said=b"\x1b[2JHello.\x07")
    assert done.returncode == 1
    assert "Not complete:" in done.stdout and "there is no <think> block" in done.stdout
    assert "\x1b" not in done.stdout and "\x07" not in done.stdout


def test_a_terminal_that_knows_only_ascii_is_no_reason_to_fail() -> None:
    done = compeer("parse", said=CHINESE.encode(), env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("1 ????")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    done = compeer("parse", str(tmp_path / "missing.txt"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{tmp_path}/missing.txt cannot be read: No such file or directory.\n"
    done = compeer("parse", str(tmp_path), "--json")
    assert (done.returncode, done.stderr) == (1, f"{tmp_path} cannot be read: Is a directory.\n")
