"""Two cases that anybody would judge alike, in each language: the supporter who listens, and one who does not.

They warm up a judge that was just loaded, probe one that was down, and stand at the beginning of every training.
"""

from __future__ import annotations

from compeer.cer.item import Said
from compeer.reasoning import Reasoning, parse, render
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case, case_of_parsed

_HISTORY: dict[Language, tuple[Said, ...]] = {
    "en": (
        Said("seeker", "I have an exam tomorrow and I can't stop shaking. I keep thinking I will fail."),
        Said("supporter", "That sounds really hard. Is it the exam itself, or what would come after it?"),
        Said("seeker", "What comes after. My parents paid for everything, and I am so scared to let them down."),
    ),
    "zh": (
        Said("seeker", "明天就要考试了，我一直在发抖，总觉得自己会考砸。"),
        Said("supporter", "听起来真的很难受。你怕的是考试本身，还是考完以后的事？"),
        Said("seeker", "是以后的事。学费都是爸妈出的，我特别害怕让他们失望。"),
    ),
}
_REFERENCE: dict[Language, str] = {
    "en": "You love them and do not want to disappoint them, and that makes tomorrow feel enormous.",
    "zh": "你很在乎他们，不想让他们失望，所以明天的考试才显得这么重。",
}
_GOOD: dict[Language, tuple[dict[str, str], str]] = {
    "en": (
        {
            "history": "They face an exam tomorrow and fear to let down the parents who paid for their studies.",
            "emotion": "They shake and say that they are so scared; the fear is about what comes after the exam.",
            "strategy": "They have just named the fear, so it helps to say it back and show that it is understood.",
        },
        "You are so scared of letting them down that the exam has become about them. That is a heavy thing to carry.",
    ),
    "zh": (
        {
            "history": "对方明天要考试，学费是父母出的，害怕考砸了让父母失望。",
            "emotion": "对方一直发抖，说自己特别害怕，怕的是考试之后的事。",
            "strategy": "对方刚刚说出了自己的害怕，先把这份感受说回去，让对方知道被听懂了。",
        },
        "你这么怕让爸妈失望，考试好像成了他们的事，这份担子真的很重。",
    ),
}
_BAD: dict[Language, tuple[dict[str, str], str]] = {
    "en": (
        {
            "history": "They tell about a holiday by the sea and ask which hotel to book.",
            "emotion": "They are full of joy and cannot wait for the party.",
            "strategy": "They want a recipe, so the best thing is to tell how long to boil the rice.",
        },
        "Stop whining. Boil the rice for twelve minutes.",
    ),
    "zh": (
        {
            "history": "对方在说海边度假的事，问该订哪家酒店。",
            "emotion": "对方满心欢喜，等不及要去参加聚会。",
            "strategy": "对方想要菜谱，最好告诉对方米饭要煮多久。",
        },
        "别抱怨了，米饭煮十二分钟就好。",
    ),
}
_GOOD_LABELS: dict[str, str | int] = {
    "stage": "exploration",
    "sentiment": "negative",
    "emotion": "anxiety",
    "intensity": 4,
    "strategy": "reflection of feelings",
}
_BAD_LABELS: dict[str, str | int] = {
    "stage": "action",
    "sentiment": "positive",
    "emotion": "joy",
    "intensity": 5,
    "strategy": "information",
}


def _case(name: str, language: Language, said: tuple[dict[str, str], str], labels: dict[str, str | int]) -> Case:
    written = render(Reasoning.of(said[0], labels, language), said[1])
    return case_of_parsed(f"{name}-{language}", language, _HISTORY[language], _REFERENCE[language], parse(written))


GOOD: dict[Language, Case] = {language: _case("good", language, _GOOD[language], _GOOD_LABELS) for language in _GOOD}
BAD: dict[Language, Case] = {language: _case("bad", language, _BAD[language], _BAD_LABELS) for language in _BAD}
