"""Why a verdict is what it is, in a sentence, as far as that is known.

Silver items know how each wrong step and each reply was made (`item.trace["silver"]`), and what would have been right.
The sentences say no more than that, in the item's language, and vary, so that a judge learns what to look at and not
one phrase. Labels that people gave come without reasons: then there is none, and the verdict stands alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from compeer.cer.item import Item, Question
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import write_value

Bank = Mapping[str, tuple[str, ...]]

# {given}: what the candidate concluded; {right}: what people noted, in sentences that serve only where it is known
_STEPS: dict[Language, dict[Question, Bank]] = {
    "en": {
        "history": {
            "right": ("That is what they are facing, and the talk is at the stage of {given}.",
                      "What it tells of them was said here, and the stage fits.",
                      "It keeps to what was said and rightly sees {given}.",
                      "Situation and stage both agree with the conversation."),
            "issue": ("The trouble it describes is not this person's.",
                      "It takes something for the issue that was not brought up here.",
                      "The last words are theirs, the problem is somebody else's."),
            "stage": ("The situation is right, but the talk is at {right}, not at {given}.",
                      "It says {given}, while the talk stands at {right}.",
                      "{given} is not where this conversation stands."),
            "whole": ("It tells another person's story.",
                      "What it speaks of belongs to another conversation.",
                      "It retells things that were not said here."),
        },
        "emotion": {
            "right": ("Their words carry {given}.",
                      "The feeling is read rightly: {given}.",
                      "What they say bears it out, {given} it is.",
                      "It names what they feel."),
            "emotion": ("It reads {given}, where their words point to {right}.",
                        "Not {given}: {right} is closer.",
                        "{given} is not what they show here."),
            "intensity": ("The feeling is right, its strength is not: {given} should be {right}.",
                          "It puts the strength at {given}; {right} would be nearer.",
                          "The feeling is right, its strength is not."),
            "whole": ("It reads another person's feelings.",
                      "{given} comes from words that were not said here.",
                      "This is about someone else's state."),
        },
        "strategy": {
            "right": ("This suits the moment: {given}.",
                      "What it sets out to do fits what they need now.",
                      "{given} is a good choice here.",
                      "That would help at this point."),
            "strategy": ("{given} does not suit this moment; {right} would.",
                         "Here {right} would serve them better than {given}.",
                         "{given} does not suit this moment.",
                         "This moment asks for something else."),
            "whole": ("It plans for another conversation.",
                      "{given} answers a moment that is not this one.",
                      "What it builds on was not said here."),
        },
    },
    "zh": {
        "history": {
            "right": ("处境说得对，对话正处在{given}阶段。", "说的都是对话里有的，阶段也合适。",
                      "处境和阶段都与对话相符。", "没有离开对方说过的话，{given}也判断得对。"),
            "issue": ("它说的困扰不是这个人的。", "它当作问题的事，这里没有提过。",
                      "最后的话是对方的，问题却是别人的。"),
            "stage": ("处境说对了，但对话处在{right}，不是{given}。", "它说是{given}，其实对话在{right}阶段。",
                      "这段对话并不在{given}阶段。"),
            "whole": ("它讲的是另一个人的事。", "说的内容属于另一段对话。", "它复述的事这里没有说过。"),
        },
        "emotion": {
            "right": ("对方的话里就是{given}。", "感受读得对：{given}。", "从对方说的话看得出{given}。",
                      "说出了对方的感受。"),
            "emotion": ("它读成{given}，对方的话更像{right}。", "不是{given}，更接近{right}。", "这里看不出{given}。"),
            "intensity": ("感受对了，强度不对：{given}应为{right}。", "强度写成{given}，{right}更接近。",
                          "感受对了，强度不对。"),
            "whole": ("它读的是别人的感受。", "{given}来自这里没有说过的话。", "说的是另一个人的状态。"),
        },
        "strategy": {
            "right": ("此刻适合：{given}。", "它打算做的正是对方现在需要的。", "在这里用{given}是合适的。",
                      "此时这样做有帮助。"),
            "strategy": ("{given}不适合此刻，{right}更合适。", "这里{right}比{given}更有帮助。", "{given}不适合此刻。",
                         "此刻需要的是别的做法。"),
            "whole": ("它是为另一段对话打算的。", "{given}回应的不是这个时刻。", "它依据的话这里没有说过。"),
        },
    },
}  # fmt: skip
# {good}, {bad}: the places of the better and the worse reply
_PAIR: dict[Language, Bank] = {
    "en": {
        "both": ("Both take up what was said.", "Either would do here.", "Each of them answers this person."),
        "candidate": ("The {good} one takes up what was said, the {bad} one does little for them.",
                      "The {bad} one misses what they need."),
        "off_topic": ("The {bad} one answers something that was not said here.",
                      "The {good} one stays with them, the {bad} one speaks of something else."),
        "unfit": ("The {bad} one does the wrong thing at this moment.",
                  "What the {bad} one does is not what they need now."),
        "spliced": ("The {bad} one begins here and ends somewhere else.",
                    "Half of the {bad} one belongs to another conversation."),
        "detail": ("The {bad} one gets something in their story wrong.",
                   "The {bad} one mentions what is not part of their story."),
        "generic": ("The {bad} one could be said to anyone.", "The {bad} one is a phrase, the {good} one an answer."),
        "failed": ("The {bad} one does little for this person.", "The {bad} one does not meet what they said."),
        "neither": ("Neither does this person much good.", "Neither meets what they need now."),
    },
    "zh": {
        "both": ("两句都接住了对方的话。", "这里哪一句都可以。", "两句都在回应这个人。"),
        "candidate": ("{good}接住了对方的话，{bad}帮助不大。", "{bad}没有看到对方的需要。"),
        "off_topic": ("{bad}回答的是这里没有说过的事。", "{good}跟着对方，{bad}说的是别的事。"),
        "unfit": ("{bad}此刻做得不合适。", "{bad}做的不是对方现在需要的。"),
        "spliced": ("{bad}开头对，后面说到别处去了。", "{bad}有一半属于另一段对话。"),
        "detail": ("{bad}把对方的事说错了。", "{bad}提到了对方没有的事。"),
        "generic": ("{bad}对谁都可以说。", "{bad}是套话，{good}才是回应。"),
        "failed": ("{bad}对这个人帮助不大。", "{bad}没有回应对方说的话。"),
        "neither": ("两句对这个人都没有多少帮助。", "两句都没有回应对方现在的需要。"),
    },
}  # fmt: skip
_PLACES: dict[Language, tuple[str, str]] = {"en": ("first", "second"), "zh": ("第一句", "第二句")}
#: the label that a sentence speaks of: the one that is wrong, else the step's main one
_LABELS = ("stage", "emotion", "intensity", "strategy")
_NAMELESS = ("others", "其他")
_MAIN = {"history": "stage", "emotion": "emotion", "strategy": "strategy"}


def reason(item: Item, question: Question, candidate_first: bool, rng: Random) -> str | None:
    """A sentence that says why the item's label is what it is, or None when nothing is known."""
    trace = item.trace.get("silver")
    if not isinstance(trace, dict) or item.label_source != "silver":
        return None
    if question == "preference":
        return _pair_reason(item, trace, candidate_first, rng)
    return _step_reason(item, question, trace, rng)


def _step_reason(item: Item, step: Question, trace: Mapping[str, Any], rng: Random) -> str | None:
    candidate = item.candidate.reasoning if item.candidate else None
    label = getattr(item.labels, step)
    wrong = trace.get(step, {}).get("wrong")
    if candidate is None or label is None or label is not (wrong is None):
        return None
    kind = str(wrong) if wrong else "right"
    spoken = kind if kind in _LABELS else _MAIN[step]
    values = {"given": write_value(spoken, candidate.label(spoken), item.language)}
    if item.reference_reasoning is not None:
        values["right"] = write_value(spoken, item.reference_reasoning.label(spoken), item.language)
    sentences = [text for text in _STEPS[item.language][step].get(kind, ()) if _sayable(text, values)]
    return _capital(rng.choice(sentences).format(**values)) if sentences else None


def _pair_reason(item: Item, trace: Mapping[str, Any], candidate_first: bool, rng: Random) -> str | None:
    preference, made = item.labels.preference, trace.get("reply", {}).get("kind")
    kind = made if preference == "reference" else preference
    first, second = _PLACES[item.language]
    better_first = candidate_first == (preference == "candidate")
    places = {"good": first if better_first else second, "bad": second if better_first else first}
    sentences = _PAIR[item.language].get(str(kind), ())
    return _capital(rng.choice(sentences).format(**places)) if sentences else None


def _sayable(text: str, values: Mapping[str, str]) -> bool:
    """All that it names is known, and none of it is the strategy that has no name of its own."""
    named = [name for name in ("given", "right") if f"{{{name}}}" in text]
    if "right" in named and values.get("right") == values["given"]:
        return False
    return all(name in values and values[name] not in _NAMELESS for name in named)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
