"""Stated strategy against the one read out of the reply.

A reply may use two strategies, and a classifier or a judge may be wrong, so disagreement is no proof of a fault: the
figure is for comparing models under the same reader, beside the reader's own quality.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from compeer.evals.control.adherence import share
from compeer.evals.control.classifier import Classifier
from compeer.evals.control.judging import Reading, read_strategy
from compeer.evals.interval import Figure
from compeer.evals.language.outputs import Output
from compeer.models import Model, ModelError


class Reader(msgspec.Struct, frozen=True):
    """What one reader made of the replies; None where it gave no answer. `any_of` also counts secondary strategies."""

    name: str
    main: tuple[str | None, ...]
    any_of: tuple[tuple[str, ...], ...] | None = None


def by_classifier(classifier: Classifier, outputs: Sequence[Output]) -> Reader:
    """The classifier's reading; replies in another language stay unread."""
    ours = [one for one in outputs if one.language == classifier.language]
    told = iter(classifier.classify([one.reply for one in ours]))
    main = tuple(next(told) if one.language == classifier.language else None for one in outputs)
    return Reader(f"classifier/{classifier.language}", main)


async def by_judge(
    model: Model, outputs: Sequence[Output], concurrency: int = 16, watch: Callable[[int], None] | None = None
) -> Reader:
    """The judge model's reading; one that fails leaves its reply unread."""
    gate = asyncio.Semaphore(concurrency)
    done = 0

    async def one(output: Output) -> Reading | None:
        nonlocal done
        before = next((turn.text for turn in reversed(output.history) if turn.speaker == "seeker"), "")
        async with gate:
            try:
                return await read_strategy(model, before, output.reply)
            except ModelError:
                return None
            finally:
                done += 1
                if watch:
                    watch(done)

    readings = await asyncio.gather(*(one(output) for output in outputs))
    main = tuple(reading.main if reading else None for reading in readings)
    every = tuple((reading.main, *reading.also) if reading else () for reading in readings)
    return Reader("judge", main, every)


def figures(reader: Reader, outputs: Sequence[Output], seed: int = 0) -> list[Figure]:
    """How often the reader names the stated strategy; outputs that state none are left out."""
    strict = [
        (output.dialogue, None if told is None or not output.strategies else told in output.strategies)
        for output, told in zip(outputs, reader.main, strict=True)
    ]
    found = [share(f"agreement/{reader.name}", strict, seed)]
    if reader.any_of is not None:
        loose = [
            (output.dialogue, None if not told or not output.strategies else bool({*told} & {*output.strategies}))
            for output, told in zip(outputs, reader.any_of, strict=True)
        ]
        found.append(share(f"agreement/{reader.name}-any", loose, seed))
    return found


def confusion(reader: Reader, outputs: Sequence[Output]) -> dict[str, dict[str, int]]:
    """stated -> read -> how often."""
    table: dict[str, Counter[str]] = {}
    for output, told in zip(outputs, reader.main, strict=True):
        if told is not None:
            for stated in output.strategies[:1]:
                table.setdefault(stated, Counter())[told] += 1
    return {stated: dict(counted) for stated, counted in table.items()}
