"""A model that reads the conversation: what it raises, what it softens, what it cannot take away, and when it is silent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from compeer.errors import UserError
from compeer.safety import Assessment, ConversationGuard, Said
from compeer.safety.reader import (
    MODEL,
    QUESTION,
    Learned,
    ModelReader,
    Odds,
    SmallReader,
    mixed,
    reader_of,
    shown,
    taught,
    told_by,
)

CALM = Odds(0.98, 0.01, 0.005, 0.003, 0.002)
WATCH = Odds(0.05, 0.9, 0.03, 0.01, 0.01)
HIGH = Odds(0.02, 0.05, 0.9, 0.02, 0.01)
EMERGENCY = Odds(0.01, 0.02, 0.05, 0.91, 0.01)
OTHER = Odds(0.02, 0.02, 0.03, 0.02, 0.91)


class Scripted:
    """A reader that says what the test tells it to, by the person's last message; counts what it is asked."""

    def __init__(self, **by_message: Odds) -> None:
        self.by_message, self.asked = by_message, 0

    async def odds(self, messages: Sequence[Mapping[str, str]], language: str) -> Odds | None:
        self.asked += 1
        assert messages[0]["role"] == messages[-1]["role"] == "user"
        return self.by_message.get(messages[-1]["content"].split()[0].lower())


def levels(reader: Scripted, *history: str, language: str = "en") -> list[Assessment]:
    """The assessment after each message of the person; supporter and person in turn."""
    guard = ConversationGuard(country="US")
    said = [Said("seeker" if at % 2 == 0 else "supporter", text) for at, text in enumerate(history)]
    return [asyncio.run(guard.assess(said[: at + 1], language, reader=reader)) for at in range(0, len(said), 2)]


@pytest.mark.parametrize(
    ("odds", "level"), [(CALM, "none"), (WATCH, "watch"), (HIGH, "high"), (EMERGENCY, "emergency"), (OTHER, "high")]
)
def test_what_the_probabilities_stand_for(odds: Odds, level: str) -> None:
    assert told_by(odds, asked=True).level == level
    assert told_by(odds).level == ("none" if odds is WATCH else level), "unasked, watch needs more than likelihood"
    assert told_by(odds).other == (odds is OTHER) and told_by(odds, asked=True).sure == (odds is CALM)


def test_a_few_words_tell_an_emergency_or_nothing_and_a_first_message_little() -> None:
    assert told_by(HIGH, brief=True).level == "none" and told_by(HIGH, asked=True, brief=True).level == "high"
    assert told_by(EMERGENCY, brief=True).level == "emergency"
    likely = Odds(0.12, 0.05, 0.09, 0.74, 0.0)
    assert (told_by(likely).level, told_by(likely, first=True).level) == ("emergency", "none")


def test_an_answer_of_no_known_kind_is_a_no_only_where_the_reader_is_certain() -> None:
    ask = "Are you thinking about killing yourself?"
    nearly = Odds(0.93, 0.04, 0.01, 0.01, 0.01)
    for odds, level in ((CALM, "none"), (nearly, "watch")):
        found = levels(Scripted(my=CALM, the=odds), "my chapter is late again", ask, "the chapter, lisbon on friday")
        assert found[-1].level == level


def test_it_raises_what_no_word_tells() -> None:
    found = levels(Scripted(platform=EMERGENCY), "platform 2. letting them go past")[0]
    assert found.level == "emergency" and not found.ask_model
    assert (
        levels(Scripted(hes=OTHER), "hes said sorry so its fine. my boyfriend. i can nearly turn my neck")[0].danger
        == "partner_violence"
    )


def test_what_the_lexicon_found_is_softened_by_one_step_and_no_more() -> None:
    assert levels(Scripted(i=CALM), "I want to kill myself")[0].level == "high", "unasked, it stays"
    ask = "Do you mean that you want to die?"
    for answer, level in (("I want to kill myself, in the game", "watch"), ("I hold a gun to my head", "high")):
        assert levels(Scripted(well=CALM, i=CALM), "well", ask, answer)[-1].level == level


def test_after_a_question_it_overrules_what_only_the_rules_found() -> None:
    ask = "Are you thinking about killing yourself?"
    assert levels(Scripted(), "This level is the end of me", ask, "since monday")[-1].level == "high"
    calm = Scripted(this=CALM, since=CALM)
    assert levels(calm, "This level is the end of me", ask, "since monday, it is a hard game")[-1].level == "none"


def test_unasked_it_takes_back_what_only_a_network_heard_and_nothing_that_was_said() -> None:
    hint = "Some nights I lie flat on the floor with my arms crossed to see how it would feel, like coming home."
    assert levels(Scripted(), hint)[0].level == "watch" and levels(Scripted(some=CALM), hint)[0].level == "none"
    assert levels(Scripted(some=WATCH), hint)[0].level == "watch"
    assert levels(Scripted(i=CALM), "I tried to kill myself last year")[0].level == "watch", "told, though over"


def test_asked_and_read_as_less_it_comes_down_to_watch_and_not_after_means() -> None:
    ask = "Are you thinking about killing yourself?"
    reader = Scripted(i=HIGH, no=WATCH)
    assert levels(reader, "i cannot see how next week would come", ask, "no I was only angry")[-1].level == "watch"
    reader = Scripted(its=EMERGENCY, no=WATCH)
    assert levels(reader, "its all laid out on the table", ask, "no I was only angry")[-1].level == "emergency"


def test_an_answer_read_by_a_model_that_has_learned_it_counts_before_the_rules() -> None:
    ask = "Are you thinking about killing yourself?"
    spoken = {"none": CALM, "watch": WATCH, "high": HIGH, "emergency": EMERGENCY, "other danger": OTHER}
    learned = {level: Learned(*msgspec.structs.astuple(odds)) for level, odds in spoken.items()}

    def after(answer: str, level: str) -> Assessment:
        return levels(Scripted(yes=learned[level], no=learned[level], i=learned[level]), "rough week", ask, answer)[-1]

    assert [after("yes well, in a way", level).level for level in ("none", "watch", "high", "emergency")] == [
        "none", "watch", "high", "emergency",
    ]  # fmt: skip
    assert after("no not every night", "high").level == "high" and after("no", "other danger").danger != "suicide"
    assert levels(Scripted(no=CALM), "rough week", ask, "no")[-1].level == "none"
    assert after("I want to kill myself", "none").level == "watch", "plain words are softened by one step and no more"
    assert after("yes well, in a way", "watch").reply is not None, "and are asked again"


def test_it_is_asked_once_for_each_message() -> None:
    reader = Scripted(hello=CALM, well=CALM, yes=CALM)
    levels(reader, "hello", "Hi.", "well", "Yes?", "yes indeed")
    assert reader.asked == 3


class Home:
    """A model that tells how likely answers are; refuses where told to."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.seen: list[Any] = []

    async def __call__(self, messages: Sequence[dict[str, Any]], answers: Sequence[str]) -> dict[str, float]:
        if self.refuses:
            raise UserError("no")
        self.seen.append(messages)
        return dict(zip(answers, (0.1, 0.2, 0.3, 0.3, 0.1), strict=True))


ASKED = [
    {"role": "user", "content": "i cannot see next week"},
    {"role": "assistant", "content": "Are you thinking about killing yourself?"},
    {"role": "user", "content": "what do you  think"},
]


def test_a_model_reads_the_end_of_the_conversation_after_a_question_about_safety() -> None:
    home = Home()
    reader = ModelReader(home)
    small = asyncio.run(reader.small.odds(ASKED, "en"))
    assert asyncio.run(reader.odds(ASKED, "en")) == mixed(Learned(0.1, 0.2, 0.3, 0.3, 0.1), small, MODEL)
    (seen,) = home.seen
    assert seen[0] == {"role": "system", "content": QUESTION["en"]}
    assert [one["content"] for one in seen[1:]] == [*(one["content"] for one in ASKED[:2]), "what do you think"]
    long = [{"role": role, "content": "word " * 100} for role in ("user", "assistant") * 5] + ASKED
    assert shown(long, "zh")[1:] == shown(ASKED, "zh")[1:]


def test_what_answers_no_question_about_safety_is_left_to_the_small_networks() -> None:
    home = Home()
    reader = ModelReader(home)
    for messages in (ASKED[:1], [ASKED[0], {"role": "assistant", "content": "What happened?"}, ASKED[2]]):
        assert asyncio.run(reader.odds(messages, "en")) == asyncio.run(reader.small.odds(messages, "en"))
    assert home.seen == []


def test_a_model_that_does_not_answer_leaves_the_rest_to_read() -> None:
    reader = ModelReader(Home(refuses=True))
    assert asyncio.run(reader.odds(ASKED, "en")) == asyncio.run(reader.small.odds(ASKED, "en"))
    guard = ConversationGuard(country="US")
    found = asyncio.run(guard.assess([Said("seeker", "I want to kill myself")], "en", reader=reader))
    assert found.level == "high"


def test_a_model_reads_only_where_its_adapter_was_taught_this_question(tmp_path: Path) -> None:
    def model(adapter: Path | None) -> object:
        return SimpleNamespace(others={"reader": adapter} if adapter else {}, number_of=lambda role: 1)

    learned, other, none = (tmp_path / name for name in ("learned", "other", "none"))
    for folder, note in ((learned, taught()), (other, taught() | {"answers": ["yes", "no"]})):
        folder.mkdir()
        (folder / "reader.json").write_text(json.dumps(note))
    none.mkdir()
    assert reader_of(model(learned)) is not None
    assert [reader_of(model(one)) for one in (other, none, None)] == [None, None, None]
    assert reader_of(object()) is None


@pytest.mark.parametrize(
    ("history", "level"),
    [
        (["platform 2. letting them go past"], "emergency"),
        (["I have a job interview on Monday and I am so nervous."], "none"),
        (["rough week", "Are you thinking about killing yourself?", "not tonight"], "watch"),
        (["rough week", "Are you thinking about killing yourself?", "lol no. just tired of my boss"], "none"),
    ],
)
def test_the_small_network_reads_conversations(history: list[str], level: str) -> None:
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(history)]
    odds = asyncio.run(SmallReader().odds(messages, "en"))
    assert odds is not None and told_by(odds, asked=len(history) > 1).level == level
    assert sum(msgspec.structs.astuple(odds)) == pytest.approx(1)


def test_a_message_that_unsettles_is_answered_by_listening_and_raises_nothing() -> None:
    found = levels(Scripted(slipped=Odds(0.1, 0.05, 0.7, 0.1, 0.05)), "slipped")[0]
    assert found.level == "none" and found.banner is None and not found.ask_model
    assert found.reply is not None and found.reply.situation == "listening"
    _, outcome = ConversationGuard(country="US").screen(found).finish()
    assert outcome.replaced == "care" and outcome.banner is None
    assert levels(Scripted(slipped=CALM), "slipped")[0].ask_model
