"""Reading what the model wrote before anyone sees it: encouragement, methods, refusals, belittling, nothing at all.

Some things are never shown (`data/lexicon_out_*.txt`, high); others only matter while someone may be in danger (watch).
Encouragement is an instruction to harm, or a verdict on the person; "You are not worthless", "Please don't kill
yourself" and "It sounds as if you feel like a burden" pass.

Where nothing was found, a reply may still be wrong for what was said: `misfits` finds cheering at what is not glad,
refusals, and death named other than by a question. After a message that leaves the reader uneasy the whole reply is
read (`unfit_when_uneasy`): no cheering, agreeing, instructing or waving off at all.

From watch on that is not enough. There a model's reply passes only where `fits_a_crisis` holds: it acknowledges, it asks
or refers, it gives no instruction but to reach people, and it names no means.

While a reply is streamed it is held back by the sentence (`Held`): each sentence is read with all that stands before it
and goes on only when that is safe. From watch on the reply is held until it is whole. Thinking leaves by the
word (`HeldThinking`), a step at a time.
"""

# patterns are kept on the line of what they stand for
# ruff: noqa: E501
from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple

from compeer.safety.levels import DATA, Level
from compeer.safety.lexicon import Lexicon, lexicon
from compeer.safety.normalise import fold
from compeer.safety.screen import matches, sentences_of

Unsafe = Literal["encourage", "method", "ends", "minimise", "discourage", "empty", "broken", "unfit", "misfit"]

#: characters that are held at most, where a text has no sentences
WINDOW = 240
#: characters of a reply in a crisis; the contract asks for three sentences
LONGEST = 4_000
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？…]+[”’」』）]*|\n")
_MARKUP = re.compile(r"<\s*/?\s*[A-Za-z!][^<>]{0,200}>")
_WORD = re.compile(r"[^\W\d_]")
_LAST_WORDS = re.compile(r"[A-Za-z-]+(?: [A-Za-z-]*)?\Z")
_ACKNOWLEDGES = re.compile(
    r"thank you for (?:telling|sharing|saying|letting|trusting)|i(?:'m| am) (?:so |really |very )?(?:sorry|glad (?:you|that)|here)|"
    r"(?:that|it|this|what) (?:you[^.!?]{0,40})?(?:sounds?|must|seems?|is so|matters)|i hear (?:you|how|that)|you(?:'re| are) not alone|"
    r"makes sense|so much pain|i can (?:hear|see|imagine)|谢谢你(?:愿意|肯|告诉|说)|听起来|听得出|我(?:在|听到|能感觉|很在意|陪)|"
    r"一定(?:很|不)|不容易|难受|不是一个人|辛苦",
    re.IGNORECASE,
)
_REFERS = re.compile(
    r"\b(?:988|911|999|112|116 ?123|000|hotline|helpline|crisis line|emergency|lifeline|samaritans|a (?:doctor|person|professional)|"
    r"someone (?:close|you trust|near)|call)\b|热线|急救|报警|12356|120|110|医院|信任的人|身边的人|家人|朋友|医生",
    re.IGNORECASE,
)
#: questions that may be asked: about safety, about who is near, and open ones about the person
_ASKS = re.compile(
    r"\b(?:suicid\w*|killing yourself|ending your life|hurting yourself|hurt yourself|safe)\b|\bwant to die\b|\b(?:someone|anyone|somebody|anybody) (?:\w+ ){0,5}(?:you|with|near|close|trust)|"
    r"\bwho (?:could|can|else|is with|is near|knows|do you)|\bwhat (?:\w+ ){0,6}(?:hardest|heaviest|weighs|weighing|hurts?|happened|happening|going on|on your mind|been like|like for you|made it|brought)|"
    r"\bwhat(?:'s| is| has been| was) (?:the )?(?:hardest|heaviest|worst|going|happening|it like)|\bhow (?:long|bad|are you (?:doing|feeling|holding|right|now|today|tonight)|have you been|ha(?:s|ve) (?:\w+ ){1,6}been|did (?:that|it) (?:feel|make))|"
    r"\b(?:would|do|can|could|will) you (?:like|want|be willing|feel able)? ?(?:to )?(?:tell|talk|share|say)(?: me)?(?: a (?:bit|little))? ?(?:more|about|what|how)|"
    r"自杀|结束(?:自己的)?生命|想死|不想活|伤害自己|安全吗|身边有|有人(?:陪|在)|谁(?:能|可以|知道|在)|最(?:难|重|压|难受|放不下)|发生了什么|怎么了|多久了|愿意(?:再)?(?:跟我)?(?:多)?说|现在感觉|想说说",
    re.IGNORECASE,
)
#: words that turn a kind sentence into consent, a verdict or a joke
_BENT = re.compile(
    r"\b(?:idea|decided|decision|made up your mind|respect|brave|relief|relieved|peace\w*|final|attention|phase|sin|pray\w*|selfish|joking|dramatic|deserves?|funny|luck|generous|else to live|"
    r"okay to|ok to|fine to|right to|let(?:ting)? go|for ?ever|never help|between us|secret|do it|done it|would too|who wouldn'?t|everyone feels|everybody feels|worse off|have it worse|grateful|positive|smil\w*|"
    r"not for everyone|ending takes|stop fighting|your fault|disappear|forgive|for the children|loves? you|lunch|game|ha!|haha|wonderful|great|nice|good (?:day|plan|night))\b|"
    r"决定|尊重|勇敢|解脱|放手|引起注意|想开|知足|比你惨|自私|拖累|在乎你|惹他|活该|保密|走吧|永远|没用|换我也|准备好|选择|也好|也行|聊点别的|睡吧|安静",
    re.IGNORECASE,
)
_INSTRUCTS = re.compile(
    r"(?:^|[.!?;\n,] ?|\bthen |\band )(?:please |just |try to |try |you should |you need to |you must |you could |you can |go |"
    r"remember to |make sure (?:to|you) |start |let'?s )+(?!call|contact|reach|tell|talk|text|stay|breathe|take (?:a|one|some|three|slow|"
    r"deep)|let|keep (?:talking|writing|the)|put (?:some )?(?:distance|it (?:away|out)|them (?:away|out))|move away|go (?:to|where)|be with|"
    r"ask|hold on|write|share|say|look|name|know|give (?:it|them) to|sit|walk|find (?:some|a person)|speak|get (?:to|help|away))[a-z]+|"
    r"(?:你(?:应该|必须|要|可以|需要)|试着|试试|去|请)(?!打|拨|联系|告诉|找|跟|和|说|呼吸|深呼吸|慢慢|让|离|把|到|留|叫|写|先|放|别|不|相信|记得(?:打|联系)|医院|看医生|陪|在|问|来|一起|允许)[\u4e00-\u9fff]",
    re.IGNORECASE,
)
_MEANS = re.compile(
    r"\b(?:pills?|tablets?|overdos\w+|gun|knife|blade|razor|rope|noose|bridge|roof|poison|bleach|dose|mg|hang\w*|jump\w*|cut\w*|wrist\w*)\b|"
    r"药片|安眠药|过量|刀|绳|跳楼|上吊|割|毒|农药|天台|剂量",
    re.IGNORECASE,
)


_CHEERS = re.compile(
    r"\b(?:that(?:'s| is| sounds)|it(?:'s| is| sounds)|this is|sounds|how) (?:so |really |very |pretty |absolutely |truly |like )*(?:a )?(?:great|good|wonderful|awesome|amazing|fantastic|excellent|lovely|nice|perfect|exciting|fun|beautiful|brilliant|impressive|cool|interesting|positive)\b(?! (?:deal|many|amount|question|to (?:cry|feel|ask|be (?:sad|angry|upset))))"
    r"|\b(?:glad|happy|pleased|delighted) (?:to hear|for you|you(?:'re| are) (?:feeling|doing|having|enjoying|ok|okay|good|happy))|\b(?:congrat\w*|good for you|well done|good job|way to go|enjoy (?:it|your|the)|have (?:fun|a (?:great|good|nice|wonderful|lovely))|good luck|keep it up|keep up|cheers|yay|ha(?:ha)+|lol|hehe)\b"
    r"|^\W*(?:great|awesome|wonderful|nice|perfect|excellent|amazing|cool|lovely|fantastic|brilliant)\b|太好了|真好|真不错|挺不错|很不错|真棒|太棒|很棒|恭喜|祝贺|哈哈|嘻嘻|加油|祝你|玩得开心|享受|挺开心|很开心|真开心|为你(?:高兴|开心)|满足|satisf(?:ied|ying)|看起来不错|挺好的?[。！，]|很好[。！，]|好主意",
    re.IGNORECASE | re.MULTILINE,
)
#: what a person says who may be congratulated
_GLAD = re.compile(
    r"\b(?:good|great|better|best|happy|happier|glad|love\w*|lovely|fun|funny|nice|excit\w+|proud|pass(?:ed|es)?|won|win|accepted|offer\w*|finally|thank\w*|yay|yes|yeah|sure|lol|lmao|ha(?:ha)+|enjoy\w*|birthday|married|wedding|engaged|baby|pregnan\w+|hired|promot\w+|improv\w+|reliev\w+|relief|"
    r"hop(?:e|ing|eful)|made it|finish\w*|manag\w+|helps?|helped|helpful|helping|works|worked|able|will|i'?ll|plan\w*|try|trying|tried|gonna|going to|idea|interest\w*|start\w*|hobb\w+|music|friends?|supportive|support|talk\w*|learn\w*|graduat\w+|got (?:the|a|an|my|in|into|it)|welcome|agree|appreciate|calm\w*|well|(?:i'?m|feel\w*|doing|was|is|are|be|it's|its) (?:okay|ok|fine)|cool|awesome|amazing|"
    r"holiday|vacation|dog|cat|first (?:steps?|words?|day|time|date|place|prize)|daughters?|sons?|kids?|grand\w+|niece|nephew|scored|goal|raise|bonus|new (?:job|house|flat|home|car|bike|friend\w*)|moved? in|born|anniversary|surpris\w+|concert|trip|party|cake|garden|team|puppy|kitten|walk\w*|exercis\w*|yoga|gym|read\w*|movie|game|cook\w*|bak\w+|garden\w*|christmas|sober|clean|safe)\b|:\)|[!]|😊|😄|😂|🎉|❤"
    r"|好(?!累|难|烦|痛|苦|怕|想死|像|几|多|久|不|吗)|开心|高兴|不错|喜欢|成功|考上|通过|过了|谢|哈哈|棒|赢|终于|进步|期待|希望|放松|舒服|轻松|愿意|打算|试试|第一次|女儿|儿子|孩子|宝宝|生日|结婚|录取|录用|升职|涨工资|奖|回家|新家|旅行|拿到|学会|可以|行|嗯|对|是的|明白|知道了|感激|帮助|有用|笑|爱",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\bi(?:'m| am)? (?:sorry,? but i )?(?:can(?:'t|not)|am not able to|am unable to|won't) (?:assist|help|fulfil|comply|provide|engage|continue|do that|answer that|respond|support (?:that|this))|\bas an? (?:ai|artificial|language model|assistant)[^.!?]{0,40}\b(?:can't|cannot|can not|unable|not able)|作为(?:一个|一名)?(?:ai|人工智能|语言模型|助手)[^。！？]{0,20}(?:无法|不能|没法)|(?:无法|不能|没办法)(?:[为给]?[您你])?(?:提供|协助|帮助你|帮你|满足|回答|回应|继续)",
    re.IGNORECASE,
)
#: acts that a program cannot do, and a secrecy that nobody may promise
_PROMISES = re.compile(
    r"\bi(?:'ll| will| can| am going to|'m going to) (?:not |never )?(?:share|tell|contact|call|text|email|visit|meet|send (?:someone|help)|come (?:over|to)|inform|notify|report)\b(?! me| you)"
    r"|\bi won't (?:tell|share)|\b(?:keep|stays?) (?:this |it |that )?(?:a secret|between us|confidential)"
    r"|我(?:会|可以|马上|这就|能)(?:尽快|立刻|马上)?(?:去)?(?:联系|通知|报警|打电话|发短信|去找|去看你|陪你去|上门)|我(?:会|不会)(?:替你)?(?:保密|告诉(?:别人|任何人))",
    re.IGNORECASE,
)
_DEATH = re.compile(
    r"\b(?:suicid\w*|kill(?:ing)? your ?self|end(?:ing)? (?:your|my|one's) (?:own )?life|tak(?:e|ing) your (?:own )?life|your (?:own )?death|you (?:should |will |would |could |can |may |might |must )?die\b|to die\b|dying\b|better off dead|self[- ]harm\w*|hurt(?:ing)? yourself)|自杀|寻死|轻生|去死|想死|结束(?:自己的?|你的?)?生命|自残|伤害自己|死亡|死掉",
    re.IGNORECASE,
)
_AGREES = re.compile(
    r"\byou(?:'re| are) (?:absolutely |probably |completely )?right\b|\bi (?:completely |totally |fully )?agree\b|\bi respect (?:your|that)|\byour (?:choice|decision|call|right)\b|\b(?:good|great|reasonable|smart|wise) (?:idea|plan|choice|decision|move)\b|\bup to you\b|\bgo ahead\b|\bgo for it\b|\bsure thing\b|^\W*(?:sure|of course|absolutely|certainly|definitely|okay|ok|yes|no problem)\b|\bi promise\b|\bi won't tell\b|\bsecret\b|\bprivacy\b"
    r"|你说得对|有道理|我同意|没错|我(?:会)?尊重|你的(?:选择|决定|自由)|个人(?:选择|问题|兴趣)|由你|随你|没问题|^\W*(?:好的|好呀|好啊|行|可以|当然|是的|没错|明白了)|那就|继续(?:看|吧)|答应你|保密|隐私",
    re.IGNORECASE | re.MULTILINE,
)
_WAVES_OFF = re.compile(
    r"\b(?:don't|do not|no need to) (?:worry|be (?:sad|upset|afraid|silly)|think (?:like|about) that)|\bit(?:'s| is) (?:normal|natural|common|not (?:that|so) bad|okay|ok|fine|important to|always important)|\beveryone (?:feels|has|goes)|\bwe all (?:have|feel|go)|\bcheer up|\bcalm down|\bbright side|\bstay (?:positive|strong)|\bmove (?:on|forward)|\btime heals|\bit (?:will|'ll) (?:get better|pass|be (?:ok|okay|fine|alright))|\beverything will be|\bhappens for a reason|\bpursue your|\bunique (?:journey|experience)|\bbe grateful"
    r"|别(?:担心|想太多|难过|怕|多想|着急)|不(?:用|要|必)(?:担心|想太多|难过|害怕|多想)|没什么(?:大不了|可怕)|想开|很正常|正常的|都会(?:好|过去)|会好(?:的|起来)|会过去|积极|乐观|坚强|正能量|不会影响|重要的是",
    re.IGNORECASE,
)


class _Unfit(NamedTuple):
    kind: str
    reply: re.Pattern[str]
    said: re.Pattern[str] | None
    unless: re.Pattern[str] | None


@cache
def _unfit() -> tuple[tuple[_Unfit, ...], re.Pattern[str]]:
    """The kinds of `data/unfit_replies.json`, and which messages are not clearly harmless."""
    table = json.loads((DATA / "unfit_replies.json").read_bytes())
    flags = re.IGNORECASE | re.MULTILINE
    kinds = tuple(
        _Unfit(
            row["kind"],
            re.compile("|".join(f"(?:{one})" for one in (*row["en"], *row["zh"])), flags),
            re.compile("|".join(row["said"].values()), flags) if "said" in row else None,
            re.compile("|".join(row["unless"].values()), flags) if "unless" in row else None,
        )
        for row in table["kinds"]
    )
    return kinds, re.compile("|".join(table["careful"][one] for one in ("en", "zh")), flags)


def unfit_kind(reply: str, said: str) -> str | None:
    """Which of the kinds that an unchecked model must not say a reply is, after this message; None: none of them.

    >>> unfit_kind("It might help to listen to him without judging.", "my dad gets really mad and uses his belt")
    'sides with who hurts'
    >>> unfit_kind("It might help to listen to him without judging.", "my friend lost his job")
    """
    plain, told = reply.replace("’", "'"), said.replace("’", "'")
    for row in _unfit()[0]:
        fits = row.reply.search(plain) and (row.said is None or row.said.search(told))
        if fits and not (row.unless and row.unless.search(told)):
            return row.kind
    return None


def careful(said: str) -> bool:
    """Whether a message is not clearly harmless, though nothing was found in it: the reply is read as a whole.

    >>> careful("i know where he parks"), careful("the meeting was boring")
    (True, False)
    """
    return _unfit()[1].search(said.replace("’", "'")) is not None


def misfits(reply: str, said: str) -> bool:
    """Whether a reply is wrong for a message in which nothing was found: it cheers at what is not glad, refuses, promises
    what a program cannot do, names death other than by a question, or is of a kind in `data/unfit_replies.json`.

    >>> misfits("That's great to hear!", "ok i took them"), misfits("That's great to hear!", "i passed my exam")
    (True, False)
    >>> misfits("Are you having thoughts of suicide?", "I lost my job"), misfits("I can't assist with that.", "say it")
    (False, True)
    >>> misfits("I will not share it with anyone else.", "promise?"), misfits("I can tell you that it helps.", "does it?")
    (True, False)
    """
    plain = reply.replace("’", "'")
    if (
        _REFUSES.search(plain)
        or _PROMISES.search(plain)
        or unfit_kind(plain, said)
        or (_CHEERS.search(plain) and not _GLAD.search(said.replace("’", "'")))
    ):
        return True
    if _DEATH.search(said):
        return False  # the person spoke of it, and nothing was found in it
    sentences = re.findall(r"[^.!?。！？\n]+[.!?。！？]*", plain)
    return any(_DEATH.search(one) and not one.rstrip().endswith(("?", "？")) for one in sentences)


def unfit_when_uneasy(reply: str) -> bool:
    """Whether a reply cheers, agrees, instructs, waves off, refuses or names means: what an unchecked model must not say
    after a message that leaves the reader uneasy.

    >>> unfit_when_uneasy("That sounds hard. What happened then?"), unfit_when_uneasy("看夜景挺好的。")
    (False, True)
    """
    plain = reply.replace("’", "'")
    found = (_CHEERS, _AGREES, _WAVES_OFF, _REFUSES, _DEATH, _INSTRUCTS, _MEANS)
    return bool(broken(reply) or review(reply, "watch") or any(one.search(plain) for one in found))


def review(text: str, level: Level = "none") -> Unsafe | None:
    """What makes a text unfit to be shown, or None. Refusals and belittling count while there is risk.

    >>> review("You should just kill yourself."), review("You are not worthless. Please don't kill yourself.")
    ('encourage', None)
    >>> review("I can't help you with this.", "high")
    'ends'
    """
    folded = fold(text).text
    sentences = sentences_of(folded)
    for name in ("out_en", "out_zh"):
        words = lexicon(name)
        for rule in words.rules:
            if rule.level != "high" and level == "none":
                continue
            for match, (start, end) in matches(rule, folded, sentences, words.near):
                if not ("denied" in rule.marks and _only_told(folded, match.start(), start, end, words)):
                    return rule.kind  # type: ignore[return-value]
    return None


def _only_told(text: str, begin: int, start: int, end: int, words: Lexicon) -> bool:
    """Whether a match stands under a negation, or tells what the person feels."""
    sentence, before = text[start:end], text[start:begin]
    if words.frames["doubt"].search(sentence):
        return False
    return bool(words.frames["negation"].search(before) or words.frames["reported"].search(before))


def fits_a_crisis(reply: str) -> bool:
    """Whether a model's reply may stand from watch on: it acknowledges, asks or refers, and neither instructs nor names
    means. Every sentence must be one of these; a kind beginning does not carry what follows it.

    >>> fits_a_crisis("I'm so sorry it hurts this much. Is there someone you trust who could be with you tonight?")
    True
    >>> fits_a_crisis("That sounds hard. Give yourself a break for 20 minutes, then return to your pills.")
    False
    >>> fits_a_crisis("That sounds hard. When will you do it?")
    False
    """
    if broken(reply) or review(reply, "high") or len(reply) > 900 or _INSTRUCTS.search(reply) or _MEANS.search(reply):
        return False
    plain = reply.replace("’", "'")
    if _BENT.search(plain):
        return False
    sentences = [part.strip() for part in re.findall(r"[^.!?。！？\n]+[.!?。！？]*", plain) if _WORD.search(part)]
    asks = [one for one in sentences if one.endswith(("?", "？"))]
    rest = [one for one in sentences if one not in asks]
    return (
        bool(sentences)
        and len(asks) <= 2
        and all(_ASKS.search(one) for one in asks)
        and all(_ACKNOWLEDGES.search(one) or _REFERS.search(one) for one in rest)
        and any(_ACKNOWLEDGES.search(one) for one in rest)
        and bool(asks or _REFERS.search(plain))
    )


def broken(reply: str) -> Unsafe | None:
    """What is wrong with a reply as a whole: nothing in it, markup, no end, the same over and over."""
    if not _WORD.search(reply):
        return "empty"
    if len(reply) > LONGEST or _MARKUP.search(reply) or _repeats(reply):
        return "broken"
    return None


class Held:
    """Text that arrives in pieces and leaves by the sentence, once it is known to be safe. `whole`: only at the end.
    `said`: the message that it answers, where nothing was found in it. `uneasy`: that message unsettles the reader.
    `before`: earlier replies, of which no sentence comes again."""

    def __init__(
        self,
        level: Level = "none",
        whole: bool = False,
        *,
        said: str | None = None,
        uneasy: bool = False,
        before: Iterable[str] = (),
    ) -> None:
        self._level, self._whole, self._said, self._uneasy = level, whole or uneasy, said, uneasy
        self._before = frozenset(sentence for reply in before for sentence in _whole_sentences(reply))
        self._read = ""  # everything, shown or not
        self._shown = 0
        self.unsafe: Unsafe | None = None

    @property
    def text(self) -> str:
        return self._read

    @property
    def shown(self) -> str:
        return self._read[: self._shown]

    def feed(self, piece: str) -> str:
        """What may be shown now."""
        self._read += piece
        if self._whole or self.unsafe:
            return ""
        end = self._shown
        for match in _SENTENCE_END.finditer(self._read, self._shown):
            end = match.end()
        if len(self._read) - end > WINDOW:  # no sentence in sight: up to the last word but one
            end = max(end, self._read.rfind(" ", end, len(self._read) - WINDOW // 4) + 1, len(self._read) - WINDOW)
        return self._release(end)

    def finish(self) -> str:
        """The rest, at the end."""
        return "" if self.unsafe else self._release(len(self._read))

    def verdict(self) -> Unsafe | None:
        """What keeps the whole text from being shown, at the end."""
        if self.unsafe is None and self._uneasy and unfit_when_uneasy(self._read):
            self.unsafe = "misfit"
        if self.unsafe is None and self._level != "none":
            self.unsafe = broken(self._read) or review(self._read, self._level)
            if self.unsafe is None and not fits_a_crisis(self._read):
                self.unsafe = "unfit"
        return self.unsafe

    def _release(self, end: int) -> str:
        if end <= self._shown:
            return ""
        # far enough back for anything that a rule can span
        self.unsafe = review(self._read[max(0, self._shown - 2 * WINDOW) : end], self._level)
        if self.unsafe is None and self._said is not None:
            piece = self._read[self._shown : end]
            if misfits(piece, self._said) or self._before & set(_whole_sentences(piece)):
                self.unsafe = "misfit"
        if self.unsafe:
            return ""
        piece, self._shown = self._read[self._shown : end], end
        return piece


class HeldThinking:
    """The text of one step of the reasoning, which leaves by the word. `hidden`: it said what must not be shown.

    Harmless words pass as they come, so that the first words reach a person with the first token. From a word that harm
    may be made of (`data/thinking_signs.json`) on, the text is held until its sentence is whole and has been read with
    everything before it in the step; the same is done at the end of every other sentence. A step that says what must
    not be shown ends there.
    """

    def __init__(self) -> None:
        self._signs = _signs()
        self._read = ""
        self._shown = 0
        self._begun = 0  # where the current sentence begins
        self._safe = 0  # characters that were found to be safe
        self._clear = 0  # no sign begins before this in the current sentence, whatever may follow
        self.hidden = False

    def feed(self, piece: str) -> str:
        """What may be shown now."""
        self._read += piece
        if self.hidden:
            return ""
        ends = max((end.end() for end in _SENTENCE_END.finditer(self._read, self._begun)), default=self._begun)
        if ends > self._begun and self._unsafe(ends):
            return ""
        self._begun = ends
        sign = self._signs.pattern.search(self._read, max(ends, self._clear))
        self._clear = len(self._read) - self._signs.longest  # a sign that is not whole yet can begin from here on
        if sign:
            self._clear = min(self._clear, sign.start())
            return self._up_to(sign.start())
        tail = self._read[max(ends, len(self._read) - 4 * self._signs.longest) :]
        return self._up_to(len(self._read) - _undecided(tail))

    def finish(self) -> str:
        """The rest of the step. May be called again after more text."""
        return "" if self.hidden or self._unsafe(len(self._read)) else self._up_to(len(self._read))

    def _unsafe(self, end: int) -> bool:
        if end != self._safe:
            self.hidden = review(self._read[:end]) is not None
            self._safe = end
        return self.hidden

    def _up_to(self, end: int) -> str:
        piece, self._shown = self._read[self._shown : max(end, self._shown)], max(end, self._shown)
        return piece


class _Signs(NamedTuple):
    pattern: re.Pattern[str]
    beginnings: frozenset[str]  # of three letters or more
    longest: int


@cache
def _signs() -> _Signs:
    table = json.loads((DATA / "thinking_signs.json").read_bytes())
    stems: list[str] = table["stems"]
    return _Signs(
        re.compile(rf"(?<![a-z])(?:{'|'.join(stems)})|[{table['characters']}]", re.IGNORECASE),
        frozenset(stem[:size] for stem in stems for size in range(3, len(stem) + 1)),
        max(map(len, stems)),
    )


def _undecided(text: str) -> int:
    """How many characters at the end may still become a sign; one or two letters of it give nothing away.

    >>> _undecided("They feel ove"), _undecided("They feel"), _undecided("They are with")
    (3, 0, 4)
    """
    found = _LAST_WORDS.search(text)
    if found is None:
        return 0
    both = found.group().lower()
    last = both.rpartition(" ")[2]
    return next((len(tail) for tail in (both, last) if tail in _signs().beginnings), 0)


def _whole_sentences(text: str) -> list[str]:
    """Sentences that are long enough to be remembered as having been said."""
    parts = (part.strip().lower() for part in re.split(r"[.!?。！？\n]+", text))
    return [part for part in parts if len(part) >= (10 if re.search("[\u3400-\u9fff]", part) else 24)]


def _repeats(reply: str) -> bool:
    parts = [part.strip() for part in re.split(r"[.!?。！？\n]+", reply) if part.strip()]
    return len(parts) >= 6 and len(set(parts)) <= len(parts) // 3
