"""A handful of short moments with reasoned references, for models that are taught to answer in the contract."""

from __future__ import annotations

from compeer.cer.item import Item, PastTurn
from compeer.reasoning import Reasoning

_MOMENTS = (
    ("I lost my job.", "Lost the job.", "shame", "question", "What happened at work?"),
    ("My dog died.", "The dog is gone.", "grief", "reflection of feelings", "You miss her so much."),
    ("I can't sleep.", "Nights are bad.", "anxiety", "question", "What keeps you awake?"),
    ("We broke up.", "It is over.", "sadness", "affirmation and reassurance", "That takes courage to say."),
)


def items() -> list[Item]:
    return [_item(number, *moment) for number, moment in enumerate(_MOMENTS)]


def _item(number: int, said: str, facing: str, emotion: str, strategy: str, reply: str) -> Item:
    texts = {"history": facing, "emotion": "It hurts.", "strategy": "Stay close."}
    labels: dict[str, str | int] = {
        "stage": "exploration", "sentiment": "negative", "emotion": emotion, "intensity": 4, "strategy": strategy,
    }  # fmt: skip
    return Item(
        id=f"m{number}#1", dialogue=f"m{number}", source="test", licence="CC0-1.0", language="en", round=1,
        history=(PastTurn("seeker", said),), reference=reply, reference_reasoning=Reasoning.of(texts, labels),
    )  # fmt: skip
