"""One file a step, in the order of their numbers."""

from __future__ import annotations
