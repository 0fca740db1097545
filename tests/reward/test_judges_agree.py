"""The embedded model's own weights in transformers and in llama.cpp: the same tokens, the same verdicts."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.reward.groups import gold_cases

from compeer.models.embedded import Embedded, chatml
from compeer.models.weighing import Weigher
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case, drop_oldest_turns
from compeer.reward.chat_judge import ChatJudge
from compeer.reward.conversation import messages, threads
from compeer.reward.judge import Judgement
from compeer.reward.local_judge import LocalJudge


@pytest.fixture(scope="module")
def embedded() -> Embedded:
    return Embedded(slots=1, context=4096, precise=True)


@pytest.fixture(scope="module")
def local() -> LocalJudge:
    return LocalJudge("embedded:small", device="cpu")


def shortest(language: Language) -> Case:
    """The least to read."""

    def size(case: Case) -> int:
        return sum(len(turn.text) for turn in case.history) + sum(len(step or "") for step in case.steps)

    return drop_oldest_turns(min(gold_cases(language), key=size), 99)


def test_both_homes_read_the_same_tokens(embedded: Embedded, local: LocalJudge) -> None:
    tokenizer = local.load().rendering.tokenizer
    signs = "ab 12½①Ⅷ٣é正。\n\t.,'’“😀-_ \u00a0\u3000s<\\|"
    rng = random.Random(1)
    texts = ["".join(rng.choices(signs, k=200)) for _ in range(5)]
    for language in ("en", "zh"):
        for case in gold_cases(language)[:10]:
            (thread,) = threads(case, "unified", True)
            chat = messages(thread, ["True."] * 3)
            rendered = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            assert rendered == chatml(chat)
            texts += [str(message["content"]) for message in chat]
    home = Weigher(embedded)

    async def tokens() -> list[list[int]]:
        return [await home.tokenize(text) for text in texts]

    for text, found in zip(texts, asyncio.run(tokens()), strict=True):
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == found, text


def test_both_homes_come_to_the_same_verdicts(embedded: Embedded, local: LocalJudge) -> None:
    cases = [shortest("en"), shortest("zh")]

    async def scenario() -> tuple[list[Judgement], list[Judgement]]:
        return await local.judge(cases), await ChatJudge(embedded).judge(cases)

    for mine, theirs in zip(*asyncio.run(scenario()), strict=True):
        assert (mine.failure, theirs.failure) == (None, None)
        assert [step.value for step in mine.steps] == [step.value for step in theirs.steps]
        assert [step.p for step in mine.steps] == [pytest.approx(step.p, abs=0.03) for step in theirs.steps]
        assert mine.preference == theirs.preference
        assert mine.pairs[0].p == pytest.approx(theirs.pairs[0].p, abs=0.03)
