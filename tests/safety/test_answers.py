"""Answers to a question about safety, by kind, as the whole engine reads them; and messages that open a conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from compeer.safety import Assessment, ConversationGuard, Said, at_least
from compeer.safety.answers import kind_of, table
from compeer.safety.normalise import fold

CASES = Path(__file__).parent / "cases"
OPENS = {"en": "it has been a rough month", "zh": "这个月过得很糟"}
ASKS = {
    ("en", "desire"): "That sounds heavy. Are you thinking about killing yourself?",
    ("en", "plan"): "Have you thought about how or when you would kill yourself?",
    ("en", "means"): "Is there anything near you that you could use to hurt yourself?",
    ("en", "taken"): "Have you taken something?",
    ("en", "safe_now"): "Are you safe right now?",
    ("zh", "desire"): "听着很重。你有没有想过自杀？",
    ("zh", "plan"): "你想过什么时候、怎么结束生命吗？",
    ("zh", "means"): "你身边有没有可以伤害自己的东西？",
    ("zh", "taken"): "你是不是吃了什么？",
    ("zh", "safe_now"): "你现在安全吗？",
}


def _rows(name: str) -> list[list[str]]:
    lines = (CASES / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def _assessed(language: str, *texts: str) -> Assessment:
    said = [Said("seeker" if at % 2 == 0 else "supporter", text) for at, text in enumerate(texts)]
    return asyncio.run(ConversationGuard(country="US").assess(said, language))


def test_answers_of_every_kind_are_read_right() -> None:
    rows = _rows("answer_kinds.tsv")
    assert len({row[0] for row in rows}) > 12 and len(rows) > 150
    for language in ("en", "zh"):
        wrong, missed, count = [], [], 0
        for kind, spoken, question, answer, levels in rows:
            if spoken != language:
                continue
            count += 1
            found = _assessed(language, OPENS[language], ASKS[language, question], answer).level
            if found not in levels.split():
                wrong.append((kind, answer, found))
                if kind not in ("a no", "harmless reason", "safe", "once") and found == "none":
                    missed.append((kind, answer))
        assert len(wrong) <= 0.05 * count, wrong
        assert not missed, "what is not plainly a no is kept in mind"


def test_a_plain_answer_is_not_overruled_by_what_the_readers_make_of_it() -> None:
    yes = _assessed("en", OPENS["en"], ASKS["en", "desire"], "yeah")
    no = _assessed("en", OPENS["en"], ASKS["en", "desire"], "No, I promise. I'm just worn out.")
    assert yes.level == "high" and yes.reading is not None and yes.reading.firm
    assert no.level == "none" and no.risk.asked


def test_what_is_no_answer_is_kept_in_mind_asked_again_in_other_words_and_does_not_add_up() -> None:
    texts = [OPENS["en"], ASKS["en", "desire"], "I'd rather not say"]
    first = _assessed("en", *texts)
    assert first.level == "watch" and first.reply is not None and first.reply.asks == "desire"
    again = _assessed("en", *texts, first.reply.text, "not really")
    assert again.level == "watch"
    assert again.reply is not None and again.reply.text != first.reply.text
    later = _assessed("en", *texts, first.reply.text, "not really", again.reply.text, "the bus was late again today")
    assert not at_least(later.level, "high")


def test_violence_that_is_told_after_the_question_is_no_answer_to_it() -> None:
    found = _assessed("en", "there's no way out", ASKS["en", "desire"], "he broke two of my fingers at easter")
    assert found.level == "high" and found.danger == "partner_violence"


@pytest.mark.parametrize(("language", "message", "levels", "situation"), _rows("first_messages.tsv"))
def test_messages_that_open_a_conversation(language: str, message: str, levels: str, situation: str) -> None:
    found = _assessed(language, message)
    assert found.level in levels.split()
    if situation != "-":
        assert found.reply is not None and found.reply.situation == situation


def test_every_kind_is_met_by_an_example() -> None:
    examples = [kind_of(row[2], fold(row[3]).text) for row in _rows("answer_kinds.tsv")]  # type: ignore[arg-type]
    met = {one.kind for one in examples if one is not None}
    assert {row.kind.kind for row in table()} - met <= {"a number", "sent away"}
