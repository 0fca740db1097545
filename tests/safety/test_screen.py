"""What one message tells: disclosures, denials by grammar, idioms, past, others, emergencies; nothing is diluted."""

from __future__ import annotations

import pytest

from compeer.safety import screen
from compeer.safety.levels import Finding
from compeer.safety.network import Heard
from compeer.safety.screen import lexicon_finding, weigh

EMERGENCY = [
    "i took all my pills",
    "I just swallowed a whole bottle of tylenol",
    "I have a loaded gun in my lap",
    "I'm going to kill myself tonight",
    "kms tonight fr",
    "I cut too deep and it's bleeding a lot, it won't stop",
    "我吞了一整瓶安眠药",
    "我今晚就去死",
    "我在楼顶上，想跳下去",
    "刀片抵在手腕上",
]
HIGH = [
    "I want to kill myself",
    "i wanna die",
    "I can't go five minutes without thinking about suicide",
    "not a day goes by that I don't think about suicide",
    "I can't stop thinking about killing myself",
    "I don't want to be alive anymore",
    "im feeling suicidl",
    "wnat to die",
    "kms",
    "relapsed on sh again",
    "been having passive si lately",
    "thinking of taking an od",
    "I've been cutting myself",
    "everyone would be better off without me",
    "what's the most painless way to die",
    "我不想活了",
    "最近总是想轻生",
    "脑子里全是自杀的念头",
    "好想紫砂",
    "我又自残了",
    "活着没有意义",
    "吃多少安眠药会死",
]
NOTHING = [
    "this exam is killing me",
    "That's why I'm here",
    "Santa doesn't exist",
    "I need to stabilize myself",
    "I would never kill myself",
    "I don't want to die",
    "I'm not suicidal, just tired",
    "I've never thought about suicide",
    "I'm so embarrassed I could die",
    "My brother took his own life four years ago.",
    "I burned myself out at work",
    "今天累死了",
    "想死你了",
    "我没有自杀的念头",
    "这道题做得我想死",
    "大甩卖跳楼价",
    "我在规划自己的学业",
    "爸爸打我电话了",
]


@pytest.mark.parametrize("text", EMERGENCY)
def test_emergencies(text: str) -> None:
    assert screen(text).level == "emergency"


@pytest.mark.parametrize("text", HIGH)
def test_disclosures_are_high(text: str) -> None:
    assert screen(text).level == "high"


@pytest.mark.parametrize("text", NOTHING)
def test_what_only_sounds_like_it(text: str) -> None:
    assert screen(text).level == "none"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("my dad hits me with a belt", "child_abuse"),
        ("我爸用皮带抽我", "child_abuse"),
        ("my husband punched me again last night", "partner_violence"),
        ("老公喝了酒就打我", "partner_violence"),
        ("I'm going to hurt him, I bought a knife", "violence"),
        ("我一定要杀了他，刀都买好了", "violence"),
    ],
)
def test_other_dangers_have_kinds_of_their_own(text: str, kind: str) -> None:
    finding = screen(text)
    assert finding.level == "high" and kind in finding.kinds and "wish" not in finding.kinds


def test_past_is_watched_and_what_has_come_back_is_high() -> None:
    assert screen("I tried to kill myself when I was nineteen").level == "watch"
    assert screen("I tried to kill myself years ago and now I want to die again").level == "high"
    assert screen("Three years ago I overdosed. I'm well now.").level == "watch"
    assert screen("我十年前割过腕").level != "emergency"


def test_someone_else() -> None:
    finding = screen("my sister says she wants to kill herself")
    assert finding.level == "high" and finding.other
    assert not screen("I want to die and my sister does not know").other


def test_means_mean_something_only_after_worry() -> None:
    text = "I have them with me, the tablets are next to me"
    assert screen(text).level != "emergency" and screen(text, worried=True).level == "emergency"
    assert screen("I want to die. The pills are in front of me.").level == "emergency"


ORDINARY = {
    "en": (
        "I had lunch with my sister on Tuesday.",
        "The weather has been nice.",
        "I moved here two years ago for work.",
    ),
    "zh": ("今天中午和同事吃了饭。", "天气还不错。", "我两年前搬到这里工作。"),
}


@pytest.mark.parametrize("text", [*HIGH, *EMERGENCY])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_ordinary_sentences_around_it_change_nothing(text: str, place: int) -> None:
    language = "zh" if any("\u3400" <= sign <= "\u9fff" for sign in text) else "en"
    parts = list(ORDINARY[language])
    parts.insert(place, text + ("。" if language == "zh" else "."))
    assert screen((" " if language == "en" else "").join(parts)).level in ("high", "emergency")


def test_the_model_may_soften_by_one_step_and_never_an_emergency() -> None:
    harmless = Heard(-9.0, False, 0.0, True)
    assert weigh(Finding("high", ("third",)), harmless).level == "watch"
    assert weigh(Finding("high", ("wish",)), harmless).level == "high"
    assert weigh(Finding("emergency", ("means",)), harmless).level == "emergency"
    assert weigh(Finding("watch", ("wish",)), harmless).level == "none"
    assert weigh(Finding(), Heard(9.0, True, 1.0, False)).level == "watch"


def test_spans_point_at_what_was_written() -> None:
    text = "Hello. I want to K!LL myself, please."
    span = lexicon_finding(text).spans[0]
    assert "K!LL myself" in text[span.start : span.end]


def test_a_very_long_message_is_read_at_both_ends() -> None:
    assert screen("word " * 9000 + "I want to kill myself").level == "high"
