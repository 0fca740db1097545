"""Checks without a model: tables of dialogues, each with the reason it must get, and what must pass."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from compeer.cer.duplicates import DialogueIndex, Duplicate, fingerprint
from compeer.cer.filter import CODES, Limits, check, flag
from compeer.corpora import Rejected, load
from compeer.dialogue import Dialogue, Speaker, Utterance
from compeer.errors import UserError
from compeer.reasoning.ontology import Language
from compeer.safety import crisis_words

CALM = [
    "I lost my job on monday and i haven't told anyone",
    "That sounds like a lot to carry alone. What has the week been like?",
    "long. i keep getting up at seven and sitting in the car",
    "So you leave the house as if you were going to work?",
]
CALM_ZH = [
    "最近总是睡不着，脑子停不下来",
    "躺下以后都在想些什么呢？",
    "工作上的事，还有我妈的病",
    "两头都放不下，难怪睡不着。",
]


def dialogue(texts: list[str], language: Language = "en", name: str = "d", speakers: str = "sr") -> Dialogue:
    sides: dict[str, Speaker] = {"s": "seeker", "r": "supporter"}
    said = tuple(Utterance(speaker=sides[speakers[n % len(speakers)]], text=text) for n, text in enumerate(texts))
    return Dialogue(id=name, source="test", licence="CC0 1.0", language=language, utterances=said)


WRONG: list[tuple[str, str, Dialogue]] = [
    ("empty", "punctuation only", dialogue(["...", "?!", "…", "。"])),
    ("one-sided", "no supporter", dialogue(CALM, speakers="s")),
    ("one-sided", "no seeker", dialogue(CALM, speakers="r")),
    ("too-short", "one round", dialogue(CALM[:2])),
    ("too-short", "one round of many utterances", dialogue(CALM, speakers="ssrr")),
    ("too-long", "an article for a reply", dialogue([*CALM[:3], "and so it went on " * 400])),
    ("too-long", "a novel", dialogue(["it was a long day " * 100, "and a long night " * 100] * 20)),
    ("garbage", "a chat template's tokens", dialogue([*CALM[:3], "I see.<|im_end|>"])),
    ("garbage", "our own tags", dialogue([*CALM[:3], "<think>hm</think> I see."])),
    ("garbage", "a placeholder", dialogue(["Hi {{name}}, i feel bad today", *CALM[1:]])),
    ("garbage", "broken encoding", dialogue([CALM[0], "That\ufffds hard", *CALM[2:]])),
    ("garbage", "a web page", dialogue(["<p>i feel bad</p>", "<div>that is hard</div>", *CALM[2:]])),
    ("garbage", "mojibake", dialogue(["I donâ€™t know what itâ€™s about", "That is hard", *CALM[2:]])),
    (
        "garbage",
        "signs",
        dialogue(["i feel ========================= bad", "%%%%%%%%%%%%%%%%%% so", "@@@@@@@@ it", "is"]),
    ),
    ("garbage", "a key held down", dialogue(["ddddddddddd", "dddddddd", "fffffffffff", "dfdfdfdfdfd"])),
    ("wrong-language", "Chinese declared English", dialogue(CALM_ZH)),
    ("wrong-language", "English declared Chinese", dialogue(CALM, "zh")),
    (
        "wrong-language",
        "Russian",
        dialogue(["мне очень плохо сегодня", "что случилось", "я потерял работу", "понимаю тебя"]),
    ),
    (
        "wrong-language",
        "Japanese",
        dialogue(["最近ねむれないんです", "そうですか、つらいですね", "はい、とても", "きかせてください"], "zh"),
    ),
    (
        "wrong-language",
        "French",
        dialogue(
            [
                "je ne dors plus depuis des semaines",
                "que s'est-il passé",
                "mon père est malade et je travaille trop",
                "oui",
            ]
        ),
    ),
    (
        "wrong-language",
        "Spanish",
        dialogue(
            ["no puedo dormir desde hace semanas", "qué ha pasado", "mi padre está enfermo y trabajo demasiado", "ya"]
        ),
    ),
    (
        "wrong-language",
        "German",
        dialogue(
            [
                "ich kann seit Wochen nicht schlafen",
                "was ist passiert",
                "mein Vater ist krank und ich arbeite viel",
                "ja",
            ]
        ),
    ),
    (
        "wrong-language",
        "a reply that changes into German, as one of EmoLLM's does",
        dialogue(
            [
                "最近压力很大，很难入睡",
                "抱抱你 Stress und Schlaflosigkeit können wirklich belastend sein für alle",
                "是的",
                "没事",
            ],
            "zh",
        ),
    ),
    (
        "wrong-language",
        "keyboard noise, as in FailedESConv",
        dialogue(["dffsd rtetr", "retgh hgfh tyrtg", "gfddfg er rfgfdg", "rte wer qwe rt"]),
    ),
    ("repeated", "in a circle", dialogue([*CALM, *CALM])),
    (
        "repeated",
        "one reply to everything",
        dialogue([x for n in range(5) for x in (f"and then came number {n} too", CALM[1])]),
    ),
]


@pytest.mark.parametrize(("reason", "why", "one"), WRONG, ids=[f"{reason}: {why}" for reason, why, _ in WRONG])
def test_rejected(reason: str, why: str, one: Dialogue) -> None:
    found = check(one)
    assert found is not None, why
    assert found.reason == reason and found.reason in CODES
    assert found.detail and found.row is one and found.id == one.id


FINE: list[tuple[str, Dialogue]] = [
    ("plain", dialogue(CALM)),
    ("Chinese", dialogue(CALM_ZH, "zh")),
    ("the supporter opens", dialogue(["Hello, what brings you here?", *CALM], speakers="rs")),
    (
        "typing of someone unwell",
        dialogue(["idk... nooooooooo", "oh. what happened?", "it's just. everything lol :(", "Tell me one thing?"]),
    ),
    ("a few words are no language", dialogue(["Hola amigo", "hello", "gracias", "bye"])),
    ("italics of a subtitle", dialogue(["it was <i>his</i> idea and <i>mine</i>", *CALM[1:]])),
    ("a heart", dialogue([*CALM, "thank you <3 for this", "any time <3"])),
    ("one entity", dialogue([*CALM, "me &amp; my sister argued again", "What about?"])),
    ("Chinese with English names", dialogue(["我在 HR 部门，老板让我写 PPT", *CALM_ZH[1:]], "zh")),
    (
        "English with a Chinese proverb",
        dialogue(["my grandmother used to say 塞翁失马 when things went wrong", *CALM[1:]]),
    ),
    ("short answers come back", dialogue(["i feel bad", "I see.", "yes", "I see.", "yes", "I see.", "yes", "I see."])),
    ("sent twice by accident", dialogue([CALM[0], CALM[1], CALM[1], *CALM[2:]], speakers="srrsr")),
    ("emoji", dialogue(["最近好累😭😭", "抱抱，怎么了？", "加班到十二点😭", "每天都这样吗？"], "zh")),
    ("curly apostrophes", dialogue([text.replace("'", "’") for text in CALM])),
]


@pytest.mark.parametrize(("why", "one"), FINE, ids=[why for why, _ in FINE])
def test_passes(why: str, one: Dialogue) -> None:
    assert check(one) is None


def test_limits_can_be_set() -> None:
    assert check(dialogue(CALM[:2]), Limits(min_rounds=1)) is None
    rejected = check(dialogue(CALM), Limits(min_rounds=3))
    assert rejected and rejected.detail == "2 rounds; at least 3 are asked for"


def test_fingerprint_ignores_case_width_and_punctuation() -> None:
    assert fingerprint(dialogue(CALM)) == fingerprint(dialogue([text.upper() + "!!" for text in CALM]))
    assert fingerprint(dialogue(["ＡＢＣ１"])) == fingerprint(dialogue(["abc1"]))
    assert fingerprint(dialogue(CALM)) != fingerprint(dialogue(CALM[::-1]))
    assert len(fingerprint(dialogue(CALM))) == 16


def test_duplicates_exact_and_near() -> None:
    long = [f"{text} number {n} of them all and more than that" for n in range(6) for text in CALM]
    other = [f"something else entirely {n} about {n * n} cats and a garden wall" for n in range(12)]
    nearly = [*long[:-1], long[-1] + " indeed"]
    corpus = [
        dialogue(long, name="first"),
        dialogue(other, name="other"),
        dialogue([text.upper() for text in other], name="same"),
        dialogue(nearly, name="near"),
        dialogue(nearly, name="same as near"),
    ]
    found = {one.id: one for one in DialogueIndex(corpus).duplicates()}
    assert found["same"] == Duplicate("same", "other", exact=True)
    assert found["near"].kept == "first" and found["near"].similarity > 0.8 and not found["near"].exact
    assert found["same as near"].kept == "first" and found["same as near"].exact, "the one that stays, stays for all"
    assert len(found) == 3


def test_an_id_twice_is_an_error() -> None:
    with pytest.raises(UserError, match="'x'"):
        DialogueIndex([dialogue(CALM, name="x"), dialogue(CALM_ZH, "zh", name="x")])


CRISIS = [
    "I want to kill myself",
    "sometimes i think everyone would be better off without me",
    "I just don’t want to be here anymore",
    "i wish i could sleep forever",
    "I don't want to live",
    "I've been self-harming again",
    "my brother took his own life in march",
    "there's nothing left to live for",
    "I wish I'd never been born",
    "我不想活了",
    "活着没什么意思",
    "真想一睡不醒",
    "他割腕了，我很害怕",
    "有时候会想死了算了",
    "我想结束自己的生命",
    "要是能永远睡过去就好了",
]
NO_CRISIS = [
    "this exam is killing me",
    "I'm dying to see her again",
    "my phone died and I nearly died laughing",
    "I don't want to live with my parents anymore",
    "I cut myself off from my old friends",
    "he ended the call",
    "it was the best day of my life",
    "累死了，今天加班到十点",
    "气死我了",
    "想死你了，什么时候回来",
    "活着真有意义",
    "商场跳楼价大甩卖",
    "他死心了",
]


@pytest.mark.parametrize("text", CRISIS)
def test_crisis(text: str) -> None:
    assert crisis_words(text)


@pytest.mark.parametrize("text", CRISIS)
def test_crisis_in_any_spelling(text: str) -> None:
    # as they stand in the text, so white space and case differ
    spelled = [crisis_words(text.upper()), crisis_words(text.replace(" ", "\n  ")), crisis_words(text)]
    assert len({"".join(" ".join(words).lower().split()) for words in spelled}) == 1


@pytest.mark.parametrize("text", NO_CRISIS)
def test_no_crisis(text: str) -> None:
    assert crisis_words(text) == []


def test_flag_keeps_the_dialogue_and_says_why() -> None:
    marked = flag(dialogue([*CALM, "i don't want to wake up tomorrow", "Are you thinking of suicide?"]))
    assert marked.crisis
    assert marked.extra == {"crisis_words": ["don't want to wake up tomorrow", "thinking of suicide"]}
    calm = dialogue(CALM)
    assert flag(calm) is calm


def test_real_corpora_lose_what_a_reader_would_drop() -> None:
    """Limits are set so that on real corpora only what is plainly broken goes."""
    folder = Path(os.environ.get("COMPEER_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the corpora are not at {folder}; set COMPEER_DATA to their folder")
    expected = {
        "failed_esconv": {"too-short": 4, "garbage": 1, "wrong-language": 1},
        "cpsycoun": {"repeated": 1},
        "mesc": {"too-short": 57, "repeated": 1},
    }
    places = {"failed_esconv": "esconv/FailedESConv.json", "cpsycoun": "cpsycoun", "mesc": "mesc"}
    for name, counts in expected.items():
        outcomes = load(name, folder / places[name])
        rejects = [check(one) for one in outcomes if not isinstance(one, Rejected)]
        assert Counter(one.reason for one in rejects if one) == counts, name
