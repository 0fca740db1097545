"""An arena's progress and results as tables for a terminal."""

from __future__ import annotations

from rich.table import Table

from compeer.people.arena_project import Progress
from compeer.people.arena_results import OUTCOMES, Results
from compeer.people.labelling_tables import people_table
from compeer.statistics import Figure

_HEADS = {"one": "better", "both": "both good", "neither": "neither", "two": "other better"}


def status_tables(now: Progress) -> list[Table]:
    """The whole and the people."""
    state = "closed" if now.arena.closed is not None else "complete" if now.complete else "open"
    whole = Table(title=f"{now.arena.name}: {now.models} models, {now.cases} cases, {state}", title_justify="left")
    for head in ("comparisons", "done", "held", "left"):
        whole.add_column(head, justify="right")
    whole.add_row(*(f"{n:,}" for n in (now.comparisons, now.done, now.held, now.comparisons - now.done)))
    return [whole, people_table(now.people, {"side lean": [str(one.lean) for one in now.people]})]


def result_tables(found: Results) -> list[Table]:
    """Pairs and ranking with their 95 % intervals."""
    title = f"{found.arena}: {found.votes:,} votes on {found.cases:,} cases by {found.people} people; percent, 95 %"
    pairs = Table(title=title, title_justify="left")
    for head in ("model", "against", "votes"):
        pairs.add_column(head, justify="right" if head == "votes" else "left")
    for kind in OUTCOMES:
        pairs.add_column(_HEADS[kind], justify="right")
    for pair in found.pairs:
        shares = (shown(pair.shares[kind], 100) for kind in OUTCOMES)
        pairs.add_row(pair.one, pair.two, f"{pair.votes:,}", *shares)
    ranks = Table(title="Bradley-Terry, ties as half wins", title_justify="left")
    for head in ("rank", "model", "points", "ranks"):
        ranks.add_column(head, justify="left" if head == "model" else "right")
    for one in found.ranking:
        span = f"{one.best}" if one.best == one.worst else f"{one.best} to {one.worst}"
        ranks.add_row(str(one.rank), one.model, shown(one.points), span)
    return [pairs, ranks]


def shown(figure: Figure, scale: float = 1.0) -> str:
    """A number with its interval.

    >>> shown(Figure("x", 0.42, 0.314, 0.526, 50), 100)
    '42 (31 to 53)'
    """
    value = f"{scale * (figure.value or 0.0):.0f}"
    if figure.low is None or figure.high is None:
        return value
    return f"{value} ({scale * figure.low:.0f} to {scale * figure.high:.0f})"
