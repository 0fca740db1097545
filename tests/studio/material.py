"""Runs to look at, written by the same code that training and evaluation use, without any training."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from compeer.evals.result import Result, save_result
from compeer.reasoning import Reasoning, render
from compeer.statistics import Figure, mean_figure
from compeer.training.run import DataFile, Record, Run, open_run

REPLIES = (
    "I'm sorry. Have you tried to stay positive?",
    "Losing a job you gave so much to can make everything feel shaky. What has today been like for you?",
    "You sound worn out from holding this alone. Who have you been able to tell so far?",
)
PROMPTS = ("I lost my job today.", "My sister has stopped calling me.", "这几天我一直睡不好。")
ZH_REPLY = "听起来这段时间你一直在硬撑，真的很累。今天最难受的是哪一刻？"


def thinking(reply: str, *, strategy: str = "question") -> str:
    reasoning = Reasoning.of(
        {
            "history": "They lost a job they had held for years and tie their worth to it; nobody has asked how they are.",
            "emotion": "Sad and ashamed: they call themselves worthless.",
            "strategy": "Ask about today before offering anything.",
        },
        {"stage": "exploration", "sentiment": "negative", "emotion": "sadness", "intensity": 4, "strategy": strategy},
    )
    return render(reasoning, reply)


def sample(step: int, place: int, reply: str, whole: bool, reward: float) -> dict[str, Any]:
    parts = dict.fromkeys(("history", "emotion", "strategy", "preference", "format"), 1.0 if whole else -1.0)
    return {
        "step": step,
        "id": f"esconv-{place}#3",
        "output": thinking(reply) if whole else reply,
        "reply": reply,
        "complete": whole,
        "problems": [] if whole else ["no-think", "missing-step", "missing-step"],
        "parts": parts,
        "total": sum(parts.values()),
        "reward": reward,
        "prompt": [{"speaker": "supporter", "text": "Hello."}, {"speaker": "seeker", "text": PROMPTS[place % 3]}],
    }


def policy_run(folder: Path, steps: int = 240, *, finished: bool = True, **config: Any) -> Run:
    """A policy whose reward rises while its variety falls, with what a run of GRPO writes."""
    rng = random.Random(5)
    settings = {
        "name": folder.name,
        "learning_rate": 1e-6,
        "group": 4,
        "batch": 32,
        "reward": {"variant": "paper"},
        **config,
    }
    record = Record(
        kind="policy",
        config=settings,
        data={"train": [DataFile("cer/train.jsonl.zst", "9f2b" * 16, 12840)]},
        base={"model": "Qwen2.5-7B-Instruct", "weights": "sha256 41c0"},
        judge={"name": "unified judge", "weights": "sha256 77aa"},
        seed=3,
    )
    run = open_run(folder, record, given="name: given\n")
    for step in range(1, steps + 1):
        share = step / steps
        noise = rng.gauss(0, 1)
        row: dict[str, Any] = {
            "step": step,
            "loss": 0.01 * noise,
            "reward": -2.6 + 5.2 * (1 - math.exp(-3 * share)) + 0.35 * noise,
            "diversity/distinct_1": 0.7 - 0.1 * share,
            "diversity/distinct_2": 0.93 - 0.22 * share**3 + 0.012 * rng.gauss(0, 1),
            "diversity/self_similarity": 0.18 + 0.2 * share**3 + 0.01 * rng.gauss(0, 1),
            "entropy": 3.1 - 1.4 * share + 0.08 * rng.gauss(0, 1),
            "length/reply_words": 22 + 9 * share + rng.gauss(0, 1.5),
            "format/incomplete": max(0.0, 0.9 * math.exp(-8 * share) + 0.02 * rng.random()),
            "learning_rate": 1e-6 * (1 - share),
            "num_tokens": 1e5 * step,
        }
        for part in ("history", "emotion", "strategy", "preference", "format"):
            row[f"part/{part}"] = max(-1.0, min(1.0, -0.5 + 1.4 * (1 - math.exp(-4 * share)) + 0.1 * rng.gauss(0, 1)))
        run.log(row)
        if step % 20 == 0:
            run.log(
                {"step": step, "eval_judge/training": -1 + 3.4 * share, "eval_judge/second": -1.1 + 2.2 * share**0.7}
            )
        if step % 10 == 0 or step == 1:
            for place in range(3):
                whole = rng.random() < 0.2 + share
                reply = ZH_REPLY if place == 2 and whole else REPLIES[min(2, int(3 * share))] if whole else REPLIES[0]
                run.sample(sample(step, place, reply, whole, round(row["reward"], 2)))
    run.alert(
        {
            "step": steps * 3 // 4,
            "alert": "The share of different word pairs in the replies has fallen from 0.93 (steps 1 to 50) to 0.71 "
            "(steps 171 to 180). Replies are becoming similar: raise reward.tau_scale, lower the learning rate, or stop "
            "and take a checkpoint.",
        }
    )
    if finished:
        run.finish({"steps": steps, "reward at first": -2.41, "reward at last": 2.33})
    run.close()
    return run


def judge_run(folder: Path, steps: int = 60, *, finished: bool = False) -> Run:
    """A judge under training: loss and accuracy, no reward, no samples."""
    rng = random.Random(2)
    record = Record(
        kind="judge", config={"epochs": 2, "lora": {"r": 16}}, data={}, base={"model": "Qwen2.5-0.5B"}, seed=0
    )
    run = open_run(folder, record)
    for step in range(1, steps + 1):
        loss = 0.3 + 2 * math.exp(-step / 20) + 0.05 * rng.gauss(0, 1)
        run.log(
            {"step": step, "loss": loss, "mean_token_accuracy": 1 - loss / 3, "entropy": 1 + loss / 2, "grad_norm": 1.0}
        )
        if step % 15 == 0:
            run.log({"step": step, "eval_loss": loss + 0.12, "eval_runtime": 3.2})
    if finished:
        run.finish({"eval_loss": 0.43})
    run.close()
    return run


def evaluation(folder: Path, model: str, *, report: str | None = None) -> None:
    """A result of SAGE, and a report beside it when its text is given."""
    rng = random.Random(9)
    scores = [max(0.0, min(100.0, rng.gauss(61, 24))) for _ in range(100)]
    figures = (
        mean_figure("sentient", scores),
        mean_figure("success", [float(score > 90) for score in scores], scale=100),
        mean_figure("failure", [float(score < 10) for score in scores], scale=100),
        Figure("turns", 7.4, n=100),
    )
    save_result(
        folder,
        Result(
            benchmark="sage",
            model=model,
            comparable={"simulator": "gpt-4o", "prompts": "3b1c9a", "language": "en"},
            figures=figures,
            setup={"seed": 0, "reasoning": "on", "counts": {"seeker_calls": 1812}, "grammar": True, "judge": None},
            notes=("The simulator answered 3 of 100 dialogues in another language; they are counted.",),
        ),
    )
    if report is not None:
        (folder / "report.html").write_text(report, encoding="utf-8")


REPORT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Report</title>
<style>body { font: 17px/1.6 sans-serif; max-width: 680px; margin: 40px auto; }</style>
<h1>Report of SAGE</h1><p id="told">The script has not run.</p>
<script>
let cookie = "none"; try { cookie = document.cookie || "empty"; } catch (error) { cookie = "refused"; }
document.querySelector("#told").textContent = "cookies: " + cookie + ", origin: " + self.origin;
</script></html>
"""


def example_runs(root: Path) -> Path:
    """Some runs as a lab would have them."""
    policy_run(root / "policy" / "paper-seed-3")
    policy_run(root / "policy" / "tau-2", 90, finished=False)
    judge_run(root / "judges" / "unified-0.5b")
    evaluation(
        root / "policy" / "paper-seed-3" / "sage",
        "hf:Qwen2.5-7B-Instruct+runs/policy/paper-seed-3/model",
        report=REPORT,
    )
    evaluation(root / "evaluations" / "sage-base", "hf:Qwen2.5-7B-Instruct")
    return root
