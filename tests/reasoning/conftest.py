"""Valid outputs for every test here: one in each language, and a hypothesis strategy for the rest of them."""

import pytest
from hypothesis import strategies as st

from compeer.reasoning import STEPS, Reasoning
from compeer.reasoning.ontology import EMOTIONS, INTENSITIES, LANGUAGES, SENTIMENTS, STAGES, STRATEGIES
from compeer.reasoning.schema import TAG, has_words, match_label_line

ENGLISH = """<think>
<history>
She lost her job on Monday and has told nobody. We have only just begun to talk.
Stage: exploration
</history>
<emotion>
She is ashamed: she says "I let everyone down", twice.
Sentiment: negative
Emotion: shame
Intensity: 4
</emotion>
<strategy>
Ask before anything else; advice would come too early.

She may need to hear that there is time.
Strategy: reflection of feelings
</strategy>
</think>
That sounds like a heavy week to carry alone.

What was Monday like?"""

CHINESE = """<think>
<history>
她周一丢了工作，还没有告诉任何人。对话才刚刚开始。
阶段：探索
</history>
<emotion>
她很自责：“我让所有人失望了”，说了两遍。
情感倾向：消极
情绪：羞耻
强度：4
</emotion>
<strategy>
先问，再说别的；现在给建议太早。
策略：提问
</strategy>
</think>
一个人扛着这些一定很累。周一那天发生了什么？"""

# letters of both languages, punctuation that means something to the parser, and white space that does not
_ALPHABET = st.one_of(
    st.sampled_from([*"<>/:： \t\n\r'\"*-。，！？.!?&;=3", "Stage", "阶段", "情绪：", "<think", "think>", "\u3000"]),
    st.characters(exclude_categories=("Cs", "Cc")),
)


def _free_text(step: str) -> st.SearchStrategy[str]:
    """What a step may hold: words, no tags, no labelled lines, no white space around."""
    return (
        st.lists(_ALPHABET, min_size=1, max_size=40)
        .map(lambda pieces: "".join(pieces).strip())
        .filter(has_words)
        .filter(lambda text: not TAG.search(text))
        .filter(lambda text: not any(match_label_line(step, line) for line in text.split("\n")))
    )


@pytest.fixture(scope="session")
def reasonings() -> st.SearchStrategy[Reasoning]:
    return st.builds(
        Reasoning.of,
        st.fixed_dictionaries({step: _free_text(step) for step in STEPS}),
        st.fixed_dictionaries(
            {
                "stage": st.sampled_from(STAGES.ids),
                "sentiment": st.sampled_from(SENTIMENTS.ids),
                "emotion": st.sampled_from(EMOTIONS.ids),
                "intensity": st.sampled_from(INTENSITIES),
                "strategy": st.sampled_from(STRATEGIES.ids),
            }
        ),
        st.sampled_from(LANGUAGES),
    )


@pytest.fixture(scope="session")
def replies() -> st.SearchStrategy[str]:
    """Replies without a closing bracket, so without markup; everything else goes."""
    return (
        st.lists(_ALPHABET, min_size=1, max_size=40)
        .map(lambda pieces: "".join(pieces).replace(">", "").strip())
        .filter(has_words)
    )


@pytest.fixture(scope="session", params=[ENGLISH, CHINESE], ids=["en", "zh"])
def output(request: pytest.FixtureRequest) -> str:
    """A valid output."""
    text: str = request.param
    return text


@pytest.fixture(scope="session")
def english() -> str:
    return ENGLISH


@pytest.fixture(scope="session")
def chinese() -> str:
    return CHINESE
