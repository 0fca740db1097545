"""Which model is shipped as the supporter, and whether it holds on moments that nothing was chosen on.

The GRPO run with the highest reward under the evaluation judge is taken among those whose outputs are complete in 97 %
and whose replies are at least as varied as the SFT model's (distinct-2), all of it on the moments of the choice; where
there is none, the SFT model. It and the SFT model then answer the moments of `confirm` once. Only what holds there too
is shipped: complete, as varied, and a reward whose interval above the SFT model's leaves out zero. Otherwise the SFT
model is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runs.miniature import data
from runs.miniature.measuring import asked, figures, samples_path, scored
from runs.miniature.pieces import Work

COMPLETE = 0.97


def best(work: Work) -> tuple[str, str]:
    """The run to ship, and why it was taken."""
    scores = work.result("score/all")["choice"]
    plain = work.result("sample/sft")["choice"]
    fit: list[tuple[float, str]] = []
    for name in scores:
        if name in ("sft", "variants"):
            continue
        sampled = work.result(f"sample/{name}")["choice"]
        varied = sampled.get("distinct-2", [0.0])[0] >= plain.get("distinct-2", [0.0])[0]
        if varied and sampled["complete"][0] >= COMPLETE:
            fit.append((scores[name]["reward"][0], name))
    if not fit:
        return "sft", f"no GRPO run is complete in {COMPLETE:.0%} and as varied as the SFT model"
    reward, name = max(fit)
    return name, f"the highest reward under the evaluation judge ({reward:.2f}) among {len(fit)} runs that qualify"


def confirm(work: Work) -> dict[str, Any]:
    """The chosen supporter and the SFT model on fresh moments; answers that are there already are taken."""
    chosen, why = best(work)
    names = list(dict.fromkeys(("sft", chosen)))
    found: dict[str, Any] = {"supporter": chosen, "why": why, "sampled": {}}
    for name in names:
        path = samples_path(work, name, "confirm")
        outputs = data.read(path) if path.is_file() else asked(work, name, "confirm")[0]
        found["sampled"][name] = figures(work, name, "confirm", outputs)
    scores = scored(work, names, "evaluation", "confirm")
    held = chosen != "sft" and holds(found["sampled"]["sft"], found["sampled"][chosen], scores[chosen]["above sft"])
    return found | {"evaluation": scores, "holds": held, "shipped": chosen if held else "sft"}


def holds(plain: Mapping[str, Any], sampled: Mapping[str, Any], above: Sequence[float | None]) -> bool:
    """Whether a supporter is complete, at least as varied as the SFT model, and above it beyond chance.

    >>> holds({"distinct-2": [0.5]}, {"distinct-2": [0.6], "complete": [0.98]}, [0.2, 0.1, 0.3])
    True
    >>> holds({"distinct-2": [0.5]}, {"distinct-2": [0.4], "complete": [0.98]}, [0.2, 0.1, 0.3])
    False
    """
    varied = sampled.get("distinct-2", [0.0])[0] >= plain.get("distinct-2", [0.0])[0]
    return bool(varied and sampled["complete"][0] >= COMPLETE and above[1] is not None and above[1] > 0)
