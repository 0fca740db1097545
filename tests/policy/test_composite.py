"""The whole reward: parts, weights, silence of the judge, redundancy, groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from compeer.cer.item import PastTurn
from compeer.errors import UserError
from compeer.models.embedding import Embedder
from compeer.policy.composite import CompositeReward, PromptRecord, RewardSettings, summary, text_of
from compeer.policy.prompts import encoded
from compeer.reasoning import Reasoning, render
from compeer.reward.case import Case
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict

LABELS: dict[str, str | int] = {
    "stage": "exploration", "sentiment": "negative", "emotion": "shame", "intensity": 4, "strategy": "question",
}  # fmt: skip


def output(reply: str, strategy: str = "Ask first.") -> str:
    texts = {"history": "Lost the job.", "emotion": "Ashamed.", "strategy": strategy}
    return render(Reasoning.of(texts, LABELS), reply)


def prompt_record(name: str = "a", history: Sequence[str] = ("I lost my job.",)) -> PromptRecord:
    return PromptRecord(name, "en", tuple(PastTurn("seeker", text) for text in history), "That is hard. What happened?")


class ByRule:
    """Steps are right, the reply is better when it asks; silent on replies that say so."""

    def __init__(self) -> None:
        self.calls = 0

    def judge_all(self, cases: Sequence[Case]) -> list[Judgement]:
        self.calls += 1
        return [self.one(case) for case in cases]

    def one(self, case: Case) -> Judgement:
        if "silent" in case.reply:
            return Judgement(id=case.id, complete=case.complete, failure="time")
        first, second, third = (StepVerdict(value=None if step is None else True, p=0.8) for step in case.steps)
        better = case.reply.endswith("?")
        p = {"candidate": 0.6, "reference": 0.3, "both": 0.1, "neither": 0.0} if better else {"reference": 1.0}
        pair = PairVerdict(True, "candidate" if better else "reference", p)  # type: ignore[arg-type]
        return Judgement(id=case.id, complete=case.complete, steps=(first, second, third), pairs=(pair,))


class Letters(Embedder):
    """Vectors of letter counts: exact, and the same for equal texts."""

    def _function(self, place: str) -> Any:
        return lambda texts: np.array([[text.lower().count(chr(97 + k)) for k in range(26)] for text in texts], float)


def reward(**settings: Any) -> CompositeReward:
    return CompositeReward(ByRule(), Letters(), RewardSettings(**settings))


def test_parts_and_total_without_reweighting() -> None:
    outputs = [output("What happened?"), output("Cheer up."), "What happened?", "", "<think></think>ok?"]
    rows = reward(reweight=False).score([(prompt_record(), outputs)])
    assert [row.total for row in rows] == [5, 3, -3, -5, -3]
    assert [row.reward for row in rows] == [row.total for row in rows]
    assert [row.parts["format"] for row in rows] == [1, 1, -1, -1, -1]
    assert rows[2].parts == {"history": -1, "emotion": -1, "strategy": -1, "preference": 1, "format": -1}
    assert "no-think" in rows[2].problems


def test_weights_soft_rewards_and_further_parts() -> None:
    rows = reward(reweight=False, weights={"preference": 2.0, "format": 0.0}).score(
        [(prompt_record(), [output("Why?")])]
    )
    assert rows[0].total == 5
    soft = reward(reweight=False, soft=True).score([(prompt_record(), [output("Why?")])])[0]
    assert soft.parts == pytest.approx(
        {"history": 0.6, "emotion": 0.6, "strategy": 0.6, "preference": 0.4, "format": 1}
    )
    dense = reward(reweight=False, weights={"density": 1.0}).score(
        [(prompt_record(), [output("Tell me more about Tuesday?")])]
    )[0]
    assert dense.total == 5 + dense.parts["density"]
    with pytest.raises(UserError, match="'charm' is not a part"):
        RewardSettings(weights={"charm": 1.0})


def test_a_reply_outside_of_the_lengths_that_are_wanted_earns_less() -> None:
    said = [output(" ".join(["and"] * count) + "?") for count in (2, 4, 6, 12)]
    guarded = reward(reweight=False, weights={"length": 2.0}, length=(4, 6)).score([(prompt_record(), said)])
    assert [row.parts["length"] for row in guarded] == pytest.approx([0.0, 1.0, 1.0, 0.0])
    plain = reward(reweight=False).score([(prompt_record(), said)])
    assert [row.total for row in guarded] == pytest.approx(
        [one.total + 2 * row.parts["length"] for one, row in zip(plain, guarded, strict=True)]
    )
    with pytest.raises(UserError, match="not a range of words"):
        RewardSettings(length=(6, 4))


def test_novelty_compares_a_reply_with_what_others_are_told_and_not_with_its_own_group() -> None:
    same, new = "What happened then?", "Tell me about Tuesday?"
    groups = [
        (prompt_record("a"), [output(same), output(new), output(same)]),
        (prompt_record("b"), [output(same), output("Why?")]),
    ]
    told = reward(reweight=False, weights={"novelty": 3.0}).score(groups)
    # both pairs of `same` are in one reply to the other seeker, or in two; a single word has no pair
    assert [row.parts["novelty"] for row in told] == pytest.approx([0.0, 1.0, 0.0, 2 / 3 - 1, -1.0])
    plain = reward(reweight=False).score(groups)
    assert [row.total for row in told] == pytest.approx(
        [one.total + 3 * row.parts["novelty"] for one, row in zip(plain, told, strict=True)]
    )
    assert "novelty" not in plain[0].parts
    alone = reward(reweight=False, weights={"novelty": 1.0}).score(groups[:1])
    assert [row.parts["novelty"] for row in alone] == [1.0, 1.0, 1.0]


def test_equation_5_is_applied_to_the_total_with_the_whole_group() -> None:
    said = ["What happened then, tell me?", "What happened then, tell me?", "I am here with you now.", "Go on?"]
    history = ("I lost my job and I am afraid to tell them.", "Who are they?")
    rows = reward().score([(prompt_record(history=history), [output(reply) for reply in said])])
    lengths = [5, 5, 6, 2]
    scale = 1 / (1 + math.exp(-0.5 * (sum(lengths) / 4 - 5)))

    def vector(text: str) -> Any:
        counts = np.array([text.lower().count(chr(97 + k)) for k in range(26)], float)
        return counts / np.linalg.norm(counts)

    for number, row in enumerate(rows):
        s_in = sum(float(vector(said[number]) @ vector(said[k])) for k in range(4) if k != number) / 3
        s_hi = sum(float(vector(said[number]) @ vector(text)) for text in history) / 2
        assert (row.s_in, row.s_hi, row.tau) == pytest.approx((s_in, s_hi, scale), abs=1e-6)
        assert row.reward == pytest.approx(row.total / ((1 + scale * s_in) * (1 + scale * s_hi)), abs=1e-6)


@pytest.mark.parametrize(("variant", "lower"), [("paper", False), ("sign_aware", True)])
def test_a_redundant_bad_reply_rises_as_printed_and_falls_sign_aware(variant: str, lower: bool) -> None:
    row = reward(variant=variant).score([(prompt_record(), ["no no no no no no no no"] * 2)])[0]
    assert row.total < 0
    assert (row.reward < row.total) == lower
    assert row.raised == (not lower)
    assert summary([row])["redundancy/raised"] == float(not lower)


def test_what_the_judge_left_open_earns_the_groups_mean_and_is_marked() -> None:
    outputs = [output("Why?"), output("silent"), output("Cheer up.")]
    rows = reward(reweight=False).score(
        [(prompt_record("a"), outputs), (prompt_record("b"), [output("silent one"), output("silent two")])]
    )
    assert [row.total for row in rows] == [5, 4, 3, 0, 0]
    assert [row.failure for row in rows] == [None, "time", None, "time", "time"]
    assert summary(rows)["judge/unanswered"] == pytest.approx(3 / 5)


def test_an_unjudged_reply_gains_nothing_by_being_unlike_the_others() -> None:
    outputs = [output("What happened then, tell me?")] * 3 + [output("silent zzz qqq xxx jjj vvv")]
    rows = reward().score([(prompt_record(), outputs)])
    assert rows[3].s_in < rows[0].s_in
    assert rows[3].reward == pytest.approx(sum(row.reward for row in rows[:3]) / 3)
    assert not rows[3].raised


def test_one_output_an_empty_history_empty_and_equal_replies() -> None:
    alone = reward().score([(prompt_record(history=()), [output("What happened to you there?")])])[0]
    assert (alone.s_in, alone.s_hi, alone.reward) == (0.0, 0.0, 5.0)
    empty = reward().score([(prompt_record(), ["", ""])])
    assert [(row.s_in, row.s_hi, row.total) for row in empty] == [(0.0, 0.0, -5.0)] * 2
    same = reward().score([(prompt_record(), [output("What happened to you there?")] * 4)])
    assert [row.s_in for row in same] == pytest.approx([1.0] * 4)
    assert len({row.reward for row in same}) == 1


def test_rules_alone_need_no_judge() -> None:
    rules = CompositeReward(None, Letters(), RewardSettings(source="rules", reweight=False))
    assert [row.total for row in rules.score([(prompt_record(), [output("Why?"), "Why?"])])] == [1, -1]
    with pytest.raises(UserError, match="needs a judge"):
        CompositeReward(None, Letters(), RewardSettings())


def test_called_as_trl_calls_it() -> None:
    metrics: dict[str, float] = {}
    extra: dict[str, list[Any]] = {}
    function = CompositeReward(ByRule(), Letters(), RewardSettings(reweight=False), group=2)
    completions = [
        [{"role": "assistant", "content": text}] for text in (output("Why?"), "No.", output("Ok."), output("So?"))
    ]
    values = function(
        prompts=[[]] * 4,
        completions=completions,
        prompt_record=[encoded(prompt_record("a"))] * 2 + [encoded(prompt_record("b"))] * 2,
        completion_ids=[[1]] * 4,
        trainer_state=None,
        log_metric=metrics.__setitem__,
        log_extra=extra.__setitem__,
    )
    assert values == [5, -5, 3, 5]
    assert metrics["reward/total"] == 2 and metrics["format/incomplete"] == 0.25
    assert extra["preference"] == [1, -1, -1, 1]
    assert function.judge.calls == 1, "one call to the judge for a whole batch"  # type: ignore[union-attr]


@pytest.mark.parametrize("whole", [False, True])
def test_an_output_that_never_came_to_its_end_has_no_reply(whole: bool) -> None:
    rewarding = reward(reweight=False, whole=whole)
    rewarding.ends = frozenset({2})
    row = encoded(prompt_record())
    texts = [output("What happened?"), output("And then what? And then what?")]
    ended, endless = rewarding(completions=texts, prompt_record=[row, row], completion_ids=[[5, 2], [5, 7]])
    assert ended == 5.0
    assert endless == (1.0 if whole else 5.0)  # the steps still count, the reply and the format do not
    scored = rewarding.score([(prompt_record(), texts)], cut=[False, True])
    assert (scored[1].complete, scored[1].reply, scored[1].problems) == (False, "", ("cut-off",))


def test_a_group_cut_in_two_is_refused_with_the_arithmetic() -> None:
    function = CompositeReward(ByRule(), Letters(), group=4)
    rows = [encoded(prompt_record("a"))] * 2 + [encoded(prompt_record("b"))] * 2
    with pytest.raises(UserError, match="outputs for a are in this process, and groups have 4: a group was split"):
        function(completions=["x"] * 4, prompt_record=rows)
    with pytest.raises(UserError, match="6 outputs for a are in this process"):
        function(completions=["x"] * 6, prompt_record=[encoded(prompt_record("a"))] * 6)


def test_completions_with_several_turns_and_parts() -> None:
    several = [{"role": "assistant", "content": "one"}, {"role": "user", "content": "x"},
               {"role": "assistant", "content": [{"type": "text", "text": "two"}]}]  # fmt: skip
    assert text_of(several) == "one\ntwo"


def test_vectors_of_a_history_are_computed_once() -> None:
    embedder = Letters()
    function = CompositeReward(ByRule(), embedder, RewardSettings())
    function.score([(prompt_record(), [output("Why?"), output("When?")])])
    assert embedder.computed == 3
    function.score([(prompt_record(), [output("Where?"), output("Why?")])])
    assert (embedder.computed, embedder.remembered) == (4, 2)
