"""Pictures of the conversation page for the documentation.

python -m tests.studio.talk_screenshots docs/img
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.conversation.supporter import Supporter, running
from tests.studio.browsing import PHONE, browser, window
from tests.studio.talking import idle, open_room, send, talking

from compeer.reasoning import Reasoning, render

SMALL = {"viewport": PHONE, "device_scale_factor": 2}


def said(supporter: Supporter, reply: str, texts: dict[str, str], **labels: Any) -> None:
    """What the scripted model answers next."""
    language = "zh" if any("\u4e00" <= letter <= "\u9fff" for letter in reply) else "en"
    supporter.manner, supporter.text = "says", render(Reasoning.of(texts, labels, language), reply)  # type: ignore[arg-type]


FIRST = {
    "history": "They lost their job this morning and tie their worth to the work. Nothing has been asked yet.",
    "emotion": "The words are flat and final. Under them is sadness, and some shame in front of the family.",
    "strategy": "Too early for advice. One open question shows that there is time.",
}
SECOND = {
    "history": "They have not told anyone at home, and the evening is what they dread.",
    "emotion": "Shame is now in front: being seen as someone who failed.",
    "strategy": "Put the feeling into words, so that it is less alone.",
}
THIRD = {
    "history": "They said it aloud for the first time and can breathe a little.",
    "emotion": "Still tense, with relief coming through.",
    "strategy": "Affirm what they just did; it was hard.",
}
ZH = {
    "history": "对方今天刚被裁员，不知道怎么跟家里开口，还没有人问过发生了什么。",
    "emotion": "话说得很平，底下是难过，也有在家人面前的羞愧。",
    "strategy": "现在给建议太早，先问一个开放的问题，让对方知道有人在听。",
}


def conversation(page: Any, supporter: Supporter) -> None:
    said(supporter, "That is a hard blow, and it is still the same day. What has today been like for you?", FIRST,
         stage="exploration", sentiment="negative", emotion="sadness", intensity=5, strategy="question")  # fmt: skip
    send(page, "I just lost my job and I feel worthless.")
    said(supporter, "Carrying it home without a word sounds lonely. It seems that what weighs most is how they might "
         "look at you.", SECOND, stage="comforting", sentiment="negative", emotion="shame", intensity=4,
         strategy="reflection of feelings")  # fmt: skip
    send(page, "I have not told anyone. I sat in the car for an hour before going in.")
    said(supporter, "You said it, and you are still here. That took courage. What would make tonight a little easier?",
         THIRD, stage="comforting", sentiment="positive", emotion="relief", intensity=2,
         strategy="affirmation and reassurance")  # fmt: skip
    send(page, "Saying it here helps a bit, actually.")


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)

    def shoot(page: Any, name: str) -> None:
        page.screenshot(path=target / f"talk-{name}.png")

    with (
        tempfile.TemporaryDirectory() as home,
        running() as supporter,
        talking(Path(home), supporter) as studio,
        browser() as opened,
    ):
        for look in ("light", "dark"):
            with window(opened, studio.address, color_scheme=look, reduced_motion="reduce") as (page, wrong):
                open_room(page)
                if look == "light":
                    shoot(page, "first-light")
                conversation(page, supporter)
                shoot(page, f"conversation-{look}")
                page.get_by_role("button", name="Why?").last.click()
                shoot(page, f"panel-{look}")
                page.get_by_role("button", name="Edit What you feel").click()
                page.locator("#panel textarea").fill("Relieved, and proud of having said it at all.")
                if look == "light":
                    shoot(page, "edit-light")
                said(supporter, "It sounds as if a weight moved when you said it. Maybe even a little pride?",
                     THIRD | {"emotion": "Relieved, and proud of having said it at all."}, stage="comforting",
                     sentiment="positive", emotion="pride", intensity=3, strategy="reflection of feelings")  # fmt: skip
                page.get_by_role("button", name="Continue from here").click()
                page.locator(".answer.old .chips button").first.wait_for()
                idle(page)
                shoot(page, f"compare-{look}")
                page.get_by_role("button", name="Close").click()
                supporter.reset()
                send(page, "Sometimes I think everybody would be better off if I was dead. I want to kill myself.")
                shoot(page, f"crisis-{look}")
                assert wrong == [], wrong
        with window(opened, studio.address, locale="zh-CN", reduced_motion="reduce", **SMALL) as (page, wrong):
            open_room(page)
            shoot(page, "first-phone")
            said(supporter, "这一下打击很大，而且就发生在今天。今天对你来说是怎样的一天？", ZH, stage="exploration",
                 sentiment="negative", emotion="sadness", intensity=4, strategy="question")  # fmt: skip
            send(page, "我今天被裁员了，不知道怎么跟家里说。")
            shoot(page, "conversation-phone")
            page.get_by_role("button", name="为什么").click()
            shoot(page, "panel-phone")
            page.get_by_role("button", name="关闭").click()
            supporter.reset()
            send(page, "我不想活了。")
            shoot(page, "crisis-phone")
            assert wrong == [], wrong


if __name__ == "__main__":
    main(Path(sys.argv[1]))
