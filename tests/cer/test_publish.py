"""Publishing: what goes in comes back through `datasets`, both formats; pictures, card, atomic replacement."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before datasets is imported: nothing here may ask a hub

import msgspec
import pytest
import yaml
from PIL import Image

from compeer.cer.item import Candidate, Item, Labels, PastTurn, Vote, as_item, read_items, to_row
from compeer.cer.publish import About, most_restrictive, publish
from compeer.errors import UserError
from compeer.pipeline.ledger import Counts, Fingerprint, Manifest, Spent
from compeer.reasoning import Reasoning


def item(number: int, **changes: Any) -> Item:
    values: dict[str, Any] = {
        "id": f"d{number}#1",
        "dialogue": f"d{number}",
        "source": "test",
        "licence": "MIT",
        "language": "en",
        "round": 1,
        "history": (PastTurn("seeker", f"Story {number}."),),
        "reference": "Tell me.",
        "split": "train",
    }
    return Item(**(values | changes))


def full(number: int, picture: str, **changes: Any) -> Item:
    """An item with everything in it."""
    labels: dict[str, str | int] = {
        "stage": "exploration",
        "sentiment": "negative",
        "emotion": "shame",
        "intensity": 4,
        "strategy": "question",
    }
    reasoning = Reasoning.of({"history": "失业。", "emotion": "羞愧。", "strategy": "先问。"}, labels, "zh")
    values: dict[str, Any] = {
        "language": "zh",
        "source": "smile",
        "licence": "CC BY-NC 4.0",
        "history": (
            PastTurn("seeker", "看这张照片。", (picture,)),
            PastTurn("supporter", "嗯。"),
            PastTurn("seeker", "就是它。", (picture,)),
        ),
        "reference_strategies": ("question", "others"),
        "reference_reasoning": reasoning,
        "situation": "失业",
        "candidate": Candidate(response="怎么了？", reasoning=reasoning, generator="m", raw="…"),
        "labels": Labels(history=False, emotion=True, strategy=True, preference="candidate"),
        "label_source": "human",
        "votes": (
            Vote(annotator="a", question="history", value=False, candidate_first=True, seconds=2.5),
            Vote(annotator="a", question="preference", value="candidate"),
        ),
        "persona": "d9",
        "variant": "persona",
        "crisis": True,
        "trace": {"origin": "d1", "numbers": [1, None, {"a": True}]},
    }
    return item(number, **(values | changes))


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "made" / "face.PNG"
    path.parent.mkdir()
    Image.new("RGB", (8, 8), "teal").save(path)
    return str(path)


def load(folder: Path, cache: Path) -> Any:
    import datasets

    return datasets.load_dataset(str(folder), cache_dir=str(cache))


@pytest.mark.parametrize("form", ["", "jsonl"])
def test_datasets_gives_back_what_went_in(form: str, tmp_path: Path, picture: str) -> None:
    import datasets

    # the first split has neither candidate nor votes nor pictures, the last has everything: columns must not change
    items = [item(n) for n in range(3)]
    items += [item(10, split="valid", trace={"other": "shape"}), full(11, picture, split="valid", trace={"other": 5})]
    items += [full(20, picture, split="test"), full(21, picture, split="test", candidate=None, votes=())]
    folder = tmp_path / "out" / "cer"
    publish(items, folder)
    loaded = load(folder / form, tmp_path / "cache")
    assert {name: len(rows) for name, rows in loaded.items()} == {"train": 3, "valid": 2, "test": 2}
    shown = [] if form else ["images"]
    assert all(list(rows.features) == [*Item.__struct_fields__, *shown] for rows in loaded.values())
    assert loaded["train"].features == loaded["test"].features
    assert loaded["train"][0]["candidate"] is None and loaded["train"][0]["labels"]["history"] is None
    if shown:  # pictures that open, in the order of the history, and an empty list where there are none
        assert loaded["train"][0]["images"] == [] and loaded["train"].features["images"] == datasets.List(
            datasets.Image()
        )
        assert [one.getpixel((0, 0)) for one in loaded["test"][0]["images"]] == [(0, 128, 128)] * 2
        loaded = loaded.remove_columns("images")
    back = [as_item(row) for rows in loaded.values() for row in rows]
    name = next((folder / "images").iterdir())
    assert name.suffix == ".png" and name.read_bytes() == Path(picture).read_bytes()  # two turns, four items, one file
    assert back == [_with_picture(one, picture, f"images/{name.name}") for one in items]
    wanted = [_with_picture(one, picture, str(name)) for one in items]
    assert list(read_items(folder, split="test")) == wanted[-2:]
    assert list(read_items(folder)) == wanted


def _with_picture(one: Item, old: str, new: str) -> Item:
    turns = (
        msgspec.structs.replace(turn, images=tuple(new for image in turn.images if image == old))
        for turn in one.history
    )
    return msgspec.structs.replace(one, history=tuple(turns))


def test_row_has_every_column_in_order(picture: str) -> None:
    assert list(to_row(item(1))) == list(to_row(full(1, picture))) == list(Item.__struct_fields__)
    assert as_item(to_row(full(1, picture))) == full(1, picture)


def test_interrupted_writing_leaves_the_old_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "cer"
    publish([item(1)], folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def breaking() -> Any:
        yield item(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(breaking(), folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["cer"]  # nothing half-made lies about
    publish([item(2)], folder)
    assert [one.dialogue for one in read_items(folder, split="train")] == ["d2"]


def test_what_is_not_ours_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="not written by this command"):
        publish([item(1)], tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_errors_name_the_item(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="d1#1 has no split"):
        publish([item(1, split=None)], tmp_path / "a")
    with pytest.raises(UserError, match=r"gone\.png of the item d1#1"):
        publish([full(1, "gone.png")], tmp_path / "b", image_root=tmp_path)
    with pytest.raises(UserError, match="nothing to publish"):
        publish([], tmp_path / "c")
    mixed = [item(1, split="test", label_source="silver"), item(2, split="test", label_source="author")]
    with pytest.raises(UserError, match="mixes silver"):
        publish(mixed, tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


def test_card_counts_and_says_what_it_is_not(tmp_path: Path) -> None:
    yes, no = Labels(history=True, preference="both"), Labels(history=False, preference="candidate")
    items = [item(n, labels=no if n < 3 else yes, label_source="silver") for n in range(12)]
    items += [
        item(n, labels=yes, label_source="human", split="test", licence="CC BY-NC 4.0", source="esconv", crisis=n == 20)
        for n in range(20, 24)
    ]
    items += [item(30, variant="persona", trace={"origin": "d1"}, labels=yes, label_source="silver")]
    fingerprint = Fingerprint("rewrite", "i", "abcdef0123456789", {"judge": "openai:m"}, {}, 7)
    manifest = Manifest(
        stage="rewrite",
        started="",
        seconds=1,
        sessions=1,
        input="",
        output="",
        rejects="",
        limit=None,
        engine="asyncio",
        counts=Counts(12, 10, {"machine-style": 2}),
        spent=Spent(),
        fingerprint=fingerprint,
        version="0",
    )
    about = About(
        name="CER mini", manifests=[manifest], leaks={"dialogue": 0, "near-duplicate": 0}, aside={"crisis": 2}
    )
    publish(items, tmp_path / "cer", about)
    text = (tmp_path / "cer" / "README.md").read_text(encoding="utf-8")
    assert "task_categories:\n- text-generation\n" in text
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["license"] == "cc-by-nc-4.0" and front["language"] == ["en"] and front["size_categories"] == ["n<1K"]
    for line in (
        "| items |  | 13 | 4 |",
        "| dialogues |  | 12 | 4 |",  # the rewriting is of a dialogue that is counted already
        "| crisis items |  | 0 | 1 |",
        "| label source | silver | 13 | 0 |",
        "| variant | persona | 1 | 0 |",
        "| history, False | 23.1% of 13 | 0.0% of 4 |",
        "| emotion, False | none labelled | none labelled |",
        "| preference, candidate | 23.1% | 0.0% |",
        "**CC BY-NC 4.0**: no commercial use",
        "| rewrite | judge: openai:m | 12 | 10 | machine-style 2 | abcdef012345 | 7 |",
        "No dialogue, no rewriting of one and no near-duplicate lies in two splits",
        "Kept out of every split: crisis 2.",
        "Silver is not human",
        "arXiv:2508.09521",
    ):
        assert line in text, line


@pytest.mark.parametrize(
    ("licences", "strictest"),
    [
        (["MIT", "CC0 1.0"], "MIT"),
        (["CC BY 4.0", "MIT", "Apache-2.0"], "CC BY 4.0"),
        (["CC BY-SA 4.0", "CC BY 4.0"], "CC BY-SA 4.0"),
        (["CC BY-NC 4.0", "CC BY-SA 4.0"], "CC BY-NC 4.0"),
        (["academic research use", "CC BY-NC 4.0"], "academic research use"),
        (["none stated", "academic research use"], "none stated"),
    ],
)
def test_most_restrictive(licences: list[str], strictest: str) -> None:
    assert most_restrictive(licences)[0] == strictest
