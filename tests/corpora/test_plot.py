from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PIL import Image

from compeer.corpora.stats import collect, draw
from compeer.dialogue import Dialogue, Utterance
from compeer.errors import UserError
from compeer.plotting import ACCENT, PAPER


def statistics(count: int = 30) -> object:
    said = (
        Utterance(speaker="seeker", text="I am low.", emotion="sadness"),
        Utterance(speaker="supporter", text="What is it?", strategy="question"),
    )
    one = Dialogue(id="1", source="s", licence="MIT", language="en", utterances=said)
    return collect([one] * count)


def test_a_png_in_our_colours(tmp_path: Path) -> None:
    draw(statistics(), tmp_path / "new" / "a.png")  # type: ignore[arg-type]
    picture = Image.open(tmp_path / "new" / "a.png").convert("RGB")
    colours = {"#{:02X}{:02X}{:02X}".format(*colour) for _, colour in picture.getcolors(1 << 24)}  # type: ignore[misc]
    assert {PAPER, ACCENT} <= colours
    assert picture.width > 1200


def test_an_svg_whose_text_is_text_and_that_is_the_same_twice(tmp_path: Path) -> None:
    draw(statistics(), tmp_path / "a.svg")  # type: ignore[arg-type]
    draw(statistics(), tmp_path / "b.svg")  # type: ignore[arg-type]
    text = (tmp_path / "a.svg").read_text()
    for words in ("30 dialogues", "Rounds", "Strategies", "question", "sadness", "Utterance lengths"):
        assert words in text
    assert text == (tmp_path / "b.svg").read_text()


def test_an_empty_corpus_can_be_drawn(tmp_path: Path) -> None:
    draw(collect([]), tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().count("none in this corpus") == 4


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match="pip install"):
        draw(collect([]), tmp_path / "a.png")


def test_another_suffix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"written as \.png or \.svg"):
        draw(collect([]), tmp_path / "a.pdf")
