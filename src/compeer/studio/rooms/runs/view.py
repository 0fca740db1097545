"""Runs as the pages show them: small curves for the list, panels for a run, times in words."""

from __future__ import annotations

import time

import msgspec
from markupsafe import Markup

from compeer.studio.rooms.runs.curve import panel, short, spark
from compeer.studio.rooms.runs.evaluation import Outcome
from compeer.studio.rooms.runs.find import Found
from compeer.studio.rooms.runs.numbers import Column, Numbers
from compeer.studio.rooms.runs.shelf import Shelf, State, changed_at
from compeer.studio.words import Say

#: what a person looks at first, in a run with rewards and in one without
GLANCE = ("reward", "diversity/distinct_2", "entropy")
GLANCE_TAUGHT = ("loss", "mean_token_accuracy", "entropy")
MAIN = ("reward", "judge/training", "judge/second", "loss", "mean_token_accuracy", "part/history", "part/emotion",
        "part/strategy", "part/preference", "part/format", "diversity/distinct_2", "diversity/self_similarity",
        "diversity/strategies", "entropy", "length/reply_words", "format/incomplete", "kl", "grad_norm",
        "learning_rate")  # fmt: skip
_TAUGHT_ONLY = ("loss", "grad_norm", "learning_rate")


class Curve(msgspec.Struct, frozen=True):
    """A drawing with the words around it."""

    name: str
    last: str
    low: str
    high: str
    first_step: str
    last_step: str
    both: bool  # training and validation
    drawn: Markup


class Line(msgspec.Struct, frozen=True):
    """One run in the list."""

    found: Found
    changed: float
    ago: str
    state: State | None = None
    what: str = ""
    step: int = 0
    curves: tuple[Curve, ...] = ()
    alerts: int = 0
    outcome: Outcome | None = None


def line(shelf: Shelf, found: Found, say: Say) -> Line:
    """A run for the list."""
    if found.kind == "training":
        book = shelf.book(found)
        names = GLANCE if book.numbers.column("reward") else GLANCE_TAUGHT
        curves = tuple(curve for name in names if (curve := small(book.numbers, name, say)))
        return Line(
            found, book.changed, ago(book.changed, say), book.state, book.what, book.numbers.step, curves,
            len(book.alerts),
        )  # fmt: skip
    changed = changed_at(found)
    result = shelf.outcome(found) if found.kind == "evaluation" else None
    return Line(found, changed, ago(changed, say), outcome=result)


def small(numbers: Numbers, name: str, say: Say) -> Curve | None:
    column = numbers.column(name) or numbers.column(name, "eval")
    if not column:
        return None
    label = _label(name, column, say)
    return _curve(name, [column], spark(column, label), say)


def panels(numbers: Numbers, say: Say, *, everything: bool) -> list[Curve]:
    """The panels of a run, those that matter first; the rest on demand."""
    rewarded = bool(numbers.column("reward"))
    main = [name for name in MAIN if name in numbers.columns and not (rewarded and name in _TAUGHT_ONLY)]
    names = main + (sorted(set(numbers.columns) - set(main)) if everything else [])
    found = []
    for name in names:
        train, held_out = numbers.column(name), numbers.column(name, "eval")
        columns = [column for column in (train, held_out) if column]
        if columns:
            found.append(_curve(name, columns, panel(train, held_out, _label(name, columns[0], say)), say))
    return found


def named(name: str, say: Say) -> str:
    """A metric in words where we have them, else as it was logged."""
    key = f"runs.metric.{name}"
    return say(key) if say.knows(key) else name


def ago(changed: float, say: Say) -> str:
    """How long ago, in words."""
    seconds = max(0.0, time.time() - changed)
    if seconds < 60:
        return say("runs.ago.now")
    for unit, size, most in (("minutes", 60, 60), ("hours", 3600, 48), ("days", 86400, 60)):
        if seconds < size * most:
            return say(f"runs.ago.{unit}", n=int(seconds // size))
    return time.strftime("%Y-%m-%d", time.gmtime(changed))


def _label(name: str, column: Column, say: Say) -> str:
    values = {"first": short(column.values[0]), "last": short(column.last), "steps": short(column.steps[-1])}
    return say("runs.curve.label", name=named(name, say), **values)


def _curve(name: str, columns: list[Column], drawn: Markup, say: Say) -> Curve:
    return Curve(
        name=named(name, say),
        last=short(columns[0].last),
        low=short(min(min(column.values) for column in columns)),
        high=short(max(max(column.values) for column in columns)),
        first_step=short(min(column.steps[0] for column in columns)),
        last_step=short(max(column.steps[-1] for column in columns)),
        both=len(columns) > 1,
        drawn=drawn,
    )
