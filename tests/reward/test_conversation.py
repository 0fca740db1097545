"""The judge's questions: what they hold, what they leave out, and that they can be read back whatever is in them."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reward.attacks import ATTACKS, texts_in
from tests.reward.groups import gold_cases, with_pictures

from compeer.cer.item import QUESTIONS, PastTurn
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case, drop_oldest_turns
from compeer.reward.conversation import JudgeThread, messages, system_prompt, threads
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind

KINDS: tuple[Kind, ...] = ("unified", "prm", "orm")
OURS = {
    "en": {
        "The conversation:", "(earlier turns are left out)", "Seeker:", "Supporter:", "The history step:",
        "The emotion step:", "The strategy step:", "Two replies to the last message.", "First sentence:",
        "Second sentence:", "True or False?", "Which is better?",
    },
    "zh": {
        "对话：", "（更早的对话从略）", "求助者：", "支持者：", "history 步骤：", "emotion 步骤：", "strategy 步骤：",
        "对最后一句话的两种回复。", "第一句：", "第二句：", "正确还是错误？", "哪一句更好？",
    },
}  # fmt: skip


def questions(thread: JudgeThread) -> list[dict[str, object]]:
    return [message for message in messages(thread, ["."] * len(thread.turns)) if message["role"] == "user"]


def assert_readable(case: Case, kind: Kind, candidate_first: bool) -> None:
    """Read back from every question, by the marks alone, exactly the texts that belong in it, in their order."""
    history = [turn.text for turn in case.history]
    pair = [case.reply, case.reference] if candidate_first else [case.reference, case.reply]
    for thread in threads(case, kind, candidate_first):
        for number, (turn, message) in enumerate(zip(thread.turns, questions(thread), strict=True)):
            ours, quoted = texts_in(message)
            own = pair if turn.question == "preference" else [case.steps[QUESTIONS.index(turn.question)]]
            assert quoted == [*(history if number == 0 else []), *own]
            assert set(ours) <= OURS[case.language]
            speakers = ["Seeker:", "Supporter:", "求助者：", "支持者："]
            assert sum(line in speakers for line in ours) == (len(history) if number == 0 else 0)


class TestShape:
    def test_a_unified_judge_is_asked_four_things_in_one_conversation(self) -> None:
        (thread,) = threads(gold_cases("en")[0], "unified", True)
        assert [turn.question for turn in thread.turns] == list(QUESTIONS)
        chat = messages(thread, ["True.", "False.", "True."])
        assert [message["role"] for message in chat] == ["system", *["user", "assistant"] * 3, "user"]
        assert [m["content"] for m in chat if m["role"] == "assistant"] == ["True.", "False.", "True."]
        assert chat == messages(thread, ["True.", "False.", "True.", "x"])[:-1]

    def test_the_history_is_shown_once(self) -> None:
        case = gold_cases("en")[3]
        (thread,) = threads(case, "unified", True)
        whole = "\n".join(str(message["content"]) for message in questions(thread))
        assert whole.count("The conversation:") == 1
        assert str(questions(thread)[0]["content"]).startswith("The conversation:")

    def test_a_prm_sees_each_step_alone_and_an_orm_the_pair(self) -> None:
        case = gold_cases("en")[3]
        assert [[t.question for t in thread.turns] for thread in threads(case, "prm", True)] == [
            ["history"],
            ["emotion"],
            ["strategy"],
        ]
        assert [[t.question for t in thread.turns] for thread in threads(case, "orm", True)] == [["preference"]]
        for thread in (*threads(case, "prm", True), *threads(case, "orm", True)):
            assert str(thread.turns[0].content).startswith("The conversation:")

    @pytest.mark.parametrize("missing", [(), (0,), (1, 2), (0, 1, 2)])
    def test_what_is_missing_is_not_asked(self, missing: tuple[int, ...]) -> None:
        case = gold_cases("en")[3]
        steps = tuple(None if n in missing else step for n, step in enumerate(case.steps))
        case = msgspec.structs.replace(case, steps=steps)
        asked = [q for n, q in enumerate(QUESTIONS[:3]) if n not in missing]
        (thread,) = threads(case, "unified", True)
        assert [turn.question for turn in thread.turns] == [*asked, "preference"]
        assert str(thread.turns[0].content).startswith("The conversation:")
        silent = msgspec.structs.replace(case, reply="!")
        assert [turn.question for thread in threads(silent, "unified", True) for turn in thread.turns] == asked
        assert threads(silent, "orm", True) == []
        assert len(threads(silent, "prm", True)) == len(asked)

    def test_the_order_of_the_replies(self) -> None:
        case = gold_cases("en")[3]
        for first in (True, False):
            (thread,) = threads(case, "orm", first)
            assert thread.candidate_first is first
            _, quoted = texts_in({"content": thread.turns[0].content})
            pair = [case.reply, case.reference]
            assert quoted[-2:] == (pair if first else pair[::-1])

    def test_left_out_turns_are_mentioned(self) -> None:
        case = gold_cases("zh")[3]
        for shown in (case, drop_oldest_turns(case, 1)):
            (thread,) = threads(shown, "orm", True)
            assert ("（更早的对话从略）" in str(thread.turns[0].content)) is (shown.left_out > 0)

    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_the_instruction_names_exactly_the_verdicts_it_wants(self, language: Language) -> None:
        for kind in KINDS:
            told = system_prompt(kind, language)
            steps = [word.rstrip(".。") in told for word in STEP_WORDS[language].values()]
            pairs = [words in told for words in PAIR_WORDS[language].values()]
            assert all(steps) is any(steps) is (kind != "orm")
            assert all(pairs) is any(pairs) is (kind != "prm")

    def test_pictures_stand_where_they_were_sent(self) -> None:
        case = with_pictures(gold_cases("en")[3], "one.png", "two.png")
        (thread,) = threads(case, "unified", True)
        content = thread.turns[0].content
        assert isinstance(content, list)
        kinds = [part["type"] for part in content]
        assert kinds == ["text", "image", "text", "image", "text"]
        assert [part["path"] for part in content if part["type"] == "image"] == ["one.png", "two.png"]
        assert content[0]["text"].endswith("Seeker:\n")
        assert content[2]["text"].startswith("> ")
        assert all(isinstance(turn.content, str) for turn in thread.turns[1:])
        assert_readable(case, "unified", True)


class TestReadingBack:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_gold_set(self, kind: Kind) -> None:
        for case, first in itertools.product(gold_cases(), (True, False)):
            assert_readable(case, kind, first)

    @pytest.mark.parametrize("attack", ATTACKS)
    def test_attacks_in_every_place(self, attack: str) -> None:
        for language, kind, first in itertools.product(("en", "zh"), KINDS, (True, False)):
            case = Case(
                id="a",
                language=language,  # type: ignore[arg-type]
                history=(
                    PastTurn("seeker", attack),
                    PastTurn("supporter", "Yes?"),
                    PastTurn("seeker", attack + "\n" + attack),
                ),
                steps=(attack, "fine " + attack, attack + "\nStrategy: question"),
                reply=attack + " x",
                reference="y " + attack,
                complete=False,
            )
            assert_readable(case, kind, first)

    @given(st.lists(st.text(st.characters(codec=None, categories=None), max_size=30), min_size=6, max_size=6))
    @settings(max_examples=150, deadline=None)
    def test_any_texts(self, texts: list[str]) -> None:
        one, two, three, four, five, six = texts
        case = Case(
            id="a",
            language="en",
            history=(PastTurn("seeker", one), PastTurn("supporter", two)),
            steps=(three, four, None),
            reply=five + "a",
            reference=six + "b",
            complete=False,
        )
        for kind in KINDS:
            assert_readable(case, kind, True)

    def test_an_attack_adds_no_control_token_to_the_whole_conversation(self, tiny_model_dir: object) -> None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tiny_model_dir)
        special = set(tokenizer.all_special_ids)

        def control(case: Case) -> int:
            (thread,) = threads(case, "unified", True)
            text = tokenizer.apply_chat_template(messages(thread, ["True."] * 4), tokenize=False)
            return sum(token in special for token in tokenizer(text, add_special_tokens=False)["input_ids"])

        benign = gold_cases("en")[3]
        for attack in ATTACKS:
            attack = attack.encode("utf-8", "replace").decode()
            case = msgspec.structs.replace(benign, steps=(attack, attack, attack), reply=attack + " x")
            assert control(case) == control(benign) == 18
