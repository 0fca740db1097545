"""Packages that are installed here, hidden from a process: as if a person had never installed them."""

from __future__ import annotations

from pathlib import Path

_SITE = """
import importlib.metadata, importlib.util, os, sys

hidden = set(os.environ["HIDDEN"].split(","))
modules = {name.replace("-", "_") for name in hidden}
version, find_spec = importlib.metadata.version, importlib.util.find_spec


class Hider:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def known_version(name):
    if name in hidden:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)


sys.meta_path.insert(0, Hider)
importlib.metadata.version = known_version
importlib.util.find_spec = lambda name, package=None: None if name in modules else find_spec(name, package)
"""


def hide(folder: Path, *packages: str) -> dict[str, str]:
    """The environment in which these packages (by distribution name) are not there."""
    (folder / "sitecustomize.py").write_text(_SITE)
    return {"PYTHONPATH": str(folder), "HIDDEN": ",".join(packages)}
