"""Whose the cores are while people talk."""

from __future__ import annotations

import os


def left_to_the_model() -> None:
    """Keep numpy, which reads messages for danger, to one thread. Call it before numpy is imported.

    Its further threads would save some milliseconds on idle cores. On cores that the model keeps busy they wait for one
    another while spinning, and a message takes many times as long.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
