"""One step of a training before the judge: its cases in pieces, what is known of each, and when to give one up.

A piece that got no answer is tried again after a pause that grows. When the judge did answer, but not usably, the
piece is halved: so one case that nobody can judge (it is too large, it makes the server fail) ends up alone, and is
given up when others were judged meanwhile. While nothing at all is judged the trouble is the judge's, and only the
budget ends the trying.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Sequence

from compeer.reward.case import Case
from compeer.reward.grouping import parted
from compeer.reward.judge import Judgement
from compeer.reward.service.wire import FailureKind, JudgeError, failed, lack
from compeer.reward.verdict import Kind

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts
_ENOUGH = 3  # attempts at a single case that fails while others are judged, or at anything when no budget ends them


class Piece:
    """Cases that are sent together, by their places in the step."""

    def __init__(self, places: list[int], tries: int = 0, not_before: float = 0.0, seen: int = 0) -> None:
        self.places, self.tries, self.not_before = places, tries, not_before
        self.seen = seen  # pieces that had been judged when this one first failed


class Step:
    """The cases of one call, its budget in seconds, and what is known so far."""

    def __init__(self, cases: Sequence[Case], budget: float) -> None:
        self.cases, self.budget = list(cases), budget
        self.began = time.monotonic()
        self.open = len(self.cases)  # cases that are neither judged nor given up
        self.found: dict[int, Judgement] = {}
        self.failures: dict[int, tuple[FailureKind, str]] = {}  # the last one of each case that had any
        self.hopeless: set[int] = set()  # cases that were given up for themselves
        self.retried = 0
        self.last_failed = False
        self.result: list[Judgement] | None = None
        self._pieces: deque[Piece] = deque()
        self._judged = 0  # pieces

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.began + self.budget - time.monotonic()

    @property
    def endless(self) -> bool:
        return math.isinf(self.budget)

    def part(self, size: int) -> int:
        """Cut the cases into pieces; how many there are."""
        self._pieces.extend(Piece(list(places)) for places in parted(self.cases, size))
        return len(self._pieces)

    def next(self) -> Piece | None:
        """The first piece that may be sent now."""
        now = time.monotonic()
        piece = next((piece for piece in self._pieces if piece.not_before <= now), None)
        if piece is not None:
            self._pieces.remove(piece)
            self.retried += len(piece.places) if piece.tries else 0
        return piece

    def answered(self, piece: Piece, answers: Sequence[Judgement], kind: Kind) -> None:
        """Keep what was judged, and try again what lacks an answer."""
        lacking: dict[str, tuple[JudgeError, list[int]]] = {}
        for place, answer in zip(piece.places, answers, strict=True):
            error = lack(self.cases[place], answer, kind)
            if error is None:
                self.found[place] = answer
                self.open -= 1
            else:
                lacking.setdefault(str(error), (error, []))[1].append(place)
        missing = sum(len(places) for _, places in lacking.values())
        self._judged += missing < len(piece.places)
        for error, places in lacking.values():
            self.failed(Piece(places, piece.tries, seen=piece.seen), error)
        self.last_failed = missing == len(piece.places)

    def failed(self, piece: Piece, error: JudgeError) -> None:
        """Note it, and put the piece back, whole or in halves, unless trying again is of no use."""
        self.failures |= dict.fromkeys(piece.places, (error.kind, str(error)))
        self.last_failed = True
        tries, alone = piece.tries + 1, len(piece.places) == 1
        seen = piece.seen if piece.tries else self._judged
        answered = error.kind not in ("time", "connection")
        enough = tries >= _ENOUGH and (self._judged > seen or self.endless)
        hopeless = alone and answered and (error.again == "smaller" or enough)
        if hopeless or error.again == "never" or (self.endless and enough and (alone or not answered)):
            self.hopeless |= set(piece.places) if hopeless else set()
            self.open -= len(piece.places)
            return
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**piece.tries) * random.uniform(0.5, 1.0)
        not_before = time.monotonic() + (0.0 if error.again == "smaller" else pause)
        middle = len(piece.places) // 2 if answered else 0
        halves = [piece.places[:middle], piece.places[middle:]] if middle else [piece.places]
        self._pieces.extend(Piece(places, tries, not_before, seen) for places in halves)

    def close(self) -> list[Judgement]:
        """What was found, and a failure for everything else."""
        late: tuple[FailureKind, str] = ("time", f"the {self.budget:g} s for a step were over")
        self.result = [
            self.found.get(place) or failed(case, *self.failures.get(place, late))
            for place, case in enumerate(self.cases)
        ]
        return self.result

    @property
    def died(self) -> bool:
        """Whether it looks as if the judge were gone: nothing was judged, or the last attempts failed."""
        lost = len(self.cases) - len(self.found) - len(self.hopeless)
        judged = any(judgement.failure is None for judgement in self.found.values())
        return bool(self.cases) and (not judged or (lost > 0 and self.last_failed))
