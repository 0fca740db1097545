"""Pins asked of a model, and how many were kept.

Every output is asked for once and taken as it comes: a second try would hide what is measured. An output that never
came is no failure of control and is counted apart. Intervals resample moments, since outputs at one moment are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from compeer.cer.item import chat_history
from compeer.evals.control.trials import FREE, Trial
from compeer.evals.interval import Figure
from compeer.evals.result import Said, Transcript
from compeer.models import Answer, Failure, Model, ask_all, request_for
from compeer.reasoning import Parsed, parse, violations
from compeer.reasoning.prompt import Length
from compeer.reward.evaluation.bootstrap import Resamples, interval


class Tried(msgspec.Struct, frozen=True):
    """A trial with what came of it. `kept` is None where nothing was pinned or no answer came."""

    trial: Trial
    raw: str | None
    parsed: Parsed | None
    kept: bool | None
    failure: str | None = None

    @property
    def complete(self) -> bool | None:
        return self.parsed.complete if self.parsed else None


async def ask_trials(
    model: Model,
    wanted: Sequence[Trial],
    *,
    grammar: bool = True,
    length: Length = "full",
    concurrency: int = 16,
    temperature: float = 0.7,
    max_tokens: int = 2000,
    seed: int = 0,
    watch: Callable[[int], None] | None = None,
) -> list[Tried]:
    """Ask the model for every trial's output."""
    requests = [
        request_for(
            chat_history(trial.moment),
            trial.moment.language,
            trial.control,
            length=length,
            grammar=grammar,
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed + number,
        )
        for number, trial in enumerate(wanted)
    ]
    done = 0

    def answered(_: int, __: Answer | Failure) -> None:
        nonlocal done
        done += 1
        if watch:
            watch(done)

    answers = await ask_all(model, requests, concurrency, answered)
    return [judged(trial, answer) for trial, answer in zip(wanted, answers, strict=True)]


def judged(trial: Trial, answer: Answer | Failure) -> Tried:
    """Whether the output is complete and keeps its pin."""
    if isinstance(answer, Failure):
        return Tried(trial, None, None, None, answer.reason)
    parsed = parse(answer.text)
    kept = not violations(parsed, trial.control) if trial.value else None
    return Tried(trial, answer.text, parsed, kept)


def figures(tried: Sequence[Tried], seed: int = 0) -> list[Figure]:
    """Adherence over all pins and for each label, completeness, and how many outputs never came."""
    found = [share("adherence", [(one.trial.moment.id, one.kept) for one in tried], seed)]
    for label in dict.fromkeys(one.trial.label for one in tried if one.trial.label != FREE):
        rows = [(one.trial.moment.id, one.kept) for one in tried if one.trial.label == label]
        found.append(share(f"adherence/{label}", rows, seed))
    found.append(share("completeness", [(one.trial.moment.id, one.complete) for one in tried], seed))
    found.append(Figure("failures", sum(one.failure is not None for one in tried), n=len(tried)))
    return found


def share(name: str, rows: Sequence[tuple[str, bool | None]], seed: int = 0) -> Figure:
    """The share of rows that hold; those that are None are left out. The interval resamples the groups.

    Where all hold, or none does, resampling finds nothing else and would feign certainty: there is no interval.

    >>> share("x", [("a", True), ("b", True), ("b", None)])
    Figure(name='x', value=1.0, low=None, high=None, n=2)
    """
    known = [(group, holds) for group, holds in rows if holds is not None]
    if not known:
        return Figure(name, float("nan"))
    resamples = Resamples([group for group, _ in known], seed=seed)
    values = np.array([holds for _, holds in known], dtype=np.float64)
    mixed = 0 < values.mean() < 1 and resamples.dialogues > 1
    found = interval(resamples.mean(values)) if mixed else None
    low, high = found or (None, None)
    return Figure(name, float(values.mean()), low, high, len(known))


def transcript(tried: Tried) -> Transcript:
    """The moment with the output, for a reader."""
    said = tuple(Said(turn.speaker, turn.text) for turn in tried.trial.moment.history)
    reply = tried.parsed.response if tried.parsed else ""
    raw = (tried.raw or "").rstrip()
    note = "; ".join(tried.parsed.problems) if tried.parsed else f"no answer: {tried.failure}"
    thought = raw[: len(raw) - len(reply)] if reply and raw.endswith(reply) else raw
    own = Said("supporter", reply, reasoning=thought or None, note=note or None)
    scores: dict[str, float | None] = {"completeness": _number(tried.complete)}
    if tried.trial.value:
        scores |= {"adherence": _number(tried.kept)}
    pinned = f"{tried.trial.label}={tried.trial.value}" if tried.trial.value else "nothing"
    end = "kept" if tried.kept else None if tried.kept is None else "not kept"
    return Transcript(tried.trial.id, tried.trial.moment.language, (*said, own), scores, end=end, about={"pin": pinned})


def _number(holds: bool | None) -> float | None:
    return None if holds is None else float(holds)
