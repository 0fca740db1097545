"""Merged turns, rounds as the paper counts them, histories, and messages for a chat template."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compeer.dialogue import Dialogue, Turn, Utterance, messages, rounds, trim, turns, within_words


def dialogue(speakers: str) -> Dialogue:
    """A dialogue from a pattern: s for the seeker, t for the supporter; each utterance says its number."""
    names = {"s": "seeker", "t": "supporter"}
    utterances = tuple(
        Utterance(speaker=names[letter], text=str(number))  # type: ignore[arg-type]
        for number, letter in enumerate(speakers)
    )
    return Dialogue(id=speakers, source="test", licence="CC0 1.0", language="en", utterances=utterances)


@pytest.mark.parametrize(
    ("why", "speakers", "merged", "count"),
    [
        ("one of each", "st", "st", 1),
        ("several in a row", "ssttt", "st", 1),
        ("the supporter opens", "tst", "tst", 2),
        ("the seeker has the last word", "sts", "sts", 1),
        ("no supporter at all", "sss", "s", 0),
        ("no seeker at all", "tt", "t", 1),
        ("a longer one", "sstsstts", "ststs", 2),
    ],
)
def test_turns_and_rounds(why: str, speakers: str, merged: str, count: int) -> None:
    talk = dialogue(speakers)
    assert "".join({"seeker": "s", "supporter": "t"}[turn.speaker] for turn in turns(talk)) == merged
    assert [r.index for r in rounds(talk)] == list(range(1, count + 1))


@given(st.text("st", min_size=1, max_size=30))
def test_nothing_is_lost_and_speakers_alternate(speakers: str) -> None:
    talk = dialogue(speakers)
    merged = turns(talk)
    assert tuple(u for turn in merged for u in turn.utterances) == talk.utterances
    assert all(talk.utterances[turn.start] is turn.utterances[0] for turn in merged)
    assert all(a.speaker != b.speaker for a, b in itertools.pairwise(merged))
    assert len(rounds(talk)) == sum(turn.speaker == "supporter" for turn in merged)


@given(st.text("st", min_size=1, max_size=30))
def test_the_history_of_a_round_ends_with_what_it_answers(speakers: str) -> None:
    talk = dialogue(speakers)
    for found in rounds(talk):
        before = found.history
        assert [u.text for turn in before for u in turn.utterances] == [str(n) for n in range(found.supporter.start)]
        assert (before[-1] if before else None) == found.seeker
        assert found.seeker is None or found.seeker.speaker == "seeker"


def test_the_first_round_of_a_supporter_who_opens_answers_nobody(full: Dialogue) -> None:
    first, second = rounds(full)
    assert first.seeker is None
    assert first.history == []
    assert second.seeker is not None
    assert second.seeker.text == "I lost my job.\nNobody knows."
    assert [turn.speaker for turn in second.history] == ["supporter", "seeker"]


def test_a_turn_keeps_all_strategies_and_images(full: Dialogue) -> None:
    _, seeker, supporter, _ = turns(full)
    assert supporter.text == "That is hard.\nWhat happened?\nTake your time."
    assert supporter.strategies == ("reflection of feelings", "question"), "each once, in order"
    assert seeker.strategies == ()
    assert seeker.images == ("a.jpg", "b.jpg", "c.jpg")
    assert supporter.start == 3


def test_messages_for_a_chat_template(full: Dialogue) -> None:
    assert messages(rounds(full)[1].history) == [
        {"role": "assistant", "content": "Hello!"},
        {
            "role": "user",
            "content": [
                {"type": "image", "path": "a.jpg"},
                {"type": "image", "path": "b.jpg"},
                {"type": "image", "path": "c.jpg"},
                {"type": "text", "text": "I lost my job.\nNobody knows."},
            ],
        },
    ]
    assert messages([]) == []


def test_messages_without_images_and_with_a_folder_for_them() -> None:
    turn = Turn("seeker", (Utterance(speaker="seeker", text="Look.", images=("a/face.png",)),), 0)
    assert messages([turn], images=False) == [{"role": "user", "content": "Look."}]
    (message,) = messages([turn], folder=Path("album"))
    assert message["content"][0] == {"type": "image", "path": "album/a/face.png"}


def spoken(number: int) -> Turn:
    """Ten words, the seeker first."""
    speaker = "seeker" if number % 2 == 0 else "supporter"
    return Turn(speaker, (Utterance(speaker=speaker, text=f"turn {number} " + "word " * 8),), number)


def test_trim_leaves_out_the_oldest_turns() -> None:
    talk = tuple(map(spoken, range(21)))
    assert trim(talk, within_words(1_000)) == talk
    assert trim(talk, within_words(50)) == talk[16:]
    assert trim(talk, within_words(40)) == talk[18:], "it begins with the seeker"
    assert trim(talk, within_words(40), starts=lambda _: True) == talk[17:]
    assert trim(talk, within_words(3)) == talk[20:], "the last turn is always there"
    assert trim((), within_words(3)) == ()
    assert trim(talk[1:], within_words(1_000))[0].speaker == "supporter", "what fits is not shortened"


def test_trim_counts_chinese_characters_and_asks_few_times() -> None:
    talk = [Turn("seeker", (Utterance(speaker="seeker", text="我很难过"),), n) for n in range(1_000)]
    assert len(trim(talk, within_words(41))) == 10
    asked = []

    def fits(end: Any) -> bool:
        asked.append(len(end))
        return len(end) <= 7

    assert len(trim(talk, fits)) == 7 and len(asked) < 15, "rendering a prompt is not free"
