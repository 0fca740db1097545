"""Progress and agreement as tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.table import Table

from compeer.cer.item import Question
from compeer.people.agreement import Agreement, Confirmed
from compeer.people.invitations import PersonProgress
from compeer.people.labelling_project import Progress
from compeer.people.protocol import STATUSES


def status_tables(now: Progress) -> list[Table | str]:
    """What `compeer annotate status` prints."""
    questions = Table("question", *STATUSES, box=None)
    for name, counts in now.questions.items():
        questions.add_row(name, *(f"{counts[status]:,}" for status in STATUSES))
    head = (
        f"{now.project}: {now.items:,} items, {now.closed:,} closed, {now.disputed:,} wait for a third vote, "
        f"{now.begun:,} begun, {now.untouched:,} untouched. Audit: {now.audited:,} of {now.audit_drawn:,} drawn."
    )
    refused = f"Refused so far: {now.refusals:,}." if now.refusals else ""
    return [head, questions, people_table(now.people), refused]


def people_table(people: Sequence[PersonProgress], more: Mapping[str, Sequence[str]] | None = None) -> Table:
    """Everybody with what they have done; `more` columns by their heads, a value for each person."""
    more = more or {}
    table = Table("name", "role", box=None)
    for head in ("done", "holds", "skipped", "distressed", "seconds", *more):
        table.add_column(head, justify="right")
    table.add_column("")
    for place, one in enumerate(people):
        state = "paused" if one.paused else "" if one.invited else "no link"
        seconds = "-" if one.seconds is None else f"{one.seconds:.0f}"
        counts = (f"{count:,}" for count in (one.done, one.held, one.skipped, one.distressed))
        table.add_row(one.name, one.role, *counts, seconds, *(values[place] for values in more.values()), state)
    return table


def agreement_tables(found: Agreement, confirmed: Mapping[Question, Confirmed]) -> list[Table | str]:
    """What `compeer annotate agreement` prints."""
    figures = Table("question", "items", "percent", "kappa", "alpha", "AC1", "votes", "labels", box=None)
    for name, one in found.questions.items():
        values = ", ".join(f"{value} {count:,}" for value, count in one.values.items() if count)
        labels = ", ".join(f"{value} {count:,}" for value, count in found.labels[name].items() if count)
        numbers = (_percent(one.percent), *(_number(value) for value in (one.kappa, one.alpha, one.ac1)))
        figures.add_row(name, f"{one.units:,}", *numbers, values, labels)
    pairs = Table("people", "question", "items", "percent", "kappa", box=None)
    for pair in found.pairs:
        row = (" and ".join(pair.people), pair.question, f"{pair.items:,}", _percent(pair.percent), _number(pair.kappa))
        pairs.add_row(*row)
    audits = Table("question", "audited", "confirmed", "judge, same items", "judge, all items", box=None)
    for name, seen in confirmed.items():
        judged = (_share(seen.judge_agrees, seen.judged), _share(seen.judge_agrees_all, seen.judged_all))
        audits.add_row(name, f"{seen.audited:,}", _share(seen.confirmed, seen.audited), *judged)
    shown: list[Table | str] = ["First-pass votes:", figures, "\nPerson by person:", pairs]
    return [*shown, "\nAgreement with the label that stands:", audits]


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1%}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _share(count: int | None, of: int | None) -> str:
    return "-" if count is None or not of else f"{count / of:.1%} of {of:,}"
