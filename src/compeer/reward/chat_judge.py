"""A judge behind any chat model: the same conversation, asked turn by turn.

    judge = AskedJudge(open_model("openai:gpt-4o", base_url=…))      a baseline with the same prompts
    judge = AskedJudge(Embedded("judge.gguf", precise=True))         a trained judge in llama.cpp

Where llama.cpp answers, the verdicts are weighed exactly as a local judge weighs them. vLLM and local models keep to
a grammar, so a verdict is certain. Of any other server the verdict is what its answer begins with, read leniently; its
probability is given where the tokens it tells agree with that (`weigh` says what is approximated). The verdict goes
into the conversation in the paper's words, whatever was said around it, so that all homes hold the same conversation.
An answer that is no verdict stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from compeer.cer.item import QUESTIONS
from compeer.models.cache import CachedModel
from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.request import Model, ModelError, Request, TooLong, images_of
from compeer.models.weighing import Weigher, weigher
from compeer.models.weights import locate
from compeer.reasoning.grammar import Literal, OneOf, Prose
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case, shorter
from compeer.reward.conversation import Thread, messages, threads
from compeer.reward.identity import file_sha256, model_sha256, prompts_sha256
from compeer.reward.judge import Judgement, Orders, PairVerdict, StepVerdict, shown_orders
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind, preference_of, read_pair, read_step
from compeer.reward.verdict_trie import Trie, likeliest, option_trie, told, weighed

_VERDICT, _REASON = 24, 60  # tokens


class AskedJudge:
    """A judge that holds its conversation with a model of any home. `concurrency` is cases at a time."""

    def __init__(self, model: Model, kind: Kind = "unified", *, concurrency: int = 16, explain: bool = False) -> None:
        self.model, self.explain = model, explain
        self._home = model.model if isinstance(model, CachedModel) else model
        self.kind: Kind = kind
        self.name = model.name
        self.concurrency = concurrency
        self._tries: dict[tuple[Language, bool], Trie[Any]] = {}

    async def identity(self) -> Mapping[str, Any]:
        told: dict[str, Any] = {"kind": self.kind, "prompts": prompts_sha256(self.kind)}
        if isinstance(self._home, Embedded):
            adapter = self._home.adapter
            return told | {
                "home": "llama.cpp",
                "precise": self._home.precise,
                "weights": await asyncio.to_thread(file_sha256, locate()),
                "adapter": await asyncio.to_thread(model_sha256, str(adapter)) if adapter else None,
            }
        name = self._home.model if isinstance(self._home, Endpoint) else self._home.name
        return told | {"home": "asked", "model": name}

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        home = await weigher(self._home)
        gate = asyncio.Semaphore(self.concurrency)

        async def one(case: Case) -> Judgement:
            async with gate:
                return await self._judge(home, case, orders)

        return list(await asyncio.gather(*(one(case) for case in cases)))

    async def close(self) -> None:
        await self.model.close()

    async def _judge(self, home: Weigher | None, case: Case, orders: Orders) -> Judgement:
        """One case, shorter when the model says that it is too long."""
        found = _Found(case)
        try:
            while True:
                try:
                    await self._hold(home, found, found.case, orders)
                    break
                except TooLong:
                    found = _Found(shorter(found.case))
        except ModelError as error:
            found.failure = str(error)
        return found.judgement(shown_orders(case, orders))

    async def _hold(self, home: Weigher | None, found: _Found, case: Case, orders: Orders) -> None:
        """All conversations of a case. Turns that two of them share are asked once."""
        if self.kind == "prm":
            for thread in threads(case, "prm", candidate_first=True):
                await self._turns(home, found, case, thread, [])
            return
        answers: list[str] = []
        for first in shown_orders(case, orders):
            for thread in threads(case, self.kind, first):
                answers = await self._turns(home, found, case, thread, answers)

    async def _turns(
        self, home: Weigher | None, found: _Found, case: Case, thread: Thread, answers: list[str]
    ) -> list[str]:
        """Ask the turns that have no answer yet; the answers to steps, for another order of the pair."""
        answers = answers[: sum(turn.question != "preference" for turn in thread.turns)]
        for turn in thread.turns[len(answers) :]:
            chat = messages(thread, answers)
            if turn.question == "preference":
                choice, shares, said, reason = await self._verdict(home, chat, case.language, pair=True)
                found.pair(thread.candidate_first, choice, shares, reason)
                break
            value, shares, said, reason = await self._verdict(home, chat, case.language, pair=False)
            found.steps[turn.question] = StepVerdict(value, shares.get(True), reason)
            answers = [*answers, said]
        return answers

    async def _verdict(
        self, home: Weigher | None, chat: list[dict[str, Any]], language: Language, *, pair: bool
    ) -> tuple[Any, dict[Any, float], str, str]:
        """The verdict, the share of each option, what goes into the conversation, and the reason."""
        words: dict[Any, str] = dict(PAIR_WORDS[language] if pair else STEP_WORDS[language])
        if home is not None and not images_of(chat):
            if (language, pair) not in self._tries:
                self._tries[language, pair] = await option_trie(home, words)
            shares = await weighed(home, chat, self._tries[language, pair])
            verdict = likeliest(shares)
            return verdict, shares, words[verdict], await self._reason(chat, words[verdict], language)
        grammar = not isinstance(self._home, Endpoint) or await self._home.dialect() != "openai"
        room = _VERDICT + (_REASON if self.explain and not grammar else 0)
        shares, answer = await told(self.model, chat, words, grammar=grammar, max_tokens=room)
        read = read_pair(answer.text) if pair else read_step(answer.text)
        if grammar and shares:
            read = likeliest(shares)
        elif shares and likeliest(shares) != read:
            shares = {}
        if read is None:
            return None, {}, answer.text[:200] or "?", ""
        if grammar:
            return read, shares, words[read], await self._reason(chat, words[read], language)
        return read, shares, words[read], _without_verdict(answer.text, words[read]) if self.explain else ""

    async def _reason(self, chat: list[dict[str, Any]], verdict: str, language: Language) -> str:
        """A sentence after a verdict that was read without being written."""
        if not self.explain:
            return ""
        space = (OneOf((" ",)),) if language == "en" else ()
        plan = (Literal(verdict), *space, Prose(language, 0, 240))
        answer = await self.model.ask(Request(messages=chat, max_tokens=_VERDICT + _REASON, temperature=0.0, plan=plan))
        return answer.text.removeprefix(verdict).strip()


class _Found:
    """The verdicts on one case so far."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.steps: dict[str, StepVerdict] = {}
        self.pairs: dict[bool, PairVerdict] = {}
        self.failure: str | None = None

    def pair(self, first: bool, choice: Any, shares: dict[Any, float], reason: str) -> None:
        by_origin = {preference_of(key, first): share for key, share in shares.items()}
        preference = None if choice is None else preference_of(choice, first)
        self.pairs[first] = PairVerdict(first, preference, by_origin, reason)

    def judgement(self, orders: Sequence[bool]) -> Judgement:
        first, second, third = (self.steps.get(question, StepVerdict()) for question in QUESTIONS[:3])
        return Judgement(
            id=self.case.id,
            complete=self.case.complete,
            steps=(first, second, third),
            pairs=tuple(self.pairs[order] for order in orders if order in self.pairs),
            failure=self.failure,
        )


def _without_verdict(text: str, verdict: str) -> str:
    """The rest of an answer that begins with a verdict, however it was written."""
    text = text.strip()
    if text.startswith(verdict):
        return text.removeprefix(verdict).strip()
    _, end, rest = text.partition("." if verdict.isascii() else "。")
    return rest.strip() if end else ""
