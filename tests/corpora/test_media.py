from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import CorpusError
from compeer.corpora.records import MediaFolder


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("dia01118utt0_28.jpg", (1118, 0)),  # AvaMERG as published: padded, with the avatar
        ("dia3utt0.png", (3, 0)),
        ("video/dia3utt0/0004.jpg", (3, 0)),  # frames in a folder of the name
        ("dia_3_utt_0.jpg", (3, 0)),
        ("3_0.jpg", (3, 0)),
        ("3_0_frame7.jpg", (3, 0)),
    ],
)
def test_names(put: Any, tmp_path: Path, name: str, key: tuple[int, int]) -> None:
    put(f"m/{name}", b"")
    assert MediaFolder(tmp_path / "m").of(*key).image == [str((tmp_path / "m" / name).resolve())]


def test_a_folder_counted_from_one(put: Any, tmp_path: Path) -> None:
    for name in ("dia7utt1.wav", "dia7utt2.wav"):
        put(f"m/{name}", b"")
    folder = MediaFolder(tmp_path / "m")
    assert [Path(p).name for p in folder.of(7, 0).audio] == ["dia7utt1.wav"]
    assert folder.of(7, 2).audio == []


def test_a_folder_without_media_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no file is named for an utterance"):
        MediaFolder(tmp_path)
    with pytest.raises(CorpusError, match="no such media folder"):
        MediaFolder(tmp_path / "absent")
