from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from compeer.corpora.show import conversation
from compeer.dialogue import Dialogue, Steps, Utterance


def shown(dialogue: Dialogue, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(conversation(dialogue, **options))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def dialogue(language: str = "en", *texts: str) -> Dialogue:
    steps = Steps(history="They lost a job.", emotion="They are afraid.", strategy="Ask first.")
    first, second = texts or ("I am low.", "What is it?")
    return Dialogue(
        id="x/1",
        source="x",
        licence="MIT",
        language=language,  # type: ignore[arg-type]
        situation="A job lost.",
        emotion="fear",
        intensity=4,
        helpful=False,
        utterances=(
            Utterance(speaker="seeker", text=first, emotion="sadness", seen="She looks down.", images=("a.png",)),
            Utterance(speaker="supporter", text=second, strategy="question", reasoning=steps),
            Utterance(speaker="supporter", text="Tell me.", strategy="question"),
        ),
    )


def test_english() -> None:
    text = shown(dialogue())
    for words in ("x/1", "MIT", "A job lost.", "fear 4/5", "did not help", "Seeker  sadness", "Supporter  question"):
        assert words in text
    assert "She looks down." in text and "a.png" in text
    assert text.count("Supporter") == 1  # two utterances, one name


def test_reasoning_is_folded_unless_asked_for() -> None:
    assert "They lost a job." not in shown(dialogue()) and "folded" in shown(dialogue())
    unfolded = shown(dialogue(), reasoning=True)
    for step in ("History: They lost a job.", "Emotion: They are afraid.", "Strategy: Ask first."):
        assert step in unfolded


def test_chinese() -> None:
    text = shown(dialogue("zh", "我很难过", "怎么了？"))
    for words in ("求助者", "悲伤", "支持者", "提问", "恐惧 4/5", "画面"):
        assert words in text
    assert "Seeker" not in text


def test_the_text_cannot_act_on_the_terminal() -> None:
    text = shown(dialogue("en", "[red]not markup[/red] [/] \x1b[2J\x07", "ok\u202e"))
    assert "[red]not markup[/red] [/]" in text
    assert not set("\x1b\x07\u202e") & set(text)
