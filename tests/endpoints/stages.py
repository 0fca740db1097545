"""Small stages for the runner's tests and benchmark, importable by name so that subprocesses and Ray workers find them.

`python -m tests.endpoints.stages SOURCE OUT BASE_URL CONCURRENCY [ENGINE]` runs the judging stage: what the kill
test kills.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Literal

import msgspec

from compeer.models.ask import ask_json
from compeer.models.request import Request
from compeer.pipeline.runner import run_stage
from compeer.pipeline.stage import Progress, Reject, Stage, Tools
from compeer.pipeline.work import ModelSpec


class Note(msgspec.Struct, frozen=True):
    """A row."""

    id: str
    text: str


class Verdict(msgspec.Struct, frozen=True):
    """What the judge is asked for."""

    keep: bool
    mood: Literal["calm", "tense", "sad"]
    why: str


class Judged(msgspec.Struct, frozen=True):
    """A row with its verdict and a second opinion in plain words."""

    id: str
    mood: str
    why: str
    said: str


PROMPT = "You judge short notes. Say whether to keep the note, its mood, and why."


async def judge(note: Note, tools: Tools) -> Judged | Reject:
    """Two questions a row, the second depends on the first."""
    model = tools.models["judge"]
    messages: list[dict[str, Any]] = [{"role": "system", "content": PROMPT}, {"role": "user", "content": note.text}]
    verdict, _ = await ask_json(model, Request(messages=messages, seed=tools.seed), Verdict)
    if not verdict.keep:
        return Reject(note.id, "dropped", verdict.why)
    follow_up = [{"role": "user", "content": f"{note.text} In one sentence, why is it {verdict.mood}?"}]
    answer = await model.ask(Request(messages=follow_up, seed=tools.seed))
    return Judged(note.id, verdict.mood, verdict.why, answer.text)


async def say(note: Note, tools: Tools) -> Note:
    """One question in plain words."""
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": note.text}]
    answer = await tools.models["judge"].ask(Request(messages=messages, seed=tools.seed))
    return Note(note.id, answer.text)


async def classify(note: Note, tools: Tools) -> Judged:
    """One question with a JSON answer."""
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": note.text}]
    verdict, _ = await ask_json(tools.models["judge"], Request(messages=messages, seed=tools.seed), Verdict)
    return Judged(note.id, verdict.mood, verdict.why, "")


async def shout(note: Note, tools: Tools) -> Any:
    """No model; the text says what happens to the row."""
    if note.text == "reject":
        return Reject(note.id, "unwanted", "it said so")
    if note.text == "twice":
        return [note, Note(note.id + "'", "TWICE")]
    if note.text == "nothing":
        return []
    if note.text == "wrong":
        return "a string"
    if note.text == "raise":
        raise KeyError("broken stage")
    if note.text.startswith("sleep"):
        await asyncio.sleep(float(note.text.split()[1]))
    return Note(note.id, note.text.upper())


JUDGE = Stage("judge", judge, Note, Judged, ("judge",), (PROMPT,), calls_per_row=2.0, tokens_per_call=(60, 30))
SAY = Stage("say", say, Note, Note, ("judge",), (PROMPT,))
CLASSIFY = Stage("classify", classify, Note, Judged, ("judge",), (PROMPT,))
SHOUT = Stage("shout", shout, Note, Note)


if __name__ == "__main__":
    source, out, base_url, concurrency, *engine = sys.argv[1:]
    run_stage(
        JUDGE,
        source,
        out,
        Tools(seed=7),
        model_specs={"judge": ModelSpec("openai:scripted", base_url)},
        concurrency=int(concurrency),
        engine="ray" if engine == ["ray"] else "local",
        progress=Progress(quiet=True),
    )
