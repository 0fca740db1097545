"""Interim: the name of `messages.message` before. Delete with its last importer."""

from compeer.safety.messages import message as said

__all__ = ["said"]
