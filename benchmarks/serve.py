"""`compeer serve` with the embedded model against raw xllamacpp: first token, speed, eight clients at once, leaving.

The server is the installed command in a process of its own, asked over one kept connection. The raw arm calls llama.cpp
in this process with the very body that the server would hand it: same prompt (with what the screening adds to it), same
sampling, grammar, slots, context and threads. Its slot is chosen, with the instruction in it, before its time begins.
The arms take turns, each round with a message that neither has read before, so both read the same new tokens; that they
did is checked. The first token counts when its words have arrived, not the title before them.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks.measure import Ratio
from compeer.conversation.display import STEP_TITLES
from compeer.conversation.engine import Sampling, TurnWriter, warm_up
from compeer.conversation.requests import ServerSettings, asked_turn, read_request
from compeer.models.embedded import Embedded
from compeer.models.llama_server import Slots, free_cores
from compeer.safety import ConversationGuard

SLOTS, CONTEXT = 8, 8 * 4096


class Told(msgspec.Struct):
    """One answer: seconds to its first words and to its end, and tokens written. `at`: when it ended. `read`: tokens
    of its prompt, and how many of them were known already."""

    first: float
    whole: float
    tokens: int
    read: tuple[int, int] = (0, 0)
    first_at: float = 0.0
    at: float = 0.0


class Raw:
    """llama.cpp in this process, opened as the server opens it, and what was read in its slots."""

    def __init__(self) -> None:
        self.model, self.slots = Embedded(slots=SLOTS, context=CONTEXT), Slots(SLOTS)
        self.server = self.model.load()


def run(firsts: int = 40, rounds: int = 16, tokens: int = 64) -> list[Ratio]:
    os.environ["COMPEER_THREADS"] = str(free_cores())  # for both arms
    warm_up()
    raw = Raw()
    with _serving() as address:
        line = http.client.HTTPConnection(address, timeout=600)
        _in_turn(line, raw, _body(tokens), "warm", 2)
        brief = _in_turn(line, raw, _body(4), "first", firsts)  # a first token varies more than a whole answer
        long = _in_turn(line, raw, _body(tokens), "speed", rounds)
        results = [
            _against("serve: time to first token", *([t.first for t in arm] for arm in brief), "s", 1.10),
            _against("serve: tokens a second", *([_speed(t) for t in arm] for arm in long), "tokens/s", 0.9),
        ]
        return results + _crowd(address, _body(tokens))


def _in_turn(
    line: http.client.HTTPConnection, raw: Raw, body: Callable[[str], dict[str, Any]], what: str, rounds: int
) -> tuple[list[Told], list[Told]]:
    """Both arms with the same messages, neither of them always first; both must have read and written as much."""
    ours: list[Told] = []
    theirs: list[Told] = []
    for number in range(rounds):
        message = body(f"the {number}. {what}")
        if number % 2:
            theirs.append(_raw(raw, message))
        ours.append(_through(line, message))
        if not number % 2:
            theirs.append(_raw(raw, message))
        assert (ours[-1].read, ours[-1].tokens) == (theirs[-1].read, theirs[-1].tokens), (ours[-1], theirs[-1])
    return ours, theirs


def _against(what: str, ours: list[float], theirs: list[float], unit: str, wanted: float) -> Ratio:
    return Ratio(
        what=what,
        ours=statistics.median(ours),
        theirs=statistics.median(theirs),
        against="raw xllamacpp",
        unit=unit,
        wanted=wanted,
        at_least=wanted < 1,
    )


def _crowd(address: str, body: Callable[[str], dict[str, Any]], clients: int = 8) -> list[Ratio]:
    """Eight clients one after another and at once, in turn; then at once and all leaving."""
    line = http.client.HTTPConnection(address, timeout=600)
    _at_once(address, [body(f"warm {number}") | {"max_tokens": 4} for number in range(clients)])  # every slot
    alone_rates, together_rates, told, whole = [], [], [], 0.0
    for turn in range(3):
        began = time.perf_counter()
        written = sum(_through(line, body(f"alone {turn} {number}")).tokens for number in range(clients))
        alone_rates.append(written / (time.perf_counter() - began))
        began = time.perf_counter()
        told = _at_once(address, [body(f"together {turn} {number}") for number in range(clients)])
        whole = time.perf_counter() - began
        together_rates.append(sum(one.tokens for one in told) / whole)
    alone, together = statistics.median(alone_rates), statistics.median(together_rates)
    left = _left(address, [body(f"leaving {number}") for number in range(clients)])
    return [
        Ratio(
            what=f"serve: tokens a second, {clients} clients at once",
            ours=together,
            theirs=alone,
            against="one after another",
            unit="tokens/s",
            wanted=0.9,
        ),
        Ratio(
            what=f"serve: the last first token of {clients} clients",
            ours=max(one.first_at for one in told) - began,
            theirs=min(one.at for one in told) - began,
            against="the first end of one",
            unit="s",
            wanted=1.0,
            at_least=False,
        ),
        Ratio(
            what=f"serve: {clients} clients leave, until every slot is free",
            ours=left,
            theirs=whole,
            against="until they would have finished",
            unit="s",
            wanted=0.5,
            at_least=False,
        ),
    ]


def _body(tokens: int) -> Callable[[str], dict[str, Any]]:
    def body(which: str) -> dict[str, Any]:
        said = (
            f"This is {which}: I lost my job last week, I told nobody at home, and I leave every morning as if I went."
        )
        return {
            "messages": [{"role": "user", "content": said}],
            "max_tokens": tokens,
            "seed": 7,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    return body


def _through(line: http.client.HTTPConnection, body: dict[str, Any]) -> Told:
    """Ask the server and read its stream."""
    data = json.dumps(body).encode()
    first, seen, tokens, read = 0.0, 0, 0, (0, 0)
    began = time.perf_counter()
    line.request("POST", "/v1/chat/completions", data, {"Content-Type": "application/json"})
    response = line.getresponse()
    assert response.status == 200, response.read()
    title = len(STEP_TITLES["en"]["history"]) + 1
    rest = b""
    while part := response.read1():
        *events, rest = (rest + part).split(b"\n\n")
        for event in events:
            if not event.startswith(b"data: {") or (first and b'"usage":{' not in event):
                continue  # the other arm does not look at every token either
            chunk = msgspec.json.decode(event[6:])
            if usage := chunk.get("usage"):
                tokens = usage["completion_tokens"]
                read = (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])
            if not first and chunk["choices"]:
                seen += len(chunk["choices"][0]["delta"].get("reasoning", ""))
                if seen > title:
                    first = time.perf_counter()
    now = time.perf_counter()
    return Told(first - began, now - began, tokens, read, first, now)


def _raw(raw: Raw, body: dict[str, Any]) -> Told:
    """Hand llama.cpp what the server would hand it, screened beforehand: the message gives cause for care, and the
    prompt says so."""
    settings = ServerSettings(sampling=Sampling(prompt="brief", history_words=600))
    asked = asked_turn(read_request(json.dumps(body).encode()), settings, False)
    turn = TurnWriter(raw.model, asked.turn, ConversationGuard(use_locale=False))
    asyncio.run(turn.assess())
    given, prompt = asyncio.run(raw.model._prepared(turn.model_request()))
    told = Told(0.0, 0.0, 0)

    def deliver(chunk: dict[str, Any]) -> bool:
        if not told.first and chunk.get("choices") and chunk["choices"][0]["text"]:
            told.first = time.perf_counter() - began
        if timings := chunk.get("timings"):
            told.tokens, known = int(timings["predicted_n"]), int(timings["cache_n"])
            told.read = (int(timings["prompt_n"]) + known, known)
        told.whole = time.perf_counter() - began
        return False

    with raw.slots.taken(raw.server, prompt) as slot:
        began = time.perf_counter()
        raw.server.complete(given | {"id_slot": slot}, deliver)
    return told


def _speed(told: Told) -> float:
    return told.tokens / told.whole


def _at_once(address: str, bodies: list[dict[str, Any]]) -> list[Told]:
    told: list[Told] = []

    def one(body: dict[str, Any]) -> None:
        told.append(_through(http.client.HTTPConnection(address, timeout=600), body))

    crowd = [threading.Thread(target=one, args=(body,)) for body in bodies]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert len(told) == len(bodies)
    return told


def _left(address: str, bodies: list[dict[str, Any]]) -> float:
    """All ask, get their first token and hang up; seconds from then until llama.cpp works for nobody."""
    lines = [http.client.HTTPConnection(address, timeout=600) for _ in bodies]
    for line, body in zip(lines, bodies, strict=True):
        line.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    for line in lines:
        line.getresponse().readline()
    for line in lines:
        line.close()
    began = time.perf_counter()
    while _metric(address, "compeer_serve_slots_busy"):
        time.sleep(0.005)
    return time.perf_counter() - began


def _metric(address: str, name: str) -> float:
    line = http.client.HTTPConnection(address, timeout=60)
    line.request("GET", "/metrics")
    page = line.getresponse().read().decode()
    line.close()
    return float(next(row.rpartition(" ")[2] for row in page.splitlines() if row.startswith(name + " ")))


@contextlib.contextmanager
def _serving() -> Iterator[str]:
    """The server, ready; its host and port."""
    words = ["serve", "--model=embedded:small:plain", "--port=0", "--no-log"]
    words += [f"--slots={SLOTS}", f"--context={CONTEXT}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "compeer.cli", *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().removeprefix("listening on ").strip()).netloc
        while True:
            line = http.client.HTTPConnection(address, timeout=60)
            line.request("GET", "/health")
            if line.getresponse().status == 200:
                break
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)
