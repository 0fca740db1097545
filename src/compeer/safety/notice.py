"""Interim: the place of `Breaks` and `opening` before. Delete with its last importer."""

from compeer.safety.messages import Breaks, opening

__all__ = ["Breaks", "opening"]
