"""Embedded decoding through our interface against raw xllamacpp: same process, same server, same requests, in turn."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from benchmarks.measure import Ratio
from compeer.models.embedded import Embedded, chatml
from compeer.models.request import Request
from compeer.reasoning.grammar import plan

HISTORY = [{"role": "user", "content": "I just lost my job and I feel worthless."}]


def run(rounds: int = 6, tokens: int = 200) -> list[Ratio]:
    model = Embedded()
    server = model.load()
    free = Request(messages=HISTORY, max_tokens=tokens, temperature=1.0, seed=1)
    ruled = Request(messages=HISTORY, max_tokens=tokens, temperature=1.0, seed=1, plan=plan("en"))
    results = []
    for name, request in (("free", free), ("with the contract's grammar", ruled)):
        _raw(server, model, request)  # the prompt is now in the cache for both
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_ours(model, request))
            theirs.append(_raw(server, model, request))
        results.append(
            Ratio(
                what=f"embedded decoding, {name}",
                ours=statistics.median(ours),
                theirs=statistics.median(theirs),
                against="raw xllamacpp",
                unit="tokens/s",
                wanted=0.9,
            )
        )
    free_speed, ruled_speed = results[0].ours, results[1].ours
    results.append(
        Ratio(what="cost of the grammar", ours=ruled_speed, theirs=free_speed, against="ours, free", unit="tokens/s")
    )
    return results


def _ours(model: Embedded, request: Request) -> float:
    started = time.perf_counter()
    answer = asyncio.run(model.ask(request))
    return answer.usage.completion / (time.perf_counter() - started)


def _raw(server: Any, model: Embedded, request: Request) -> float:
    """The same body, handed to xllamacpp directly, answered in one piece: the fastest way to use it."""
    body = model._body(request, chatml(request.messages)) | {"stream": False, "id_slot": 0}
    answers: list[dict[str, Any]] = []
    started = time.perf_counter()
    server.complete(body, lambda chunk: bool(answers.append(chunk)))
    written: int = answers[-1]["usage"]["completion_tokens"]
    return written / (time.perf_counter() - started)
