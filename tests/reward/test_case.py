"""Cases from items and outputs: what is shown to a judge, what counts as missing, what is left out when it is long."""

from __future__ import annotations

import msgspec
import pytest
from tests.reward.attacks import ATTACKS
from tests.reward.groups import gold_cases

from compeer.cer import gold
from compeer.cer.item import Candidate, Item, PastTurn
from compeer.errors import UserError
from compeer.models.request import ModelError
from compeer.reasoning import render
from compeer.reward.case import Case, case_of, case_of_output, drop_oldest_turns, fit_case, halve
from compeer.reward.judge import Judgement

GOOD = (
    "<think>\n<history>\nShe lost her job.\nStage: exploration\n</history>\n"
    "<emotion>\nShe is afraid.\nSentiment: negative\nEmotion: fear\nIntensity: 4\n</emotion>\n"
    "<strategy>\nAsk first.\nStrategy: question\n</strategy>\n</think>\nWhat happened?"
)


@pytest.fixture(scope="module")
def item() -> Item:
    return next(iter(gold.load("en")))


class TestFromItems:
    def test_the_steps_are_as_the_contract_writes_them(self, item: Item) -> None:
        case = case_of(item)
        assert item.candidate is not None
        assert item.candidate.reasoning is not None
        whole = render(item.candidate.reasoning, item.candidate.response)
        for step in case.steps:
            assert step is not None
            assert step in whole
        assert case.steps[0] is not None
        assert case.steps[0].endswith("Stage: action")
        assert (case.reply, case.reference) == (item.candidate.response, item.reference)
        assert case.complete
        assert case.comparable

    def test_an_output_gives_the_same_case_as_its_parts(self, item: Item) -> None:
        for each in gold.load():
            assert each.candidate is not None
            assert each.candidate.reasoning is not None
            assert case_of_output(each, render(each.candidate.reasoning, each.candidate.response)) == case_of(each)

    def test_an_incomplete_candidate_is_read_from_its_raw_output(self, item: Item) -> None:
        raw = GOOD.replace("Intensity: 4\n", "")
        case = case_of(msgspec.structs.replace(item, candidate=Candidate(response="What happened?", raw=raw)))
        assert [step is None for step in case.steps] == [False, True, False]
        assert not case.complete

    def test_an_item_without_a_candidate_is_named(self, item: Item) -> None:
        with pytest.raises(UserError, match=r"gold/compeer/en/001#2 has no candidate"):
            case_of(msgspec.structs.replace(item, candidate=None))


@pytest.mark.parametrize(
    ("output", "steps", "comparable", "why"),
    [
        (GOOD, "123", True, "complete"),
        ("", "", False, "nothing"),
        ("What happened?", "", True, "a reply alone"),
        ("<think></think>What happened?", "", True, "an empty thought"),
        (GOOD.replace("She is afraid.\n", ""), "1 3", True, "a step without words"),
        (GOOD.replace("Emotion: fear", "Emotion: hunger"), "1 3", True, "a value that does not exist"),
        (GOOD.replace("Stage: exploration\n", ""), " 23", True, "a label is missing"),
        (GOOD.replace("What happened?", ""), "123", False, "no reply"),
        (GOOD.replace("What happened?", "..."), "123", False, "a reply without words"),
        (GOOD.replace("What happened?", "What <b>happened</b>?"), "123", True, "markup in the reply"),
        (GOOD.replace("</think>\n", "</think>\n<history>"), "123", True, "a tag in the reply"),
        (GOOD.replace("</history>\n<emotion>", "</history>\nand so\n<emotion>"), "123", True, "text between steps"),
        *((attack, "", None, "an attack instead of an output") for attack in ATTACKS),
    ],
)
def test_outputs(item: Item, output: str, steps: str, comparable: bool | None, why: str) -> None:
    case = case_of_output(item, output)
    assert case.id == item.id
    assert "".join(" " if step is None else str(n + 1) for n, step in enumerate(case.steps)).rstrip() == steps, why
    assert case.complete is (why == "complete")
    if comparable is not None:
        assert case.comparable is comparable
    format_part = Judgement(id=case.id, complete=case.complete).parts()["format"]
    assert format_part == (1.0 if why == "complete" else -1.0)


class TestLength:
    def test_the_oldest_turns_go_first_and_the_last_stays(self) -> None:
        case = gold_cases("en")[2]
        assert drop_oldest_turns(case, 1).history == case.history[1:]
        assert drop_oldest_turns(case, 1).left_out == 1
        assert drop_oldest_turns(drop_oldest_turns(case, 1), 1).left_out == 2
        assert drop_oldest_turns(case, 99).history == case.history[-1:]
        assert drop_oldest_turns(case, 0) == case

    def test_as_few_turns_as_will_do(self) -> None:
        case = _talk(*("word " * 10 for _ in range(20)))
        for limit in range(70, 260):
            found = fit_case(case, _words, limit)
            assert _words(found) <= limit
            assert found.left_out == 0 or _words(drop_oldest_turns(case, found.left_out - 1)) > limit
            assert found.reply == case.reply

    def test_then_the_longest_text_is_cut(self) -> None:
        case = msgspec.structs.replace(_talk("word " * 10, "word " * 300), reply="you matter " * 500)
        found = fit_case(case, _words, 150)
        assert _words(found) <= 150
        assert len(found.history) == 1
        assert found.reply.startswith("you matter")
        assert found.reply.endswith("…")
        assert found.reference == case.reference

    def test_where_there_is_no_room_at_all_it_says_so(self) -> None:
        with pytest.raises(ModelError, match="too small"):
            fit_case(_talk("a word", "two words"), _words, 3)

    def test_a_step_shorter_each_time(self) -> None:
        case = _talk(*("word " * 50 for _ in range(9)))
        lengths = [_words(case)]
        with pytest.raises(ModelError, match="too small"):
            while True:
                case = halve(case)
                lengths.append(_words(case))
        assert lengths == sorted(set(lengths), reverse=True)
        assert lengths[-1] < 80


def _talk(*texts: str) -> Case:
    speakers = ("seeker", "supporter")
    return Case(
        id="t",
        language="en",
        history=tuple(PastTurn(speakers[n % 2], text) for n, text in enumerate(texts)),  # type: ignore[arg-type]
        steps=("one two\nStage: action", "three", None),
        reply="a reply",
        reference="a reference",
        complete=True,
    )


def _words(case: Case) -> int:
    texts = [*(turn.text for turn in case.history), *(step or "" for step in case.steps), case.reply, case.reference]
    return sum(len(text.split()) for text in texts)
