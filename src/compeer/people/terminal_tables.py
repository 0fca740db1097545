"""Progress, agreement and results as tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.box import HEAVY_HEAD
from rich.table import Table

from compeer.people.arena import ArenaProgress
from compeer.people.arena_results import OUTCOMES, ArenaResults
from compeer.people.labelling_results import Agreement, LabellingProgress, PairAgreement
from compeer.people.protocol import STATUSES
from compeer.people.quality import PersonQuality
from compeer.people.work_queue import PersonProgress

_HEADS = {"one": "better", "both": "both good", "neither": "neither", "two": "other better"}


def labelling_status(now: LabellingProgress) -> list[Table | str]:
    """What `compeer annotate status` prints."""
    questions = Table("question", *STATUSES, box=None)
    for name, counts in now.questions.items():
        questions.add_row(name, *(f"{counts[status]:,}" for status in STATUSES))
    head = (
        f"{now.project}: {now.items:,} items, {now.closed:,} closed, {now.disputed:,} wait for a third vote, "
        f"{now.begun:,} begun, {now.untouched:,} untouched. Audit: {now.audited:,} of {now.audit_drawn:,} drawn."
    )
    if now.withheld:
        head += f" Items that wait for a decision about labels on hold: {now.withheld:,}."
    refused = f"Refused so far: {now.refusals:,}." if now.refusals else ""
    return [head, questions, _people_table(now.people), refused]


def _people_table(people: Sequence[PersonProgress], more: Mapping[str, Sequence[str]] | None = None) -> Table:
    """Everybody with what they have done; `more` columns by their heads, a value for each person."""
    more = more or {}
    numbers = ("done", "holds", "skipped", "distressed", "seconds", *more)
    table = _table("name", "role", *numbers, "", numbers=numbers)
    for place, one in enumerate(people):
        state = "paused" if one.paused else "" if one.invited else "no link"
        kept = {"on hold": one.withheld, "discarded": one.discarded}
        state = ", ".join([state] * bool(state) + [f"{word}: {count:,}" for word, count in kept.items() if count])
        seconds = "-" if one.seconds is None else f"{one.seconds:.0f}"
        counts = (f"{count:,}" for count in (one.done, one.held, one.skipped, one.distressed))
        table.add_row(one.name, one.role, *counts, seconds, *(values[place] for values in more.values()), state)
    return table


def agreement_tables(found: Agreement, pairs: Sequence[PairAgreement]) -> list[Table | str]:
    """What `compeer annotate agreement` prints."""
    figures = Table("question", "items", "unsure", "percent", "kappa", "alpha", "AC1", "votes", "labels", box=None)
    for name, one in found.questions.items():
        values = ", ".join(f"{value} {count:,}" for value, count in one.values.items() if count)
        labels = ", ".join(f"{value} {count:,}" for value, count in found.labels[name].items() if count)
        numbers = (
            one.figures["percent"].text(1, scale=100),
            *(one.figures[n].text(2) for n in ("kappa", "alpha", "ac1")),
        )
        figures.add_row(name, f"{one.units:,}", f"{one.unsure:,}", *numbers, values, labels)
    between = Table("people", "question", "items", "percent", "kappa", box=None)
    for pair in pairs:
        row = (" and ".join(pair.people), pair.question, f"{pair.items:,}", _percent(pair.percent), _number(pair.kappa))
        between.add_row(*row)
    audits = Table("question", "audited", "confirmed", "judge, same items", "judge, all items", box=None)
    for name, seen in found.audit.items():
        judged = (_share(seen.judge_agrees, seen.judged), _share(seen.judge_agrees_all, seen.judged_all))
        audits.add_row(name, f"{seen.audited:,}", _share(seen.confirmed, seen.audited), *judged)
    shown: list[Table | str] = ["First-pass votes, with 95 % intervals:", figures, "\nPerson by person:", between]
    return [*shown, "\nAgreement with the label that stands:", audits]


def quality_tables(people: Sequence[PersonQuality]) -> list[Table | str]:
    """What `compeer annotate quality` prints."""
    numbers = ("items", "median seconds", "gold, % right", "kappa with others", "unsure, %")
    table = _table("name", *numbers, "", numbers=numbers)
    for one in people:
        seconds = "-" if one.seconds is None else f"{one.seconds:.0f}"
        shares = (one.gold.text(0, scale=100), one.kappa.text(2), one.unsure.text(0, scale=100))
        table.add_row(one.name, f"{one.items:,}", seconds, *shares, "on hold" if one.on_hold else "")
    flagged = [one for one in people if one.flags or one.on_hold]
    said = [f"{one.name}: {flag.text}" for one in flagged for flag in (one.flags or one.holds[0].flags)]
    return [table, "", *said]


def arena_status(now: ArenaProgress) -> list[Table]:
    """What `compeer arena status` prints."""
    state = "closed" if now.arena.closed is not None else "complete" if now.complete else "open"
    heads = ("comparisons", "done", "held", "left")
    whole = _table(*heads, numbers=heads, title=f"{now.arena.name}: {now.models} models, {now.cases} cases, {state}")
    whole.add_row(*(f"{n:,}" for n in (now.comparisons, now.done, now.held, now.comparisons - now.done)))
    return [whole, _people_table(now.people, {"side lean": [str(one.lean) for one in now.people]})]


def arena_results(found: ArenaResults) -> list[Table]:
    """What `compeer arena results` prints: pairs and ranking with their 95 % intervals."""
    title = f"{found.arena}: {found.votes:,} votes on {found.cases:,} cases by {found.people} people; percent, 95 %"
    numbers = ("votes", *(_HEADS[kind] for kind in OUTCOMES))
    pairs = _table("model", "against", *numbers, numbers=numbers, title=title)
    for pair in found.pairs:
        shares = (pair.shares[kind].text(0, scale=100) for kind in OUTCOMES)
        pairs.add_row(pair.one, pair.two, f"{pair.votes:,}", *shares)
    heads = ("rank", "model", "points", "ranks")
    ranks = _table(*heads, numbers=("rank", "points", "ranks"), title="Bradley-Terry, ties as half wins")
    for one in found.ranking:
        span = f"{one.best}" if one.best == one.worst else f"{one.best} to {one.worst}"
        ranks.add_row(str(one.rank), one.model, one.points.text(0), span)
    return [pairs, ranks]


def _table(*heads: str, numbers: Sequence[str], title: str | None = None) -> Table:
    """An empty table with these heads; columns of numbers stand on the right. One with a title has lines."""
    table = Table(title=title, title_justify="left", box=HEAVY_HEAD if title else None)
    for head in heads:
        table.add_column(head, justify="right" if head in numbers else "left")
    return table


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1%}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _share(count: int | None, of: int | None) -> str:
    return "-" if count is None or not of else f"{count / of:.1%} of {of:,}"
