"""The supporter where a person meets it: `embedded`, which is llama.cpp with the adapter converted.

All other pieces answer with the decoder of the rollouts. This one asks the SFT model and the chosen supporter for the
200 moments in the home that `compeer chat` uses, without a grammar: how many answers are complete, and how varied they
are. What is answered is kept line by line, so that a cut-off piece goes on with the moment it was at.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import Item
from compeer.dialogue import write_rows
from compeer.models.spec import open_model
from runs.miniature import data
from runs.miniature.measuring import adapter, candidate_of, figures, requests_for, samples_path
from runs.miniature.pieces import Work, say
from runs.miniature.writing import Written

WHERE = "home"
_SAID_EVERY = 20


def home(work: Work) -> dict[str, Any]:
    """Both on the moments."""
    moments = data.read(work.items("moments"))
    found = {}
    for name in dict.fromkeys(("sft", work.result("supporter/choose")["supporter"])):
        path = samples_path(work, name, WHERE)
        found[name] = figures(work, name, path, _answered(work, name, moments, path))
    return {"rows": found}


def _answered(work: Work, name: str, moments: list[Item], path: Path) -> list[Item]:
    """The answers, from the file where they are all there."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name.replace(".jsonl.gz", ".part.jsonl"))
        answers = asyncio.run(_ask(work, name, moments, part))
        write_rows(path, [candidate_of(item, answers[item.id].text, name) for item in moments])
        part.unlink()
    return data.read(path)


async def _ask(work: Work, name: str, moments: list[Item], part: Path) -> dict[str, Written]:
    """One answer to each moment; every model draws a moment's with the same seed."""
    there = _kept(part)
    folder = adapter(work, name)
    model = open_model(f"embedded:small+{folder}" if work.base == "embedded:small" else f"hf:{work.base}+{folder}")
    slots = asyncio.Semaphore(8)
    with part.open("ab", buffering=0) as file:

        async def one(item: Item, request: Any, seed: int) -> None:
            async with slots:
                answer = await model.ask(msgspec.structs.replace(request, seed=seed))
            there[item.id] = Written(answer.text, answer.finish)
            file.write(msgspec.json.encode((item.id, there[item.id])) + b"\n")
            if len(there) % _SAID_EVERY == 0:
                say(f"{len(there)} of {len(moments)} answers of {name}")

        asked = zip(moments, requests_for(work, moments), range(len(moments)), strict=True)
        try:
            await asyncio.gather(*(one(*row) for row in asked if row[0].id not in there))
        finally:
            await model.close()
    return there


def _kept(part: Path) -> dict[str, Written]:
    """What was answered before; a last line that was cut off is taken away."""
    if not part.is_file():
        return {}
    whole, end, _ = part.read_bytes().rpartition(b"\n")
    part.write_bytes(whole + end)
    return dict(msgspec.json.decode(line, type=tuple[str, Written]) for line in whole.splitlines())
