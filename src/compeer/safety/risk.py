"""Interim: the place of `Risk` before. Delete with its last importer."""

from compeer.safety.levels import Risk

__all__ = ["Risk"]
