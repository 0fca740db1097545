"""Redundancy-aware reweighting of rewards: equations 5, 6 and 7 of the paper.

A reply that resembles the other replies of its group, or what was said before, earns less:

    r~ = r / ((1 + tau s_in) (1 + tau s_hi))                                  (5)
    s_in = mean cosine to the other replies of the group,
    s_hi = mean cosine to the utterances of the history                       (6)
    tau  = 1 / (1 + exp(-alpha (L - beta)))                                   (7)

L is the mean length of the group's replies in words (Chinese: characters), so that short replies, which cannot help
being alike, go unpunished.

What the paper does not say, and what happens here:
- Equation 5 divides. A *negative* reward divided by more than one becomes less negative: redundancy is rewarded.
  `variant="paper"` does as printed; `variant="sign_aware"` multiplies a negative reward instead, so that
  redundancy always costs.
- A group of one has no others, an empty history no utterances: the similarity is 0. An empty reply resembles
  nothing: its similarities are 0, and so is its part in others'.
- Cosines can be negative. A factor 1 + tau s is kept above 1e-6, which matters only where tau is scaled beyond 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from compeer.errors import UserError

Vectors = npt.NDArray[np.float64]
Embed = Callable[[list[str]], Any]  # texts to rows, of any float type, not necessarily of length 1
Variant = Literal["paper", "sign_aware"]


def tau(mean_length: float, alpha: float = 0.5, beta: float = 5.0) -> float:
    """The length coefficient of equation 7.

    >>> tau(5.0)
    0.5
    >>> round(tau(0.0), 3), round(tau(40.0), 3)
    (0.076, 1.0)
    """
    exponent = alpha * (mean_length - beta)
    if exponent >= 0:  # never the exponential of something large
        return 1.0 / (1.0 + math.exp(-exponent))
    grown = math.exp(exponent)
    return grown / (1.0 + grown)


def similarities(replies: Sequence[str], history: Sequence[str], embed: Embed) -> tuple[list[float], list[float]]:
    """s_in and s_hi of equation 6, one value per reply. All texts are embedded in one call."""
    vectors = unit_vectors([*replies, *history], embed)
    own, before = vectors[: len(replies)], vectors[len(replies) :]
    cosines = own @ own.T
    np.fill_diagonal(cosines, 0.0)
    s_in = cosines.sum(axis=1) / max(1, len(replies) - 1)
    s_hi = (own @ before.T).mean(axis=1) if len(before) else np.zeros(len(replies))
    return s_in.tolist(), s_hi.tolist()


def reweight(reward: float, s_in: float, s_hi: float, tau: float, variant: Variant = "paper") -> float:
    """Equation 5 for one reply.

    >>> reweight(4.0, 1.0, 1.0, 1.0), reweight(-4.0, 1.0, 1.0, 1.0)
    (1.0, -1.0)
    >>> reweight(-4.0, 1.0, 1.0, 1.0, variant="sign_aware")
    -16.0
    """
    if variant not in ("paper", "sign_aware"):
        raise UserError(f"{variant!r} is not a variant of equation 5; choose paper or sign_aware.")
    factor = max(1.0 + tau * s_in, 1e-6) * max(1.0 + tau * s_hi, 1e-6)
    return reward * factor if variant == "sign_aware" and reward < 0 else reward / factor


def raised(reward: float, reweighted: float) -> bool:
    """Whether equation 5 made a negative reward less negative, which is the printed form's flaw."""
    return reward < 0 and reweighted > reward


def unit_vectors(texts: Sequence[str], embed: Embed) -> Vectors:
    """One row of length 1 per text. Empty texts are not embedded; their rows are zero."""
    present = [number for number, text in enumerate(texts) if text.strip()]
    if not present:
        return np.zeros((len(texts), 1))
    embedded = np.asarray(embed([texts[number] for number in present]), dtype=np.float64)
    lengths = np.linalg.norm(embedded, axis=1, keepdims=True)
    vectors = np.zeros((len(texts), embedded.shape[1]))
    vectors[present] = np.divide(embedded, lengths, out=np.zeros_like(embedded), where=lengths > 0)
    return vectors
