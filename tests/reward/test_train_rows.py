"""Training rows: what is asked, what is answered, what is left out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.training.small import item

from compeer.cer.item import Item, Labels, PastTurn
from compeer.models.checkpoint import ChatTokenizer, open_tokenizer
from compeer.reward.train import RowSettings, TrainingRow, chat, fit, make, reason, rows
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, choice_of, preference_of, read_pair, read_step
from compeer.training.encode import encode


@pytest.fixture(scope="module")
def silver() -> list[Item]:
    from compeer.cer.silver import build_silver
    from compeer.corpora import bundled

    return list(build_silver(list(bundled.load()), per_dialogue=3))


@pytest.fixture(scope="module")
def words(tiny_model_dir: Path) -> ChatTokenizer:
    return ChatTokenizer(*open_tokenizer(str(tiny_model_dir)))


def said(row: TrainingRow) -> list[str]:
    return [message["content"] for message in chat(row) if message["role"] == "assistant"]


def asked(row: TrainingRow) -> list[str]:
    return [message["content"] for message in chat(row) if message["role"] == "user"]


class TestKinds:
    def test_unified_is_one_conversation_of_four_turns(self) -> None:
        one = item(0)
        (row,) = rows(one, RowSettings(reasons=0))
        steps, pair = said(row)[:3], said(row)[3]
        assert [read_step(text) for text in steps] == [one.labels.history, one.labels.emotion, one.labels.strategy]
        choice = read_pair(pair)
        assert choice and preference_of(choice, row.candidate_first) == one.labels.preference
        assert pair in PAIR_WORDS["en"].values() and all(text in STEP_WORDS["en"].values() for text in steps)

    def test_prm_is_one_row_a_step_and_orm_the_pair_alone(self) -> None:
        one = item(1)
        steps = list(rows(one, RowSettings(kind="prm")))
        assert [row.question for row in steps] == ["history", "emotion", "strategy"]
        assert [[read_step(text) for text in said(row)] for row in steps] == [
            [one.labels.history], [one.labels.emotion], [one.labels.strategy]
        ]  # fmt: skip
        (pair,) = rows(one, RowSettings(kind="orm"))
        assert len(said(pair)) == 1 and "First sentence:" in asked(pair)[0] and "history step" not in asked(pair)[0]

    def test_the_history_opens_every_conversation_and_stands_there_once(self) -> None:
        for kind in ("unified", "prm", "orm"):
            for row in rows(item(2), RowSettings(kind=kind)):  # type: ignore[arg-type]
                assert ["The conversation:" in text for text in asked(row)] == [True] + [False] * (len(asked(row)) - 1)


class TestMissingLabels:
    @pytest.mark.parametrize("missing", ["history", "emotion", "strategy", "preference"])
    def test_a_question_without_a_label_is_not_asked(self, missing: str) -> None:
        whole = item(3)
        one = msgspec.structs.replace(whole, labels=msgspec.structs.replace(whole.labels, **{missing: None}))
        (row,) = rows(one, RowSettings(reasons=0))
        (full,) = rows(whole, RowSettings(reasons=0))
        place = ["history", "emotion", "strategy", "preference"].index(missing)
        assert said(row) == said(full)[:place] + said(full)[place + 1 :]
        assert "The conversation:" in asked(row)[0], "the next question opens the conversation"
        heading = "Two replies" if missing == "preference" else f"The {missing} step:"
        assert heading not in "".join(asked(row))

    def test_without_any_label_there_is_no_row(self, words: ChatTokenizer) -> None:
        bare = item(4, labels=Labels())
        for kind in ("unified", "prm", "orm"):
            assert list(rows(bare, RowSettings(kind=kind))) == []  # type: ignore[arg-type]
        made = make([bare, item(5, candidate=None), item(6)], RowSettings(), words, 4096)
        assert made.counts["items without a row"] == 2 and made.counts["rows"] == 1

    def test_a_judge_of_steps_needs_no_preference_and_one_of_replies_no_steps(self) -> None:
        pair = item(7, labels=Labels(preference="both"))
        assert list(rows(pair, RowSettings(kind="prm"))) == [] and len(list(rows(pair, RowSettings(kind="orm")))) == 1
        assert len(said(next(rows(pair, RowSettings(kind="unified"))))) == 1


class TestOrder:
    def test_the_order_depends_on_seed_and_item_and_is_even(self) -> None:
        first = [next(rows(item(n), RowSettings())).candidate_first for n in range(400)]
        again = [next(rows(item(n), RowSettings())).candidate_first for n in range(400)]
        other = [next(rows(item(n), RowSettings(seed=1))).candidate_first for n in range(400)]
        assert first == again != other
        assert 160 < sum(first) < 240

    def test_both_orders_on_request(self) -> None:
        one = item(8, labels=Labels(preference="candidate"))
        there, back = rows(one, RowSettings(orders="both", reasons=0))
        assert said(there) == ["The first sentence is better."] and said(back) == ["The second sentence is better."]
        assert len(list(rows(item(8), RowSettings(kind="prm", orders="both")))) == 3, "a step alone has no order"

    def test_a_label_by_origin_becomes_a_place(self) -> None:
        for number in range(20):
            one = item(number)
            assert one.labels.preference
            (row,) = rows(one, RowSettings(kind="orm", reasons=0))
            assert said(row) == [PAIR_WORDS["en"][choice_of(one.labels.preference, row.candidate_first)]]


class TestReasons:
    def test_human_labels_come_without_reasons(self) -> None:
        assert all(len(text.split(". ")) == 1 for text in said(next(rows(item(9), RowSettings(reasons=1)))))

    def test_the_share_of_reasons_is_kept_item_by_item(self, silver: list[Item]) -> None:
        made = [next(rows(one, RowSettings(reasons=0.5))) for one in silver]
        share = sum(row.reasoned for row in made) / len(made)
        assert 0.35 < share < 0.65
        for row in made:
            bare = [
                text in (*STEP_WORDS[row.item.language].values(), *PAIR_WORDS[row.item.language].values())
                for text in said(row)
            ]
            assert all(bare) if not row.reasoned else not any(bare)

    def test_a_verdict_is_read_the_same_with_and_without_its_reason(self, silver: list[Item]) -> None:
        for one in silver:
            for with_reason, bare in zip(
                said(next(rows(one, RowSettings(reasons=1)))),
                said(next(rows(one, RowSettings(reasons=0)))),
                strict=True,
            ):
                assert with_reason.startswith(bare) and len(with_reason) > len(bare)
                read = read_step if bare in STEP_WORDS[one.language].values() else read_pair
                assert read(with_reason) == read(bare) is not None

    def test_they_are_in_the_item_s_language_short_and_varied(self, silver: list[Item]) -> None:
        seen: Counter[str] = Counter()
        for one in silver:
            for question in ("history", "emotion", "strategy", "preference"):
                text = reason(one, question, True, Random(one.id))
                assert text and len(text) < 120 and "{" not in text
                assert any("\u4e00" <= letter <= "\u9fff" for letter in text) == (one.language == "zh")
                seen[text] += 1
        assert len(seen) > 100 and seen.most_common(1)[0][1] < 0.05 * seen.total()

    def test_they_say_what_the_trace_knows(self, silver: list[Item]) -> None:
        checked = Counter[str]()
        for one in silver:
            trace = one.trace["silver"]
            if one.language == "zh" or one.candidate is None or one.candidate.reasoning is None:
                continue
            for draw in range(6):
                stage = reason(one, "history", True, Random(draw)) or ""
                if trace.get("history", {}).get("wrong") == "stage":
                    assert one.candidate.reasoning.history.stage in stage.lower()
                    checked["stage"] += 1
                feeling = reason(one, "emotion", True, Random(draw)) or ""
                if trace.get("emotion", {}).get("wrong") == "emotion":
                    assert one.candidate.reasoning.emotion.emotion in feeling.lower()
                    checked["emotion"] += 1
                if one.labels.preference == "reference":
                    for first in (True, False):
                        worse = "first" if first else "second"
                        assert f"{worse} one" in (reason(one, "preference", first, Random(draw)) or "")
                    checked["pair"] += 1
        assert min(checked.values()) > 0 and set(checked) == {"stage", "emotion", "pair"}

    def test_nothing_is_claimed_that_the_label_contradicts(self, silver: list[Item]) -> None:
        one = next(one for one in silver if one.labels.history is True)
        doubted = msgspec.structs.replace(one, labels=msgspec.structs.replace(one.labels, history=False))
        assert reason(doubted, "history", True, Random(0)) is None


class TestRepeating:
    def test_rows_with_a_false_step_come_more_often(self) -> None:
        false = item(10, labels=Labels(history=False, emotion=True, strategy=True, preference="both"))
        true = item(11, labels=Labels(history=True, emotion=True, strategy=True, preference="both"))
        assert (
            len(list(rows(false, RowSettings(repeat_false=3)))) == 3
            and len(list(rows(true, RowSettings(repeat_false=3)))) == 1
        )
        alone = Counter(row.question for row in rows(false, RowSettings(kind="prm", repeat_false=3)))
        assert alone == {"history": 3, "emotion": 1, "strategy": 1}

    def test_a_broken_factor_is_kept_on_average(self) -> None:
        labels = Labels(history=False)
        count = sum(len(list(rows(item(n, labels=labels), RowSettings(repeat_false=1.5)))) for n in range(200))
        assert 270 < count < 330


class TestLength:
    def test_the_oldest_turns_go_first_and_no_more_than_needed(self, words: ChatTokenizer) -> None:
        turns = tuple(PastTurn("seeker" if n % 2 == 0 else "supporter", f"turn number {n} of this") for n in range(11))
        (row,) = rows(item(12, history=turns), RowSettings())
        whole = len(encode(chat(row), words))
        made = fit(row, words, whole - 60)
        assert made is not None
        example, lost = made
        assert 0 < lost < 10 and len(example) <= whole - 60
        assert len(encode(chat(row, lost - 1), words)) > whole - 60, "one turn less would not have done"
        text = words.tokenizer.decode(example.ids)
        assert f"turn number {lost - 1} " not in text and "turn number 10" in text
        assert "(earlier turns are left out)" in text

    def test_what_cannot_fit_is_counted_and_left_out(self, words: ChatTokenizer) -> None:
        long = item(13, reference="word " * 3000)
        made = make([long, item(14)], RowSettings(), words, 2000)
        assert made.counts["rows too long"] == 1 and made.counts["rows"] == 1 and len(made.examples) == 1

    def test_shortened_rows_are_counted(self, words: ChatTokenizer) -> None:
        turns = tuple(PastTurn("seeker", f"turn number {n} " * 20) for n in range(9))
        made = make([item(15, history=turns), item(16)], RowSettings(), words, 1300)
        assert made.counts["rows shortened"] == 1 and all(len(example) <= 1300 for example in made.examples)
        assert made.languages == {"en"} and made.label_sources == {"human"} and made.licences == {"CC0"}
