"""The same reply said a little differently: what a second good supporter might have written in its place.

Contractions open and close, stock phrases are exchanged for others, an interjection goes, of three sentences or
more one may go. Meaning and strategy stay. Rewording is applied to right and to misplaced replies alike.
"""

# ruff: noqa: E501 - one phrase, one line

from __future__ import annotations

import re
from random import Random

from compeer.cer.silver.own_words import lower_first
from compeer.cer.silver.phrases import capital

_MARKUP = re.compile(r"</?[A-Za-z][^<>]{0,60}>")
_SENTENCE = re.compile(r"[^.!?\n。！？]+[.!?。！？]*\s*")
_STOCK: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"i(?:'|’)?m (?:so |very |really )?sorry to hear (?:that|about that|this)", ("that sounds hard", "oh, that is a lot", "I hate that for you", "sorry you are going through that")),
    (r"i am (?:so |very |really )?sorry to hear (?:that|about that|this)", ("that sounds rough", "that is a lot to take", "sorry that happened")),
    (r"i (?:can )?(?:totally |completely |really )?understand", ("I can see that", "that makes sense to me", "I follow you")),
    (r"that must be (?:so |very |really )?(?:hard|difficult|tough)", ("that can't be easy", "I imagine that's tough", "that sounds like a lot")),
    (r"have you (?:ever )?(?:tried|considered|thought about)", ("did you ever think about", "has it crossed your mind to try", "would you be up for")),
    (r"do you have", ("have you got", "do you happen to have")),
    (r"how long have you", ("since when have you", "for how long have you")),
    (r"you(?:'|’)?re welcome", ("no problem", "of course", "anytime")),
    (r"you are welcome", ("no problem", "of course", "anytime")),
    (r"maybe you (?:could|can|should)", ("you might", "perhaps you could", "what if you")),
    (r"you should", ("you could", "maybe you can", "it might help to")),
    (r"i think", ("I'd say", "I feel", "I guess")),
    (r"it sounds like", ("from what you say,", "I get the feeling that", "it seems that")),
    (r"sounds like", ("seems like", "I hear that")),
    (r"hello|hi there|hey there", ("hi", "hey", "good to see you")),
    (r"thank you|thanks", ("thanks a lot", "many thanks")),
    (r"really|very", ("so", "quite", "truly")),
    (r"a lot of", ("many", "plenty of", "lots of")),
    (r"right now|at the moment", ("these days", "at this point", "currently")),
    (r"good idea", ("nice idea", "sensible thing to do")),
    (r"great|awesome", ("good", "wonderful", "really good")),
    (r"difficult|tough", ("hard", "not easy")),
    (r"feel better", ("get some relief", "feel lighter")),
    (r"what happened", ("what went on", "what came about")),
    (r"because", ("since", "as")),
    (r"however|but", ("though", "yet")),
    (r"sometimes", ("at times", "now and then")),
    (r"try to", ("see if you can", "do your best to")),
    (r"talk to", ("speak with", "speak to", "have a talk with")),
    # Chinese
    (r"我理解|我明白|我懂", ("我能体会", "我听明白了", "能想象")),
    (r"你觉得", ("在你看来", "你自己觉得")),
    (r"有没有", ("是不是有", "有过")),
    (r"可以试试", ("要不试一试", "也许能试着")),
    (r"一定", ("肯定", "应该")),
    (r"很|非常", ("挺", "真的", "特别")),
    (r"现在", ("眼下", "这会儿")),
    (r"什么时候", ("哪会儿", "从哪天")),
    (r"但是|可是", ("不过", "只是")),
    (r"谢谢", ("多谢", "谢了")),
)  # fmt: skip
_COMPILED = tuple(
    (re.compile(pattern if re.match(r"[\u4e00-\u9fff]", pattern) else rf"\b(?:{pattern})\b", re.IGNORECASE), others)
    for pattern, others in _STOCK
)
_CONTRACT = {
    r"\bI am\b": "I'm", r"\bI'm\b": "I am", r"\bI have\b": "I've", r"\bI've\b": "I have", r"\bit is\b": "it's",
    r"\bit's\b": "it is", r"\bthat is\b": "that's", r"\bthat's\b": "that is", r"\byou are\b": "you're",
    r"\byou're\b": "you are", r"\bdo not\b": "don't", r"\bdon't\b": "do not", r"\bcannot\b": "can't",
    r"\bcan't\b": "can not", r"\bI will\b": "I'll", r"\bI'll\b": "I will", r"\bI would\b": "I'd",
}  # fmt: skip
_CONTRACTIONS = tuple((re.compile(pattern, re.IGNORECASE), other) for pattern, other in _CONTRACT.items())
_BEFORE = {
    False: (
        "I see, ",
        "Hm, ",
        "Right, ",
        "Well, ",
        "Okay, ",
        "Mm, ",
        "Yeah, ",
        "You know, ",
        "Honestly, ",
        "Alright, ",
    ),
    True: ("嗯，", "是啊，", "这样，", "好，"),
}
_OPENING = re.compile(r"^(?:oh|ok|okay|well|yes|yeah|ah|hmm|so|right)\b[\s,.!]+", re.IGNORECASE)


def reworded(text: str, rng: Random) -> str | None:
    """The reply in other words, or None where nothing could be changed.

    >>> reworded("I'm sorry to hear that. What happened?", Random(3)) != "I'm sorry to hear that. What happened?"
    True
    """
    clean = flat(text)
    said = sentences(clean)
    if len(said) >= 3 and rng.random() < 0.6:
        del said[rng.randrange(len(said))]
    chinese = bool(re.search(r"[\u4e00-\u9fff]", clean))
    told = ("" if chinese else " ").join(said)
    if rng.random() < 0.7 and len(without := _OPENING.sub("", told)) > 12:
        told = capital(without)
    changes = 0
    for pattern, others in _COMPILED:
        if rng.random() < 0.8:
            told, changed = pattern.subn(lambda found, others=others: _as(found.group(), rng.choice(others)), told, 1)  # type: ignore[misc]
            changes += changed
    toggled = [pair for pair in _CONTRACTIONS if pair[0].search(told)]
    for pattern, other in rng.sample(toggled, min(2, len(toggled))):
        told = pattern.sub(lambda found, other=other: _as(found.group(), other), told, count=1)  # type: ignore[misc]
    if changes + len(toggled) < 2 and not _OPENING.match(told):  # a word before it, as people do
        told = rng.choice(_BEFORE[chinese]) + lower_first(told)
    return told if told.lower() != clean.lower() and len(told) > 2 else None


def flat(text: str) -> str:
    """A merged turn on one line; what was sent twice is said once, and subtitles' markup is not said at all.

    >>> flat("Why?\\nWhy?\\n<i>Tell</i> me.")
    'Why? Tell me.'
    """
    return " ".join(_MARKUP.sub("", " ".join(dict.fromkeys(text.split("\n")))).split())


def sentences(text: str) -> list[str]:
    """The sentences of a reply, each with its own mark."""
    return [s.strip() for s in _SENTENCE.findall(text) if s.strip()] or [text]


def _as(old: str, new: str) -> str:
    return capital(new) if old[:1].isupper() and not old.startswith("I") else new
