"""Entry point of the command `compeer`. It lies outside the package, under a name that nobody else uses.

Another project on PyPI, an API client, is called `compeer` and installs a package of that name. Where both are in one
environment, one hides the other or has overwritten its files. This module is still found then, and says so.

verifiers finds environments by the name of a top-level module: `vf-eval compeer-esc` loads this one, and its two names
come from `compeer.policy.bridges.verifiers` when they are asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

__all__ = ["SupportEnv", "SupportTaskset", "main"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name in ("SupportEnv", "SupportTaskset"):
        return getattr(importlib.import_module("compeer.policy.bridges.verifiers"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command, unless the package `compeer` is not, or not only, ours."""
    found = importlib.util.find_spec("compeer")
    folders = [Path(folder) for folder in (found.submodule_search_locations or ())] if found else []
    ours = any((folder / "reasoning").is_dir() for folder in folders)
    theirs = any((folder / "_base_client.py").is_file() for folder in folders)
    if theirs or not ours:
        sys.exit(
            f"{folders[0] if folders else 'Python'} is not the package compeer of COMPEER alone. On PyPI an API client "
            "of another project has this name; COMPEER is called compeer-esc there, and both cannot be in one "
            "environment.\nRemove both, then install COMPEER again: pip uninstall compeer compeer-esc"
        )
    from compeer.cli import main as run

    run()
