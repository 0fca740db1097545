"""A judge behind any chat model: the same conversation, asked turn by turn.

    judge = ChatJudge(open_model("openai:gpt-4o", base_url=…))      a baseline with the same prompts
    judge = ChatJudge(Embedded("judge.gguf", precise=True))         a trained judge in llama.cpp

How a verdict and its probability are found depends on the model:

- llama.cpp (embedded, or its server) gives exact token probabilities (`models.weighing`): one short request per point
  where the answers part, nothing is generated.
- vLLM and local models decode under a grammar, so the answer is always a verdict.
- Any other server answers freely. The verdict is what the answer begins with, read leniently, and a probability is
  given only where the reported tokens agree with it.

Outside llama.cpp, probabilities come from the likeliest tokens that the server reports, with three approximations:
tokens are matched by text (the longest that an answer begins with); an answer whose token is not reported has
probability 0; answers that begin with the same token ("The first", "The second") divide its probability as the next
token says. A model with a grammar is asked to write that beginning if it did not; for others the parts are equal.

The verdict enters the conversation in the paper's words, whatever was written around it, so that all judges hold the
same conversation. An answer that is not a verdict stays as it is.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from compeer.models.checkpoint import model_sha256
from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.request import Answer, Model, ModelError, NoAnswer, Place, Request, TooLong, images_of
from compeer.models.weighing import Weigher, weigher
from compeer.models.weights import remembered_sha256
from compeer.reasoning import begins_with_thinking
from compeer.reasoning.grammar import Literal, OneOf, Prose
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case, halve
from compeer.reward.conversation import JudgeThread, messages, threads
from compeer.reward.judge import Judgement, OpenCase, Orders, prompts_sha256, shown_orders
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, K, Kind, likeliest, read_pair, read_step

Messages = Sequence[dict[str, Any]]
_VERDICT, _REASON = 24, 60  # tokens
_ALTERNATIVES = 20  # tokens per place that OpenAI and vLLM report


class ChatJudge:
    """A judge that asks a chat model. `concurrency` is the number of cases in flight."""

    def __init__(self, model: Model, kind: Kind = "unified", *, concurrency: int = 16, explain: bool = False) -> None:
        self.model, self.explain = model, explain
        self.kind: Kind = kind
        self.name = model.name
        self.concurrency = concurrency
        self._weigher: Weigher | None = None  # of a model with exact probabilities; it knows the verdicts' tokens

    async def identity(self) -> Mapping[str, Any]:
        known: dict[str, Any] = {"kind": self.kind, "prompts": prompts_sha256(self.kind)}
        if isinstance(self.model, Embedded):
            adapter = self.model.adapter
            return known | {
                "home": "llama.cpp",
                "precise": self.model.precise,
                "weights": await asyncio.to_thread(remembered_sha256, self.model.file()),
                "adapter": await asyncio.to_thread(model_sha256, str(adapter)) if adapter else None,
            }
        name = self.model.model if isinstance(self.model, Endpoint) else self.model.name
        return known | {"home": "asked", "model": name}

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        self._weigher = self._weigher or await weigher(self.model)
        gate = asyncio.Semaphore(self.concurrency)

        async def one(case: Case) -> Judgement:
            async with gate:
                return await self._judge(case, orders)

        return list(await asyncio.gather(*(one(case) for case in cases)))

    async def close(self) -> None:
        await self.model.close()

    async def _judge(self, case: Case, orders: Orders) -> Judgement:
        """One case, shortened as long as the model says that it is too long."""
        opened = OpenCase(case)
        try:
            while True:
                try:
                    await self._hold_threads(opened, shown_orders(case, orders))
                    break
                except TooLong:
                    opened = OpenCase(halve(opened.case))
        except ModelError as error:
            opened.failure = f"{error.kind}: {error}" if isinstance(error, NoAnswer) else str(error)
        return opened.judgement()

    async def _hold_threads(self, opened: OpenCase, shown: Sequence[bool]) -> None:
        """All conversations of a case. Shared turns are asked once."""
        answers: list[str] = []
        for first in shown[:1] if self.kind == "prm" else shown:
            for thread in threads(opened.case, self.kind, first):
                answers = await self._ask_turns(opened, thread, [] if self.kind == "prm" else answers)

    async def _ask_turns(self, opened: OpenCase, thread: JudgeThread, answers: list[str]) -> list[str]:
        """Ask the turns that have no answer yet; the answers about steps, for the other order of the pair."""
        answers = answers[: sum(turn.question != "preference" for turn in thread.turns)]
        for turn in thread.turns[len(answers) :]:
            chat, pair = messages(thread, answers), turn.question == "preference"
            verdict, shares, said, reason = await self._ask_verdict(chat, opened.case.language, pair=pair)
            opened.record(turn.question, thread.candidate_first, verdict, shares, reason)
            answers = answers if pair else [*answers, said]  # the pair is the last question
        return answers

    async def _ask_verdict(
        self, chat: list[dict[str, Any]], language: Language, *, pair: bool
    ) -> tuple[Any, dict[Any, float], str, str]:
        """The verdict, the probability of each option, the text that enters the conversation, and the reason."""
        words: dict[Any, str] = dict(PAIR_WORDS[language] if pair else STEP_WORDS[language])
        if self._weigher is not None and not images_of(chat):
            told = await self._weigher.weigh(chat, list(words.values()))
            shares = {key: told[text] for key, text in words.items()}
            verdict = likeliest(shares)
            return verdict, shares, words[verdict], await self._ask_reason(chat, words[verdict], language)
        grammar = not isinstance(self.model, Endpoint) or await self.model.dialect() != "openai"
        max_tokens = _VERDICT + (_REASON if self.explain and not grammar else 0)
        shares, answer = await reported_probabilities(self.model, chat, words, grammar=grammar, max_tokens=max_tokens)
        verdict = read_pair(answer.text) if pair else read_step(answer.text)
        if grammar and shares:
            verdict = likeliest(shares)
        elif shares and likeliest(shares) != verdict:
            shares = {}
        if verdict is None:
            return None, {}, answer.text[:200] or "?", ""
        if grammar:
            return verdict, shares, words[verdict], await self._ask_reason(chat, words[verdict], language)
        reason = _without_verdict(answer.text, words[verdict]) if self.explain else ""
        return verdict, shares, words[verdict], reason

    async def _ask_reason(self, chat: list[dict[str, Any]], verdict: str, language: Language) -> str:
        """A sentence after a verdict that was read without being generated."""
        if not self.explain:
            return ""
        space = (OneOf((" ",)),) if language == "en" else ()
        plan = (Literal(verdict), *space, Prose(language, 0, 240))
        answer = await self.model.ask(Request(messages=chat, max_tokens=_VERDICT + _REASON, temperature=0.0, plan=plan))
        return answer.text.removeprefix(verdict).strip()


def _without_verdict(text: str, verdict: str) -> str:
    """The rest of an answer that begins with a verdict, however it was written."""
    text = text.strip()
    if text.startswith(verdict):
        return text.removeprefix(verdict).strip()
    _, end, rest = text.partition("." if verdict.isascii() else "。")
    return rest.strip() if end else ""


async def reported_probabilities(
    model: Model, chat: Messages, options: Mapping[K, str], *, grammar: bool, max_tokens: int
) -> tuple[dict[K, float], Answer]:
    """The probabilities as far as the model reports them (empty if it does not), and its answer.

    `grammar`: whether the model can be held to the given options.
    """
    request = Request(
        messages=chat,
        max_tokens=max_tokens,
        temperature=0.0,
        plan=(OneOf(tuple(options.values())),),
        logprobs=_ALTERNATIVES,
    )
    answer = await model.ask(request)
    if begins_with_thinking(answer.text):
        return {}, answer  # the first tokens are thoughts
    rests = {key: text.encode() for key, text in options.items()}
    shares, undecided = _divide(rests, _places(answer))
    if grammar and undecided:
        # these answers go on together: have the model write what they have in common
        beginning = _common_beginning([options[key] for key in undecided])
        parts = (Literal(beginning), OneOf(tuple(options[key][len(beginning) :] for key in undecided)))
        again = await model.ask(msgspec.structs.replace(request, plan=parts))
        # a model that reports its first token alone was given the beginning; the others wrote it
        places = _places_after(again.places, beginning.encode()) if again.places else _places(again)
        inner, _ = _divide({key: rests[key][len(beginning.encode()) :] for key in undecided}, places)
        whole = sum(shares[key] for key in undecided)
        if sum(inner.values()) > 0:
            shares |= {key: whole * inner[key] for key in undecided}
    return (shares if sum(shares.values()) > 0 else {}), answer


def _divide(rests: Mapping[K, bytes], places: Sequence[Place]) -> tuple[dict[K, float], list[K]]:
    """The share of each answer, and the answers whose shares are equal parts because no later place is known."""
    if not places:
        return dict.fromkeys(rests, 0.0), []
    by_token: dict[bytes, list[K]] = {}
    likely: dict[bytes, float] = {}
    left: dict[K, bytes] = {}
    for key, rest in rests.items():
        if found := _matching_token(rest, places[0].alternatives):
            token, value, left[key] = found
            by_token.setdefault(token, []).append(key)
            likely[token] = math.exp(value)
    whole = sum(likely.values())
    shares, undecided = dict.fromkeys(rests, 0.0), list[K]()
    for token, keys in by_token.items():
        inner = {key: 1.0 / len(keys) for key in keys}
        if len(keys) > 1:
            written = places[0].token == token and len(places) > 1
            deeper, still = _divide({key: left[key] for key in keys}, places[1:]) if written else (inner, keys)
            if sum(deeper.values()) > 0:
                inner, undecided = deeper, [*undecided, *still]
        shares |= {key: likely[token] / whole * inner[key] for key in keys}
    return shares, undecided


def _matching_token(rest: bytes, alternatives: Sequence[tuple[bytes, float]]) -> tuple[bytes, float, bytes] | None:
    """The longest token that the text begins with, its value, and what is left. A leading space is ignored."""
    fitting = [(token, value, rest[len(token) :]) for token, value in alternatives if token and rest.startswith(token)]
    if not fitting:
        bare = [(token, value, token.lstrip(b" ")) for token, value in alternatives]
        fitting = [(token, value, rest[len(word) :]) for token, value, word in bare if word and rest.startswith(word)]
    return min(fitting, key=lambda found: len(found[2]), default=None)


def _places(answer: Answer) -> tuple[Place, ...]:
    """The places of an answer; some models report only the first."""
    if answer.places or not answer.first:
        return answer.places
    first = tuple((token.encode(), value) for token, value in answer.first)
    written = next((token for token, _ in first if answer.text.encode().startswith(token)), b"")
    return (Place(written, first),)


def _places_after(places: Sequence[Place], beginning: bytes) -> Sequence[Place]:
    """The places after this beginning; none when it was not written."""
    written = b""
    for number, place in enumerate(places):
        if written.lstrip(b" ") == beginning:
            return places[number:]
        written += place.token
    return ()


def _common_beginning(texts: Sequence[str]) -> str:
    """What all texts begin with, without a final space, which belongs to the next token."""
    length = next(
        (at for at, signs in enumerate(zip(*texts, strict=False)) if len(set(signs)) > 1), min(map(len, texts))
    )
    return texts[0][:length].rstrip()
