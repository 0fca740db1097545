"""Small talk: prepared words where a message is nothing else, and the model everywhere else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from compeer.conversation import TurnRequest, answer, engine, sampling_for
from compeer.conversation.engine import Done, HistoryTurn
from compeer.conversation.small_talk import _kinds, kind_of, small_talk
from compeer.models.request import Request
from compeer.reasoning import Control, Pins
from compeer.reasoning.ontology import Language
from compeer.safety import ConversationGuard
from compeer.safety.outgoing import review

SAID = {
    "hi": "greeting", "Good morning everyone!": "greeting", "hiiii :)": "greeting", "hey bot": "greeting",
    "are you a robot?": "kind of program", "r u human or ai": "kind of program", "Am I talking to a person": "kind of program",
    "thanks!!": "thanks", "ok thank you so much, that helped": "thanks", "cheers mate": "thanks",
    "you're useless": "insult", "u are so stupid": "insult", "shut up": "insult", "This is useless, isn't it?": "insult",
    "bye": "goodbye", "alright, good night": "goodbye", "i have to go to bed now": "goodbye", "gtg, thanks": "goodbye",
    "is anyone there?": "anyone there", "testing 1 2 3": "a test", "ugh": "sigh", "idk": "no words", "what can you do?": "use",
    "ok ill try that tonight. thanks": "thanks", "What's your name?": "name", "how r u": "how are you",
    "你好": "greeting", "在吗": "anyone there", "谢谢你": "thanks", "晚安": "goodbye", "你是真人吗？": "kind of program",
    "你真没用": "insult", "唉……": "sigh", "你叫什么名字": "name", "你会做什么": "use", "测试一下": "a test", "行 我试试 谢谢": "thanks",
}  # fmt: skip
OTHER = [
    "hi, my cat died", "thanks for nothing, i want to scream", "useless", "i am useless", "没用", "我没用", "goodbye world",
    "i have to go to court tomorrow", "this is pointless", "i said hi to her and she looked away", "are you a robot? my ex is",
    "thank you, but he hit me again", "good morning, I lost my job", "hello darkness my old friend", "nobody is there",
    "night is the worst", "i'm off my meds", "you are the only one i can talk to", "", "???", "谢谢你，可是我还是想死", "晚安世界",
    "你好烦我妈总说我", "在医院", "她在吗",
]  # fmt: skip


def language(text: str) -> Language:
    return "zh" if re.search("[\u4e00-\u9fff]", text) else "en"


@pytest.mark.parametrize(("message", "kind"), SAID.items())
def test_small_talk_is_known(message: str, kind: str) -> None:
    found = kind_of(message, language(message))
    assert found is not None and found.kind == kind


@pytest.mark.parametrize("message", OTHER)
def test_what_says_anything_else_is_left_to_the_model(message: str) -> None:
    assert kind_of(message, language(message)) is None


@pytest.mark.parametrize("spoken", ["en", "zh"])
def test_every_reply_is_plain_harmless_and_given_once(spoken: Language) -> None:
    for kind, _ in _kinds(spoken):
        for text in (*kind.first, *kind.later):
            assert review(text) is None
            assert len(text) <= 200 and text.count("?") + text.count("？") <= 1 and "!" not in text
            assert not re.search(r"\bI(?:'m| am) (?:sad|happy|proud)|assist|As an AI", text)
    hello = "hi" if spoken == "en" else "你好"
    first = [small_talk(hello, [], spoken, seed) for seed in range(30)]
    assert len(set(first)) > 1 and first[3] == small_talk(hello, [], spoken, 3)
    later = _kinds(spoken)[-1][0].later
    assert small_talk(hello, later, spoken) is None, "nothing is said twice"


class Base:
    """Stands for the 1.5B base: what matters is whether it is asked."""

    name, sees = "embedded", False

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: Request, ending: Any = None) -> AsyncIterator[str]:
        self.asked += 1
        yield "Sounds like a long day."


@pytest.mark.parametrize(
    ("message", "how", "prepared"),
    [
        ("hi", {}, True),
        ("hi, my cat died", {}, False),
        ("hi", {"control": Control(Pins(strategy="question"))}, False),
        ("hi", {"instructions": ("Speak like a pirate.",)}, False),
        ("hi", {"think": "full"}, False),
    ],
)
def test_the_base_is_not_asked_for_small_talk(
    message: str, how: dict[str, Any], prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "thinks_by_adapter", lambda name: name == "embedded")
    base = Base()
    sampling = sampling_for(base, think=how.pop("think", "off"), seed=1)  # type: ignore[arg-type]
    request = TurnRequest(history=(HistoryTurn("seeker", message),), language="en", sampling=sampling, **how)

    async def scenario() -> Any:
        events = [event async for event in answer(base, request, ConversationGuard(country="US"))]  # type: ignore[arg-type]
        return next(event.result for event in events if isinstance(event, Done))

    result = asyncio.run(scenario())
    assert (result.prepared, base.asked) == (prepared, int(not prepared))
    assert result.reply and (not prepared or result.parsed.complete)


def test_a_goodbye_at_risk_is_no_small_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "thinks_by_adapter", lambda name: True)
    history = tuple(
        HistoryTurn(who, text)  # type: ignore[arg-type]
        for who, text in (("seeker", "I want to kill myself"), ("supporter", "I'm here."), ("seeker", "ok bye"))
    )
    base = Base()
    request = TurnRequest(history=history, language="en", sampling=sampling_for(base, think="off"))  # type: ignore[arg-type]

    async def scenario() -> Any:
        events = [event async for event in answer(base, request, ConversationGuard(country="US"))]  # type: ignore[arg-type]
        return next(event.result for event in events if isinstance(event, Done))

    result = asyncio.run(scenario())
    assert not result.prepared and result.assessment.level == "high" and base.asked == 0
