"""The stage of each round, for corpora that do not note it: from its place in the conversation and its strategies.

ESConv's framework has three stages, exploration, comforting, action, "generally" in this order but free to go
back, and ties strategies to them: questions and restatements explore; reflections, self-disclosure, affirmation
comfort; suggestions and information lead to action. So a round's stage is the one that its place (early, middle,
late) and the strategies around it (its own count twice its neighbours') speak for most. It is derived, not
noted by a person: the item's trace says so, and a stage is called wrong only where it is also unlikely from
what can be seen (`unlikely`).
"""

from __future__ import annotations

from collections.abc import Sequence

STAGE_OF: dict[str, str] = {
    "question": "exploration",
    "restatement or paraphrasing": "exploration",
    "reflection of feelings": "comforting",
    "self-disclosure": "comforting",
    "affirmation and reassurance": "comforting",
    "providing suggestions": "action",
    "information": "action",
}  # "others" speaks for no stage
_WINDOW = {-1: 0.5, 0: 1.0, 1: 0.5}
_PLACE_WEIGHT = 1.2  # a little more than one round's own strategy


def derive_stages(strategies: Sequence[Sequence[str]]) -> list[str]:
    """One stage a round; `strategies` holds those of each supporter turn.

    >>> derive_stages([["question"], ["question"], ["reflection of feelings"], ["providing suggestions"], ["others"]])
    ['exploration', 'exploration', 'comforting', 'action', 'action']
    """
    n = len(strategies)
    found = []
    for at in range(n):
        score = _place((at + 0.5) / n)
        for offset, weight in _WINDOW.items():
            if 0 <= at + offset < n:
                spoken = [STAGE_OF[s] for s in strategies[at + offset] if s in STAGE_OF]
                for stage in spoken:
                    score[stage] += weight / len(spoken)
        found.append(max(score, key=lambda stage: score[stage]))
    return found


def _place(share: float) -> dict[str, float]:
    """How much a place in the conversation (0 to 1) speaks for each stage."""
    return {
        "exploration": _PLACE_WEIGHT * max(0.0, 1 - share / 0.6),
        "comforting": _PLACE_WEIGHT * (1 - abs(share - 0.5) / 0.5),
        "action": _PLACE_WEIGHT * max(0.0, (share - 0.4) / 0.6),
    }
