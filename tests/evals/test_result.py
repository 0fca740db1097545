"""What an evaluation leaves in its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from compeer.errors import UserError
from compeer.evals.result import RESULT, Result, Transcript, TranscriptTurn, load_result, load_transcripts, save_result
from compeer.statistics import Figure, mean_figure


def test_what_is_saved_is_read_back_and_a_figure_without_a_value_is_named(tmp_path: Path) -> None:
    result = Result("sage", "kind", {"simulator": "x"}, (mean_figure("Sentient", [30, 40]), mean_figure("empty", [])))
    transcript = Transcript("1", "en", (TranscriptTurn("seeker", "I lost my job.", emotion=40),), {"a": None}, (40,))
    save_result(tmp_path, result, [transcript])
    loaded = load_result(tmp_path)
    assert [figure.name for figure in loaded.figures] == ["Sentient"]
    assert loaded.notes == ("No sample gave a value for empty.",)
    assert loaded.figure("Sentient") == Figure("Sentient", 35.0, 30.0, 40.0, 2)
    assert list(load_transcripts(tmp_path)) == [transcript]


def test_a_folder_without_a_result_or_with_a_broken_one_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no result\.json"):
        load_result(tmp_path)
    (tmp_path / RESULT).write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        load_result(tmp_path)
