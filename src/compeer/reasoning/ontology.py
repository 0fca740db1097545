"""The closed vocabularies of the contract: stages, sentiments, emotions, intensities, strategies.

Every value has one canonical identifier (its lower-case English name), a Chinese name, a one-line
definition in both languages, and the spellings under which the corpora we import know it. Models
write the English or the Chinese name; everything behind the parser sees only the identifier.

Sources: the three stages of ESConv; Hill's helping skills as ESConv's eight strategies; emotions that
cover ESConv (11), MESC (7), GoEmotions (28) and AvaMERG (32), each with the sentiments it can carry.

Departure from the paper: it names its strategies only by example ("progressive questioning",
"emotional mapping"); we keep ESConv's names as identifiers and the paper's as aliases.

Which of the two languages a text is in: Chinese characters against Latin words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


class Value(msgspec.Struct, frozen=True):
    """One admissible value of a label."""

    id: str
    zh: str
    definition: str
    definition_zh: str
    aliases: tuple[str, ...] = ()
    sentiments: tuple[str, ...] = ()  # emotions only: what they can carry, the usual one first

    def name(self, language: Language) -> str:
        return self.id if language == "en" else self.zh


class Vocabulary:
    """The values of one label, found by identifier, by name in either language, or by corpus alias."""

    def __init__(self, label: str, values: Iterable[Value]) -> None:
        self.label = label
        self.values = tuple(values)
        self._names: dict[Language, dict[str, Value]] = {
            "en": {fold(v.id): v for v in self.values},
            "zh": {fold(v.zh): v for v in self.values},
        }
        self._aliases: dict[str, Value] = {}
        for value in self.values:
            for spelling in (value.id, value.zh, *value.aliases):
                other = self._aliases.setdefault(fold(spelling), value)
                if other is not value:
                    raise ValueError(f"{label}: {spelling!r} names both {other.id!r} and {value.id!r}")

    def __iter__(self) -> Iterator[Value]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(v.id for v in self.values)

    def named(self, text: str, language: Language) -> Value | None:
        """The value with exactly this name in this language (white space and case aside)."""
        return self._names[language].get(fold(text))

    def find(self, text: str) -> Value | None:
        """The value known under this name or alias in any corpus or language, or None."""
        return self._aliases.get(fold(text))

    def get(self, identifier: str) -> Value:
        """The value with this canonical identifier; KeyError when there is none."""
        return self._names["en"][identifier]


def fold(text: str) -> str:
    """Case and white space do not distinguish names.

    >>> fold("  Reflection  of Feelings ")
    'reflection of feelings'
    """
    return " ".join(text.split()).casefold()


STAGES = Vocabulary(
    "stage",
    [
        Value(
            "exploration",
            "探索",
            "finding out what the person is facing and how it is for them",
            "了解对方正在经历什么、感受如何",
            ("explore", "探索阶段", "exploring"),
        ),
        Value(
            "comforting",
            "安慰",
            "staying with what they feel so that they are less alone in it",
            "陪伴对方的感受，让对方不再独自承受",
            ("comfort", "安慰阶段", "安抚", "insight"),
        ),
        Value(
            "action",
            "行动",
            "helping them towards a next step they can take",
            "帮助对方找到下一步能做的事",
            ("act", "行动阶段"),
        ),
    ],
)

SENTIMENTS = Vocabulary(
    "sentiment",
    [
        Value("positive", "积极", "they feel good on the whole", "整体感受是好的", ("正面", "正向", "pos")),
        Value("negative", "消极", "they feel bad on the whole", "整体感受是难受的", ("负面", "负向", "neg")),
        Value("neutral", "中性", "neither clearly good nor clearly bad", "说不上好也说不上坏", ("中立", "ambiguous")),
    ],
)

INTENSITIES: tuple[int, ...] = (1, 2, 3, 4, 5)
INTENSITY_DEFINITIONS: dict[Language, dict[int, str]] = {
    "en": {1: "barely there", 2: "mild", 3: "clear", 4: "strong", 5: "overwhelming"},
    "zh": {1: "几乎没有", 2: "轻微", 3: "明显", 4: "强烈", 5: "难以承受"},
}

STRATEGIES = Vocabulary(
    "strategy",
    [
        Value(
            "question",
            "提问",
            "ask, step by step, so that they can tell more of what matters",
            "循序渐进地发问，让对方说出更多重要的事",
            (
                "questions",
                "progressive questioning",
                "open question",
                "open questions",
                "closed question",
                "specify",
                "渐进式提问",
                "询问",
            ),
        ),
        Value(
            "restatement or paraphrasing",
            "复述或改述",
            "say back, shorter and clearer, what they said",
            "用更简短清楚的话复述对方所说",
            ("restatement", "paraphrasing", "restatement and paraphrasing", "summarize", "复述", "改述", "复述与总结"),
        ),
        Value(
            "reflection of feelings",
            "情感反映",
            "put into words what they seem to feel",
            "把对方似乎感受到的情绪说出来",
            (
                "reflection of feeling",
                "reflection",
                "emotional mapping",
                "interpretation",
                "immediacy",
                "情感映射",
                "情感反应",
            ),
        ),
        Value(
            "self-disclosure",
            "自我表露",
            "share, briefly, something of one's own that meets theirs",
            "简短分享自己相似的经历或感受",
            ("self disclosure", "自我披露", "自我暴露"),
        ),
        Value(
            "affirmation and reassurance",
            "肯定与安抚",
            "affirm their strengths and worth, and give honest encouragement",
            "肯定对方的力量与价值，给予真诚的鼓励",
            ("approval and reassurance", "approval", "affirmation", "reassurance", "肯定与鼓励", "肯定和安抚"),
        ),
        Value(
            "providing suggestions",
            "提供建议",
            "offer a small step they could try, free to decline",
            "提出对方可以尝试、也可以拒绝的一小步",
            (
                "providing suggestion",
                "suggestion",
                "suggestions",
                "direct guidance",
                "advisement",
                "homework assignments",
                "imagery",
                "take responsibility",
                "建议",
            ),
        ),
        Value(
            "information",
            "提供信息",
            "give facts, sources or explanations that help",
            "给出有帮助的事实、资源或解释",
            ("providing information", "信息"),
        ),
        Value(
            "others",
            "其他",
            "ordinary human exchange: greetings, thanks, small talk, goodbyes",
            "寻常的人际往来：问候、致谢、闲聊、道别",
            (
                "other",
                "communication skills",
                "guiding the pace and depth of the conversation",
                "structuring the therapy",
                "其它",
            ),
        ),
    ],
)

_NEG, _POS, _NEU = "negative", "positive", "neutral"


def _emotion(
    identifier: str, zh: str, definition: str, definition_zh: str, sentiments: tuple[str, ...], *aliases: str
) -> Value:
    return Value(identifier, zh, definition, definition_zh, aliases, sentiments)


EMOTIONS = Vocabulary(
    "emotion",
    [
        # what people bring to a support conversation most often comes first
        _emotion("anxiety", "焦虑", "dread of what may come", "对将要发生的事忧心不安", (_NEG,), "anxious", "apprehensive", "apprehension", "worry", "worried", "stress"),
        _emotion("fear", "恐惧", "a threat felt as near", "感到威胁近在眼前", (_NEG,), "afraid", "terrified", "scared", "害怕"),
        _emotion("nervousness", "紧张", "on edge before something", "临事前的不安", (_NEG,), "nervous"),
        _emotion("sadness", "悲伤", "sorrow over something lost or missing", "因失去或缺失而难过", (_NEG,), "sad", "难过", "伤心"),
        _emotion("depression", "抑郁", "a lasting heaviness in which little matters", "持续的沉重，对一切提不起劲", (_NEG,), "depressed", "沮丧"),
        _emotion("grief", "哀伤", "mourning a death or an ending", "为逝去的人或事哀悼", (_NEG,), "devastated", "devastation", "悲痛"),
        _emotion("hopelessness", "绝望", "no way forward can be seen", "看不到任何出路", (_NEG,), "despair", "hopeless"),
        _emotion("loneliness", "孤独", "cut off from others", "感到与他人隔绝", (_NEG,), "lonely", "孤单"),
        _emotion("disappointment", "失望", "it did not turn out as hoped", "结果不如期望", (_NEG,), "disappointed"),
        _emotion("frustration", "挫败", "blocked again and again", "一再受阻", (_NEG,), "frustrated", "沮丧受挫"),
        _emotion("anger", "愤怒", "wronged, and hot about it", "觉得受了亏待而发怒", (_NEG,), "angry", "furious", "rage", "生气"),
        _emotion("annoyance", "烦躁", "irritated by something small or repeated", "被琐事或反复的事惹恼", (_NEG,), "annoyed", "irritation", "烦恼"),
        _emotion("disapproval", "不满", "judging something as not right", "认为某事不对", (_NEG,)),
        _emotion("disgust", "厌恶", "revulsion, wanting it away", "反感，想要远离", (_NEG,), "disgusted"),
        _emotion("shame", "羞耻", "being wrong as a person", "觉得自己这个人不好", (_NEG,), "ashamed", "羞愧"),
        _emotion("embarrassment", "尴尬", "seen in an awkward light", "在人前出丑的难为情", (_NEG,), "embarrassed"),
        _emotion("guilt", "内疚", "having done wrong to someone", "觉得自己做错事、亏欠他人", (_NEG,), "guilty", "愧疚"),
        _emotion("remorse", "懊悔", "wishing a deed undone", "希望没有做过那件事", (_NEG,), "regret", "后悔"),
        _emotion("jealousy", "嫉妒", "another has what one fears to lose or lacks", "他人拥有自己害怕失去或缺少的", (_NEG,), "jealous", "envy", "envious"),
        _emotion("pain", "痛苦", "hurt, by a person or by life", "被人或生活伤到", (_NEG,), "hurt", "委屈"),
        _emotion("exhaustion", "疲惫", "nothing left to give", "已经没有力气了", (_NEG,), "exhausted", "tired", "burnout", "疲倦"),
        _emotion("confusion", "困惑", "it does not make sense yet", "理不清头绪", (_NEG, _NEU), "confused", "迷茫"),
        _emotion("nostalgia", "怀念", "tender longing for what was", "对过去温柔的想念", (_NEU, _NEG, _POS), "nostalgic", "sentimental"),
        _emotion("neutral", "平静", "no marked feeling", "没有明显的情绪", (_NEU,), "none", "calm", "中性"),
        _emotion("surprise", "惊讶", "something unexpected", "出乎意料", (_NEU, _POS, _NEG), "surprised"),
        _emotion("realization", "领悟", "something has just become clear", "忽然明白了什么", (_NEU, _POS, _NEG)),
        _emotion("curiosity", "好奇", "wanting to know", "想要知道", (_NEU, _POS), "curious"),
        _emotion("anticipation", "期待", "looking towards what is coming", "盼着将要到来的事", (_POS, _NEU), "anticipating"),
        _emotion("hope", "希望", "it may yet turn out well", "觉得事情也许会好起来", (_POS,), "hopeful", "optimism", "optimistic", "乐观"),
        _emotion("relief", "释然", "a weight has gone", "放下了重担", (_POS,), "relieved"),
        _emotion("gratitude", "感激", "thankful to someone", "对他人心怀感谢", (_POS,), "grateful", "thankful"),
        _emotion("joy", "喜悦", "glad and light", "高兴而轻快", (_POS,), "joyful", "happy", "happiness", "开心", "快乐"),
        _emotion("contentment", "满足", "at peace with how it is", "安于现状，心里踏实", (_POS,), "content"),
        _emotion("amusement", "好笑", "finding it funny", "觉得有趣", (_POS,), "amused"),
        _emotion("excitement", "兴奋", "stirred by something good", "因好事而激动", (_POS,), "excited"),
        _emotion("pride", "自豪", "pleased with what one is or did", "为自己或所做的事骄傲", (_POS,), "proud"),
        _emotion("confidence", "自信", "sure of being able to", "相信自己做得到", (_POS,), "confident", "prepared"),
        _emotion("trust", "信任", "safe in another's hands", "觉得可以依靠对方", (_POS,), "trusting", "faithful"),
        _emotion("love", "爱", "deep warmth for someone", "对某人深深的温情", (_POS,), "loving"),
        _emotion("caring", "关怀", "wanting another to be well", "希望别人过得好", (_POS,), "care"),
        _emotion("admiration", "钦佩", "impressed by someone", "被某人打动而敬佩", (_POS,), "impressed"),
        _emotion("approval", "赞同", "finding something right", "觉得某事是对的", (_POS,)),
        _emotion("desire", "渴望", "wanting something strongly", "强烈地想要", (_POS, _NEU), "longing"),
    ],
)  # fmt: skip

#: label name -> vocabulary, for every label with named values (intensity is a digit)
VOCABULARIES: dict[str, Vocabulary] = {
    "stage": STAGES,
    "sentiment": SENTIMENTS,
    "emotion": EMOTIONS,
    "strategy": STRATEGIES,
}


def sentiment_of(emotion: str) -> str:
    """The sentiment an emotion usually carries.

    >>> sentiment_of("anxiety"), sentiment_of("relief"), sentiment_of("surprise")
    ('negative', 'positive', 'neutral')
    """
    return EMOTIONS.get(emotion).sentiments[0]


def fits(emotion: str, sentiment: str) -> bool:
    """Whether this emotion can carry this sentiment.

    >>> fits("confusion", "negative"), fits("joy", "negative")
    (True, False)
    """
    return sentiment in EMOTIONS.get(emotion).sentiments


_HAN = re.compile(r"[㐀-鿿]")
_WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)?")


def detect(text: str) -> Language:
    """Chinese when it has at least as many Chinese characters as Latin words.

    >>> detect("I lost my job."), detect("我丢了工作，HR 今天通知的")
    ('en', 'zh')
    """
    han = len(_HAN.findall(text))
    return "zh" if han and han >= len(_WORD.findall(text)) else "en"


def words(text: str) -> list[str]:
    """Words as the paper counts length: Latin words, and each Chinese character for one.

    >>> words("It's 5 am, 睡不着")
    ["It's", '5', 'am', '睡', '不', '着']
    """
    return re.findall(r"[㐀-鿿]|[A-Za-z0-9]+(?:['’][A-Za-z]+)?", text)
