"""What a benchmark reports: ours against theirs, or why there is nothing to compare with."""

from __future__ import annotations

from typing import Any

import msgspec


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Ours against theirs, in the same unit, measured in the same run."""

    what: str
    ours: float
    theirs: float
    against: str
    unit: str
    wanted: float | None = None
    at_least: bool = True  # else: at most

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def held(self) -> bool | None:
        """Is it as wanted? None where nothing is wanted.

        >>> Ratio(what="x", ours=3, theirs=4, against="y", unit="s", wanted=0.8, at_least=False).held
        True
        """
        if self.wanted is None:
            return None
        return self.ratio >= self.wanted if self.at_least else self.ratio <= self.wanted

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self) | {"ratio": self.ratio}


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison that could not be made, and why."""

    what: str
    against: str
    reason: str


#: what a benchmark's `run` returns
Found = list[Ratio | Missing]
