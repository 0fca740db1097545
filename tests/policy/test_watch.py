"""Watching: numbers that do not depend on the number of processes, alerts that come when they should and only then."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from compeer.cer.item import PastTurn
from compeer.models.embedding import Embedder
from compeer.policy.composite import PromptRecord, RewardSettings, Scored
from compeer.policy.diversity import likeness, self_similarity
from compeer.policy.grpo.alerts import Alerts, HeldOut
from compeer.policy.grpo.watch import Share, WatchedReward, chosen, numbers
from compeer.policy.prompts import encoded
from compeer.reward.judge import Judgement, StepVerdict


class Letters(Embedder):
    """Vectors of letter counts: exact."""

    def _function(self, place: str) -> Any:
        return lambda texts: np.array([[text.lower().count(chr(97 + k)) for k in range(26)] for text in texts], float)


def row(reply: str, reward: float = 0.0, failure: str | None = None, problems: tuple[str, ...] = ()) -> Scored:
    return Scored(
        id="a", output=reply, reply=reply, complete=not problems, problems=problems, parts={}, total=reward,
        reward=reward, failure=failure,
    )  # fmt: skip


def share(rows: list[Scored], **judge: float) -> Share:
    return Share(rows, {"en": likeness([one.reply for one in rows], Letters()("en"))}, judge, {"seconds/judge": 1.0})


def test_two_processes_report_what_one_would() -> None:
    rows = [row("so it goes", 1.0), row("so it ends", 1.0, problems=("no-think",)), row("", 0.0), row("what then", 2.0)]
    one, two = (
        numbers([share(rows, retried=3.0)], 2),
        numbers([share(rows[:2], retried=1.0), share(rows[2:], retried=2.0)], 2),
    )
    assert one == pytest.approx(two)
    replies = [one.reply for one in rows]
    assert one["diversity/self_similarity"] == pytest.approx(self_similarity(replies, Letters()("en")))
    assert (one["diversity/distinct_1"], one["diversity/distinct_2"]) == (6 / 8, 4 / 5)
    assert (one["problem/no-think"], one["length/reply_words"], one["groups/zero_variance"]) == (0.25, 2.0, 0.5)
    assert (one["retried"], one["seconds/judge"]) == (3.0, 1.0), "counts add up, seconds are those of a process"


def test_a_row_that_the_judge_left_open_is_among_the_samples() -> None:
    rows = [row(str(number)) for number in range(9)] + [row("9", failure="time: no answer")]
    assert [one.reply for one in chosen(rows, 4)] == ["0", "1", "2", "9"]
    assert len(chosen(rows, 20)) == 10 and chosen(rows, 0) == []


def told(values: dict[str, list[float]]) -> list[tuple[int, str]]:
    alerts = Alerts(window=5, baseline=20)
    found = []
    for step in range(max(map(len, values.values()))):
        line = {name: one[step] for name, one in values.items()}
        found += [(step, text) for text in alerts.see(step, line)]
    return found


def noisy(levels: list[float], noise: float = 0.02, seed: int = 0) -> list[float]:
    rng = random.Random(seed)
    return [level + rng.gauss(0, noise) for level in levels]


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_alerts_nobody(seed: int) -> None:
    steady = {
        "diversity/distinct_2": noisy([0.7] * 200, 0.1, seed), "entropy": noisy([1.0] * 200, 0.2, seed + 50),
        "diversity/self_similarity": noisy([0.4] * 200, 0.1, seed + 90), "part/history": noisy([0.0] * 200, 0.3, seed + 10),
        "part/preference": noisy([0.0] * 200, 0.3, seed + 20), "length/reply_words": noisy([20.0] * 200, 4.0, seed),
        "diversity/strategies": noisy([5.0] * 200, 0.6, seed + 30),
    }  # fmt: skip
    assert told(steady) == []


@pytest.mark.parametrize(
    ("name", "before", "after", "words"),
    [
        ("diversity/distinct_2", 0.8, 0.4, "different word pairs in the replies has fallen from 0.8"),
        ("diversity/self_similarity", 0.3, 0.7, "similarity of the replies to each other has risen from 0.3"),
        ("diversity/strategies", 6.0, 1.5, "number of strategies in use has fallen from 6"),
        ("entropy", 2.0, 0.5, "entropy of the policy has fallen from 2"),
        ("length/reply_words", 20.0, 60.0, "length of the replies in words has risen from 20"),
    ],
)
def test_a_collapse_is_told_once_soon_after_it_began_sudden_or_slow(
    name: str, before: float, after: float, words: str
) -> None:
    sudden = told({name: noisy([before] * 30 + [after] * 60, before / 1000)})
    assert [words in text for _, text in sudden] == [True]
    assert 30 < sudden[0][0] < 36
    slow = told({name: noisy([before + (after - before) * step / 200 for step in range(200)])})
    assert slow and 30 < slow[0][0] < 190
    assert told({name: noisy([after] * 30 + [before] * 60)}) == [], "the other way is no cause for alarm"


def test_parts_that_drift_apart_are_named() -> None:
    up, down = [-0.5] * 30 + [0.5] * 30, [0.5] * 30 + [-0.5] * 30
    found = told({"part/preference": noisy(up, 0.1), "part/strategy": noisy(down, 0.1, 1), "part/format": [1.0] * 60})
    assert len(found) == 1
    assert (
        "preference has risen" in found[0][1]
        and "strategy has fallen" in found[0][1]
        and "gaming preference" in found[0][1]
    )
    assert told({"part/preference": noisy(up, 0.1), "part/strategy": noisy(up, 0.1, 1)}) == [], (
        "rising together is learning"
    )


def test_a_judge_that_stays_silent_is_told_of_once_an_outage() -> None:
    found = told({"judge/unanswered": [0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0.5, 1, 1, 1]})
    assert [step for step, _ in found] == [6, 13] and "for 3 steps in a row" in found[0][1]


class Gives:
    """A judge that gives every case what it was told to, or nothing."""

    def __init__(self) -> None:
        self.right, self.silent = 0, False

    def judge_all(self, cases: Any) -> list[Judgement]:
        made = []
        for number, case in enumerate(cases):
            steps = [StepVerdict(value=(number + place) % 4 < self.right) for place in range(3)]
            silence = "time: none" if self.silent and number == 0 else None
            made.append(
                Judgement(id=case.id, complete=case.complete, steps=(steps[0], steps[1], steps[2]), failure=silence)
            )
        return made


def test_an_alert_comes_when_only_the_training_judge_sees_progress() -> None:
    training, second = Gives(), Gives()
    held = HeldOut(training, second, RewardSettings())
    prompt_record = [encoded(PromptRecord(f"p{number}", "en", (), "Oh?")) for number in range(40)]

    def evaluated(step: int, one: int, two: int) -> tuple[dict[str, float], list[str]]:
        training.right, second.right = one, two
        held.begin()
        held.score(prompt_record, ["Why?"] * 40)
        held.score(prompt_record[:3], ["Why?"] * 3)  # a batch that was filled up counts nobody twice
        found = held.compare()
        return found, held.see(step, found)

    found, words = evaluated(0, 1, 1)
    assert (found["judge/gap"], words) == (0.0, []) and len(held.answers) == 43
    assert evaluated(10, 2, 2)[1] == [], "both see it"
    found, words = evaluated(20, 3, 1)
    assert found["judge/training"] - found["judge/second"] == pytest.approx(found["judge/gap"])
    assert len(words) == 1 and "Since step 0 the training judge's mean" in words[0]
    assert evaluated(30, 3, 1)[1] == [], "told once"
    second.silent = True
    assert evaluated(40, 3, 1)[0]["judge/unanswered"] == pytest.approx(1 / 40)


def test_a_resumed_run_compares_with_its_first_evaluation() -> None:
    line = {
        "step": 0,
        "eval_judge/training": 0.0,
        "eval_judge/second": 0.0,
        "eval_judge/gap": 0.0,
        "eval_judge/gap_error": 0.1,
    }
    held = HeldOut(Gives(), Gives())
    held.recall([line, {"step": 1, "reward": 1.0}])
    later = {"judge/training": 2.0, "judge/second": 0.1, "judge/gap": 1.9, "judge/gap_error": 0.1}
    assert "Since step 0" in held.see(50, later)[0]


def test_samples_say_what_they_answer_and_held_out_prompts_are_sampled_each_time(tmp_path: Path) -> None:
    """The room Runs shows outputs under their prompt; the same held-out prompts show how the policy changes."""
    from types import SimpleNamespace

    from compeer.policy.composite import CompositeReward
    from compeer.training.run import Record, open_run

    class Kind:
        def judge_all(self, cases: Any) -> list[Judgement]:
            told = StepVerdict(value=True)
            return [Judgement(id=case.id, complete=case.complete, steps=(told, told, told)) for case in cases]

    run = open_run(tmp_path / "run", Record(kind="policy", config={}, data={}, base={}, seed=0))
    watched = WatchedReward(CompositeReward(Kind(), Letters(), group=2), run, samples=2)
    records = [
        encoded(PromptRecord(name, "en", (PastTurn("seeker", f"I am {name}."),), "Tell me more.")) for name in "aabb"
    ]

    def ask(step: int) -> None:
        watched(
            completions=["so it goes"] * 4, prompt_record=records, trainer_state=SimpleNamespace(global_step=step),
            log_metric=lambda name, value: None,
        )  # fmt: skip

    ask(0)
    held = HeldOut(Kind(), Kind())
    for step in (1, 5):
        held.begin()
        with watched.held(held):
            ask(step)
    run.close()
    rows = [msgspec.json.decode(line) for line in (tmp_path / "run" / "samples.jsonl").read_bytes().splitlines()]
    assert [(one["step"], one["prompt_id"], one.get("held_out", False)) for one in rows] == [
        (1, "a", False), (1, "a", False), (1, "a", True), (1, "a", True), (5, "a", True), (5, "a", True),
    ]  # fmt: skip
    assert all(one["prompt"] == [{"speaker": "seeker", "text": "I am a."}] for one in rows)
