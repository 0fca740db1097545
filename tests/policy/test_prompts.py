"""Histories as prompts: what fits, what is left out, what travels along."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from compeer.cer.item import Item, PastTurn, items_at
from compeer.corpora.bundled import load
from compeer.errors import UserError
from compeer.policy.composite import PromptRecord
from compeer.policy.prompts import demonstration, prompt_of, prompts_of
from compeer.reasoning import parse


def count(messages: list[dict[str, Any]]) -> int:
    return sum(len(message["content"].split()) for message in messages)


def item(*turns: str, images: tuple[str, ...] = ()) -> Item:
    history = tuple(
        PastTurn("seeker" if number % 2 == 0 else "supporter", text, images if number == 0 else ())
        for number, text in enumerate(turns)
    )
    return Item(
        id="x#1", dialogue="x", source="s", licence="l", language="en", round=1, history=history, reference="Oh?"
    )


def test_the_oldest_turns_are_left_out_until_it_fits_and_it_begins_with_the_seeker() -> None:
    whole = item("one two three", "four", "five six", "seven", "eight")
    system = count(prompt_of(whole, count, 10_000).messages[:1])
    found = prompt_of(whole, count, system + 5)
    assert [message["content"] for message in found.messages[1:]] == ["five six", "seven", "eight"]
    assert found.left_out == 2
    assert found.prompt_record.history == whole.history, "the judge and the redundancy see the whole history"
    assert msgspec.json.decode(found.row["prompt_record"], type=PromptRecord) == found.prompt_record
    with pytest.raises(UserError, match="The last turn of item x#1 alone"):
        prompt_of(whole, count, system)


def test_what_does_not_fit_and_what_comes_twice_is_counted() -> None:
    short, long = item("hello there"), msgspec.structs.replace(item("word " * 500), dialogue="y")
    found, counts = prompts_of([short, long, short], count, 200)
    assert len(found) == 1
    assert counts == {"prompts": 1, "shortened": 0, "too long": 1, "repeated": 1}


def test_pictures_stay_in_the_prompt() -> None:
    messages = prompt_of(item("look", images=("a.png",)), lambda messages: 0, 10).messages
    assert messages[1]["content"] == [{"type": "image", "path": "a.png"}, {"type": "text", "text": "look"}]


def test_demonstrations_are_complete_outputs() -> None:
    dialogue = next(iter(load("en")))
    items = items_at(dialogue, range(1, 4))
    written = [text for one in items if (text := demonstration(one))]
    assert written and all(parse(text).complete for text in written)
    assert demonstration(item("hello")) is None
