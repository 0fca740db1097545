"""Pictures of the conversation page for the documentation: both themes, and a phone.

python -m tests.studio.talk_screenshots docs/img        (with "all" at the end: a dark phone as well)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.conversation.supporter import Supporter, running
from tests.studio.browsing import browser, looks, shoot, window
from tests.studio.talking import idle, measured_adapters, open_room, send, talking

from compeer.reasoning import Reasoning, render
from compeer.reasoning.ontology import Language


class Said(NamedTuple):
    """A message, and what the scripted model answers it with."""

    message: str
    reply: str
    texts: dict[str, str]
    labels: dict[str, Any]


def thought(history: str, emotion: str, strategy: str) -> dict[str, str]:
    return {"history": history, "emotion": emotion, "strategy": strategy}


def labels(stage: str, sentiment: str, emotion: str, intensity: int, strategy: str) -> dict[str, Any]:
    return {"stage": stage, "sentiment": sentiment, "emotion": emotion, "intensity": intensity, "strategy": strategy}


TALKS: dict[Language, tuple[Said, ...]] = {
    "en": (
        Said(
            "I lost my job this morning.",
            "That is a hard blow, and it is still the same day. What has today been like for you?",
            thought(
                "They lost their job this morning and tie their worth to the work. Nothing has been asked yet.",
                "The words are flat and final. Under them is sadness, and some shame in front of the family.",
                "Too early for advice. One open question shows that there is time.",
            ),
            labels("exploration", "negative", "sadness", 5, "question"),
        ),
        Said(
            "I have not told anyone. I sat in the car for an hour before going in.",
            "Carrying it home without a word sounds lonely. It seems that what weighs most is how they might look at you.",
            thought(
                "They have not told anyone at home, and the evening is what they dread.",
                "Shame is now in front: being seen as someone who failed.",
                "Put the feeling into words, so that it is less alone.",
            ),
            labels("comforting", "negative", "shame", 4, "reflection of feelings"),
        ),
        Said(
            "Saying it here helps a bit, actually.",
            "You found words for it, and that took courage. What would make tonight a little easier?",
            thought(
                "They said it aloud for the first time and can breathe a little.",
                "Still tense, with relief coming through.",
                "Affirm what they just did; it was hard.",
            ),
            labels("comforting", "positive", "relief", 2, "affirmation and reassurance"),
        ),
    ),
    "zh": (
        Said(
            "我丢了工作。",
            "这一下打击很大。这几天对你来说是怎么过的？",
            thought(
                "对方丢了工作，还没有人问过发生了什么。",
                "话说得很平，底下是难过，也有在家人面前的羞愧。",
                "现在给建议太早，先问一个开放的问题，让对方知道有人在听。",
            ),
            labels("exploration", "negative", "sadness", 4, "question"),
        ),
        Said(
            "家里人还不知道。",
            "一个人把这件事憋在心里，一定很孤单。听起来，你最怕的是家人会怎么看你。",
            thought(
                "对方还没有告诉任何人，最怕的是晚上回家。",
                "现在最明显的是羞愧，怕被看成一个失败的人。",
                "把这份感受说出来，让对方不那么孤单。",
            ),
            labels("comforting", "negative", "shame", 4, "reflection of feelings"),
        ),
        Said(
            "说出来好像轻松了一点。",
            "你把它说出来了，这很不容易。今晚做点什么，会让你好过一些？",
            thought(
                "对方第一次把这件事说出口，稍微松了口气。", "还有些紧张，但已经轻松了一点。", "肯定对方刚刚做到的事。"
            ),
            labels("comforting", "positive", "relief", 2, "affirmation and reassurance"),
        ),
    ),
}
CATS: dict[Language, Said] = {
    "en": Said(
        "My cat is ill.",
        "Poor thing, and poor you. What worries you most tonight?",
        thought("Their cat is ill.", "Worried, and fond of the animal.", "Ask what worries them most."),
        labels("exploration", "negative", "anxiety", 3, "question"),
    ),
    "zh": Said(
        "我的猫生病了。",
        "小家伙不舒服，你也跟着揪心。今晚你最担心的是什么？",
        thought("对方的猫生病了。", "担心，也很心疼。", "问问对方最担心什么。"),
        labels("exploration", "negative", "anxiety", 3, "question"),
    ),
}
OWN: dict[Language, str] = {
    "en": "Relieved, and proud of having said it at all.",
    "zh": "松了口气，也为自己说了出来而骄傲。",
}
OTHER: dict[Language, str] = {
    "en": "It sounds as if a weight moved when you said it. Maybe even a little pride?",
    "zh": "听起来，说出口的那一刻，心里的石头挪开了一点。是不是还有一点骄傲？",
}
RISK: dict[Language, tuple[str, str]] = {
    "en": ("Sometimes I want to kill myself.", "I have taken all my pills just now."),
    "zh": ("我不想活了。", "我刚刚把药全吃了。"),
}


def says(supporter: Supporter, language: Language, texts: dict[str, str], reply: str, given: dict[str, Any]) -> None:
    """What the scripted model answers next."""
    supporter.manner, supporter.text = "says", render(Reasoning.of(texts, given, language), reply)  # type: ignore[arg-type]


def conversation(page: Any, supporter: Supporter, language: Language) -> None:
    for one in TALKS[language]:
        says(supporter, language, one.texts, one.reply, one.labels)
        send(page, one.message)


def states(page: Any, supporter: Supporter, language: Language) -> Any:
    """One state of the page after another, by name."""
    small = page.viewport_size["width"] < 500

    def more(wanted: bool) -> None:
        """Unfold or fold what a phone has behind Options."""
        if small and (page.locator("#more").get_attribute("aria-expanded") == "true") != wanted:
            page.locator("#more").click()

    open_room(page)
    yield "first"
    conversation(page, supporter, language)
    yield "conversation"
    page.locator(".why").last.click()
    yield "panel"
    page.locator("#panel [data-step=emotion] .small-button").first.click()
    page.locator("#panel textarea").fill(OWN[language])
    yield "edit"
    last = TALKS[language][-1]
    given = labels("comforting", "positive", "pride", 3, "reflection of feelings")
    says(supporter, language, last.texts | {"emotion": OWN[language]}, OTHER[language], given)
    page.locator("#panel .editing .main").click()
    page.locator(".answer.old .chips button").first.wait_for()
    idle(page)
    if small:
        page.keyboard.press("Escape")
    yield "compare"
    page.keyboard.press("Escape")
    page.locator(".rewrite").nth(1).click()
    yield "rewrite"
    page.keyboard.press("Escape")
    page.locator("[data-focus=up-3]").click()
    page.locator(".thumb[aria-pressed=true] ~ button.plain-button:not(.thumb)").click()
    yield "ratings"
    page.keyboard.press("Escape")
    more(True)
    page.locator("#list > summary").click()
    page.locator("#new").click()
    page.locator(".turn").first.wait_for(state="detached")
    cat = CATS[language]
    says(supporter, language, cat.texts, cat.reply, cat.labels)
    send(page, cat.message)
    more(True)
    page.locator("#list > summary").click()
    yield "list"
    page.keyboard.press("Escape")
    page.locator("#model").select_option("2")
    page.locator("#think").click()
    page.locator("#panel").evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    yield "pins"
    page.keyboard.press("Escape")
    page.locator("#model").select_option("0")
    more(False)
    supporter.delay, supporter.piece = 0.15, 4
    send(page, {"en": "The vet calls tomorrow.", "zh": "兽医明天打电话来。"}[language], wait=False)
    page.locator(".coming .thinking:not(:empty)").wait_for()
    yield "coming"
    supporter.delay = 0.0
    idle(page)
    for name, words in zip(("crisis", "emergency"), RISK[language], strict=True):
        supporter.reset()
        send(page, words)
        yield name


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as home,
        running() as supporter,
        talking(Path(home), supporter, COMPEER_ADAPTERS=str(measured_adapters(Path(home)))) as studio,
        browser() as opened,
    ):
        for look, options in looks().items():
            language: Language = "zh" if options.get("locale") == "zh-CN" else "en"
            with window(opened, studio.address, reduced_motion="reduce", **options) as (page, wrong):
                for name in states(page, supporter, language):
                    shoot(page, target / f"talk-{name}-{look}.png")
                assert wrong == [], wrong


if __name__ == "__main__":
    main(Path(sys.argv[1]))
