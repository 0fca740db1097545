"""A dialogue with all that a record can hold, and one with only what it must."""

import pytest

from compeer.dialogue import Dialogue, Steps, Utterance


@pytest.fixture
def full() -> Dialogue:
    return Dialogue(
        id="esconv/train/00001",
        source="esconv",
        licence="CC BY-NC 4.0",
        language="en",
        situation="Lost my job.",
        problem="job crisis",
        emotion="anxiety",
        intensity=5,
        helpful=True,
        extra={"survey": {"empathy": "5"}, "标签": ["一", None, 1.5]},
        utterances=(
            Utterance(speaker="supporter", text="Hello!", strategy="others"),
            Utterance(speaker="seeker", text="I lost my job.", images=("a.jpg",), seen="She looks down."),
            Utterance(speaker="seeker", text=" Nobody knows. ", images=("b.jpg", "c.jpg")),
            Utterance(speaker="supporter", text="That is hard.", strategy="reflection of feelings"),
            Utterance(speaker="supporter", text="What happened?", strategy="question"),
            Utterance(
                speaker="supporter",
                text="Take your time.",
                strategy="reflection of feelings",
                stage="exploration",
                sentiment="negative",
                emotion="shame",
                intensity=4,
                reasoning=Steps(history="Lost the job.", emotion="Ashamed.", strategy="Ask."),
            ),
            Utterance(speaker="seeker", text="They closed the office."),
        ),
    )


@pytest.fixture
def bare() -> Dialogue:
    return Dialogue(
        id="x/1", source="x", licence="CC0 1.0", language="zh", utterances=(Utterance(speaker="seeker", text="睡不着"),)
    )
