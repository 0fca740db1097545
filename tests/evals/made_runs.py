"""Runs as evaluations leave them, made of the bundled conversations, with invented scores.

The dialogues are the project's own; whoever is named as a model has not spoken them, and the numbers are drawn.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from compeer.cer.item import items_at
from compeer.corpora import bundled
from compeer.dialogue import Dialogue, rounds, turns
from compeer.evals.esc_eval.ratings import DIMENSIONS
from compeer.evals.esc_eval.ratings import figures as esc_figures
from compeer.evals.result import Result, Transcript, TranscriptTurn, save_result
from compeer.evals.sage.mood import figures as sage_figures
from compeer.reasoning import render

RANK, GPT = "hf:esc-rank", "openai:gpt-4o"


def dialogues(count: int) -> list[Dialogue]:
    return list(bundled.load())[:count]


def spoken(dialogue: Dialogue, longest: int = 12) -> list[TranscriptTurn]:
    """A dialogue's turns; where our corpus has reasoning it stands before the reply."""
    thought = {}
    for item in items_at(dialogue, [one.index for one in rounds(dialogue)]):
        if item.reference_reasoning:
            whole = render(item.reference_reasoning, item.reference)
            thought[len(item.history)] = whole.removesuffix(item.reference).strip()
    merged = turns(dialogue)[:longest]
    return [TranscriptTurn(turn.speaker, turn.text, reasoning=thought.get(at)) for at, turn in enumerate(merged)]


def sage_run(
    run: Path, model: str, *, count: int = 91, drift: float = 0.0, seed: int = 1, simulator: str = "simulator-a"
) -> Result:
    """A run of SAGE; `drift` is how much better each turn goes."""
    rng = random.Random(seed)
    samples = []
    for dialogue in dialogues(count):
        mood, curve, said = 40, [], []
        luck = rng.gauss(drift, 4)  # some people are easier to reach than others
        for one in spoken(dialogue, 20):
            if one.speaker == "seeker":
                if curve:
                    mood = min(100, mood + max(-10, min(10, round(rng.gauss(luck, 4)))))
                curve.append(mood)
                note = (
                    f"The reply {'helped' if len(curve) > 1 and curve[-1] > curve[-2] else 'did little'}. Change noted."
                )
                one = TranscriptTurn("seeker", one.text, emotion=mood, note=note if len(curve) > 1 else None)
            said.append(one)
        end = "content" if mood >= 100 else "lost" if mood < 10 else "turns"
        about = {"topic": (dialogue.problem or "everyday life"), "scene": dialogue.situation or ""}
        kept = {name: text for name, text in about.items() if text}
        samples.append(
            Transcript(dialogue.id, dialogue.language, tuple(said), {"emotion": float(mood)}, tuple(curve), end, kept)
        )
    result = Result(
        "sage",
        model,
        {
            "simulator": simulator,
            "prompts": "4f2a91c07d3e",
            "language": "en+zh",
            "cases": f"{count} profiles b1946ac92492",
        },
        sage_figures([sample.curve for sample in samples]),
        {"seed": seed, "reasoning": "full", "revision": "0.1.0", "samples": len(samples), "counts": {"calls": 1702}},
        ("Invented for this picture.",),
    )
    save_result(run, result, samples)
    return result


def esc_run(
    run: Path, model: str, *, judges: tuple[str, ...] = (RANK, GPT), count: int = 91, lift: float = 0.0
) -> Result:
    """A run of ESC-Eval; `lift` raises what the judges say."""
    rng = random.Random(7)
    samples = []
    for dialogue in dialogues(count):
        scores: dict[str, float | None] = {
            f"{judge}/{key}": float(max(0, min(4, round(rng.gauss(2.7 + lift + 0.1 * at - (judge == GPT) * 0.3, 0.7)))))
            for judge in judges
            for at, key in enumerate(DIMENSIONS)
        }
        samples.append(Transcript(dialogue.id, dialogue.language, tuple(spoken(dialogue, 10)), scores, end="rounds"))
    comparable = {
        "simulator": "hf:esc-role",
        "judge": " + ".join(judges),
        "prompts": "90bd8f7a0c11",
        "language": "en+zh",
        "cases": f"{count} cards 77de68daecd8",
    }
    setup: dict[str, Any] = {"seed": 0, "reasoning": "full", "samples": len(samples)}
    result = Result("esc-eval", model, comparable, esc_figures(samples, judges), setup)
    save_result(run, result, samples)
    return result
