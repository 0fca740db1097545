"""Messages where they stand: answers to questions about safety, hints that add up, jokes, other people's questions.

The cases in `cases/` were written for development by a language model.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compeer.safety import Risk, at_least
from compeer.safety.context import questions_in, read

CASES = Path(__file__).parent / "cases"
ANSWERS = [line.split("\t") for line in (CASES / "answers.tsv").read_text().splitlines() if not line.startswith("#")]


def test_at_least_95_of_100_answers_are_read_right_in_both_languages() -> None:
    for language in ("en", "zh"):
        rows = [row for row in ANSWERS if row[0] == language]
        wrong = []
        for _, question, message, answer, level in rows:
            reading = read(message, asked=(question,))  # type: ignore[arg-type]
            if (reading.answer or "-", reading.finding.level) != (answer, level):
                wrong.append((question, message, reading.answer, reading.finding.level))
        assert len(rows) > 50 and len(wrong) <= 0.05 * len(rows), wrong


def test_hints_over_six_turns_reach_high_in_four_of_five() -> None:
    reached = {"en": [], "zh": []}  # type: dict[str, list[bool]]
    for line in (CASES / "hints.jsonl").read_text().splitlines():
        case = json.loads(line)
        risk = Risk()
        for turn in case["turns"]:
            risk = risk.after(read(turn, "", risk).finding)
        reached[case["language"]].append(at_least(risk.level, "high"))
    assert all(len(each) >= 12 and sum(each) >= 0.8 * len(each) for each in reached.values()), reached


@pytest.mark.parametrize(
    ("reply", "asked"),
    [
        ("Are you thinking about killing yourself?", ("desire",)),
        ("I'm here. Are you safe right now?", ("safe_now",)),
        ("你现在有自杀的念头吗？", ("desire",)),
        ("What are your plans for the weekend?", ()),
        ("Is anyone else in your team affected?", ()),
        ("I hope you never think of suicide.", ()),
    ],
)
def test_which_questions_a_reply_asks(reply: str, asked: tuple[str, ...]) -> None:
    assert questions_in(reply, worried=False) == asked


def test_a_plain_yes_means_nothing_without_the_question() -> None:
    assert read("yes", "Did you sleep well?").finding.level == "none"
    assert read("yes", "Are you thinking about killing yourself?").finding.level == "high"


def test_taken_after_means_is_an_emergency() -> None:
    risk = Risk("emergency", ("means",), ("suicide",))
    assert "ingestion" in read("ok i took them", "Are you away from it?", risk).finding.kinds
    assert "ingestion" in read("我吃了", "你离它远了吗？", risk).finding.kinds


def test_acts() -> None:
    risk = Risk("high", ("wish",), ("suicide",))
    for message, act in [
        ("lol jk calm down", "joking"),
        ("i wont call anyone", "refuses_to_call"),
        ("please don't tell my parents", "wants_secrecy"),
        ("stop asking me that", "angry"),
        ("我不想打电话", "refuses_to_call"),
        ("别告诉我妈", "wants_secrecy"),
        ("谢谢你", "thanks"),
        ("好一点了", "calmer"),
    ]:
        assert act in read(message, "", risk).acts, message
    assert "joking" not in read("lol jk", "", Risk()).acts


def test_messages_are_hints_together() -> None:
    hints = ["i gave my guitar to my cousin", "everyone would manage fine without me", "i wrote letters for my kids"]
    assert read("i feel strangely calm about it now", before=hints).finding.level == "high"
    calm = ["packing for lisbon", "the van comes at nine", "my sister can have the car"]
    assert read("the new job starts on monday", before=calm).finding.level == "none"
