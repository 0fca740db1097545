"""Opening checkpoints from several threads at once."""

from __future__ import annotations

import subprocess
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


def test_two_threads_of_a_fresh_process_open_a_model_each(tiny_model_dir: Path) -> None:
    """Of two that import transformers at once, one used to meet a module that was half there."""
    program = (
        "import sys, threading\n"
        "from compeer.models.checkpoint import open_checkpoint\n"
        "opened = []\n"
        "def go(): opened.append(open_checkpoint(sys.argv[1], device='cpu'))\n"
        "threads = [threading.Thread(target=go) for _ in range(2)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "print(len(opened))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tiny_model_dir)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "2", done.stderr[-2000:]
