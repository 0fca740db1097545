"""The conversation against a real server: what reaches it, what comes back, what is kept."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conversation.supporter import WORDS, Supporter

from compeer.conversation import ChatSession, ChatSettings, Sampling, TurnRequest, answer
from compeer.conversation.engine import Assessed
from compeer.errors import UserError
from compeer.models import ModelError, open_model
from compeer.models.request import Patience
from compeer.reasoning import Event, Pins
from compeer.safety import ConversationGuard


def talk(supporter: Supporter, story: Callable[[ChatSession], Awaitable[Any]], **settings: Any) -> ChatSession:
    """Run a story in a conversation with the server."""
    sampling = Sampling(**{name: settings.pop(name) for name in ("seed", "history_words") if name in settings})

    async def go() -> ChatSession:
        model = open_model("openai:kind-7b", base_url=supporter.base_url, patience=Patience(attempts=2, first=0.01))
        conversation = ChatSession(model, ChatSettings(sampling=sampling, **settings))
        try:
            await story(conversation)
        finally:
            await model.close()
        return conversation

    return asyncio.run(go())


async def every(events: Any) -> list[Event]:
    return [event async for event in events if isinstance(event, Event)]


def sent(supporter: Supporter, number: int = -1) -> list[tuple[str, str]]:
    """The messages of a request after the system prompt."""
    return [(message["role"], message["content"]) for message in supporter.bodies[number]["messages"][1:]]


def test_say_streams_each_step_and_then_the_reply(supporter: Supporter) -> None:
    events: list[Event] = []

    async def story(conversation: ChatSession) -> None:
        events.extend(await every(conversation.say("I lost my job.")))

    conversation = talk(supporter, story)
    assert [event.step for event in events if event.kind == "step"] == ["history", "emotion", "strategy"]
    reply = "".join(event.text for event in events if event.kind == "reply")
    (turn,) = conversation.turns
    assert reply == turn.answer.parsed.response == "That sounds heavy to carry alone 1."
    assert turn.answer.parsed.complete and turn.answer.problems == ()
    assert turn.said == "I lost my job." and turn.answer.raw.startswith("<think>")


def test_past_reasoning_is_not_in_later_prompts(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        for text in ("I lost my job.", "The pay was good.", "I like baking."):
            await every(conversation.say(text))

    talk(supporter, story)
    assert sent(supporter) == [
        ("user", "I lost my job."),
        ("assistant", "That sounds heavy to carry alone 1."),
        ("user", "The pay was good."),
        ("assistant", "That sounds heavy to carry alone 2."),
        ("user", "I like baking."),
    ]
    everything = json.dumps(supporter.bodies[-1])
    assert not any(text in everything for text in WORDS["en"].values())


def test_again_keeps_the_old_answer_beside_the_new_one(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("Hello."))
        await every(conversation.say("I lost my job."))
        await every(conversation.again())
        await every(conversation.again())

    conversation = talk(supporter, story)
    assert [turn.answer.parsed.response[-2:] for turn in conversation.turns] == ["1.", "4."]
    assert [other.parsed.response[-2:] for other in conversation.turns[-1].others] == ["2.", "3."]
    # asked as if for the first time: the answers it replaces are not in the prompt
    assert sent(supporter) == sent(supporter, 1)


def test_again_with_another_strategy_is_for_once(supporter: Supporter) -> None:
    from compeer.reasoning import Control

    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        await every(conversation.again(Control(Pins(strategy="self-disclosure"))))
        await every(conversation.say("Hm."))

    conversation = talk(supporter, story)
    assert [turn.answer.parsed.labels["strategy"] for turn in conversation.turns] == ["self-disclosure", "question"]


def test_edit_keeps_the_steps_before_and_writes_those_after_anew(supporter: Supporter) -> None:
    mine = "They are angry with themselves, not ashamed."

    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        await every(conversation.edit("emotion", mine, emotion="anger"))

    conversation = talk(supporter, story)
    (turn,) = conversation.turns
    (before,) = turn.others
    assert turn.answer.parsed.texts["emotion"] == mine and turn.answer.parsed.labels["emotion"] == "anger"
    assert turn.answer.parsed.texts["history"] == before.parsed.texts["history"]
    assert turn.answer.parsed.labels["stage"] == before.parsed.labels["stage"]
    assert turn.answer.problems == ()
    # what comes before is given and fixed, what comes after is free
    assert dict(turn.answer.control.given) == {"history": before.parsed.texts["history"], "emotion": mine}
    assert dict(turn.answer.control.pins.items()) == {"stage": "exploration", "emotion": "anger"}
    assert sent(supporter) == sent(supporter, 0)


def test_an_edit_keeps_what_stands_before_it_even_if_it_does_not_fit(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        supporter.manner = "says"
        supporter.text = conversation.turns[0].answer.raw.replace("Sentiment: negative", "Sentiment: positive")
        await every(conversation.again())
        supporter.manner = "contract"
        await every(conversation.edit("strategy", "Say nothing, stay."))

    turn = talk(supporter, story).turns[0]
    assert (turn.answer.parsed.labels["sentiment"], turn.answer.parsed.labels["emotion"]) == ("positive", "shame")
    assert turn.answer.parsed.texts["strategy"] == "Say nothing, stay." and turn.answer.problems == ()


@pytest.mark.parametrize(
    ("step", "text", "says"),
    [
        ("feelings", "They are angry.", "there is no step 'feelings'"),
        ("emotion", "Stage: comforting </think>", "contains a reasoning tag"),
        ("emotion", "Emotion: anger", "contains a labelled line"),
        ("emotion", " … ", "is empty"),
    ],
)
def test_edits_that_cannot_be_kept_are_refused_in_words(supporter: Supporter, step: str, text: str, says: str) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        with pytest.raises(UserError, match=says):
            await every(conversation.edit(step, text))

    assert len(talk(supporter, story).turns) == 1
    assert len(supporter.bodies) == 1


def test_an_answer_without_reasoning_cannot_be_edited(supporter: Supporter) -> None:
    supporter.manner, supporter.text = "says", "Just a reply."

    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        with pytest.raises(UserError, match="no complete reasoning to edit"):
            await every(conversation.edit("emotion", "They are angry."))

    conversation = talk(supporter, story)
    assert conversation.turns[0].answer.parsed.response == "Just a reply."


def test_pins_persist_over_turns_and_edits(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        await every(conversation.say("I told nobody."))
        await every(conversation.edit("history", "They have no one to tell."))

    conversation = talk(supporter, story, pins=Pins(strategy="information", intensity=2))
    answers = [*(turn.answer for turn in conversation.turns), *conversation.turns[-1].others]
    assert len(answers) == 3
    assert all(answer.parsed.labels["strategy"] == "information" for answer in answers)
    assert all(answer.parsed.labels["intensity"] == 2 for answer in answers)
    assert all(answer.problems == () for answer in answers)


def test_a_pin_that_a_server_does_not_keep_is_said(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        thinking = conversation.turns[0].answer.raw.partition("</think>")[0]
        supporter.manner, supporter.text = "says", f"{thinking}</think>\nWhich part of it weighs most today?"
        conversation.settings.pins = Pins(strategy="information")
        await every(conversation.say("And now?"))

    turn = talk(supporter, story).turns[-1]
    assert turn.answer.parsed.complete
    assert [str(problem) for problem in turn.answer.problems] == [
        "strategy was pinned to 'information'; the output says 'question'"
    ]


def test_the_language_follows_the_person(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        for text in ("我丢了工作。", "……", "The pay was good.", "👍"):
            await every(conversation.say(text))

    conversation = talk(supporter, story)
    assert [turn.answer.parsed.language for turn in conversation.turns] == ["zh", "zh", "en", "en"]
    assert conversation.turns[0].answer.parsed.labels["strategy"] == "question"  # canonical, though written 提问


def test_a_chosen_language_stays(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))

    assert talk(supporter, story, language="zh").turns[0].answer.parsed.language == "zh"


def test_the_oldest_turns_are_dropped_from_the_prompt_not_from_the_conversation(supporter: Supporter) -> None:
    long = " ".join(f"word{number}" for number in range(20))

    async def story(conversation: ChatSession) -> None:
        for number in range(6):
            await every(conversation.say(f"{long} message {number}."))

    # each earlier turn is 22 words said and 7 answered; the new message is 22
    conversation = talk(supporter, story, history_words=22 + 2 * 29)
    assert len(conversation.turns) == 6
    said = [content for role, content in sent(supporter) if role == "user"]
    assert [text[-10:] for text in said] == ["message 3.", "message 4.", "message 5."]
    assert supporter.bodies[-1]["messages"][0]["role"] == "system"


def test_a_message_longer_than_the_budget_is_still_sent(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("Hello."))
        await every(conversation.say("long " * 100))

    talk(supporter, story, history_words=50)
    assert sent(supporter) == [("user", "long " * 100)]


def test_a_turn_without_a_reply_leaves_no_empty_message_in_the_prompt(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        supporter.manner = "nothing"
        await every(conversation.say("I lost my job."))
        supporter.manner = "contract"
        await every(conversation.say("Are you there?"))

    conversation = talk(supporter, story)
    assert conversation.turns[0].answer.parsed.response == ""
    assert sent(supporter) == [("user", "I lost my job.\nAre you there?")]


def test_a_message_that_got_no_answer_is_answered_by_again(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("Hello."))
        supporter.manner, supporter.status, supporter.text = "raw", 500, "{}"
        with pytest.raises(ModelError, match="500"):
            await every(conversation.say("I lost my job."))
        supporter.reset()
        await every(conversation.again())
        assert conversation.unanswered is None

    conversation = talk(supporter, story)
    assert [turn.said for turn in conversation.turns] == ["Hello.", "I lost my job."]
    assert conversation.turns[-1].others == []


@pytest.mark.parametrize("text", ["word ", "<think>", "<think>\n<history>\nthey "])
def test_an_answer_without_end_is_cut_and_the_server_left(supporter: Supporter, text: str) -> None:
    supporter.manner, supporter.text = "endless", text

    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))

    (turn,) = talk(supporter, story).turns
    assert str(turn.answer.problems[0]) == "it did not stop, and was cut after 12,000 characters"
    assert len(turn.answer.raw) < 13_000
    for _ in range(100):
        if supporter.left:
            break
        asyncio.run(asyncio.sleep(0.05))
    assert supporter.left == 1


def test_seeds_differ_by_turn_and_are_the_same_in_a_second_run(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        await every(conversation.again())

    talk(supporter, story, seed=5)
    talk(supporter, story, seed=5)
    first, second, third, fourth = (body["seed"] for body in supporter.bodies)
    assert (first, second) == (third, fourth) and first != second


def test_nothing_is_asked_again_or_edited_before_the_first_message(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        with pytest.raises(UserError, match="Nothing has been said yet"):
            await every(conversation.again())
        with pytest.raises(UserError, match="Nothing has been said yet"):
            await every(conversation.edit("emotion", "They are angry."))

    talk(supporter, story)
    assert supporter.bodies == []


def test_save_is_private_whole_and_overwrites_nothing(supporter: Supporter, tmp_path: Path) -> None:
    file = tmp_path / "conversation.json"

    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("我丢了工作。"))
        await every(conversation.again())

    conversation = talk(supporter, story, pins=Pins(emotion="shame"))
    assert conversation.save(file) == file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    saved = json.loads(file.read_text("utf-8"))
    assert saved["model"].startswith("openai:kind-7b@")
    (turn,) = saved["turns"]
    assert turn["said"] == "我丢了工作。" and turn["emotion"] == "shame" and turn["complete"] is True
    assert turn["response"].endswith("2。") and turn["others"][0]["response"].endswith("1。")
    before = file.read_bytes()
    with pytest.raises(UserError, match="exists; choose another name"):
        conversation.save(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "why"), [("no/such/folder/x.json", "No such file"), ("", "exists"), ("~nobody-at-all/x", "home directory")]
)
def test_a_place_that_cannot_be_written_is_said(
    supporter: Supporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)

    async def story(conversation: ChatSession) -> None:
        with pytest.raises(UserError, match=why):
            conversation.save(name)

    talk(supporter, story)
    assert list(tmp_path.iterdir()) == []


def test_forget_leaves_nothing_but_the_pins(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        await every(conversation.say("I lost my job."))
        conversation.forget()
        await every(conversation.say("Hello."))

    conversation = talk(supporter, story, pins=Pins(stage="action"))
    assert sent(supporter) == [("user", "Hello.")]
    assert conversation.turns[0].answer.parsed.labels["stage"] == "action"


def test_a_message_that_got_no_answer_stays_when_another_is_sent(supporter: Supporter) -> None:
    async def story(conversation: ChatSession) -> None:
        supporter.manner, supporter.status, supporter.text = "raw", 500, "{}"
        with pytest.raises(ModelError):
            await every(conversation.say("I lost my job."))
        supporter.reset()
        await every(conversation.say("Are you there?"))

    conversation = talk(supporter, story)
    assert [(turn.said, turn.answer.reply) for turn in conversation.turns] == [
        ("I lost my job.", ""),
        ("Are you there?", "That sounds heavy to carry alone 1."),
    ]
    assert sent(supporter) == [("user", "I lost my job.\nAre you there?")]
    assert [turn["said"] for turn in conversation.as_dict()["turns"]] == ["I lost my job.", "Are you there?"]


def test_while_risk_is_high_there_is_no_analysis_and_no_second_answer(supporter: Supporter) -> None:
    events: list[Event] = []

    async def story(conversation: ChatSession) -> None:
        events.extend(await every(conversation.say("I want to kill myself.")))
        with pytest.raises(UserError, match="no second answer"):
            await every(conversation.again())
        with pytest.raises(UserError, match="no complete reasoning"):
            await every(conversation.edit("emotion", "They are calm."))

    conversation = talk(supporter, story)
    assert {event.kind for event in events} == {"reply"}
    (turn,) = conversation.turns
    assert turn.answer.assessment.urgent and turn.answer.reply
    assert turn.answer.parsed.labels == {} and turn.answer.parsed.texts == {} and turn.answer.raw == turn.answer.reply


def test_the_same_history_has_the_same_risk_wherever_it_comes_from(supporter: Supporter) -> None:
    """A session and a server that remembers nothing speak through one engine."""
    said = ("I want to kill myself.", "Never mind.", "It rains.")

    async def story(conversation: ChatSession) -> None:
        for text in said:
            await every(conversation.say(text))
        rebuilt = tuple(conversation.history(conversation.turns))[:-1]
        request = TurnRequest(history=rebuilt, language="en")
        async for event in answer(conversation.model, request, ConversationGuard()):
            if isinstance(event, Assessed):
                assert msgspec.structs.asdict(event.assessment) == msgspec.structs.asdict(conversation.assessment)

    talk(supporter, story)
