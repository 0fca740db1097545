"""From verdicts to a reward: a table of cases with the parts and the total each must have."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from tests.reward.groups import gold_cases

from compeer.cer.item import Preference
from compeer.reward.judge import PARTS, Judgement, Orders, PairVerdict, StepVerdict, shown_orders
from compeer.reward.scoring import total
from compeer.reward.verdict import CHOICES, Choice, preference_of

T, F, N = StepVerdict(True, 0.9), StepVerdict(False, 0.2), StepVerdict()
VALUES = (True, False, None)


def pair(first: bool, preference: Preference | None, **p: float) -> PairVerdict:
    return PairVerdict(first, preference, p)  # type: ignore[arg-type]


def judgement(steps: tuple[Any, Any, Any], *pairs: PairVerdict, complete: bool = True) -> Judgement:
    return Judgement(id="x", complete=complete, steps=steps, pairs=pairs)


@pytest.mark.parametrize(
    ("found", "parts", "expected", "why"),
    [
        (judgement((T, T, T), pair(True, "candidate")), "+++++", 5, "everything right"),
        (judgement((T, T, T), pair(True, "both")), "+++++", 5, "as good as the reference"),
        (judgement((T, T, T), pair(True, "reference")), "+++-+", 3, "the reference is better"),
        (judgement((T, T, T), pair(True, "neither")), "+++-+", 3, "neither will do"),
        (judgement((T, F, T), pair(False, "candidate")), "+-+++", 3, "a wrong step"),
        (judgement((F, F, F), pair(False, "candidate")), "---++", -1, "a good reply for wrong reasons"),
        (judgement((T, T, T), pair(True, "candidate"), complete=False), "++++-", 3, "a broken format"),
        (judgement((T, N, T), pair(True, "both"), complete=False), "+-++-", 1, "a missing step"),
        (judgement((N, N, N), pair(True, "candidate"), complete=False), "---+-", -3, "a reply alone"),
        (judgement((T, T, T)), "+++-+", 3, "no pair: the reply had no words"),
        (judgement((N, N, N), complete=False), "-----", -5, "nothing at all"),
        (judgement((F, F, F), pair(True, "neither"), complete=False), "-----", -5, "everything wrong"),
        (judgement((T, T, T), pair(True, None)), "+++-+", 3, "an answer that was no verdict"),
        (judgement((T, T, T), pair(True, "candidate"), pair(False, "candidate")), "+++++", 5, "both orders agree"),
        (judgement((T, T, T), pair(True, "candidate"), pair(False, "reference")), "+++-+", 3, "they contradict"),
        (judgement((T, T, T), pair(True, "candidate"), pair(False, None)), "+++++", 5, "one of them is known"),
        (
            judgement(
                (T, T, T),
                pair(True, "candidate", candidate=0.9, reference=0.1),
                pair(False, "reference", reference=0.6, candidate=0.4),
            ),
            "+++++", 5, "the surer one prevails",
        ),
        (
            judgement(
                (T, T, T),
                pair(True, "candidate", candidate=0.55, reference=0.45),
                pair(False, "reference", reference=0.7, candidate=0.3),
            ),
            "+++-+", 3, "the surer one prevails, the other way",
        ),
        (
            judgement(
                (T, T, T),
                pair(True, "candidate", candidate=0.4, both=0.35, reference=0.25),
                pair(False, "reference", reference=0.4, both=0.35, candidate=0.25),
            ),
            "+++++", 5, "two doubtful contradictions agree that both are good",
        ),
        (
            judgement((T, T, T), pair(True, "candidate", candidate=1.0), pair(False, "reference")),
            "+++-+", 3, "a contradiction of which only one side has a probability",
        ),
    ],
)  # fmt: skip
def test_the_table(found: Judgement, parts: str, expected: int, why: str) -> None:
    assert "".join("+" if found.parts()[name] > 0 else "-" for name in PARTS) == parts, why
    assert found.total == expected == sum(found.parts().values())
    assert set(found.parts().values()) <= {1.0, -1.0}


def test_every_pattern_of_verdicts() -> None:
    """All steps, all verdicts on the pair in both orders, both formats: parts and total agree with the rule."""
    count = 0
    for values in itertools.product(VALUES, VALUES, VALUES):
        steps = tuple(StepVerdict(value) for value in values)
        for choice, first, complete in itertools.product((*CHOICES, None), (True, False), (True, False)):
            preference = None if choice is None else preference_of(choice, first)
            found = judgement(steps, pair(first, preference), complete=complete)  # type: ignore[arg-type]
            signs = [1 if value is True else -1 for value in values]
            better = {(True, "first"), (False, "second"), (True, "both"), (False, "both")}
            signs.append(1 if (first, choice) in better else -1)
            signs.append(1 if complete else -1)
            assert [found.parts()[name] for name in PARTS] == signs
            assert found.total == sum(signs) == total(list(values), preference, complete)
            count += 1
    assert count == 27 * 5 * 4


@pytest.mark.parametrize(
    ("one", "other", "agreed", "swayed"),
    [
        # the same reply wins, wherever it stands
        ("first", "second", "candidate", False),
        ("second", "first", "reference", False),
        ("both", "both", "both", False),
        ("neither", "neither", "neither", False),
        # the same place wins, whatever stands there
        ("first", "first", None, True),
        ("second", "second", None, True),
        # one of them hesitates
        ("first", "both", None, True),
        ("neither", "first", None, True),
        ("both", "neither", None, True),
    ],
)
def test_both_orders(one: Choice, other: Choice, agreed: Preference | None, swayed: bool) -> None:
    """The candidate is shown first, then second."""
    found = judgement((T, T, T), pair(True, preference_of(one, True)), pair(False, preference_of(other, False)))
    assert found.preference == agreed
    assert found.swayed is swayed
    assert found.total == (5 if agreed in ("candidate", "both") else 3)


class TestProbabilities:
    def test_they_are_averaged_over_the_orders(self) -> None:
        found = judgement(
            (T, T, T),
            pair(True, "candidate", candidate=0.7, reference=0.1, both=0.15, neither=0.05),
            pair(False, "both", candidate=0.1, reference=0.3, both=0.55, neither=0.05),
        )
        assert found.preference_p == pytest.approx({"candidate": 0.4, "reference": 0.2, "both": 0.35, "neither": 0.05})
        assert found.preference == "candidate"
        assert found.swayed

    def test_soft_parts_are_probabilities_between_minus_one_and_one(self) -> None:
        p = {"candidate": 0.5, "reference": 0.2, "both": 0.2, "neither": 0.1}
        soft = judgement((T, F, N), pair(True, "candidate", **p), complete=False).parts(soft=True)
        assert soft == pytest.approx(
            {"history": 0.8, "emotion": -0.6, "strategy": -1.0, "preference": 0.4, "format": -1.0}
        )

    def test_without_probabilities_soft_is_hard(self) -> None:
        found = judgement((StepVerdict(True), StepVerdict(False), N), pair(True, "both"))
        assert found.parts(soft=True) == found.parts()

    def test_unknown_is_not_a_probability(self) -> None:
        assert judgement((T, T, T)).preference_p == {}
        assert judgement((T, T, T), pair(True, "both")).swayed is None
        assert judgement((T, T, T)).preference is None


class TestOrders:
    @pytest.mark.parametrize(
        ("orders", "expected"),
        [("both", (True, False)), ("candidate_first", (True,)), ("reference_first", (False,))],
    )
    def test_as_asked(self, orders: Orders, expected: tuple[bool, ...]) -> None:
        assert shown_orders(gold_cases()[0], orders) == expected

    def test_one_order_is_drawn_from_the_id_alone(self) -> None:
        drawn = [shown_orders(case, "one") for case in gold_cases()]
        assert drawn == [shown_orders(msgspec.structs.replace(case, reply="?"), "one") for case in gold_cases()]
        first = sum(order == (True,) for order in drawn)
        assert 0.35 * len(drawn) < first < 0.65 * len(drawn)


def test_a_judgement_survives_the_wire() -> None:
    found = judgement((T, F, N), pair(True, "both", both=1.0), pair(False, None))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Judgement) == found
