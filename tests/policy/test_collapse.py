"""The collapse demonstration's parts, and its claim on a policy small enough to be sure of: a table of sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from benchmarks.collapse import report, world
from benchmarks.collapse.judge import Fond

from compeer.models.embedding import Embedder
from compeer.policy.advantage import advantages
from compeer.policy.composite import CompositeReward, PromptRecord, RewardSettings
from compeer.policy.diversity import distinct, self_similarity
from compeer.policy.prompts import demonstration
from compeer.reasoning import parse
from compeer.reward.case import Case
from compeer.reward.judge import Judgement

THOUGHT = str(demonstration(world.moments()[0])).rpartition("\n")[0] + "\n"
ASKED = [PromptRecord(item.id, "en", item.history, item.reference) for item in world.moments()]


class Asking:
    """The demonstration's judge without its process."""

    def judge_all(self, cases: Sequence[Case]) -> list[Judgement]:
        return [Fond().one(case) for case in cases]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder()


def test_the_world_speaks_in_the_contract_and_its_tokenizer_loses_nothing(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    shown = [demonstration(item) for item in world.demonstrations(5)]
    assert len(set(shown)) > 30 and all(text and parse(text).complete for text in shown)
    assert len(set(world.replies())) == 6**3
    world.build(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for text in shown:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == text and tokenizer.unk_token_id not in ids
        assert len(ids) == 1 + len(str(text).rpartition("\n")[2].split()), "a thought is one token"


def test_the_judge_likes_one_reply_best() -> None:
    reward = CompositeReward(Asking(), None, RewardSettings(soft=True, reweight=False))
    rows = reward.score([(ASKED[0], [THOUGHT + reply for reply in world.replies()])])
    best = [row.reply for row in rows if row.total == max(one.total for one in rows)]
    assert best == [" ".join(world.FAVOURITE)]
    assert sorted({round(row.total, 2) for row in rows}) == [3.0, 3.67, 4.33, 5.0]
    noise = reward.score([(ASKED[0], [THOUGHT + " ".join(world.FAVOURITE) + " week."])])[0]
    assert noise.total == 1.0, "a favourite with something added is no favourite"


def test_equation_5_pays_the_one_that_differs_from_three_alike(embedder: Embedder) -> None:
    favourite = " ".join(world.FAVOURITE)
    other = f"{world.FIRST[0]} {world.SECOND[0]} {world.THIRD[4]}"
    group = [(ASKED[0], [THOUGHT + reply for reply in (favourite, favourite, favourite, other)])]
    plain = CompositeReward(Asking(), embedder, RewardSettings(soft=True, reweight=False)).score(group)
    assert plain[0].reward > plain[3].reward
    for variant in ("paper", "sign_aware"):
        rows = CompositeReward(Asking(), embedder, RewardSettings(soft=True, variant=variant)).score(group)
        assert rows[3].s_in < rows[0].s_in
        assert rows[3].reward > rows[0].reward


def learn(settings: RewardSettings, embedder: Embedder, seed: int, steps: int = 100) -> tuple[float, float]:
    """GRPO on a table: a probability for each sentence of each slot. Distinct-2 and self-similarity of what it says."""
    rng = np.random.default_rng(seed)
    logits = np.zeros((3, 6))
    reward = CompositeReward(Asking(), embedder, settings, group=4)

    def sample() -> list[int]:
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return [int(rng.choice(6, p=row)) for row in chances]

    def said(choice: list[int]) -> str:
        return " ".join(slot[one] for slot, one in zip(world.SLOTS, choice, strict=True))

    for step in range(steps):
        choices = [sample() for _ in range(8)]
        groups = [
            (ASKED[(2 * step + at) % 8], [THOUGHT + said(one) for one in choices[4 * at : 4 * at + 4]]) for at in (0, 1)
        ]
        scored = reward.score(groups)
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        change = np.zeros_like(logits)
        for choice, advantage in zip(choices, advantages([row.reward for row in scored], 4), strict=True):
            for slot, one in enumerate(choice):
                change[slot] += advantage * (np.eye(6)[one] - chances[slot])
        logits += 0.15 * change
    replies = [said(sample()) for _ in range(64)]
    return distinct(replies, 2), self_similarity(replies, embedder("en"))


def test_a_table_collapses_without_reweighting_and_less_with_it(embedder: Embedder) -> None:
    start = learn(RewardSettings(reweight=False), embedder, 0, steps=0)
    for seed in (0, 1):
        without = learn(RewardSettings(soft=True, reweight=False), embedder, seed)
        paper = learn(RewardSettings(soft=True), embedder, seed)
        assert without[0] < 0.4 * start[0] and without[1] > start[1] + 0.3, "it collapses"
        assert paper[0] > 1.5 * without[0] and paper[1] < without[1] - 0.1, "it keeps more"


def test_the_report_compares_seed_by_seed_with_students_interval(tmp_path: Path) -> None:
    lasts = {"none": [0.1, 0.2, 0.3], "paper": [0.3, 0.4, 0.6]}
    for arm, values in lasts.items():
        for seed, last in enumerate(values):
            folder = tmp_path / f"seed-{seed}" / arm
            folder.mkdir(parents=True)
            lines = [dict.fromkeys(report.MEASURES, value) | {"step": 1} for value in [0.5] * 10 + [last] * 10]
            (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
            said = [{"step": step, "reply": reply} for step in (1, 2) for reply in (world.replies()[step], "noise")]
            (folder / "samples.jsonl").write_text("\n".join(map(json.dumps, said)))
    told = report.report(tmp_path, ["none", "paper"], 3, tmp_path / "collapse.png")
    half = 4.302652729911275 * np.std([0.1, 0.2, 0.3], ddof=1) / math.sqrt(3)
    assert f"0.500 → 0.200 ± {half:.3f}" in told
    gap = 4.302652729911275 * np.std([0.2, 0.2, 0.3], ddof=1) / math.sqrt(3)
    assert f"+0.233 ± {gap:.3f}" in told
    assert "| 0.500 → 0.500 ± 0.000 |" in told, "half of what is said is noise"
    assert (tmp_path / "collapse.png").read_bytes()[:4] == b"\x89PNG"
