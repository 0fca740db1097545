"""A flag in the data: does someone in this dialogue disclose suicide or self-harm?

The paper says nothing about such dialogues. Here they are kept, because a supporter must be able to meet them,
and marked (`Dialogue.crisis`, the words found in `extra["crisis_words"]`), so that later parts can leave them out
of preference and reinforcement sets until someone has reviewed them.

This is a small word list for marking data, not screening: it asks no model, knows no context and no degree, and
is not meant to be shown to a person in need. The `safety` package owns screening in conversation. It leans
towards marking: "I would never kill myself" is marked too, since whoever reviews it loses a minute and whoever
misses it may lose more. What only sounds like it ("this exam is killing me", 累死了) is not.
"""

from __future__ import annotations

import re

import msgspec

from compeer.dialogue import Dialogue

_ENGLISH = r"""
suicid(?:e|al)\w* | kms | unalive | self[-\s]?(?:harm|injur)\w*
| (?:kill|killed|killing|hang|hanged|hanging|shoot|shot|drown|drowned)\s(?:my|him|her|your|them)sel(?:f|ves)
| (?:cut|cutting|hurt|hurting|harm|harming|burn|burning)\smyself (?!\s(?:off|short|some|loose)\b)
| (?:end|ending|ended|take|taking|took)\s(?:my|his|her|your|their)(?:\sown)?\s(?:own\s)?life | end(?:ing)?\sit\sall
| over-?dos(?:e|ed|ing) | jump(?:ing|ed)?\soff\s(?:a|the|that)\s(?:bridge|building|roof|balcony|cliff)
| (?:want|wanted|wanting|wish|ready|rather|like)\sto\sdie | wan(?:t\sto|na)\sbe\sdead | wanna\sdie
| wish(?:ed)?\s(?:that\s)?i(?:\s(?:was|were)\s(?:dead|never\sborn)|(?:\shad|'d)\s(?:died|never\sbeen\sborn))
| (?:don't|dont|do\snot|didn't|no\slonger)\s(?:really\s|even\s)?want\sto\s
  (?:live(?!\s(?:with|in|at|near|on|here|there|like|under|together|alone|away)\b)|be\salive|exist|wake\sup\s(?:again|anymore|tomorrow)|be\shere\sany\s?more|go\son\sliving)
| (?:no|any)\s(?:reason|point)\s(?:to\slive|to\sgo\son|in\sliving|to\sbe\salive) | nothing\s(?:left\s)?to\slive\sfor
| (?:not|isn't|n't|no\slonger)\sworth\s(?:living|being\salive) | (?:tired|sick)\sof\s(?:living|being\salive)
| better\soff\s(?:dead|without\sme|if\si\s(?:was|were|died)) | (?:sleep|asleep)\s(?:forever|and\snever\swake)
| never\swake\sup | not\swak(?:e|ing)\sup\s(?:again|tomorrow|any\s?more) | can't\sgo\son\s(?:living|any\s?more)
"""
_CHINESE = r"""
自杀|自殺|轻生|寻短见|寻死|自残|自伤|自我伤害|割腕|跳楼(?![价机])|跳桥|跳河|上吊|遗书|服毒|吞了?安眠药
|(?:不想|不愿|没法|无法|没有勇气|没勇气)(?:再)?(?:继续)?(?:活(?:了|着|下去|在)|生存下去)|活不下去|活够了
|活着(?:还|也|就|真|都)?(?:没有?|有(?=什么|啥))(?:什么|啥|多大|任何)?(?:意思|意义|价值)|活着(?:好|太|真)累
|(?<!吓得)想(?:要)?(?:去)?死(?![你我他她它]|板|磕|心|党)|不如死|生不如死|死了算了|一死了之|一了百了|死了(?:就|才)(?:好|解脱|清净)|宁愿死
|(?:结束|了结|终结|放弃)(?:了)?(?:自己|我|这个?|我自己|他|她)?(?:的)?(?:生命|性命|一生)|离开(?:这个|这)(?:世界|人世)|离开人世
|(?:再也|永远)(?:都)?不(?:想|要|用)?(?:再)?醒(?:来|过来)|一(?:直)?睡不醒|永远(?:地)?睡(?:过去|下去|着)|长睡不(?:醒|起)
|(?:伤害|割|划伤|弄伤|打)(?:了)?自己(?:的(?:手|手臂|手腕|身体))|伤害自己|从(?:这个)?世界(?:上)?消失|世界上?没有我
"""
_LEXICON = re.compile(rf"\b(?:{_ENGLISH})\b", re.VERBOSE)
_LEXICON_ZH = re.compile("".join(_CHINESE.split()))
# Whatever _ENGLISH finds has one of these in it. Looking for them first makes a corpus three times as fast.
_STEMS = (
    "suicid", "kms", "sel", "life", "it all", "dos", "jump", "die", "dead", "born", "liv", "exist", "wak", "here any",
    "go on", "better off", "forever",
)  # fmt: skip


def crisis_words(text: str) -> list[str]:
    """The words in a text that made it be marked, each once, in order.

    >>> crisis_words("Some days I just don't want to wake up anymore."), crisis_words("This exam is killing me.")
    (["don't want to wake up anymore"], [])
    >>> crisis_words("我真的不想活了"), crisis_words("累死了，想死你了")
    (['不想活了'], [])
    """
    plain = " ".join(text.lower().replace("’", "'").split())
    found = _LEXICON.findall(plain) if any(stem in plain for stem in _STEMS) else []
    if not plain.isascii():
        found += _LEXICON_ZH.findall(plain)
    return list(dict.fromkeys(found))


def flag(dialogue: Dialogue) -> Dialogue:
    """The dialogue, marked when anything in it discloses a crisis. A mark that is there already stays."""
    texts = [dialogue.situation or "", *(utterance.text for utterance in dialogue.utterances)]
    found = dict.fromkeys(word for text in texts for word in crisis_words(text))
    if not found:
        return dialogue
    return msgspec.structs.replace(dialogue, crisis=True, extra={**dialogue.extra, "crisis_words": list(found)})
