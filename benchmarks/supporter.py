"""The 1.5B supporter in a conversation against raw llama.cpp on the same file: same process, same server, in turn.

With thinking, since a reply without it is shown by the sentence: safety reads whole sentences before they are seen.

First visible token: from the person's message to the first word of thinking that is shown, safety included, through the
turn engine; raw: the same body handed to llama.cpp, to its first chunk. Each pair begins new conversations with the
same words, whose instruction both have read before. Reading: how many tokens a later turn reads beyond its new text.

The weights are those of `embedded` (compeer models get qwen2.5-coder-1.5b-instruct); they are not fetched here.

Tried and left out: speculative decoding by lookup (llama.cpp's n-gram drafts of 4 tokens after 3). On two cores it
wrote 12.1, 11.9, 12.8 and 7.8 tokens/s where plain decoding wrote 19.5, 13.4, 13.2 and 7.4 (cores shared with other
programs): two thirds of 117 to 194 drafted tokens were right at best, too few to pay for reading the others.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import aclosing
from typing import Any

from benchmarks.measure import Found, Missing, Ratio
from compeer.conversation.engine import Done, HistoryTurn, TurnRequest, answer, sampling_for, warm_up
from compeer.models import open_model
from compeer.models.embedded import Embedded
from compeer.models.llama_server import Prompt
from compeer.models.request import Request
from compeer.models.weights import BASE, find
from compeer.safety import ConversationGuard

SAID = (
    "I lost my job {n} weeks ago and I have not told anybody at home. Every morning I leave the house as if I went to "
    "work, and I sit in the library until it closes."
)
MORE = "Yes. My wife asked me about number {n} yesterday, and I made something up. I feel like a stranger there."
SPARE = 60  # tokens that a later turn may read beside its new text
CONVERSATIONS = 8


def run(rounds: int = 4, tokens: int = 96) -> Found:
    if find(BASE) is None:
        return [Missing(what="the 1.5B supporter", against="raw llama.cpp", reason=f"{BASE.name} is not here")]
    warm_up()
    model = open_model("embedded", slots=CONVERSATIONS + 1, context=2048 * (CONVERSATIONS + 1))
    assert isinstance(model, Embedded)
    return asyncio.run(_measured(model, rounds, tokens))


async def _measured(model: Embedded, rounds: int, tokens: int) -> Found:
    try:
        await _turn(model, _history(1000), 4)  # the instruction is read, for both
        first: dict[str, list[float]] = {"ours": [], "raw": []}
        speed: dict[str, list[float]] = {"ours": [], "raw": [], "free": []}
        for number in range(rounds):
            seconds, told = await _turn(model, _history(10 * number), tokens)
            first["ours"].append(seconds)
            speed["ours"].append(told)
            request = await _request(model, _history(10 * number + 5), tokens)
            seconds, told = await asyncio.to_thread(_raw, model, await model.prompt(request.messages), request)
            first["raw"].append(seconds)
            speed["raw"].append(told)
            plain = Request(messages=request.messages, max_tokens=tokens, temperature=request.temperature, seed=1)
            speed["free"].append((await asyncio.to_thread(_raw, model, await model.prompt(plain.messages), plain))[1])
        again, new = await _reading(model, CONVERSATIONS)
    finally:
        await model.close()
    middle = {name: statistics.median(values) for name, values in speed.items()}
    return [
        Ratio(
            what="first visible token, new conversation",
            ours=statistics.median(first["ours"]),
            theirs=statistics.median(first["raw"]),
            against="raw llama.cpp",
            unit="s",
            wanted=1.1,
            at_least=False,
        ),
        Ratio(
            what="writing, with the contract's grammar",
            ours=middle["ours"],
            theirs=middle["raw"],
            against="raw llama.cpp with the same grammar",
            unit="tokens/s",
            wanted=0.9,
        ),
        Ratio(
            what="cost of the grammar",
            ours=middle["raw"],
            theirs=middle["free"],
            against="raw llama.cpp without a grammar",
            unit="tokens/s",
            wanted=0.9,
        ),
        Ratio(
            what=f"tokens read again at a second turn, the most of {CONVERSATIONS} conversations that take turns",
            ours=max(read - text for read, text in zip(again, new, strict=True)),
            theirs=SPARE,
            against="what is allowed beside the new text",
            unit="tokens",
            wanted=1.0,
            at_least=False,
        ),
    ]


def _history(number: int) -> tuple[HistoryTurn, ...]:
    return (HistoryTurn("seeker", SAID.format(n=number)),)


async def _turn(model: Embedded, history: tuple[HistoryTurn, ...], tokens: int) -> tuple[float, float]:
    """Seconds to the first text that is shown, and the tokens per second after it."""
    asked, guard = _asked(model, history, tokens), ConversationGuard()
    began = time.perf_counter()
    shown: float | None = None
    async with aclosing(answer(model, asked, guard)) as events:
        async for event in events:
            if shown is None and getattr(event, "text", ""):
                shown = time.perf_counter()
            if isinstance(event, Done):
                usage = event.result.usage
    assert shown is not None and usage is not None
    return shown - began, usage.completion / (time.perf_counter() - shown)


def _asked(model: Embedded, history: tuple[HistoryTurn, ...], tokens: int) -> TurnRequest:
    import msgspec

    sampling = msgspec.structs.replace(sampling_for(model), think="full", max_tokens=tokens, seed=1)
    return TurnRequest(history=history, language="en", sampling=sampling)


async def _request(model: Embedded, history: tuple[HistoryTurn, ...], tokens: int) -> Request:
    from compeer.conversation.engine import TurnWriter

    return TurnWriter(model, _asked(model, history, tokens), ConversationGuard()).model_request()


def _raw(model: Embedded, prompt: Prompt, request: Request) -> tuple[float, float]:
    """The same body in a slot of its own, which has read the instruction too."""
    server, body = model.load(), model._body(request, prompt.text) | {"id_slot": model.slots - 1}
    server.complete({"prompt": prompt.head, "max_tokens": 0, "id_slot": model.slots - 1}, lambda _: False)
    began = time.perf_counter()
    arrived: list[float] = []
    last: dict[str, Any] = {}

    def deliver(chunk: dict[str, Any]) -> bool:
        arrived.append(time.perf_counter())
        last.update(chunk)
        return False

    server.complete(body, deliver)
    return arrived[0] - began, last["timings"]["predicted_n"] / (time.perf_counter() - arrived[0])


async def _reading(model: Embedded, conversations: int) -> tuple[list[int], list[int]]:
    """Tokens read at the second turn of several conversations that take turns, and tokens of their new text."""
    guard = ConversationGuard()
    histories: list[tuple[HistoryTurn, ...]] = []
    read: list[int] = []
    new: list[int] = []
    for number in range(conversations):
        histories.append(_history(2000 + number))
        async with aclosing(answer(model, _asked(model, histories[-1], 160), guard)) as events:
            async for event in events:
                if isinstance(event, Done):
                    reply = HistoryTurn("supporter", event.result.reply or "I see.")
                    histories[-1] += (reply, HistoryTurn("seeker", MORE.format(n=number)))
    for history in histories:
        async with aclosing(answer(model, _asked(model, history, 4), guard)) as events:
            async for event in events:
                if isinstance(event, Done) and (usage := event.result.usage):
                    read.append(usage.prompt - usage.cached)
        said = "".join(turn.text for turn in history[1:])
        new.append(len(model.load().request("POST", "/tokenize", {"content": said})["tokens"]))
    return read, new
