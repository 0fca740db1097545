"""Opening checkpoints from several threads at once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compeer.models.checkpoint import open_checkpoint


def test_models_opened_in_threads_at_once_leave_the_tying_of_weights_on(tiny_model_dir: Path) -> None:
    """A judge of steps and a judge of replies are opened together; a model opened later must still be whole."""
    modeling = pytest.importorskip("transformers.modeling_utils")
    usual = modeling.PreTrainedModel.tie_weights
    pace = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(lambda _: open_checkpoint(str(tiny_model_dir), device="cpu"), range(8)))) == 8
    finally:
        sys.setswitchinterval(pace)
    assert modeling.PreTrainedModel.tie_weights is usual
