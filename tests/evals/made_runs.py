"""Runs as evaluations leave them, made of the bundled conversations, with invented scores.

The dialogues are the project's own; whoever is named as a model has not spoken them, and the numbers are drawn.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import compeer.cer.gold
from compeer.cer.item import items_at, read_items
from compeer.corpora import bundled
from compeer.dialogue import Dialogue, rounds, turns
from compeer.evals.esc_eval import figures as esc_figures
from compeer.evals.result import DIMENSIONS, Result, Transcript, TranscriptTurn, save_result
from compeer.evals.sage import figures as sage_figures
from compeer.reasoning import STEPS, render
from compeer.reward.evaluation.folder import EvaluationFolder, JudgeEntry
from compeer.reward.evaluation.report import write_report as write_study_report
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict
from compeer.reward.verdict import PREFERENCES
from compeer.statistics import mean_figure, share_figure

GOLD = Path(compeer.cer.gold.__file__).with_name("items.jsonl")
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
    result = Result("esc-eval", model, comparable, esc_figures(samples), setup)
    save_result(run, result, samples)
    return result


def reward_run(run: Path, model: str, *, count: int = 40, lift: float = 0.0) -> Result:
    """A run of the reward under a judge; `lift` is how much likelier a part is to be right."""
    rng = random.Random(11)
    parts = ("history", "emotion", "strategy", "preference", "complete")
    samples = []
    for dialogue in dialogues(count):
        kept = {part: float(rng.random() < 0.6 + lift) for part in parts}
        scores: dict[str, float | None] = {"reward": sum(2 * value - 1 for value in kept.values()), **kept}
        samples.append(Transcript(dialogue.id, dialogue.language, tuple(spoken(dialogue, 6)), scores))
    rewards = [float(sample.scores["reward"] or 0) for sample in samples]
    figures = [mean_figure("reward", rewards)]
    figures += [share_figure(part, [sample.scores[part] for sample in samples]) for part in parts]
    setup = {"counts": {"judge_calls": 160, "not_read": 2}, "grammar": True, "history_words": 600}
    result = Result("reward", model, {"judge": "hf:judge", "cases": "40 b1946ac92492"}, tuple(figures), setup)
    save_result(run, result, samples)
    return result


def judge_study(folder: Path, count: int = 60) -> Path:
    """A study of one judge on the gold items, with invented verdicts and probabilities that lean towards the labels."""
    rng = random.Random(3)
    items = list(read_items(GOLD))[:count]
    study = EvaluationFolder(folder)
    study.add_labelled_set("gold", items)
    study.add_judge(JudgeEntry(name="example judge"))
    rows = []
    for item in items:
        truths = [getattr(item.labels, step) for step in STEPS]
        chances = [min(0.99, max(0.01, rng.gauss(0.65 if truth else 0.4, 0.2))) for truth in truths]
        weights = [rng.random() + 1.5 * (name == item.labels.preference) for name in PREFERENCES]
        p = {name: weight / sum(weights) for name, weight in zip(PREFERENCES, weights, strict=True)}
        one, two, three = (StepVerdict(chance > 0.5, chance) for chance in chances)
        pair = PairVerdict(True, preference=max(p, key=lambda name: p[name]), p=p)
        rows.append(Judgement(id=item.id, steps=(one, two, three), pairs=(pair,), complete=True))
    study.append("gold", "example judge", rows)
    write_study_report(study, folder, rounds=100)
    return folder
