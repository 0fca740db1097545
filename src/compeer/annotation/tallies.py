"""The valid votes of a whole project, counted by the database.

A row of the pivot is one question of one item that both first-pass people have answered, with the answers of the two,
of the third, and of the audit. Ten thousand items come down to some dozens of distinct rows with counts, so progress
and agreement are computed from the votes at every look, and are quick nonetheless.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from compeer.annotation.protocol import Answer, Consensus, answer_of, consensus
from compeer.annotation.store.tables import items, leases, votes
from compeer.cer.item import Question


class Tally(msgspec.Struct, frozen=True):
    """So many items on which these answers were given to this question; None where a place is empty."""

    question: Question
    first: Answer
    second: Answer
    third: Answer | None
    audit: Answer | None
    count: int
    people: tuple[int, int] = (0, 0)  # the two of the first pass, by number, where asked for

    @property
    def verdict(self) -> Consensus:
        return consensus([vote for vote in (self.first, self.second, self.third) if vote is not None])


def tallies(db: Connection, project: int, *, people: bool = False, question: Question | None = None) -> list[Tally]:
    """Counts of the pivot, with `people` for each pair of annotators apart; of one question, or of all."""
    rows = pivot(project)
    if question is not None:
        rows = rows.where(rows.selected_columns["question"] == question)
    left_out = {"item"} if people else {"item", "a1", "a2"}
    by = [column for column in rows.selected_columns if column.name not in left_out]
    return [
        _tally(row, people) for row in db.execute(rows.with_only_columns(*by, func.count().label("n")).group_by(*by))
    ]


def pivot(project: int) -> Select[Any]:
    """One row an item and question with both first votes: answers p1 to p4, and who gave the first two, a1 and a2."""
    seat = [leases.alias(f"lease{place}") for place in (1, 2, 3, 4)]
    vote = [votes.alias(f"vote{place}") for place in (1, 2, 3, 4)]

    def sits(n: int) -> Any:
        return (seat[n].c.item == items.c.id) & (seat[n].c.place == n + 1) & (seat[n].c.state == "done")

    def says(n: int) -> Any:
        same = (vote[n].c.lease == seat[n].c.id) & (vote[n].c.revision == seat[n].c.revision)
        return same if n == 0 else same & (vote[n].c.question == vote[0].c.question)

    tables: Any = items.join(seat[0], sits(0)).join(seat[1], sits(1)).join(vote[0], says(0)).join(vote[1], says(1))
    for n in (2, 3):
        tables = tables.outerjoin(seat[n], sits(n)).outerjoin(vote[n], says(n))
    return (
        select(
            items.c.id.label("item"),
            vote[0].c.question.label("question"),
            *(vote[n].c.answer.label(f"p{n + 1}") for n in range(4)),
            *(seat[n].c.annotator.label(f"a{n + 1}") for n in range(2)),
        )
        .select_from(tables)
        .where(items.c.project == project)
    )


def _tally(row: Any, people: bool) -> Tally:
    third, audit = (None if text is None else answer_of(row.question, text) for text in (row.p3, row.p4))
    first, second = answer_of(row.question, row.p1), answer_of(row.question, row.p2)
    return Tally(row.question, first, second, third, audit, row.n, (row.a1, row.a2) if people else (0, 0))
