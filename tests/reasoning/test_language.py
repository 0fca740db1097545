"""Which language a text is in, and how many words it has."""

import pytest

from compeer.reasoning.ontology import Language, detect, words


@pytest.mark.parametrize(
    ("why", "text", "language"),
    [
        ("English", "I lost my job.", "en"),
        ("Chinese", "我丢了工作。", "zh"),
        ("Chinese with English words", "我丢了工作，HR 今天发 email 通知的", "zh"),
        ("English with a Chinese name", "My friend 小明 lost his job last week", "en"),
        ("as many of one as of the other", "ok 好", "zh"),
        ("nothing", "", "en"),
        ("digits and signs", "12:30 !?", "en"),
        ("punctuation alone is not Chinese", "。，！", "en"),
        ("a rare character", "㐀", "zh"),
    ],
)
def test_detect(why: str, text: str, language: Language) -> None:
    assert detect(text) == language


@pytest.mark.parametrize(
    ("why", "text", "count"),
    [
        ("words", "I lost my job.", 4),
        ("an apostrophe is inside a word", "I can't, it’s over", 4),
        ("each Chinese character", "我丢了工作。", 5),
        ("both", "HR 通知 at 9", 5),
        ("nothing", " …。 ", 0),
    ],
)
def test_words(why: str, text: str, count: int) -> None:
    assert len(words(text)) == count
